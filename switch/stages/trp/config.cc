// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <bit>
#include <cmath>
#include <string>

#include "switch/config/schema/prefixes.h"
#include "switch/stages/rdma_track/known.h"
#include "switch/stages/trp/options.h"

namespace weft::stages {

using config::Diagnostics;
using config::Schema;
using config::Value;

namespace {

Schema loop_ecn_schema() {
  using Key = Schema::Key;
  return Schema::map({
      Key::required_key("kmin_kb", Schema::number(0, 1e6),
                        "Thousands of bytes that wait for the loop port from which on packets are marked."),
      Key::required_key("kmax_kb", Schema::number(0, 1e6), "Thousands of bytes beyond which every packet is marked."),
      Key::with_default("pmax", Schema::number(0, 1), Value(0.2), "Probability at kmax_kb."),
      Key::with_default("notify", Schema::boolean(), Value(false),
                        "true: the source gets a CNP at once instead, as where PNP looks at the loop port as well; the "
                        "packet goes on without a mark."),
      Key::with_default("cnp_interval_us", Schema::number(0, 1e6), Value(7.0),
                        "notify: least microseconds between two CNPs of a flow."),
  });
}

}  // namespace

Schema trp_options_schema() {
  using Key = Schema::Key;
  return Schema::map({
      Key::required_key("remote", Schema::list(Schema::prefix(), 1),
                        "Prefixes of the other data centres: flows from there to here are slowed down when their "
                        "receivers send CNPs."),
      Key::with_default("enabled", Schema::boolean(), Value(true), "false: nothing is held."),
      Key::with_default("mode", Schema::one_of({"recirculate", "pace"}), Value("recirculate"),
                        "recirculate: packets go round through a loop port, as in the paper; pace: each flow has a "
                        "token bucket."),
      Key::with_default("pace_law", Schema::one_of({"loops", "halves"}), Value("loops"),
                        "pace: what loops make of the rate that a flow came with. loops: by 1 + loops; halves: half of "
                        "it with each loop, as at a sender with DCQCN whose alpha is still near 1."),
      Key::with_default("pace_at", Schema::one_of({"arrival", "departure"}), Value("arrival"),
                        "pace: which rate a packet leaves with. arrival: the one that its flow had when it came; "
                        "departure: the one that it has when its turn comes."),
      Key::with_default("rule", Schema::one_of({"text", "algorithm1", "code"}), Value("text"),
                        "When a CNP adds a loop. text: the first, then every alpha-th; algorithm1: as the paper prints "
                        "it; code: as the authors' simulation does."),
      Key::with_default("signals", Schema::list(Schema::one_of({"cnp", "telemetry", "rtt"}), 1),
                        Value(Value::List{Value("cnp")}),
                        "What tells of congestion near a receiver. cnp: its CNPs; telemetry: what it sends back of "
                        "ports behind this switch (HPCC); rtt: round trips from here to it (TIMELY, Swift). The last "
                        "two count as CNPs."),
      Key::with_default("signal_queue_kb", Schema::integer(1, 2000), Value(100),
                        "telemetry: a port's queue of at least so many thousands of bytes is congestion."),
      Key::with_default("signal_rtt_us", Schema::number(0.1, 1e6), Value(50.0),
                        "rtt: a round trip of at least so many microseconds is congestion. The T_low of TIMELY."),
      Key::with_default("signal_interval_us", Schema::number(0, 1e6), Value(5.0),
                        "telemetry, rtt: least microseconds between two signals of a flow that count."),
      Key::with_default("alpha", Schema::integer(1, 1 << 20), Value(5), "CNPs per further loop, at first."),
      Key::with_default("beta_us", Schema::number(0, 1e7), Value(500.0),
                        "Microseconds without a CNP after which a flow gets its rate back."),
      Key::with_default("recovery", Schema::one_of({"aligned", "direct", "none"}), Value("aligned"),
                        "aligned: in order; direct: at once, which reorders; none: never."),
      Key::with_default("max_loops", Schema::integer(1, 1 << 20), Value(64), "Loops grow to this many."),
      Key::with_default("max_hold_us", Schema::number(0, 1e7), Value(1000.0),
                        "A packet that was held for so long goes on when its turn comes; 0: no limit. The round trip "
                        "to the source: until then it has heard of the CNP itself."),
      Key::with_default("state_per", Schema::one_of({"flow", "pair"}), Value("flow"),
                        "pair: all flows of two hosts share their state, as in the authors' simulation; it needs no "
                        "queue pair numbers."),
      Key::with_default("hold_acks", Schema::boolean(), Value(true),
                        "ACKs wait with the data that goes the same way, so that none overtakes the responses to a "
                        "READ before it. false: they pass, as in the authors' simulation; with state_per: pair they "
                        "would wait behind the data of other flows."),
      Key::with_default("loop_mbps", Schema::integer(1, 10'000'000), Value(1'600'000),
                        "Rate of the loop port, Mbit/s."),
      Key::with_default("loop_delay_ns", Schema::integer(1, 1'000'000'000), Value(100),
                        "From the end of a packet on the loop port to its return."),
      Key::optional_key("loop_ecn", loop_ecn_schema(),
                        "The loop port marks packets by what waits for it, as the one in the authors' simulation does. "
                        "Left out: it marks nothing."),
      Key::with_default("buffer_kb", Schema::integer(1, 1 << 30), Value(65'536),
                        "Thousands of bytes that may be held. When they are full, all of a flow that needs room goes "
                        "on, in order."),
      Key::with_default("max_packets", Schema::integer(1, 1 << 24), Value(65'536),
                        "Packets that may be held; they take packet buffers."),
      Key::with_default("charge", Schema::boolean(), Value(true),
                        "What is held takes room of the shared buffer, in the priority group that it came in by, and "
                        "pauses its senders as what stands in a queue does. false: it takes packet buffers alone. "
                        "Without qos there is no shared buffer."),
      Key::with_default("max_flows", Schema::integer(1, 1 << 20), Value(1024), "Flows of CNP_Store."),
      Key::with_default("cache", Schema::integer(1, 1 << 20), Value(1024), "Places of CNP_Cache, a power of two."),
      Key::with_default("insert_delay_us", Schema::number(0, 1e7), Value(0.0),
                        "Until the control plane has written a flow into CNP_Store; 0, as a software switch does it: "
                        "CNP_Cache never counts."),
      accept_option(),
  });
}

TrpOptions trp_options(const Value& options) {
  const auto word = [&](const char* key, const char* value) { return options[key].string() == value; };
  const auto ns = [&](const char* key) { return static_cast<TimeNs>(std::llround(options[key].number() * 1000)); };
  const auto count = [&](const char* key) { return static_cast<std::uint32_t>(options[key].unsigned_integer()); };
  TrpOptions result;
  result.enabled = options["enabled"].boolean();
  result.by_pair = word("state_per", "pair");
  result.remote.prefixes = config::prefixes_of(options["remote"]);
  result.sources = {.cnp = false};
  for (const Value& source : options["signals"].list()) {
    const std::string& name = source.string();
    (name == "cnp" ? result.sources.cnp : name == "rtt" ? result.sources.rtt : result.sources.telemetry) = true;
  }
  result.signals = {.flows = count("max_flows"),
                    .queue_bytes = count("signal_queue_kb") * 1000,
                    .rtt_ns = ns("signal_rtt_us"),
                    .interval_ns = ns("signal_interval_us")};
  TrpSettings& s = result.settings;
  s.rules.rule = word("rule", "text") ? TrpRule::text : word("rule", "code") ? TrpRule::code : TrpRule::algorithm1;
  s.rules.alpha = count("alpha");
  s.rules.beta_ns = ns("beta_us");
  s.rules.max_loops = count("max_loops");
  s.mode = word("mode", "pace") ? TrpMode::pace : TrpMode::recirculate;
  s.halves = word("pace_law", "halves");
  s.at_departure = word("pace_at", "departure");
  s.recovery = word("recovery", "aligned")  ? TrpRecovery::aligned
               : word("recovery", "direct") ? TrpRecovery::direct
                                            : TrpRecovery::none;
  s.store = {.flows = count("max_flows"), .cache = count("cache"), .insert_delay_ns = ns("insert_delay_us")};
  s.loop_delay_ns = options["loop_delay_ns"].unsigned_integer();
  s.loop_mbps = options["loop_mbps"].unsigned_integer();
  s.max_hold_ns = ns("max_hold_us");
  s.buffer_bytes = options["buffer_kb"].unsigned_integer() * 1000;
  s.max_packets = count("max_packets");
  result.charge = options["charge"].boolean();
  result.hold_acks = options["hold_acks"].boolean();
  const Value& ecn = options["loop_ecn"];
  if (ecn.is_null()) return result;
  const auto bytes = [&](const char* key) { return static_cast<std::uint64_t>(ecn[key].number() * 1000); };
  result.loop_ecn = {
      .enabled = true,
      .mark = qos::Curve({bytes("kmin_kb"), bytes("kmax_kb"), ecn["pmax"].number()}),
      .notify = ecn["notify"].boolean(),
      .cnp_interval_ns = static_cast<TimeNs>(std::llround(ecn["cnp_interval_us"].number() * 1000)),
  };
  s.tell_passes = true;
  return result;
}

void check_trp_options(const Value& options, const pipeline::SwitchInfo& /*info*/, Diagnostics& diagnostics) {
  for (const Value& item : options["remote"].list()) config::check_host_bits("remote", item, diagnostics);
  if (!std::has_single_bit(options["cache"].unsigned_integer())) {
    diagnostics.error(options["cache"].mark(), "cache: must be a power of two");
  }
  if (trp_options(options).sources.rtt && options["state_per"].string() == "pair") {
    diagnostics.error(options["state_per"].mark(),
                      "state_per: round trips (signals: rtt) are those of single flows, not of pairs of hosts");
  }
  const Value& ecn = options["loop_ecn"];
  if (!ecn.is_null() && ecn["kmin_kb"].number() > ecn["kmax_kb"].number()) {
    diagnostics.error(ecn["kmax_kb"].mark(), "loop_ecn: kmax_kb: expected at least kmin_kb");
  }
  if (!ecn.is_null() && options["mode"].string() == "pace") {
    diagnostics.error(ecn.mark(), "loop_ecn: is for mode recirculate: nothing waits for a loop port with pace");
  }
  if (options["mode"].string() == "pace" && options["recovery"].string() == "direct") {
    diagnostics.error(options["recovery"].mark(),
                      "recovery: direct is for mode recirculate: what is paced is in order");
  }
}

}  // namespace weft::stages
