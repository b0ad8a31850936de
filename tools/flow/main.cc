// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-flow: jobs on a cluster, flow by flow.
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <set>

#include "switch/config/config.h"
#include "switch/config/exit_status.h"
#include "switch/config/schema/suggest.h"
#include "switch/system/output_file.h"
#include "tools/experiment/clock.h"
#include "tools/experiment/files.h"
#include "tools/experiment/sweep.h"
#include "tools/flow/command_line.h"
#include "tools/flow/experiment.h"
#include "tools/flow/report.h"

namespace weft::flow {
namespace {

using experiment::Override;

std::atomic<bool> stop_requested{false};

int fail(int code, const std::string& message) {
  std::fprintf(stderr, "weft-flow: %s\n", message.c_str());
  return code;
}

class Progress {
 public:
  Progress(const Cluster& cluster, bool quiet)
      : cluster_(cluster), quiet_(quiet), start_(std::chrono::steady_clock::now()) {
    for (const Job& job : cluster.jobs()) all_ += static_cast<double>(job.plan->iterations) * job.plan->ranks;
  }
  [[nodiscard]] double wall_s() const { return experiment::seconds_since(start_); }
  /// Asked now and then; true to stop.
  bool look() {
    const double wall = wall_s();
    if (!quiet_ && wall - told_ > 2) {
      told_ = wall;
      double done = 0;
      for (std::size_t i = 0; i < cluster_.jobs().size(); ++i) {
        done += static_cast<double>(cluster_.results()[i].iterations) * cluster_.jobs()[i].plan->ranks / all_;
      }
      std::fprintf(stderr, "%5.1f %%  virtual %.1f s  %.0f s, about %.0f s left\n", done * 100,
                   static_cast<double>(cluster_.now()) / 1e9, wall, done > 0 ? wall / done * (1 - done) : 0.0);
    }
    return stop_requested.load();
  }

 private:
  const Cluster& cluster_;
  bool quiet_;
  double all_ = 0, told_ = 0;
  std::chrono::steady_clock::time_point start_;
};

int run(const Options& options, const Experiment& experiment) {
  for (const std::string& path : {options.json, options.html}) {
    if (path.empty()) continue;
    if (const std::string error = OutputFile(path).probe(); !error.empty()) return fail(config::kExitCannotRun, error);
  }
  ClusterOptions timed = experiment.cluster;
  timed.clock = [start = std::chrono::steady_clock::now()] {
    return static_cast<std::uint64_t>(experiment::seconds_since(start) * 1e9);
  };
  Cluster cluster(timed, jobs_of(experiment));
  Progress progress(cluster, options.quiet);
  RunFacts facts{options.file, WEFT_VERSION, experiment::date_now(), options.sets};
  const double before = experiment::cpu_seconds();
  const bool complete = cluster.run([&] { return progress.look(); });
  facts.cpu_s = experiment::cpu_seconds() - before;
  facts.wall_s = progress.wall_s();
  facts.interrupted = !complete;
  const auto report = report_of(experiment, cluster, facts);
  int result = complete ? 0 : config::kExitIncomplete;
  const auto check = [&](const std::string& error) {
    if (!error.empty()) result = fail(config::kExitCannotRun, error);
  };
  if (!options.json.empty()) check(OutputFile(options.json).write(report.dump(1) + "\n"));
  if (!options.html.empty()) check(OutputFile(options.html).write(html_report(report)));
  std::cout << report["summary"].dump(2) << std::endl;
  if (!std::cout) check(std::string("cannot write the summary to standard output: ") + std::strerror(errno));
  if (options.trace_hash) {
    std::fprintf(stderr, "trace hash %s\n", report["trace_hash"].get<std::string>().c_str());
  }
  return result;
}

int explain(const Options& options, const Experiment& experiment) {
  std::set<std::string> shown, names;
  for (const NamedJob& job : experiment.jobs) {
    names.insert(job.name);
    if (!options.job.empty() && job.name != options.job) continue;
    const Division& d = job.division;
    const std::string key = job.name + "/" + std::to_string(d.tp) + "/" + std::to_string(d.dp) + "/" +
                            std::to_string(d.pp) + "/" + std::to_string(d.micro_batches);
    if (!shown.insert(key).second) continue;
    std::cout << flow::explain(job.model, d, plan_of(job.model, d, job.iterations)) << "\n";
  }
  if (!shown.empty()) return 0;
  const std::vector<std::string> known(names.begin(), names.end());
  return fail(config::kExitUsage,
              "there is no job " + config::quote(options.job) + config::suggestion(options.job, known));
}

experiment::SweepProgram sweep_program(const std::string& text, const std::string& file) {
  experiment::SweepProgram program;
  program.name = "weft-flow";
  program.check = [text, file](const std::vector<Override>& overrides) {
    config::Diagnostics diagnostics;
    const bool fine = load_experiment(text, file, overrides, diagnostics).has_value();
    return fine ? std::string() : config::format(diagnostics);
  };
  program.read_result = [](const std::string& path) {
    return experiment::read_whole(path, {"jct_mean_s", "jct_p99_s", "in_network"});
  };
  program.print_row = [](const std::string& label, const nlohmann::ordered_json& summary) {
    using experiment::shown;
    std::printf("%-60s mean %10s s  99 %% %10s s  in network %s  %s\n", label.c_str(),
                shown(summary["jct_mean_s"], 3).c_str(), shown(summary["jct_p99_s"], 3).c_str(),
                shown(summary["in_network"], 3).c_str(), summary["complete"].get<bool>() ? "" : "incomplete");
  };
  return program;
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
  const auto text = experiment::read_text(options->file);
  if (!text) return fail(config::kExitUsage, "cannot read " + options->file + ": " + std::strerror(errno));
  const std::vector<Override> overrides = experiment::overrides_of(options->sets);
  config::Diagnostics diagnostics;
  const auto loaded = load_experiment(*text, options->file, overrides, diagnostics);
  std::cerr << config::format(diagnostics);
  if (!loaded) return config::kExitUsage;
  if (options->command == Options::Command::run) return run(*options, *loaded);
  if (options->command == Options::Command::explain) return explain(*options, *loaded);
  return experiment::run_sweep(
      {options->file, *text, options->folder, overrides, options->jobs, sweep_program(*text, options->file)},
      loaded->source["sweep"], stop_requested);
}

}  // namespace
}  // namespace weft::flow

int main(int argc, char** argv) {
  return weft::flow::main_of(argc, argv);
}
