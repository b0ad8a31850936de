// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/options.h"

#include <algorithm>
#include <set>

#include "switch/config/schema/prefixes.h"
#include "switch/config/schema/suggest.h"
#include "switch/pipeline/find.h"
#include "switch/stages/lb/gemma_report.h"
#include "switch/stages/lb/held_room.h"
#include "switch/stages/lb/tag.h"

namespace weft::stages {

using config::Diagnostics;
using config::Schema;
using config::Value;
using pipeline::PortInfo;
using pipeline::SwitchInfo;

namespace {

constexpr std::int64_t kMostLeaves = 65'535;
constexpr std::int64_t kMostUs = 100'000;  ///< ConweaveTime tells differences up to 268 ms apart

void check_uplinks(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  const Value& uplinks = options["uplinks"];
  if (!options.has("leaf") && !options.has("gemma")) {
    if (!uplinks.list().empty()) diagnostics.error(uplinks.mark(), "uplinks: a switch without 'leaf' has none");
    return;
  }
  if (uplinks.list().empty() && options.has("leaf")) {
    diagnostics.error(options["leaf"].mark(), "leaf: a leaf needs uplinks, the ports that lead to other switches");
  }
  if (uplinks.list().size() > CongestionTables::kPaths) {
    diagnostics.error(uplinks.mark(), "uplinks: at most " + std::to_string(CongestionTables::kPaths));
  }
  pipeline::check_uplink_names(uplinks, info, diagnostics);
}

struct Claimed {
  wire::IpPrefix prefix;
  std::int64_t leaf;
};

// Prefixes either have no address in common, or one holds the other.
void check_prefix(const Value& item, std::int64_t leaf, std::vector<Claimed>& claimed, Diagnostics& diagnostics) {
  const auto prefix = wire::IpPrefix::parse(item.string());
  if (!prefix) return;  // the schema has refused it
  config::check_host_bits("prefixes", item, diagnostics);
  for (const Claimed& other : claimed) {
    if (!other.prefix.contains(prefix->address) && !prefix->contains(other.prefix.address)) continue;
    diagnostics.error(item.mark(), "prefixes: " + prefix->to_string() + " overlaps " + other.prefix.to_string() +
                                       " of leaf " + std::to_string(other.leaf));
  }
  claimed.push_back({*prefix, leaf});
}

void check_leaves(const Value& options, Diagnostics& diagnostics) {
  const Value& leaves = options["leaves"];
  std::set<std::int64_t> ids;
  std::vector<Claimed> claimed;
  for (const Value& leaf : leaves.list()) {
    const std::int64_t id = leaf["id"].integer();
    if (!ids.insert(id).second) {
      diagnostics.error(leaf["id"].mark(), "leaves: leaf " + std::to_string(id) + " stands twice");
    }
    for (const Value& item : leaf["prefixes"].list()) check_prefix(item, id, claimed, diagnostics);
  }
  if (!options.has("leaf")) {
    const bool unused = !leaves.list().empty() && !options.has("gemma");
    if (unused) diagnostics.error(leaves.mark(), "leaves: only a switch with 'leaf' uses them");
  } else if (!ids.contains(options["leaf"].integer())) {
    diagnostics.error(options["leaf"].mark(),
                      "leaf: " + std::to_string(options["leaf"].integer()) + " is none of 'leaves'");
  }
}

// CONGA's metric is a share of the link's rate, so that the rate must be known.
void check_rates(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  if (options.has("link_mbps") || options.has("gemma")) return;
  const auto uses = [&](const PortInfo& port) {
    const Value::List& uplinks = options["uplinks"].list();
    return !options.has("leaf") ||
           std::any_of(uplinks.begin(), uplinks.end(), [&](const Value& name) { return name.string() == port.name; });
  };
  for (const PortInfo& port : info.ports) {
    if (port.rate_mbps != 0 || !uses(port)) continue;
    diagnostics.error(options.mark(),
                      "lb_tag: port '" + port.name + "' has no rate_mbps: 'link_mbps' says what such links carry");
    return;
  }
}

void note_mtu(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  if (options.has("gemma")) return;
  std::uint32_t largest = 0;
  std::set<std::string> uplinks;
  for (const Value& name : options["uplinks"].list()) uplinks.insert(name.string());
  for (const PortInfo& port : info.ports) {
    if (!uplinks.contains(port.name)) largest = std::max(largest, port.mtu_bytes);
  }
  for (const Value& name : options["uplinks"].list()) {
    const PortInfo* port = pipeline::find_port(info, name.string());
    if (port == nullptr || port->mtu_bytes == 0 || port->mtu_bytes >= largest + kTagBytes) continue;
    diagnostics.note(name.mark(), "uplinks: port '" + name.string() + "' has mtu_bytes " +
                                      std::to_string(port->mtu_bytes) + ": packets of hosts above " +
                                      std::to_string(port->mtu_bytes - kTagBytes) + " bytes leave without a tag");
  }
}

// Defaults are those of the authors' simulations in a leaf-spine of 100 Gbit/s whose ToRs are 4 us apart.
Schema conweave_schema() {
  using Key = Schema::Key;
  const auto us = [](const char* name, std::int64_t by_default, const char* text) {
    return Key::with_default(name, Schema::integer(1, kMostUs), Value(by_default), text);
  };
  const auto number = [](const char* name, std::int64_t by_default, std::int64_t least, std::int64_t most,
                         const char* text) {
    return Key::with_default(name, Schema::integer(least, most), Value(by_default), text);
  };
  return Schema::map({
      us("reply_us", 8, "A path whose reply takes longer is left: the round trip of ToRs without queues, and 4 more."),
      us("pause_us", 16, "A path is not taken for so long after a leaf has told that it is congested."),
      us("expiry_us", 300, "A flow that was silent for longer has nothing under way, and may take any path."),
      us("wait_us", 200, "Rerouted packets wait so long for the TAIL where nothing is known of their old path."),
      us("extra_us", 16, "They wait so much longer than the TAIL should take."),
      us("bound_us", 400, "No packet waits longer; less than the retransmission timeout of the senders."),
      us("notify_us", 8, "A leaf tells of a path that marks packets so often."),
      number("max_flows", 1 << 14, kFlowWays, 1 << 24,
             "Flows that one worker keeps, at each edge, 64 bytes each, a multiple of 4."),
      number("queues", 128, 1, 1 << 15, "Flows of which packets may wait, of each worker."),
      number("queue_packets", 512, 1, 1 << 20, "Packets that may wait, of one flow."),
      number("max_packets", 4096, 1, 1 << 20, "The same of each worker. What does not fit goes on at once."),
      number("max_kb", 1024, 1, 1 << 22, "KiB of frames that may wait, of each worker."),
      Key::optional_key("max_port_kb", Schema::integer(1, 1 << 22),
                        "KiB of frames that came in by one uplink and may wait, of each worker; default: max_kb."),
      number("reply_dscp", 48, 0, 63, "DSCP of replies: a class without queues."),
  });
}

LbTagOptions::Conweave read_conweave(const Value& options) {
  const auto ns = [&](const char* name) { return options[name].unsigned_integer() * 1000; };
  const auto number = [&](const char* name) { return static_cast<std::uint32_t>(options[name].unsigned_integer()); };
  return {.source = {.reply_ns = ns("reply_us"), .expiry_ns = ns("expiry_us"), .flows = number("max_flows")},
          .destination = {.wait_ns = ns("wait_us"),
                          .extra_ns = ns("extra_us"),
                          .bound_ns = ns("bound_us"),
                          // Longer than any flow may be silent within an epoch.
                          .age_ns = 4 * std::max(ns("expiry_us"), ns("bound_us")),
                          .flows = number("max_flows"),
                          .queues = number("queues"),
                          .queue_packets = number("queue_packets"),
                          .max_packets = number("max_packets"),
                          .max_bytes = options["max_kb"].unsigned_integer() * 1024},
          .max_port_bytes = most_port_bytes(options),
          .pause_ns = ns("pause_us"),
          .notify_ns = ns("notify_us"),
          .reply_dscp = static_cast<std::uint8_t>(number("reply_dscp"))};
}

void check_conweave(const Value& options, Diagnostics& diagnostics) {
  if (!options.has("conweave")) return;
  const Value& conweave = options["conweave"];
  if (!options.has("leaf")) diagnostics.error(conweave.mark(), "conweave: only a switch with 'leaf' has edges");
  if (conweave["max_flows"].unsigned_integer() % kFlowWays != 0) {
    diagnostics.error(conweave["max_flows"].mark(), "conweave: max_flows must be a multiple of 4");
  }
  if (conweave["expiry_us"].integer() <= conweave["reply_us"].integer()) {
    diagnostics.error(conweave["expiry_us"].mark(),
                      "conweave: expiry_us must be above reply_us, " + std::to_string(conweave["reply_us"].integer()));
  }
  if (conweave["bound_us"].integer() < conweave["extra_us"].integer()) {
    diagnostics.error(conweave["bound_us"].mark(), "conweave: bound_us must be at least extra_us, " +
                                                       std::to_string(conweave["extra_us"].integer()));
  }
}

// The paper has no numbers. Those of ours fit the baselines' fabric: 100 Gbit/s, marks from 100 KB on.
Schema gemma_schema() {
  using Key = Schema::Key;
  const auto number = [](const char* name, std::int64_t by_default, std::int64_t least, std::int64_t most,
                         const char* text) {
    return Key::with_default(name, Schema::integer(least, most), Value(by_default), text);
  };
  const Schema downlink = Schema::map({
      Key::required_key("port", Schema::name(), "A port towards leaves: reports go to the switch behind it."),
      Key::required_key("leaves", Schema::list(Schema::integer(1, kMostLeaves), 1), "Ids of the leaves behind it."),
  });
  return Schema::map({
      Key::with_default("downlinks", Schema::list(downlink), Value(Value::List{}),
                        "Of a switch that is no leaf: all ports towards leaves."),
      Key::with_default("up", Schema::boolean(), Value(true),
                        "Such a switch with uplinks also reports to the switches above what waits in its downlinks: "
                        "they add it to what they tell."),
      number("period_us", 5, 1, 10'000'000, "Such a switch looks at its queues so often, and reports no more often."),
      number("most_us", 40, 1, 10'000'000, "While all queues are short the interval of reports doubles up to this."),
      number("high_kb", 100, 1, 1 << 20, "With a longer queue each look is reported; below half of it all are short."),
      number("report_dscp", 48, 0, 63, "DSCP of reports: a class without queues."),
      number("scan_us", 5, 0, 10'000'000,
             "Of a switch with uplinks: it takes over what it was told so often; 0: at once."),
      number("age_us", 0, 0, 60'000'000, "What was told longer ago counts as 0; 0: it counts until it is told anew."),
  });
}

LbTagOptions::Gemma read_gemma(const Value& options, const SwitchInfo& info) {
  const auto ns = [&](const char* name) { return options[name].unsigned_integer() * kUs; };
  LbTagOptions::Gemma gemma{.reporter = {.period_ns = ns("period_us"),
                                         .most_ns = ns("most_us"),
                                         .high_bytes = options["high_kb"].unsigned_integer() * 1000},
                            .table = {.scan_ns = ns("scan_us"), .age_ns = ns("age_us")},
                            .report_dscp = static_cast<std::uint8_t>(options["report_dscp"].unsigned_integer())};
  gemma.up = options["up"].boolean();
  for (const Value& downlink : options["downlinks"].list()) {
    const PortInfo* port = pipeline::find_port(info, downlink["port"].string());
    if (port == nullptr) continue;
    LbTagOptions::Gemma::Downlink read{port->index, {}};
    for (const Value& leaf : downlink["leaves"].list()) {
      read.leaves.push_back(static_cast<std::uint16_t>(leaf.integer()));
    }
    gemma.downlinks.push_back(std::move(read));
  }
  return gemma;
}

void check_downlinks(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  std::set<std::string> ports;
  std::set<std::int64_t> known, told;
  for (const Value& name : options["uplinks"].list()) ports.insert(name.string());
  const std::vector<std::string> names = pipeline::port_names(info);
  for (const Value& leaf : options["leaves"].list()) known.insert(leaf["id"].integer());
  for (const Value& downlink : options["gemma"]["downlinks"].list()) {
    const Value& port = downlink["port"];
    if (pipeline::find_port(info, port.string()) == nullptr) {
      diagnostics.error(
          port.mark(), "port: unknown port " + config::quote(port.string()) + config::suggestion(port.string(), names));
    }
    if (!ports.insert(port.string()).second) {
      diagnostics.error(port.mark(), "downlinks: port '" + port.string() + "' stands twice, or is an uplink");
    }
    for (const Value& leaf : downlink["leaves"].list()) {
      told.insert(leaf.integer());
      if (known.empty() || known.contains(leaf.integer())) continue;
      diagnostics.error(leaf.mark(), "downlinks: leaf " + std::to_string(leaf.integer()) + " is none of 'leaves'");
    }
  }
  if (std::max(known.size(), told.size()) > kMaxReportEntries) {
    diagnostics.error(options["gemma"].mark(),
                      "gemma: a report has room for " + std::to_string(kMaxReportEntries) + " leaves");
  }
}

void check_gemma_reports(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  if (!options.has("gemma")) return;
  const Value& gemma = options["gemma"];
  const bool reports = !gemma["downlinks"].list().empty();
  if (options.has("conweave")) diagnostics.error(gemma.mark(), "gemma: a switch has either this or conweave");
  if (gemma["most_us"].integer() < gemma["period_us"].integer()) {
    diagnostics.error(gemma["most_us"].mark(),
                      "gemma: most_us must be at least period_us, " + std::to_string(gemma["period_us"].integer()));
  }
  if (options.has("leaf") && reports) {
    diagnostics.error(gemma["downlinks"].mark(), "downlinks: a leaf has hosts below, which get no reports");
  }
  if (!options.has("leaf") && !reports) {
    diagnostics.error(gemma.mark(), "gemma: a switch without 'leaf' needs downlinks, to which it reports");
  }
  if (!options.has("leaf") && !options["uplinks"].list().empty() && options["leaves"].list().empty()) {
    diagnostics.error(options["uplinks"].mark(), "leaves: a switch that chooses among uplinks needs them");
  }
  check_downlinks(options, info, diagnostics);
}

}  // namespace

Schema lb_tag_options_schema() {
  using Key = Schema::Key;
  const Schema leaf = Schema::map({
      Key::required_key("id", Schema::integer(1, kMostLeaves), "Number of the leaf, the same in the whole fabric."),
      Key::required_key("prefixes", Schema::list(Schema::prefix(), 1), "Addresses of the hosts behind it."),
  });
  return Schema::map({
      Key::optional_key("leaf", Schema::integer(1, kMostLeaves),
                        "Which of 'leaves' this switch is: it puts tags on and takes them off. Without it, a switch "
                        "between leaves: it notes the congestion of its links in tags that pass."),
      Key::with_default("uplinks", Schema::list(Schema::name()), Value(Value::List{}),
                        "Ports of a leaf that lead to other switches. Tags from other ports are forged. With "
                        "gemma also those of another switch, towards switches that report to it."),
      Key::with_default("leaves", Schema::list(leaf), Value(Value::List{}),
                        "All leaves of the fabric, this one included. They take tags off."),
      Key::optional_key("link_mbps", Schema::integer(1, 10'000'000),
                        "Rate of links whose ports have no rate_mbps, in Mbit/s."),
      Key::with_default("dre_period_us", Schema::integer(1, 1'000'000), Value(50),
                        "T_dre: how often estimators of links forget a part of what they have seen."),
      Key::with_default("dre_alpha", Schema::number(0.01, 0.99), Value(0.2), "That part."),
      Key::with_default("clamp", Schema::boolean(), Value(true),
                        "Metrics end at 7, 3 bits; false: at 255, so that overloaded links differ, as in a public "
                        "model."),
      Key::with_default("age_us", Schema::integer(1, 60'000'000), Value(500),
                        "A metric that was told longer ago counts as 0."),
      Key::optional_key(
          "conweave", conweave_schema(),
          "ConWeave at both edges, for policy conweave of lb; all leaves have the same. {} for defaults."),
      Key::optional_key("gemma", gemma_schema(),
                        "Reports of queue lengths, for policy gemma of lb, on all switches; instead of tags. {} for "
                        "the defaults of a leaf."),
  });
}

LbTagOptions lb_tag_options(const Value& options, const SwitchInfo& info) {
  LbTagOptions result;
  if (options.has("leaf")) result.leaf = static_cast<std::uint16_t>(options["leaf"].integer());
  for (const Value& name : options["uplinks"].list()) {
    if (const PortInfo* port = pipeline::find_port(info, name.string()); port != nullptr)
      result.uplinks.push_back(port->index);
  }
  for (const Value& leaf : options["leaves"].list()) {
    result.leaves.push_back({static_cast<std::uint16_t>(leaf["id"].integer()), config::prefixes_of(leaf["prefixes"])});
  }
  if (options.has("link_mbps")) result.link_mbps = options["link_mbps"].unsigned_integer();
  result.rules = {.period_ns = options["dre_period_us"].unsigned_integer() * 1000,
                  .alpha = options["dre_alpha"].number(),
                  .clamped = options["clamp"].boolean(),
                  .age_ns = options["age_us"].unsigned_integer() * 1000};
  if (result.leaf && options.has("conweave")) result.conweave = read_conweave(options["conweave"]);
  if (options.has("gemma")) result.gemma = read_gemma(options["gemma"], info);
  return result;
}

void check_lb_tag_options(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  check_uplinks(options, info, diagnostics);
  check_leaves(options, diagnostics);
  check_rates(options, info, diagnostics);
  check_conweave(options, diagnostics);
  check_gemma_reports(options, info, diagnostics);
  note_mtu(options, info, diagnostics);
}

}  // namespace weft::stages
