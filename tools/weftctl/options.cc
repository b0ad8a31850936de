// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "switch/config/command_line.h"
#include "switch/config/schema/suggest.h"
#include "tools/weftctl/checks.h"

namespace weft::weftctl {
namespace {

constexpr const char* kDefaultPort = ":9796";  // of control.tcp

constexpr const char* kAbout =
    R"(Looks into a running weft-switch, and operates it. Nothing here disturbs forwarding.)";

constexpr const char* kExamples = R"(Examples:
  weftctl tables                          which tables are there?
  weftctl show ports                      ports of all switches, with counters
  weftctl show drops --switch tor1        why did tor1 drop packets?
  weftctl show route 10.5.5.5             which route takes this address?
  weftctl show ports --watch 2            again every two seconds, until Ctrl-C
  weftctl show qps --max-rows 20 -t       twenty queue pairs, numbers as 1,234,567
  weftctl show routes --columns 0 | less -S    nothing shortened
  weftctl show qps --json | jq '.[] | select(.out_of_order > 0)'
  weftctl diff new.yaml && cp new.yaml weft.yaml && weftctl reload    all changes, or none
  weftctl --socket /run/weft/b.sock about      another weft-switch on this machine
  weftctl --address tor1:9796 --cert me.crt --key me.key --ca weft-ca.crt show ports     on another machine
  weftctl capture -w drops.pcapng --drop any   packets that are dropped, each with the reason as its comment
  weftctl trace --port h1 --count 3       what happens to the next three packets from h1, and why
  weftctl record --svg q.svg --port h3 --duration-s 5     depths of h3's queues as a picture
  weftctl clear drops                     count drops from zero
  weftctl explain headroom                what arrives after a pause, and how much room there is for it

Output:
  Tables fit the terminal: long texts end in "...", and columns that have no room move below. Without a terminal
  nothing is shortened. `-` is an empty value. A column `switch` appears when the process runs several. --json prints
  everything in full, as an array with an object per row; scripts should read that.

Environment:
  WEFT_SOCKET          the socket when --socket is not given

Exit status: 0 fine; 1 the switch says no (unknown table or switch, ...); 2 wrong usage; 3 no weft-switch answers.)";

constexpr const char* kShowFooter = R"(Examples:
  weftctl show ports
  weftctl show qps --switch tor1 --max-rows 20
  weftctl show drops --watch
  weftctl show queues --watch 0.5

On a terminal, --watch of queues and buffers draws how full they are: # for what is held, | for the most that ever was,
percent of the threshold; without a threshold the bar is as long as the highest peak of those that have none.

weftctl tables lists the tables; weftctl --help explains the output.)";

constexpr const char* kExplainFooter =
    R"(A sender that is told to pause goes on until it has heard of it. What arrives meanwhile waits in
headroom, of which each lossless priority group of each port has its own:

  on_the_link   2 * speed * delay: the pause on its way there, and what was sent on its way here
  frames        a frame that cannot be broken off any more, at either end
  bursts        a burst of 64 packets of every worker that was received before the pause was sent
  rest          what the device keeps while its worker naps, or what a BUFFER_PROFILE gives besides; less than 0: it
                gives less than all of this
  headroom_size all of it; a profile's `xoff` where there is one

By distance, at 100 Gbit/s: 25 kB on the link at 200 m (1 us), 12.5 MB at 100 km (500 us), 250 MB at 2000 km (10 ms).
All headroom comes out of BUFFER_POOL, which must have room for it; packets take buffers too (eal: mbufs).

Examples:
  weftctl explain headroom
  weftctl explain headroom --switch esw1 --port wan)";

constexpr const char* kDiffFooter =
    R"(Reads FILE as a reload would and prints each change: what, where, from what to what. Nothing is changed. The
column `refused` says why a change cannot be made while weft-switch runs; then the exit status is 1.

Examples:
  weftctl diff new.yaml
  weftctl diff new.yaml && cp new.yaml weft.yaml && weftctl reload
  weftctl diff new.yaml --json)";

constexpr const char* kReloadFooter =
    R"(Reads the file again that weft-switch was started with, and applies all of it, or nothing: a file with
mistakes, or with a change that cannot be made, leaves everything as it was and the exit status is 1. Forwarding
goes on.

Examples:
  weftctl diff weft.yaml && weftctl reload)";

