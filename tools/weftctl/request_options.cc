// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/request_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <cmath>
#include <string_view>

#include "tools/weftctl/checks.h"

namespace weft::weftctl {
namespace {

using Request = RequestOptions::Request;

constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{1} << 30;
constexpr double kLongestS = 86400.0 * 365;

constexpr const char* kCaptureFooter =
    R"(Without --rx, --tx or --drop, packets are captured as they arrive and as they leave, at the ports named
or at all. With --drop alone, only packets dropped for these reasons; --drop any means all reasons but
tx_failed, which has to be named, because it means copying everything that is sent. A condition on a RoCE
header (--qp, --group, --opcode, --psn) holds for no other packet. Several values of an option: any of them.

The file is pcapng: an interface per port ("tor1/h1") and one for what a switch drops ("tor1 drops"); the
reason of a drop is the packet's comment. The capture ends when a bound is reached, with Ctrl-C, or when
the file cannot be written. Copies that weft cannot deliver fast enough are lost and counted; forwarding
does not wait for them.

Examples:
  weftctl capture -w h1.pcapng --port h1 --count 1000
  weftctl capture -w drops.pcapng --drop any --duration-s 60
  weftctl capture -w nak.pcapng --switch tor1 --opcode RC_ACKNOWLEDGE --qp 17 --rx
  weftctl capture -w retry.pcapng --qp 17 --psn 1000-1010 --psn 5
  weftctl capture -w group.pcapng --group 7 --switch leaf1
  weftctl capture -w - --drop egress_queue_full | tshark -r -)";

constexpr const char* kTraceFooter =
    R"(Follows packets that arrive from now on, and prints for each one what every stage did to it and why: the
verdict, the sentence of a drop, and the counters that the stage moved. Packets are followed over cables to
other switches of the process. With --drop, only packets that end that way are printed. Ctrl-C ends it, and
prints packets that are still inside. A traced packet is a burst of its own; all others run as usual.

Examples:
  weftctl trace                              the next ten packets
  weftctl trace --port h1 --qp 17 --count 3
  weftctl trace --drop no_route              why is there no route?
  weftctl trace --json | jq .steps)";

constexpr const char* kRecordFooter =
    R"(Reads the bytes in class queues again and again, and writes a line of CSV each time: time_ns (since 1970, as in
captures), and a column per queue, such as tor1/h1/3 for queue 3 of port h1. --svg draws them over time: a band from the
lowest to the highest value of each moment, for the eight queues with the highest peaks. A thread of weft-switch reads
the depths, 10,000 times a second unless told otherwise; forwarding does not notice. Samples that weftctl does not fetch
fast enough are lost and counted; so are those for which the thread came too late. Switches need `qos`.

Examples:
  weftctl record -w queues.csv --duration-s 10
  weftctl record --svg incast.svg --port h3 --queue 3 --duration-s 2
  weftctl record -w - --port h3 --rate-hz 100000 --count 50000 > h3.csv
  weftctl record -w q.csv --svg q.svg --switch leaf1)";

constexpr const char* kClearFooter =
    R"(Tables count from zero again; only `show` notices. Metrics, the counters of DPDK's telemetry, and the
check that no packet is lost go on as if nothing had happened.

Examples:
  weftctl clear
  weftctl clear drops ports --switch tor1)";

constexpr const char* kSetFooter = R"(Holds until the process ends, or a reload changes what was set.

Settings:
  log-level LEVEL          trace, debug, info, warning or error
  port NAME KEY=VALUE...   the link of a port: link=down or link=up, rate_mbps=1000, delay_ns=5000 (0: as the device)
  paths exclude PORT...    uplinks that lb spreads no packets over any more, nor nack_filter expects them through: tell
                           the leaves at both ends. What is routed through such a port alone goes on.
  paths include PORT...    they are good again. Both in one command change at once: paths exclude s1 include s2.
  lb policy=POLICY         how lb chooses among equal-cost members: ecmp, random, adaptive or psn
  nack_filter on|off       whether NACKs are judged; off: all pass
  lb, nack_filter KEY=VALUE...
                           other options as in the configuration: guard_us=500 on_block=ack weights.s1=2. What a filter
                           has blocked is sent, and it begins anew with every queue pair.
  impair RULE on|off       whether a rule of the impair stage does anything
  impair RULE KEY=VALUE... parameters of a rule as in the configuration: loss=0.01 delay_us=5 match.dest_qp=17;
                           an empty value takes a key away. RULE is a name or an index, as in `show impair`.

