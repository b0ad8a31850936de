// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>

#include "switch/config/command_line.h"
#include "tools/experiment/command_line.h"

namespace weft::sim {
namespace {

using experiment::check_seed;
using experiment::check_set;

constexpr const char* kAbout =
    "Runs RoCEv2 experiments in virtual time, with the pipelines of weft-switch and the RNICs of weft-rnic.";

constexpr const char* kFooter = R"(Examples:
  weft-sim run ring.yaml                                 a summary as JSON on standard output
  weft-sim run ring.yaml --set switch.lb=random --html random.html
  weft-sim run ring.yaml --pcap leaf0/spine1 --pcap-file spine1.pcap
  weft-sim sweep fig5a.yaml --out results                every combination that the file names

Exit codes: 0 fine, 2 wrong arguments or mistakes in the experiment, 3 cannot run or cannot write the results,
4 packets unaccounted for (a bug in weft), 5 not all transfers ended.)";

constexpr const char* kRunFooter = R"(Examples:
  weft-sim run ring.yaml --json out.json --html out.html
  weft-sim run ring.yaml --set switch.lb=psn --set switch.nack_filter.check=gap --seed 7
  weft-sim run ring.yaml --set 'faults=[{link: leaf0/spine1, down_at_us: 50}]'

The summary goes to standard output, everything else to standard error. Ctrl-C ends a run: what is known by then is
written as usual, and "complete" is false. weft-sim --help lists the exit codes.)";

constexpr const char* kSweepFooter = R"(Examples:
  weft-sim sweep fig5a.yaml
  weft-sim sweep fig5a.yaml --set workload.bytes=4000000 --out small --jobs 2

Started again it runs what is missing. All results are put together in sweep.json, sweep.csv and, with bar charts,
sweep.html, in the folder of the results.
weft-sim --help lists the exit codes.)";

void add_common(CLI::App& command, Options& options, const char* about_sets) {
  command.add_option("file", options.file, "Experiment, a YAML file")->required()->option_text("FILE");
  command.add_option("--set", options.sets, about_sets)
      ->take_all()
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE")
      ->check(check_set, "");
}

CLI::App* add_run(CLI::App& app, Options& options, std::string& seed) {
  CLI::App* run = app.add_subcommand("run", "Runs one experiment.");
  add_common(*run, options, "Replaces what the file says under a key; may be repeated");
  run->add_option("--seed", seed, "Replaces the seed")->option_text("N")->check(check_seed, "");
  run->add_option("--json", options.json, "Writes all that is known about the run")->option_text("FILE");
  run->add_option("--html", options.html, "Writes a report with plots")->option_text("FILE");
  run->add_flag("--trace-hash", options.trace_hash, "Prints a hash of all that happened, on standard error");
  auto* pcap = run->add_option("--pcap", options.pcap_link, "Captures what crosses a link, as leaf0/spine1")
                   ->option_text("FROM/TO");
  run->add_option("--pcap-file", options.pcap_file, "Where to; default: weft-sim.pcap")
      ->option_text("FILE")
      ->needs(pcap);
  run->add_option("--threads", options.threads, "Threads that share the work; default: 1. The result is the same")
      ->option_text("N")
      ->check(CLI::Range(1, 256), "");
  run->add_flag("--force", options.force, "Runs even if memory seems too small");
  run->add_flag("--quiet", options.quiet, "Does not tell how far it is");
  run->footer(kRunFooter);
  return run;
}

void add_sweep(CLI::App& app, Options& options) {
  CLI::App* sweep = app.add_subcommand("sweep", "Runs every combination of the file's section sweep.");
  add_common(*sweep, options, "The same for all runs; may be repeated");
  sweep->add_option("--out", options.folder, "Folder of the results; default: the file's name and .sweep")
      ->option_text("FOLDER");
  sweep->add_option("--jobs", options.jobs, "Runs at a time, of one thread each; default: what uses all CPUs")
      ->option_text("N")
      ->check(CLI::Range(1, 4096), "");
  sweep->footer(kSweepFooter);
}

}  // namespace

std::optional<Options> parse_command_line(int argc, const char* const* argv, int& exit_code) {
  Options options;
  std::string seed;
  CLI::App app(kAbout, "weft-sim");
  app.set_version_flag("--version", WEFT_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  CLI::App* run = add_run(app, options, seed);
  add_sweep(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = config::end_of_parsing(app, error);
    return std::nullopt;
  }
  options.command = run->parsed() ? Options::Command::run : Options::Command::sweep;
  if (!seed.empty()) options.sets.push_back("seed=" + seed);
  if (options.folder.empty()) options.folder = std::filesystem::path(options.file).stem().string() + ".sweep";
  return options;
}

}  // namespace weft::sim