// `--watch` may stand without a value, so the word behind it may be meant as something else.
std::string check_interval(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0') {
    return "'" + text + "' is no number of seconds; write the table before --watch";
  }
  if (!(seconds >= 0.1 && seconds <= 3600)) return "seconds from 0.1 to 3600";
  return {};
}

void add_address(CLI::App& app, Options& options) {
  auto* address =
      app.add_option("--address", options.address,
                     "Control service of a weft-switch on another machine, not a socket; port 9796 when left out")
          ->option_text("HOST[:PORT]")
          ->excludes("--socket");
  const std::initializer_list<std::tuple<const char*, std::string&, const char*>> files{
      {"--cert", options.files.certificate, "Your certificate (PEM), which that service must accept"},
      {"--key", options.files.key, "Its private key (PEM)"},
      {"--ca", options.files.authority, "The authority (PEM) that signed the service's certificate"}};
  for (const auto& [name, value, text] : files) {
    auto* file = app.add_option(name, value, text)->option_text("FILE");
    address->needs(file);
    file->needs(address);
  }
}

void add_show(CLI::App& app, Options& options, std::string& interval) {
  CLI::App* show = app.add_subcommand("show",
                                      "Print the rows of a table: weftctl show TABLE [--switch NAME]\n[--max-rows N] "
                                      "[--watch [SECONDS]]; see weftctl show --help");
  show->add_option("table", options.table, "A table that `weftctl tables` lists; without it, that list")
      ->option_text("TABLE");
  show->add_option("address", options.lookup, "With `show route`: the address to look up")->option_text("[ADDRESS]");
  show->add_option("--switch", options.switch_name, "Only rows of this switch; without it, all switches")
      ->option_text("NAME");
  show->add_option("--max-rows", options.max_rows, "At most so many rows; 0: all (up to a million)")
      ->option_text("N")
      ->check(at_least(0));
  show->add_option("--port", options.ports, "Only rows of this port: h1, or tor1/h1")
      ->option_text("PORT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  show->add_flag("--nonzero", options.nonzero, "Only rows in which something was counted");
  show->add_option("-w,--watch", interval, "Print again every SECONDS")
      ->option_text("[SECONDS] (default 1)")
      ->expected(0, 1)
      ->default_str("1")
      ->check(check_interval, "");
  show->add_flag("--switch-column", options.switch_column, "Name the switch in every row, also when there is only one");
  show->footer(kShowFooter);
  show->callback([&options] { options.command = options.table.empty() ? Command::tables : Command::show; });
}

// A table with what its columns mean.
void add_explain(CLI::App& app, Options& options) {
  CLI::App* explain = app.add_subcommand(
      "explain", "Say what a number is made of: weftctl explain headroom\n[--switch NAME] [--port PORT]");
  explain->add_option("table", options.table, "What: headroom, the room for what arrives after a pause")
      ->required()
      ->option_text("headroom")
      ->check(CLI::IsMember({"headroom"}));
  explain->add_option("--switch", options.switch_name, "Only rows of this switch; without it, all switches")
      ->option_text("NAME");
  explain->add_option("--port", options.ports, "Only rows of this port: wan, or esw1/wan")
      ->option_text("PORT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  explain->footer(kExplainFooter);
  explain->callback([&options] { options.command = Command::show; });
}

void add_reload(CLI::App& app, Options& options) {
  CLI::App* diff =
      app.add_subcommand("diff", "Print what a configuration file would change in what\nruns: weftctl diff FILE");
  diff->add_option("file", options.file, "A configuration file that weft-switch can read")
      ->required()
      ->option_text("FILE");
  diff->footer(kDiffFooter);
  diff->callback([&options] { options.command = Command::diff; });
  CLI::App* reload =
      app.add_subcommand("reload", "Apply what changed in the configuration file that\nweft-switch was started with");
  reload->footer(kReloadFooter);
  reload->callback([&options] { options.command = Command::reload; });
}

// The words behind the program's name, last first, as CLI11 wants them. Where the first that is no option is no command
// either, nor nearly one, it is taken for a stage: STAGE VERB ... is short for command STAGE VERB ...
std::vector<std::string> with_command(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with('-')) {
      const CLI::Option* option = app.get_option_no_throw(words[i]);
      // What follows an option that stands in front of its command is its value, and no stage.
      if (option == nullptr) break;
      if (option->get_expected_max() > 0) ++i;
      continue;
    }
    const bool unknown = std::find(known.begin(), known.end(), words[i]) == known.end();
    const bool verb = i + 1 < words.size() && !words[i + 1].starts_with('-');
    if (unknown && verb && config::closest(words[i], known).empty()) {
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i), "command");
    }
    break;
  }
  // show --watch may stand without a number, so what follows may be the table.
  const auto show = static_cast<std::size_t>(std::find(words.begin(), words.end(), "show") - words.begin());
  for (std::size_t i = show; i + 1 < words.size(); ++i) {
    const bool watch = words[i] == "--watch" || words[i] == "-w";
    if (watch && std::isalpha(static_cast<unsigned char>(words[i + 1][0])) != 0) words[i] = "--watch=1";
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// `show route ADDRESS` is a command of the router.
std::optional<std::string> check_lookup(Options& options) {
  if (options.command != Command::show) return std::nullopt;
  if (options.table != "route") {
    if (options.lookup.empty()) return std::nullopt;
    return "unknown word " + config::quote(options.lookup) + "; only `show route` takes an address";
  }
  if (options.lookup.empty()) return "show route takes an address; `show routes` prints all routes";
  options.command = Command::request;
  options.request.command = RequestOptions::Request::stage;
  options.request.stage = {"l3", "route", {"address=" + options.lookup}, options.switch_name};
  return std::nullopt;
}

// HOST, HOST:PORT, [V6], [V6]:PORT: with the port.
std::string with_port(const std::string& address) {
  const std::size_t bracket = address.rfind(']');
  const std::size_t colon = address.rfind(':');
  const bool has =
      colon != std::string::npos && (bracket == std::string::npos ? address.find(':') == colon : colon > bracket);
  if (has) return address;
  const bool bare_v6 = bracket == std::string::npos && colon != std::string::npos;
  return (bare_v6 ? "[" + address + "]" : address) + kDefaultPort;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  Options options;
  std::string interval;
  CLI::App app(kAbout, "weftctl");
  app.add_option("--socket", options.socket,
                 "Control socket of the weft-switch (default: $WEFT_SOCKET, or " + options.socket + ")")
      ->envname("WEFT_SOCKET")
      ->option_text("PATH");
  add_address(app, options);
  app.add_flag("--json", options.json, "Print JSON instead of a table");
  app.add_option("--columns", options.columns, "Width of tables; 0: no limit (default: the terminal's, or none)")
      ->check(CLI::Range(0U, 100'000U))
      ->option_text("N");
  app.add_flag("-t,--thousands", options.thousands, "Print 1,234,567 instead of 1234567");
  app.add_option("--timeout", options.timeout_s, "Longest wait for an answer (default: 30)")
      ->check(CLI::Range(0.1, 3600.0))
      ->option_text("SECONDS");
  app.set_version_flag("--version", "weftctl " WEFT_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kExamples);
  app.get_formatter()->column_width(28);
  app.add_subcommand("about", "Print facts about the process")->callback([&options] {
    options.command = Command::about;
  });
  app.add_subcommand("tables", "List the tables that `show` knows")->callback([&options] {
    options.command = Command::tables;
  });
  app.add_subcommand("commands", "List the commands of stages, with their arguments")->callback([&options] {
    options.command = Command::commands;
  });
  add_show(app, options, interval);
  add_explain(app, options);
  add_reload(app, options);
  add_requests(app, options.request);

  std::vector<std::string> words = with_command(app, argc, argv);
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    exit_status = config::end_of_parsing(app, error);
    return std::nullopt;
  }
  if (options.request.command != RequestOptions::Request::none) {
    options.command = Command::request;
    if (const auto mistake = finish_request(options.request)) {
      std::fprintf(stderr, "weftctl: %s\n", mistake->c_str());
      exit_status = kExitUsage;
      return std::nullopt;
    }
  }
  if (!options.address.empty()) options.address = with_port(options.address);
  if (const auto mistake = check_lookup(options)) {
    std::fprintf(stderr, "weftctl: %s\n", mistake->c_str());
    exit_status = kExitUsage;
    return std::nullopt;
  }
  if (app.get_subcommand("show")->count("--watch") > 0) options.interval_s = std::stod(interval);
  return options;
}

}  // namespace weft::weftctl
