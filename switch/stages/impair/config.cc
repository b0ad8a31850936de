// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "switch/config/schema/suggest.h"
#include "switch/pipeline/find.h"
#include "switch/stages/impair/unit.h"
#include "switch/wire/validity.h"

namespace weft::stages {
namespace {

using config::Diagnostics;
using config::Schema;
using config::Value;
using pipeline::SwitchInfo;

constexpr std::uint64_t kKilobyte = 1024;
constexpr double kMaxMicroseconds = 60e6;
constexpr std::array<std::string_view, 4> kEcnNames{"not_ect", "ect1", "ect0", "ce"};       // by code point
constexpr std::array<std::string_view, 4> kAethNames{"ack", "rnr_nak", "reserved", "nak"};  // by AethKind
constexpr std::array<std::string_view, 4> kWhereNames{"any", "header", "payload", "icrc"};  // by CorruptWhere

template <typename Names>
std::size_t index_of(const Names& names, std::string_view name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<std::string> kind_names() {
  std::vector<std::string> out;
  for (std::uint8_t k = 0; k < wire::kFrameKindCount; ++k) {
    out.emplace_back(wire::name(static_cast<wire::FrameKind>(k)));
  }
  return out;
}

std::vector<std::string> opcode_names() {
  std::vector<std::string> out;
  for (unsigned raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    if (wire::opcode_info(opcode).known()) out.emplace_back(wire::opcode_name(opcode));
  }
  return out;
}

std::optional<std::uint8_t> opcode_from(std::string_view name) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    if (wire::opcode_info(opcode).known() && wire::opcode_name(opcode) == name) return opcode;
  }
  return std::nullopt;
}

// --- schema ------------------------------------------------------------------------------------------------------

Schema one_or_more(const Schema& item) {
  return Schema::either(item, Schema::list(item, 1));
}

Schema words(const std::array<std::string_view, 4>& names) {
  return Schema::one_of(std::vector<std::string>(names.begin(), names.end()));
}

Schema match_schema() {
  using Key = Schema::Key;
  const Schema psn = Schema::integer(0, wire::Psn::kMask);
  const Schema range = Schema::map({Key::required_key("first", psn, "First PSN."),
                                    Key::required_key("last", psn, "Last PSN; below the first, the range wraps.")});
  return Schema::map({
      Key::optional_key("ports", Schema::list(Schema::name(), 1), "Ports on which the packet arrived."),
      Key::optional_key("out_ports", Schema::list(Schema::name(), 1),
                        "Ports through which the packet leaves; only behind l2 or l3 (and lb) in the pipeline."),
      Key::optional_key("kind", one_or_more(Schema::one_of(kind_names())), "Kinds of frame."),
      Key::optional_key("src", Schema::prefix(), "Source IP addresses."),
      Key::optional_key("dst", Schema::prefix(), "Destination IP addresses."),
      Key::optional_key("dest_qp", Schema::integer(0, 0xffffff), "Destination QP number of the BTH."),
      Key::optional_key("opcode", one_or_more(Schema::one_of(opcode_names())), "BTH opcodes."),
      Key::optional_key("psn", Schema::either(psn, range), "PSN of the BTH, or a range of them."),
      Key::optional_key("ecn", one_or_more(words(kEcnNames)), "ECN code points."),
      Key::optional_key("dscp", one_or_more(Schema::integer(0, 63)), "DSCP values."),
      Key::optional_key("vlan", Schema::integer(0, pipeline::kMaxVid), "VID of the frame's own 802.1Q tag."),
      Key::optional_key("ack", Schema::boolean(), "true: RC acknowledge packets (ACK and NAK); false: other RoCE."),
      Key::optional_key("aeth", one_or_more(Schema::one_of({"ack", "rnr_nak", "nak"})),
                        "What the AETH says, for packets that have one."),
  });
}

Schema rule_schema() {
  using Key = Schema::Key;
  const Schema ratio = Schema::number(0, 1);
  const Schema time_us = Schema::number(0, kMaxMicroseconds);
  const Schema count = Schema::integer(1, INT64_MAX);
  const Schema kilobytes = Schema::integer(1, static_cast<std::int64_t>(TokenBucket::kMaxBytes / kKilobyte));
  const Schema burst = Schema::map({
      Key::required_key("p", ratio, "Probability per packet that a good channel turns bad."),
      Key::required_key("r", ratio, "Probability per packet that a bad channel turns good."),
      Key::with_default("loss_good", ratio, Value(0.0), "Loss ratio while the channel is good."),
      Key::with_default("loss_bad", ratio, Value(1.0), "Loss ratio while the channel is bad."),
  });
  const Schema corrupt = Schema::map({
      Key::required_key("ratio", ratio, "Ratio of packets in which one bit is flipped."),
      Key::with_default("where", words(kWhereNames), Value("any"), "Where the bit lies."),
  });
  const Schema reorder = Schema::map({
      Key::required_key("ratio", ratio, "Ratio of packets that leave late."),
      Key::required_key("gap_us", Schema::number(0.001, kMaxMicroseconds), "How much later, in microseconds."),
  });
  return Schema::map({
      Key::optional_key("name", Schema::name(), "Shown in the table; default: rule and its index."),
      Key::with_default("enabled", Schema::boolean(), Value(true),
                        "Whether the rule does anything; `weftctl set impair RULE on` changes it while weft runs."),
      Key::with_default("match", match_schema(), Value(Value::Map{}), "Conditions that must all hold; none: all."),
      Key::with_default("after", Schema::integer(0, INT64_MAX), Value(0), "Leaves the first n matching packets alone."),
      Key::optional_key("nth", count, "Acts on the n-th matching packet (behind `after`) only."),
      Key::with_default("every", count, Value(1), "Acts on every n-th matching packet (behind `after`)."),
      Key::optional_key("limit", count, "Acts on at most n packets."),
      Key::with_default("loss", ratio, Value(0.0), "Ratio of packets that are dropped."),
      Key::optional_key("burst_loss", burst, "Loss in bursts, by the model of Gilbert and Elliott."),
      Key::optional_key("corrupt", Schema::either(ratio, corrupt), "Flips one bit of a packet."),
      Key::with_default("duplicate", ratio, Value(0.0), "Ratio of packets that are sent twice."),
      Key::optional_key("rate_mbps", Schema::integer(1, TokenBucket::kMaxRateMbps),
                        "Rate limit in Mbit/s of frames without FCS, preamble and gap."),
      Key::with_default("burst_kb", kilobytes, Value(64), "Depth of the rate's token bucket in units of 1024 bytes."),
      Key::with_default("excess", Schema::one_of({"queue", "drop"}), Value("queue"),
                        "What exceeds the rate waits or is dropped."),
      Key::with_default("queue_kb", kilobytes, Value(1024),
                        "With excess: queue, what waits at most, in units of 1024 bytes; more is dropped."),
      Key::with_default("delay_us", time_us, Value(0.0), "Delay in microseconds."),
      Key::with_default("jitter_us", time_us, Value(0.0),
                        "The delay varies by this much in both directions, uniformly; microseconds."),
      Key::with_default("keep_order", Schema::boolean(), Value(true), "Jitter does not reorder."),
      Key::optional_key("reorder", reorder, "Some packets leave later, so that others overtake them."),
  });
}

// --- values to rules ---------------------------------------------------------------------------------------------

template <typename F>
void for_each(const Value& value, F&& f) {
  value.visit([&](const auto& v) {
    if constexpr (std::is_same_v<std::decay_t<decltype(v)>, Value::List>) {
      for (const Value& item : v) f(item);
    } else if constexpr (!std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
      f(value);
    }
  });
}

bool is_map(const Value& value) {
  return value.visit([](const auto& v) { return std::is_same_v<std::decay_t<decltype(v)>, Value::Map>; });
}

TimeNs nanoseconds(const Value& microseconds) {
  return static_cast<TimeNs>(std::llround(microseconds.number() * 1000));
}

std::optional<std::uint16_t> port_index(const SwitchInfo& info, std::string_view name) {
  for (const auto& port : info.ports) {
    if (port.name == name) return port.index;
  }
  return std::nullopt;
}

std::vector<std::uint16_t> port_indexes(const Value& names, const SwitchInfo& info) {
  std::vector<std::uint16_t> out;
  for (const Value& name : names.list()) out.push_back(port_index(info, name.string()).value());
  return out;
}

wire::Psn psn_of(const Value& value) {
  return wire::Psn(static_cast<std::uint32_t>(value.integer()));
}

ImpairMatch make_match(const Value& v, const SwitchInfo& info) {
  ImpairMatch match;
  if (v.has("ports")) match.in_ports(port_indexes(v["ports"], info));
  if (v.has("out_ports")) match.out_ports(port_indexes(v["out_ports"], info));
  const auto kinds = kind_names();
  for_each(v["kind"], [&](const Value& k) { match.kind(static_cast<wire::FrameKind>(index_of(kinds, k.string()))); });
  if (v.has("src")) match.source(wire::IpPrefix::parse(v["src"].string()).value());
  if (v.has("dst")) match.destination(wire::IpPrefix::parse(v["dst"].string()).value());
  if (v.has("dest_qp")) match.dest_qp(wire::Qpn(static_cast<std::uint32_t>(v["dest_qp"].integer())));
  for_each(v["opcode"], [&](const Value& o) { match.opcode(opcode_from(o.string()).value()); });
  const Value& psn = v["psn"];
  if (!psn.is_null()) {
    const bool range = is_map(psn);
    match.psn(psn_of(range ? psn["first"] : psn), psn_of(range ? psn["last"] : psn));
  }
  for_each(v["ecn"], [&](const Value& e) { match.ecn(static_cast<std::uint8_t>(index_of(kEcnNames, e.string()))); });
  for_each(v["dscp"], [&](const Value& d) { match.dscp(static_cast<std::uint8_t>(d.integer())); });
  if (v.has("vlan")) match.vlan(static_cast<std::uint16_t>(v["vlan"].integer()));
  if (v.has("ack")) match.ack(v["ack"].boolean());
  for_each(v["aeth"],
           [&](const Value& a) { match.aeth(static_cast<wire::AethKind>(index_of(kAethNames, a.string()))); });
  return match;
}

Ratio ratio_of(const Value& value) {
  return Ratio::from_double(value.number());
}

void set_faults(ImpairRule& rule, const Value& v) {
  rule.loss = ratio_of(v["loss"]);
  if (const Value& burst = v["burst_loss"]; !burst.is_null()) {
    rule.burst_loss = GilbertElliott{ratio_of(burst["p"]), ratio_of(burst["r"]), ratio_of(burst["loss_good"]),
                                     ratio_of(burst["loss_bad"])};
  }
  if (const Value& corrupt = v["corrupt"]; is_map(corrupt)) {
    rule.corrupt = ratio_of(corrupt["ratio"]);
    rule.corrupt_where = static_cast<CorruptWhere>(index_of(kWhereNames, corrupt["where"].string()));
  } else if (!corrupt.is_null()) {
    rule.corrupt = ratio_of(corrupt);
  }
  rule.duplicate = ratio_of(v["duplicate"]);
}

void set_timing(ImpairRule& rule, const Value& v) {
  if (v.has("rate_mbps")) {
    rule.rate_mbps = v["rate_mbps"].unsigned_integer();
    rule.burst_bytes = v["burst_kb"].unsigned_integer() * kKilobyte;
    rule.queue_bytes = v["excess"].string() == "queue" ? v["queue_kb"].unsigned_integer() * kKilobyte : 0;
  }
  rule.delay_ns = nanoseconds(v["delay_us"]);
  rule.jitter_ns = nanoseconds(v["jitter_us"]);
  rule.keep_order = v["keep_order"].boolean();
  if (const Value& reorder = v["reorder"]; !reorder.is_null()) {
    rule.reorder = ratio_of(reorder["ratio"]);
    rule.reorder_gap_ns = nanoseconds(reorder["gap_us"]);
  }
}

ImpairRule make_rule(const Value& v, std::size_t index, const SwitchInfo& info) {
  ImpairRule rule;
  rule.name = v.has("name") ? v["name"].string() : "rule" + std::to_string(index);
  rule.match = make_match(v["match"], info);
  rule.after = v["after"].unsigned_integer();
  if (v.has("nth")) rule.nth = v["nth"].unsigned_integer();
  rule.every = v["every"].unsigned_integer();
  if (v.has("limit")) rule.limit = v["limit"].unsigned_integer();
  if (!v["enabled"].boolean()) rule.limit = 0;  // it still counts what matches
  set_faults(rule, v);
  set_timing(rule, v);
  return rule;
}

// --- checks ------------------------------------------------------------------------------------------------------

void check_ports(const Value& names, const SwitchInfo& info, Diagnostics& diagnostics) {
  const std::vector<std::string> known = pipeline::port_names(info);
  for_each(names, [&](const Value& name) {
    if (port_index(info, name.string())) return;
    diagnostics.error(name.mark(), "unknown port '" + name.string() + "'" + config::suggestion(name.string(), known));
  });
}

void check_rule(const Value& rule, const SwitchInfo& info, Diagnostics& diagnostics) {
  const Value& match = rule["match"];
  check_ports(match["ports"], info, diagnostics);
  check_ports(match["out_ports"], info, diagnostics);
  if (rule["jitter_us"].number() > rule["delay_us"].number()) {
    diagnostics.error(rule["jitter_us"].mark(), "jitter_us is larger than delay_us");
  }
  if (!rule.has("rate_mbps")) return;
  const std::uint64_t burst = rule["burst_kb"].unsigned_integer() * kKilobyte;
  for (const auto& port : info.ports) {
    if (rule["excess"].string() != "drop" || port.mtu_bytes == 0 || port.max_frame_bytes() <= burst) continue;
    diagnostics.error(rule["burst_kb"].mark(), "burst_kb is smaller than the largest frame of port '" + port.name +
                                                   "': such frames would never pass");
  }
}

}  // namespace