Examples:
  weftctl set log-level debug
  weftctl set impair lossy loss=0.001 --switch tor1
  weftctl set impair lossy off
  weftctl set port uplink1 link=down --switch leaf1
  weftctl set paths exclude uplink1 --switch leaf1
  weftctl set lb policy=ecmp --switch leaf1)";

// An option that may stand several times: any of the values.
template <typename T>
void add_choice(CLI::App& command, const char* name, std::vector<T>& values, const char* help, const char* value_name) {
  command.add_option(name, values, help)
      ->option_text(value_name)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_query(CLI::App& command, capture::Query& query, RequestOptions& options, bool directions) {
  command.add_option("--switch", query.switch_name, "Only this switch; without it, all")->option_text("NAME");
  add_choice(command, "--port", query.ports, "Only this port: h1, or tor1/h1", "PORT");
  if (directions) {
    command.add_flag("--rx", query.rx, "Packets as they arrive");
    command.add_flag("--tx", query.tx, "Packets as they leave");
  }
  add_choice(command, "--drop", query.drops, "Packets dropped for this reason, or any", "REASON");
  add_choice(command, "--qp", query.dest_qps, "Only packets to this queue pair number", "QPN");
  add_choice(command, "--group", query.groups, "Only packets of this group of collectives, as it is now", "ID");
  add_choice(command, "--opcode", query.opcodes, "Only this BTH opcode: RC_SEND_ONLY, 4, 0x04", "OPCODE");
  add_choice(command, "--psn", options.psns, "Only this PSN, or range; may wrap around zero", "PSN|FIRST-LAST");
  command.add_option("--duration-s", options.duration_s, "End after so many seconds")
      ->option_text("SECONDS")
      ->check(CLI::Range(0.001, kLongestS));
}

void add_capture(CLI::App& app, RequestOptions& options) {
  CLI::App* command = app.add_subcommand(
      "capture",
      "Copy packets to a pcapng file: weftctl capture -w FILE [--port PORT]\n[--drop REASON] [--qp QPN] "
      "...; see weftctl capture --help");
  command->add_option("-w,--write", options.file, "The file, replaced when it exists; - is stdout")
      ->required()
      ->option_text("FILE");
  add_query(*command, options.capture.query, options, true);
  command->add_option("--count", options.capture.max_packets, "End after so many packets")
      ->option_text("N")
      ->check(at_least(1));
  command->add_option("--max-bytes", options.capture.max_bytes, "End before the file is larger (default: 1 GiB)")
      ->option_text("N")
      ->check(at_least(1024));
  command->add_option("--snaplen", options.capture.snaplen, "Keep so many bytes of a packet (default: 65535)")
      ->option_text("N")
      ->check(CLI::Range(14U, 262144U));
  command
      ->add_option("--buffer-mib", options.capture.buffer_mib,
                   "Memory per worker for copies on their way, in MiB (default: 16)")
      ->option_text("N")
      ->check(CLI::Range(1U, 256U));
  options.capture.max_bytes = kDefaultMaxBytes;
  command->footer(kCaptureFooter);
  command->callback([&options] { options.command = Request::capture; });
}

void add_trace(CLI::App& app, RequestOptions& options) {
  CLI::App* command = app.add_subcommand(
      "trace",
      "Follow packets through the stages, with each verdict and why:\nweftctl trace [--count N] [--port PORT] "
      "...; see weftctl trace --help");
  add_query(*command, options.trace.query, options, false);
  command->add_option("--count", options.trace.packets, "Packets to follow (default: 10)")
      ->option_text("N")
      ->check(CLI::Range(1U, 10'000U));
  command->footer(kTraceFooter);
  command->callback([&options] { options.command = Request::trace; });
}

void add_record(CLI::App& app, RequestOptions& options) {
  CLI::App* command = app.add_subcommand("record",
                                         "Write the depths of queues over time as CSV and as a picture: weftctl "
                                         "record\n-w FILE [--svg FILE] [--port PORT] "
                                         "...; see weftctl record --help");
  command->add_option("-w,--write", options.file, "CSV file, replaced when it exists; - is stdout")
      ->option_text("FILE");
  command->add_option("--svg", options.svg, "Picture, replaced when it exists; written at the end")
      ->option_text("FILE");
  command->add_option("--switch", options.switch_name, "Only this switch; without it, all")->option_text("NAME");
  add_choice(*command, "--port", options.record.ports, "Only this port: h1, or tor1/h1", "PORT");
  add_choice(*command, "--queue", options.record.queues, "Only this queue: 0 to 7", "QUEUE");
  command->add_option("--rate-hz", options.rate_hz, "Samples a second (default: 10000)")
      ->option_text("N")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--count", options.record.max_samples, "End after so many samples")
      ->option_text("N")
      ->check(at_least(1));
  command->add_option("--duration-s", options.duration_s, "End after so many seconds")
      ->option_text("SECONDS")
      ->check(CLI::Range(0.001, kLongestS));
  command
      ->add_option("--buffer-mib", options.record.buffer_mib,
                   "Memory for samples that were not fetched yet, in MiB (default: 16)")
      ->option_text("N")
      ->check(CLI::Range(1U, 256U));
  command->footer(kRecordFooter);
  command->callback([&options] { options.command = Request::record; });
}

void add_clear(CLI::App& app, RequestOptions& options) {
  CLI::App* command =
      app.add_subcommand("clear",
                         "Let tables count from zero: weftctl clear [TABLE...] [--switch NAME];\nsee weftctl "
                         "clear --help");
  command
      ->add_option("tables", options.tables,
                   "ports, stages, drops, port_drops, counters, latency, qps, impair; none: all")
      ->option_text("TABLE");
  command->add_option("--switch", options.switch_name, "Only this switch; without it, all")->option_text("NAME");
  command->footer(kClearFooter);
  command->callback([&options] { options.command = Request::clear; });
}

void add_set(CLI::App& app, RequestOptions& options) {
  CLI::App* command = app.add_subcommand("set", "Change a setting of the running process; see weftctl set --help");
  command->add_option("setting", options.set.name, "What to change; below")->required()->option_text("SETTING");
  command->add_option("words", options.set.words, "To what")->option_text("WORDS");
  command->add_option("--switch", options.switch_name, "Only this switch; without it, all")->option_text("NAME");
  command->footer(kSetFooter);
  command->callback([&options] { options.command = Request::set; });
}

constexpr const char* kStageFooter =
    R"(Runs a command of a stage; `weftctl commands` lists them with their arguments. The word `command` may be left out
where the stage's name is no command of weftctl: weftctl STAGE VERB KEY=VALUE...

Examples:
  weftctl commands
  weftctl command lb set policy=ecmp --switch leaf1)";

void add_stage(CLI::App& app, RequestOptions& options) {
  CLI::App* command =
      app.add_subcommand("command",
                         "Run a command of a stage: weftctl command STAGE VERB\n[KEY=VALUE...] [--switch "
                         "NAME]; see weftctl commands");
  command->add_option("stage", options.stage.stage, "The stage")->required()->option_text("STAGE");
  command->add_option("verb", options.stage.verb, "What it is to do")->required()->option_text("VERB");
  command->add_option("words", options.stage.words, "Arguments")->option_text("KEY=VALUE");
  command->add_option("--switch", options.switch_name, "Only this switch; without it, all")->option_text("NAME");
  command->footer(kStageFooter);
  command->callback([&options] { options.command = Request::stage; });
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void add_requests(CLI::App& app, RequestOptions& options) {
  add_capture(app, options);
  add_trace(app, options);
  add_record(app, options);
  add_clear(app, options);
  add_set(app, options);
  add_stage(app, options);
}

std::optional<std::string> finish_request(RequestOptions& options) {
  capture::Query& query = options.command == Request::trace ? options.trace.query : options.capture.query;
  for (const std::string& text : options.psns) {
    const std::size_t dash = text.find('-');
    const auto first = number(std::string_view(text).substr(0, dash));
    const auto last = dash == std::string::npos ? first : number(std::string_view(text).substr(dash + 1));
    if (!first || !last) return "--psn: '" + text + "' is neither a PSN nor a range like 1000-1010";
    query.psns.push_back({*first, *last});
  }
  const auto duration_ms = static_cast<std::uint64_t>(std::ceil(options.duration_s * 1000));
  options.capture.duration_ms = options.trace.duration_ms = options.record.duration_ms = duration_ms;
  options.record.switch_name = options.switch_name;
  options.record.period_ns = static_cast<std::uint64_t>(std::llround(1e9 / options.rate_hz));
  if (options.command == Request::record && options.file.empty() && options.svg.empty()) {
    return "record writes nothing without -w FILE or --svg FILE";
  }
  options.set.switch_name = options.stage.switch_name = options.switch_name;
  return std::nullopt;
}

}  // namespace weft::weftctl
