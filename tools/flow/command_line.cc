// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>

#include "switch/config/command_line.h"
#include "tools/experiment/command_line.h"

namespace weft::flow {
namespace {

using experiment::check_seed;
using experiment::check_set;

constexpr const char* kAbout =
    "Simulates jobs on a cluster, flow by flow: in rings, with trees and memory as weft-inc-manager gives them to "
    "groups (policies edge_disjoint and spatial), or with memory that groups lock in turn (temporal), which the "
    "manager does not have.";

constexpr const char* kFooter = R"(Examples:
  weft-flow run mine.yaml                                a summary as JSON on standard output
  weft-flow run mine.yaml --set policy=temporal --set memory.units=16 --html out.html
  weft-flow explain mine.yaml                            what jobs compute and send, phase by phase
  weft-flow sweep tables.yaml --out results              every combination that the file names

Exit codes: 0 fine, 2 wrong arguments or mistakes in the experiment, 3 cannot run or cannot write the results,
5 not all jobs ended.)";

constexpr const char* kRunFooter = R"(Examples:
  weft-flow run mine.yaml --json out.json --html out.html
  weft-flow run mine.yaml --set policy=spatial --set memory.mb=1 --seed 7

The summary goes to standard output, everything else to standard error. Ctrl-C ends a run: what is known by then is
written as usual, and "complete" is false. weft-flow --help lists the exit codes.)";

constexpr const char* kSweepFooter = R"(Examples:
  weft-flow sweep tables.yaml
  weft-flow sweep trace1.yaml --set workload.jobs=100 --out small --jobs 2

Started again it runs what is missing. All results are put together in sweep.json, sweep.csv and, with bar charts,
sweep.html, in the folder of the results. weft-flow --help lists the exit codes.)";

constexpr const char* kExplainFooter = R"(Examples:
  weft-flow explain mine.yaml
  weft-flow explain tables.yaml gpt3-13b

Jobs that are the same but for their number of iterations are shown once.)";

void add_common(CLI::App& command, Options& options) {
  command.add_option("file", options.file, "Experiment, a YAML file")->required()->option_text("FILE");
  command.add_option("--set", options.sets, "Replaces what the file says under a key; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE")
      ->check(check_set, "");
}

CLI::App* add_run(CLI::App& app, Options& options, std::string& seed) {
  CLI::App* run = app.add_subcommand("run", "Runs one experiment.");
  add_common(*run, options);
  run->add_option("--seed", seed, "Replaces the seed")->option_text("N")->check(check_seed, "");
  run->add_option("--json", options.json, "Writes all that is known about the run")->option_text("FILE");
  run->add_option("--html", options.html, "Writes a report with plots")->option_text("FILE");
  run->add_flag("--trace-hash", options.trace_hash, "Prints a hash of all that happened, on standard error");
  run->add_flag("--quiet", options.quiet, "Does not tell how far it is");
  run->footer(kRunFooter);
  return run;
}

CLI::App* add_sweep(CLI::App& app, Options& options) {
  CLI::App* sweep = app.add_subcommand("sweep", "Runs every combination of the file's section sweep.");
  add_common(*sweep, options);
  sweep->add_option("--out", options.folder, "Folder of the results; default: the file's name and .sweep")
      ->option_text("FOLDER");
  sweep->add_option("--jobs", options.jobs, "Runs at a time; default: as many as CPUs")
      ->option_text("N")
      ->check(CLI::Range(1, 4096), "");
  sweep->footer(kSweepFooter);
  return sweep;
}

CLI::App* add_explain(CLI::App& app, Options& options) {
  CLI::App* explain = app.add_subcommand("explain", "Shows what jobs compute and send, phase by phase.");
  add_common(*explain, options);
  explain->add_option("job", options.job, "Name of a job, as in the report; default: all")->option_text("JOB");
  explain->footer(kExplainFooter);
  return explain;
}

}  // namespace

std::optional<Options> parse_command_line(int argc, const char* const* argv, int& exit_code) {
  Options options;
  std::string seed;
  CLI::App app(kAbout, "weft-flow");
  app.set_version_flag("--version", WEFT_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  const CLI::App* run = add_run(app, options, seed);
  const CLI::App* sweep = add_sweep(app, options);
  const CLI::App* explain = add_explain(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = config::end_of_parsing(app, error);
    return std::nullopt;
  }
  if (run->parsed()) options.command = Options::Command::run;
  if (sweep->parsed()) options.command = Options::Command::sweep;
  if (explain->parsed()) options.command = Options::Command::explain;
  if (!seed.empty()) options.sets.push_back("seed=" + seed);
  if (options.folder.empty()) options.folder = std::filesystem::path(options.file).stem().string() + ".sweep";
  return options;
}

}  // namespace weft::flow