Schema impair_options() {
  using Key = Schema::Key;
  return Schema::map({
      Key::with_default("rules", Schema::list(rule_schema()), Value(Value::List{}),
                        "Every packet goes through the rules in order."),
      Key::with_default("max_held", Schema::integer(1, 1 << 20), Value(4096),
                        "Packets that a worker holds back at most; more are dropped (impair_queue_full)."),
  });
}

void check_impair_options(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  const auto& rules = options["rules"].list();
  if (rules.size() > ImpairUnit::kMaxRules) {
    diagnostics.error(options["rules"].mark(), "more than " + std::to_string(ImpairUnit::kMaxRules) + " rules");
  }
  for (const Value& rule : rules) check_rule(rule, info, diagnostics);
}

std::vector<pipeline::OptionOrder> impair_order(const Value& options) {
  std::vector<pipeline::OptionOrder> out;
  for (const Value& rule : options["rules"].list()) {
    const Value& match = rule["match"];
    if (!match.has("out_ports")) continue;
    const char* why = "it may choose the port";
    out.push_back({.mark = match["out_ports"].mark(),
                   .what = "out_ports",
                   .needs = {"forward"},
                   .after = {{"l2", why}, {"l3", why}, {"lb", why}}});
  }
  return out;
}

std::vector<ImpairRule> make_impair_rules(const Value& options, const SwitchInfo& info) {
  std::vector<ImpairRule> out;
  for (const Value& rule : options["rules"].list()) out.push_back(make_rule(rule, out.size(), info));
  return out;
}

}  // namespace weft::stages
