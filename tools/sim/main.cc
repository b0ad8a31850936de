// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-sim: runs experiments in virtual time.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "collectives/stage/stages.h"
#include "nic/dpdk/eal.h"
#include "switch/config/config.h"
#include "switch/config/schema/suggest.h"
#include "switch/stages/stages.h"
#include "switch/system/output_file.h"
#include "tools/experiment/clock.h"
#include "tools/experiment/files.h"
#include "tools/experiment/memory.h"
#include "tools/sim/command_line.h"
#include "tools/sim/html_report.h"
#include "tools/sim/packet_memory.h"
#include "tools/sim/summary.h"
#include "tools/sim/sweep.h"

namespace weft::sim {
namespace {

using experiment::read_text;

std::atomic<bool> stop_requested{false};

int fail(int code, const std::string& message) {
  std::fprintf(stderr, "weft-sim: %s\n", message.c_str());
  return code;
}

class Progress {
 public:
  Progress(const Simulation& simulation, bool quiet)
      : simulation_(simulation),
        quiet_(quiet),
        all_(static_cast<double>(simulation.experiment().plan.bytes())),
        start_(std::chrono::steady_clock::now()) {}
  [[nodiscard]] double wall_s() const { return experiment::seconds_since(start_); }
  // Asked now and then; true to stop.
  bool look() {
    const double wall = wall_s();
    if (!quiet_ && wall - told_ > 2) {
      told_ = wall;
      const double done = static_cast<double>(simulation_.placed_bytes()) / all_;
      std::fprintf(stderr, "%5.1f %%  virtual %.3f ms  %.0f s, about %.0f s left\n", done * 100,
                   static_cast<double>(simulation_.now()) / 1e6, wall, done > 0 ? wall / done * (1 - done) : 0.0);
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

// Exit code, 0 when the capture has begun or none was asked for.
int start_capture(const Options& options, Simulation& simulation) {
  if (options.pcap_link.empty()) return 0;
  Link* link = simulation.link_named(options.pcap_link);
  if (link == nullptr) {
    std::vector<std::string> known;
    for (const auto& one : simulation.links()) known.push_back(one->name());
    return fail(config::kExitUsage, "--pcap: unknown link " + config::quote(options.pcap_link) +
                                        config::suggestion(options.pcap_link, known));
  }
  link->set_capture(simulation.capture());
  const std::string error = simulation.capture().start(options.pcap_file);
  return error.empty() ? 0 : fail(config::kExitCannotRun, error);
}

// All that was asked for is written, whatever else cannot be.
int write_results(const Options& options, const nlohmann::ordered_json& report, LinkCapture& capture) {
  int result = 0;
  const auto check = [&](const std::string& error) {
    if (!error.empty()) result = fail(config::kExitCannotRun, error);
  };
  if (!options.json.empty()) check(OutputFile(options.json).write(report.dump(1) + "\n"));
  if (!options.html.empty()) check(OutputFile(options.html).write(html_report(report)));
  check(capture.finish());
  std::cout << report["summary"].dump(2) << std::endl;
  if (!std::cout) check(std::string("cannot write the summary to standard output: ") + std::strerror(errno));
  if (options.trace_hash) {
    std::fprintf(stderr, "trace hash %s\n", report["trace_hash"].get<std::string>().c_str());
  }
  return result;
}

int run_in(const Options& options, const Experiment& experiment, const pipeline::Registry& registry,
           rte_mempool* pool) {
  config::Diagnostics diagnostics;
  const auto building = std::chrono::steady_clock::now();
  Simulation simulation(experiment, registry, pool, diagnostics, {.threads = options.threads});
  if (!diagnostics.ok()) {
    std::cerr << config::format(diagnostics);
    return config::kExitUsage;
  }
  if (const int error = start_capture(options, simulation); error != 0) return error;
  RunFacts facts;
  facts.file = options.file;
  facts.sets = options.sets;
  facts.version = WEFT_VERSION;
  facts.date = experiment::date_now();
  facts.build_s = experiment::seconds_since(building);
  Progress progress(simulation, options.quiet);
  const double cpu_before = experiment::cpu_seconds();
  facts.complete = simulation.run([&] { return progress.look(); });
  facts.cpu_s = experiment::cpu_seconds() - cpu_before;
  facts.wall_s = progress.wall_s();
  facts.interrupted = !facts.complete && stop_requested.load();
  const int written = write_results(options, report_of(simulation, facts), simulation.capture());
  if (const std::string wrong = simulation.settle(); !wrong.empty()) return fail(config::kExitUnbalanced, wrong);
  if (written != 0) return written;
  return facts.complete ? 0 : config::kExitIncomplete;
}

int run(const Options& options, const Experiment& experiment, const pipeline::Registry& registry) {
  for (const std::string& path : {options.json, options.html}) {
    if (path.empty()) continue;
    if (const std::string error = OutputFile(path).probe(); !error.empty()) return fail(config::kExitCannotRun, error);
  }
  const MemoryEstimate memory = estimate_memory(experiment);
  const std::uint64_t available = experiment::available_bytes();
  if (memory.bytes > available && available != 0 && !options.force) {
    return fail(config::kExitCannotRun,
                "the run needs about " + std::to_string(memory.bytes / 1'000'000) + " MB, and " +
                    std::to_string(available / 1'000'000) +
                    " MB are available; smaller switch.buffer_mb, nic.window or mbufs need less, --force "
                    "tries all the same");
  }
  if (!options.quiet && memory.bytes > available / 2) {
    std::fprintf(stderr, "about %llu MB of memory\n", static_cast<unsigned long long>(memory.bytes / 1'000'000));
  }
  if (const std::string error = nic::start_eal("weft-sim", ""); !error.empty())
    return fail(config::kExitCannotRun, error);
  int result = config::kExitCannotRun;
  if (const pipeline::Pool pool = make_packet_pool(memory.mbufs, memory.room)) {
    result = run_in(options, experiment, registry, pool.get());
  } else {
    fail(config::kExitCannotRun, "no memory for " + std::to_string(memory.mbufs) + " packet buffers");
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
  int exit_code = 0;
  const auto options = parse_command_line(argc, argv, exit_code);
  if (!options) return exit_code;
  // Not restarted: a sweep that waits for its runs hears of it.
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested.store(true); };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  pipeline::Registry registry;
  stages::register_all(registry);
  inc::register_stages(registry);
  const auto text = read_text(options->file);
  if (!text) return fail(config::kExitUsage, "cannot read " + options->file + ": " + std::strerror(errno));
  const std::vector<Override> overrides = experiment::overrides_of(options->sets);
  config::Diagnostics diagnostics;
  const auto experiment = load_experiment(*text, options->file, overrides, registry, diagnostics);
  std::cerr << config::format(diagnostics);
  if (!experiment) return config::kExitUsage;
  if (options->command == Options::Command::run) return run(*options, *experiment, registry);
  return experiment::run_sweep(
      {options->file, *text, options->folder, overrides, options->jobs, sweep_program(*text, options->file, registry)},
      experiment->source["sweep"], stop_requested);
}

}  // namespace
}  // namespace weft::sim

int main(int argc, char** argv) {
  weft::sim::begin_again_with_huge_pages(argv);
  return weft::sim::main_of(argc, argv);
}
