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
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "nic/dpdk/eal.h"
#include "switch/config/config.h"
#include "switch/stages/stages.h"
#include "tools/sim/html_report.h"
#include "tools/sim/packet_memory.h"
#include "tools/sim/summary.h"
#include "tools/sim/sweep.h"

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
  std::string pcap_file = "weft-sim.pcap";
  std::string folder;
  unsigned jobs = 0;
  bool force = false;
  bool trace_hash = false;
  bool quiet = false;
};

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What the machine can still give; 0 when nobody says.
std::uint64_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  for (std::string rest; in >> key >> kib; std::getline(in, rest)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

std::optional<Experiment> load(const Options& options, const pipeline::Registry& registry) {
  std::ifstream in(options.file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    std::cerr << options.file << ": cannot be read\n";
    return std::nullopt;
  }
  std::vector<Override> overrides;
  for (const std::string& set : options.sets) {
    const std::size_t equals = set.find('=');
    overrides.push_back({set.substr(0, equals), equals == set.npos ? "" : set.substr(equals + 1)});
  }
  if (options.seed) overrides.push_back({"seed", std::to_string(*options.seed)});
  config::Diagnostics diagnostics;
  auto experiment = load_experiment(text.str(), options.file, overrides, registry, diagnostics);
  if (!experiment) std::cerr << config::format(diagnostics);
  return experiment;
}

class Progress {
 public:
  Progress(const Simulation& simulation, bool quiet)
      : simulation_(simulation),
        quiet_(quiet),
        all_(static_cast<double>(simulation.experiment().plan.bytes())),
        start_(std::chrono::steady_clock::now()) {}
  [[nodiscard]] double wall_s() const { return seconds_since(start_); }
  // Asked now and then; true to stop.
  bool look() {
    const double wall = wall_s();
    if (!quiet_ && wall - told_ > 2) {
      told_ = wall;
      const double done = static_cast<double>(simulation_.placed_bytes()) / all_;
      std::fprintf(stderr, "%5.1f %%  virtual %.3f ms  %.0f s, about %.0f s left\n", done * 100,
                   static_cast<double>(simulation_.events().now()) / 1e6, wall,
                   done > 0 ? wall / done * (1 - done) : 0.0);
    }
    return stop_requested.load();
  }

 private:
  const Simulation& simulation_;
  bool quiet_;
  double all_;
  double told_ = 0;
  std::chrono::steady_clock::time_point start_;
};

int run_in(const Options& options, const Experiment& experiment, const pipeline::Registry& registry,
           rte_mempool* pool) {
  config::Diagnostics diagnostics;
  const auto building = std::chrono::steady_clock::now();
  Simulation simulation(experiment, registry, pool, diagnostics);
  if (!diagnostics.ok()) {
    std::cerr << config::format(diagnostics);
    return kBadExperiment;
  }
  if (!options.pcap_link.empty()) {
    const Link* link = simulation.link_named(options.pcap_link);
    const std::string path = options.pcap_file;
    if (link == nullptr || !simulation.observer().start_capture(link->id(), path.c_str())) {
      std::cerr << "--pcap: no link '" << options.pcap_link << "', or " << path << " cannot be written\n";
      return kBadExperiment;
    }
  }
  RunFacts facts;
  facts.build_s = seconds_since(building);
  Progress progress(simulation, options.quiet);
  const double cpu_before = cpu_seconds();
  facts.complete = simulation.run([&] { return progress.look(); });
  facts.cpu_s = cpu_seconds() - cpu_before;
  facts.wall_s = progress.wall_s();
  const auto report = report_of(simulation, facts);
  if (!options.json.empty()) std::ofstream(options.json) << report.dump(1) << "\n";
  if (!options.html.empty()) std::ofstream(options.html) << html_report(report);
  std::cout << report["summary"].dump(2) << "\n";
  if (options.trace_hash) std::cout << "trace hash " << report["trace_hash"].get<std::string>() << "\n";
  if (const std::string wrong = simulation.settle(); !wrong.empty()) {
    std::cerr << wrong << "\n";
    return kUnbalanced;
  }
  return facts.complete ? 0 : kIncomplete;
}

int run(const Options& options, const pipeline::Registry& registry) {
  const auto experiment = load(options, registry);
  if (!experiment) return kBadExperiment;
  const MemoryEstimate memory = estimate_memory(*experiment);
  const std::uint64_t available = available_bytes();
  if (memory.bytes > available && available != 0 && !options.force) {
    std::cerr << "the run needs about " << memory.bytes / 1'000'000 << " MB, and " << available / 1'000'000
              << " MB are available; smaller switch.buffer_mb, nic.window or mbufs need less, --force tries all the "
                 "same\n";
    return kCannotRun;
  }
  if (!options.quiet && memory.bytes > available / 2) {
    std::cerr << "about " << memory.bytes / 1'000'000 << " MB of memory\n";
  }
  if (const std::string error = nic::start_eal("weft-sim", ""); !error.empty()) {
    std::cerr << error << "\n";
    return kCannotRun;
  }
  int result = kCannotRun;
  if (const pipeline::Pool pool = make_packet_pool(memory.mbufs)) {
    result = run_in(options, *experiment, registry, pool.get());
  } else {
    std::cerr << "no memory for " << memory.mbufs << " packet buffers\n";
  }
  nic::stop_eal();
  return result;
}

// Hundreds of megabytes in small pieces, each touched now and then: in pages of 4 KiB a fifth of the time goes into
// finding them. malloc takes huge pages only if the environment says so when the program begins.
void begin_again_with_huge_pages(char** argv) {
  constexpr const char* kTunables = "GLIBC_TUNABLES";
  if (std::getenv(kTunables) != nullptr) return;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  setenv(kTunables, "glibc.malloc.hugetlb=1", 1);
  execv(program.c_str(), argv);
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
  run_command->add_option("--pcap", options.pcap_link, "Writes what crosses a link, as leaf0/spine1.");
  run_command->add_option("--pcap-file", options.pcap_file, "Where; default: weft-sim.pcap.");
  run_command->add_flag("--force", options.force, "Runs even if memory seems too small.");
  run_command->add_flag("--quiet", options.quiet, "Does not tell how far it is.");
  CLI::App* sweep_command = app.add_subcommand("sweep", "Runs every combination of the file's section sweep.");
  sweep_command->add_option("file", options.file, "Experiment, a YAML file.")->required();
  sweep_command->add_option("--set", options.sets, "key=value, for all runs.")->take_all();
  sweep_command->add_option("--out", options.folder, "Folder of the results; default: the file's name and .sweep.");
  sweep_command->add_option("--jobs", options.jobs, "Runs at a time; default: as many as CPUs.");
  CLI11_PARSE(app, argc, argv);
  // Not restarted: a sweep that waits for its runs hears of it.
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested.store(true); };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  pipeline::Registry registry;
  stages::register_all(registry);
  if (run_command->parsed()) return run(options, registry);
  const auto experiment = load(options, registry);
  if (!experiment) return kBadExperiment;
  if (options.folder.empty()) options.folder = std::filesystem::path(options.file).stem().string() + ".sweep";
  return run_sweep({options.file, options.folder, options.sets, options.jobs}, *experiment, stop_requested);
}

}  // namespace
}  // namespace weft::sim

int main(int argc, char** argv) {
  weft::sim::begin_again_with_huge_pages(argv);
  return weft::sim::main_of(argc, argv);
}
