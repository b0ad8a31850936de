// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/options.h"

#include <algorithm>
#include <set>

#include "switch/pipeline/find.h"
#include "switch/stages/lb/tag.h"

namespace weft::stages {

using config::Diagnostics;
using config::Schema;
using config::Value;
using pipeline::PortInfo;
using pipeline::SwitchInfo;

namespace {

constexpr std::int64_t kMostLeaves = 65'535;

void check_uplinks(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  const Value& uplinks = options["uplinks"];
  if (!options.has("leaf")) {
    if (!uplinks.list().empty()) diagnostics.error(uplinks.mark(), "uplinks: a switch without 'leaf' has none");
    return;
  }
  if (uplinks.list().empty()) {
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
  if (prefix->network() != *prefix) {
    diagnostics.error(item.mark(), "prefixes: expected " + prefix->network().to_string() + ", found " +
                                       prefix->to_string() + ", which has host bits");
  }
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
    if (!leaves.list().empty()) diagnostics.error(leaves.mark(), "leaves: only a switch with 'leaf' uses them");
  } else if (!ids.contains(options["leaf"].integer())) {
    diagnostics.error(options["leaf"].mark(),
                      "leaf: " + std::to_string(options["leaf"].integer()) + " is none of 'leaves'");
  }
}

// A metric is a share of a rate.
void check_rates(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  if (options.has("link_mbps")) return;
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

// Who looks at packets when they have their tag already.
void check_pipeline(const SwitchInfo& info, Diagnostics& diagnostics) {
  if (const pipeline::StageSpec* pnp = pipeline::find_stage(info, "pnp"); pnp != nullptr) {
    diagnostics.error(pnp->mark, "pnp: looks for marked RoCE packets at the egress, where lb_tag hides them");
  }
}

void note_mtu(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
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
                        "Ports of a leaf that lead to other switches. Tags from other ports are forged."),
      Key::with_default("leaves", Schema::list(leaf), Value(Value::List{}),
                        "All leaves of the fabric that take tags off, this one included."),
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
    LbTagOptions::Leaf read{static_cast<std::uint16_t>(leaf["id"].integer()), {}};
    for (const Value& prefix : leaf["prefixes"].list()) {
      read.prefixes.push_back(*wire::IpPrefix::parse(prefix.string()));
    }
    result.leaves.push_back(std::move(read));
  }
  if (options.has("link_mbps")) result.link_mbps = options["link_mbps"].unsigned_integer();
  result.rules = {.period_ns = options["dre_period_us"].unsigned_integer() * 1000,
                  .alpha = options["dre_alpha"].number(),
                  .clamped = options["clamp"].boolean(),
                  .age_ns = options["age_us"].unsigned_integer() * 1000};
  return result;
}

void check_lb_tag_options(const Value& options, const SwitchInfo& info, Diagnostics& diagnostics) {
  check_uplinks(options, info, diagnostics);
  check_leaves(options, diagnostics);
  check_rates(options, info, diagnostics);
  check_pipeline(info, diagnostics);
  note_mtu(options, info, diagnostics);
}

}  // namespace weft::stages
