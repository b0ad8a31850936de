// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-sim: runs experiments in virtual time.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "switch/control/config.h"
#include "switch/stages/stages.h"
#include "tools/sim/packet_memory.h"
#include "tools/sim/summary.h"

namespace weft::sim {
namespace {

// Exit codes, as in README.md of this folder.
constexpr int kBadExperiment = 2;
constexpr int kCannotRun = 3;
constexpr int kUnbalanced = 4;
constexpr int kIncomplete = 5;

std::atomic<bool> stop_requested{false};

struct Options {
  std::string file;
  std::vector<std::string> sets;
  std::optional<std::uint64_t> seed;
  std::string json;
  std::string html;
  std::string pcap_link;
  bool trace_hash = false;
  bool quiet = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const Options& options, const pipeline::Registry& registry) {
  std::ifstream in(options.file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    std::cerr << options.file << ": cannot be read\n";
    return kBadExperiment;
  }
  std::vector<Override> overrides;
  for (const std::string& set : options.sets) {
    const std::size_t equals = set.find('=');
    overrides.push_back({set.substr(0, equals), equals == set.npos ? "" : set.substr(equals + 1)});
  }
  if (options.seed) overrides.push_back({"seed", std::to_string(*options.seed)});
  pipeline::Diagnostics diagnostics;
  const auto experiment = load_experiment(text.str(), options.file, overrides, registry, diagnostics);
  if (!experiment) {
    std::cerr << control::format(diagnostics);
    return kBadExperiment;
  }
  const MemoryEstimate memory = estimate_memory(*experiment);
  if (const std::string error = start_packet_memory(); !error.empty()) {
    std::cerr << error << "\n";
    return kCannotRun;
  }
  int result = 0;
  {
    const auto building = std::chrono::steady_clock::now();
    const pipeline::Pool pool = make_packet_pool(memory.mbufs);
    if (!pool) {
      std::cerr << "no memory for " << memory.mbufs << " packet buffers\n";
      return kCannotRun;
    }
    Simulation simulation(*experiment, registry, pool.get(), diagnostics);
    if (!diagnostics.ok()) {
      std::cerr << control::format(diagnostics);
      return kBadExperiment;
    }
    RunFacts facts;
    facts.build_s = seconds_since(building);
    const auto start = std::chrono::steady_clock::now();
    const double all = static_cast<double>(experiment->plan.bytes());
    double told = 0;
    facts.complete = simulation.run([&] {
      const double wall = seconds_since(start);
      if (!options.quiet && wall - told > 2) {
        told = wall;
        const double done = static_cast<double>(simulation.acked_bytes()) / all;
        std::fprintf(stderr, "%5.1f %%  virtual %.3f ms  %.0f s, about %.0f s left\n", done * 100,
                     static_cast<double>(simulation.events().now()) / 1e6, wall,
                     done > 0 ? wall / done * (1 - done) : 0.0);
      }
      return stop_requested.load();
    });
    facts.wall_s = seconds_since(start);
    const auto report = report_of(simulation, facts);
    if (!options.json.empty()) std::ofstream(options.json) << report.dump(1) << "\n";
    std::cout << report["summary"].dump(2) << "\n";
    if (options.trace_hash) std::cout << "trace hash " << report["trace_hash"].get<std::string>() << "\n";
    if (!facts.complete) result = kIncomplete;
    if (const std::string wrong = simulation.settle(); !wrong.empty()) {
      std::cerr << wrong << "\n";
      result = kUnbalanced;
    }
  }
  stop_packet_memory();
  return result;
}

int main_of(int argc, char** argv) {
  CLI::App app{
      "Runs RoCEv2 experiments in virtual time, with the pipelines of weft-switch and the RNICs of weft-rnic."};
  app.set_version_flag("--version", WEFT_VERSION);
  app.require_subcommand(1);
  Options options;
  CLI::App* run_command = app.add_subcommand("run", "Runs one experiment.");
  run_command->add_option("file", options.file, "Experiment, a YAML file.")->required();
  run_command->add_option("--set", options.sets, "key=value: replaces what the file says under a key.")->take_all();
  run_command->add_option("--seed", options.seed, "Replaces the seed.");
  run_command->add_option("--json", options.json, "Writes everything that is known about the run.");
  run_command->add_option("--html", options.html, "Writes a report with plots.");
  run_command->add_flag("--trace-hash", options.trace_hash, "Prints a hash of all that happened.");
  run_command->add_flag("--quiet", options.quiet, "Does not tell how far it is.");
  CLI11_PARSE(app, argc, argv);
  signal(SIGINT, [](int) { stop_requested.store(true); });
  signal(SIGTERM, [](int) { stop_requested.store(true); });
  pipeline::Registry registry;
  stages::register_all(registry);
  return run(options, registry);
}

}  // namespace
}  // namespace weft::sim

int main(int argc, char** argv) {
  return weft::sim::main_of(argc, argv);
}
