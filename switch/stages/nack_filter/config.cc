// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <string>

#include "switch/pipeline/find.h"
#include "switch/stages/nack_filter/options.h"
#include "switch/stages/rdma_track/known.h"

namespace weft::stages {

using config::Diagnostics;
using config::Schema;
using config::Value;
using pipeline::SwitchInfo;

namespace {

NackCheck check_of(const std::string& word) {
  if (word == "ring_first") return NackCheck::ring_first;
  if (word == "ring_scan") return NackCheck::ring_scan;
  return word == "hwm" ? NackCheck::hwm : NackCheck::gap;
}

std::uint64_t weight_of(const Value& options, const std::string& port) {
  const Value& weights = options["weights"];
  return !weights.is_null() && weights.has(port) ? weights[port].unsigned_integer() : 1;
}

void check_uplinks(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  const std::set<std::string> seen = pipeline::check_uplink_names(options["uplinks"], info, diagnostics);
  std::uint64_t paths = 0;
  for (const Value& name : options["uplinks"].list()) paths += weight_of(options, name.string());
  const bool no_hosts = std::all_of(info.ports.begin(), info.ports.end(),
                                    [&](const pipeline::PortInfo& port) { return seen.contains(port.name); });
  if (no_hosts) {
    diagnostics.error(options["uplinks"].mark(),
                      "uplinks: every port of the switch is named, so that none leads to a host: leave out those that "
                      "do");
  }
  if (seen.size() > NackRules::kMaxUplinks || paths > NackRules::kMaxPaths) {
    diagnostics.error(options["uplinks"].mark(), "uplinks: at most " + std::to_string(NackRules::kMaxUplinks) +
                                                     " with a sum of weights up to " +
                                                     std::to_string(NackRules::kMaxPaths));
  }
  if (!options.has("weights")) return;
  for (const auto& [name, weight] : options["weights"].map()) {
    if (!seen.contains(name)) diagnostics.error(weight.mark(), "weights: '" + name + "' is not among the uplinks");
  }
}

}  // namespace

Schema nack_options_schema() {
  using Key = Schema::Key;
  return Schema::map({
      Key::required_key("uplinks", Schema::list(Schema::name(), 1),
                        "Ports that lead to the other ToRs, in an order of one's own. All others lead to hosts."),
      Key::optional_key("weights", Schema::dictionary(Schema::integer(1, 64)),
                        "Share of an uplink among unequal paths, by its name, as the sender's ToR has it; 1 where none "
                        "is given."),
      Key::optional_key("paths", Schema::integer(1, NackRules::kMaxPaths),
                        "N of the sender's ToR. Default: the sum of the weights of the uplinks."),
      Key::with_default("enabled", Schema::boolean(), Value(true),
                        "false: every NACK passes, and nothing is recorded."),
      Key::with_default("check", Schema::one_of({"ring_first", "ring_scan", "hwm", "gap"}), Value("gap"),
                        "How a NACK is judged. gap: exact; the others are for comparison, ring_first as published."),
      Key::with_default("guard_us", Schema::integer(0, 60'000'000), Value(1000),
                        "Microseconds after which a blocked NACK is sent on unless the packet is known to have "
                        "arrived; more than path skew, round trip of the last hop and ACK coalescing together. 0: "
                        "never."),
      Key::with_default("on_block", Schema::one_of({"drop", "ack"}), Value("drop"),
                        "drop: a blocked NACK is dropped; ack: it goes on as an ACK of everything before its PSN."),
      Key::with_default("arrival_check", Schema::one_of({"on", "off"}), Value("on"),
                        "Whether the uplinks that packets come in through tell their path: with two tiers."),
      Key::with_default(
          "detect_gbn", Schema::boolean(), Value(true),
          "Finds receivers that keep no early packets (go-back-N): their NACKs pass, and the sender's ToR "
          "sends their packets by ecmp."),
      Key::with_default("window_psns", Schema::integer(64, 65536), Value(1024),
                        "PSNs back to which losses are remembered, a power of two."),
      Key::with_default("ring_entry_bits", Schema::integer(8, 24), Value(8),
                        "8 or 24: bits of a PSN in the queue of checks ring_first and ring_scan."),
      Key::with_default("ring_entries", Schema::integer(1, 65536), Value(100),
                        "Entries of that queue: 1.5 times what is under way on the last hop."),
      Key::with_default("max_qps", Schema::integer(1, 1 << 20), Value(4096),
                        "Queue pairs with state per worker; NACKs of further ones pass."),
      accept_option(),
  });
}

NackOptions nack_options(const Value& options, const SwitchInfo& info) {
  NackOptions result;
  result.enabled = options["enabled"].boolean();
  NackRules& rules = result.rules;
  rules.check = check_of(options["check"].string());
  rules.ring_entry_bits = static_cast<std::uint8_t>(options["ring_entry_bits"].unsigned_integer());
  rules.ring_entries = static_cast<std::uint32_t>(options["ring_entries"].unsigned_integer());
  rules.window_psns = static_cast<std::uint32_t>(options["window_psns"].unsigned_integer());
  rules.arrival_check = options["arrival_check"].string() == "on";
  rules.detect_gbn = options["detect_gbn"].boolean();
  rules.guard_ns = options["guard_us"].unsigned_integer() * 1000;
  rules.uplinks = static_cast<std::uint32_t>(options["uplinks"].list().size());
  result.uplink_of_port.assign(info.ports.size(), NackOptions::kNoUplink);
  rules.paths = 0;
  for (std::uint32_t i = 0; i < rules.uplinks; ++i) {
    const std::string& name = options["uplinks"].list()[i].string();
    result.uplink_of_port[pipeline::find_port(info, name)->index] = static_cast<std::uint8_t>(i);
    rules.weights[i] = static_cast<std::uint8_t>(weight_of(options, name));
    rules.paths += rules.weights[i];
  }
  if (options.has("paths")) rules.paths = static_cast<std::uint32_t>(options["paths"].unsigned_integer());
  result.on_block = options["on_block"].string() == "ack" ? OnBlock::ack : OnBlock::drop;
  result.max_qps = static_cast<std::uint32_t>(options["max_qps"].unsigned_integer());
  return result;
}

void check_nack_options(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  check_uplinks(options, info, diagnostics);
  if (!std::has_single_bit(options["window_psns"].unsigned_integer())) {
    diagnostics.error(options["window_psns"].mark(), "window_psns: must be a power of two");
  }
  const std::uint64_t bits = options["ring_entry_bits"].unsigned_integer();
  if (bits != 8 && bits != 24) diagnostics.error(options["ring_entry_bits"].mark(), "ring_entry_bits: must be 8 or 24");
  const std::uint64_t entries = options["ring_entries"].unsigned_integer();
  if (bits == 8 && entries > 127) {
    diagnostics.error(options["ring_entries"].mark(), "ring_entries: entries of 8 bits tell at most 127 PSNs apart");
  }
}

}  // namespace weft::stages
