// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/stage.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "switch/pipeline/find.h"
#include "switch/pipeline/set_words.h"
#include "switch/stages/lb/flowlets.h"
#include "switch/stages/lb/member_hash.h"
#include "switch/stages/lb/shared.h"
#include "switch/stages/rdma_track/known.h"

namespace weft::stages {

using config::Schema;
using config::Value;
using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;

void LbStage::ingress(Context& context, Batch& batch) {
  GroupedPacket packets[Batch::kCapacity];
  const auto [grouped, chosen] = choice_.find(context, batch, packets);
  if (grouped != 0) balance(context, batch, {packets, grouped});
  const std::uint32_t balanced = grouped + chosen;
  if (balanced != 0) counters_.add(LbCounter::balanced, balanced);
}

void LbStage::balance(Context& context, Batch& batch, std::span<GroupedPacket> packets) noexcept {
  LinkView links(context, choice_.next_hops());
  policy_->choose(context, links, packets);
  if (pipeline::PathReason* const reason = context.reason()) [[unlikely]]
    policy_->explain(context, links, packets.front(), *reason);
  const auto lost = std::count_if(packets.begin(), packets.end(),
                                  [](const GroupedPacket& p) { return p.choice == tables::kUnreachable; });
  if (lost != 0) counters_.add(LbCounter::no_member_up, static_cast<std::uint64_t>(lost));
  choice_.forward(context, batch, packets, policy_->keeps_member());
}

namespace {

using PolicyMaker = std::unique_ptr<LbPolicy> (*)(const pipeline::StageBuild&);

// By the words of the option `policy`.
constexpr std::pair<std::string_view, PolicyMaker> kPolicies[] = {
    {"ecmp", make_ecmp_policy},
    {"random", make_random_policy},
    {"adaptive", [](const pipeline::StageBuild&) { return make_adaptive_policy(); }},
    {"drill", make_drill_policy},
    {"letflow", make_letflow_policy},
    {"conga", make_conga_policy},
    {"conweave", make_conweave_policy},
    {"gemma", make_gemma_policy},
    {"psn", make_psn_policy},
};

std::unique_ptr<LbPolicy> make_policy(const pipeline::StageBuild& build) {
  for (const auto& [name, make] : kPolicies) {
    if (build.options["policy"].string() == name) return make(build);
  }
  std::abort();  // the schema knows no other words
}

Schema lb_options() {
  using Key = Schema::Key;
  const Schema tier = Schema::map({
      Key::required_key(
          "seed", Schema::integer(0, std::numeric_limits<std::int64_t>::max()),
          "The seed of its switches, whose policy is ecmp with the default hash_fields, without weights and "
          "resilient; all have the same."),
      Key::required_key("members", Schema::integer(2, 1 << PathMap::kPortBits),
                        "Next hops that each of them chooses from, a power of two."),
  });
  const Schema drill = Schema::map({
      Key::with_default("d", Schema::integer(1, kMaxDrill), Value(2), "Members drawn at random for each packet."),
      Key::with_default("m", Schema::integer(0, kMaxDrill), Value(1), "Members remembered with each group."),
  });
  const Schema letflow = Schema::map({
      Key::with_default("gap_us", Schema::integer(1, 1'000'000), Value(100),
                        "A flow that was silent for longer may change its path."),
      Key::with_default("age_us", Schema::integer(1, 60'000'000), Value(2000),
                        "A flow that was silent for longer is forgotten; at least gap_us."),
      Key::with_default(
          "max_flows", Schema::integer(FlowletTable::kWays, 1 << 24), Value(1 << 14),
          "Flows that one worker keeps, 32 bytes each, a multiple of 4. With more, the one that was silent "
          "longest gives way."),
  });
  std::vector<std::string> words;
  for (const auto& [name, make] : kPolicies) words.emplace_back(name);
  std::vector<Key> keys{
      Key::with_default(
          "policy", Schema::one_of(std::move(words)), Value("ecmp"),
          "ecmp: by a hash of the flow; random: each packet by itself; adaptive: each packet to the "
          "shortest egress queue; drill: each packet to the shortest of a few queues, some drawn and some "
          "remembered; letflow: a flow takes a path at random after each pause; conga: it takes the least congested "
          "one then, as lb_tag knows them; conweave: requests leave a path that is slow, and the far ToR restores "
          "their order; gemma: requests leave a path whose queues are long, and reorder restores their order; "
          "psn: requests of known RC queue pairs by their PSN (Themis-S)."),
      accept_option(),
      Key::with_default("spray_acks", Schema::boolean(), Value(true),
                        "psn sends ACKs of known queue pairs over all paths in turn, unless READ or ATOMIC responses "
                        "have to arrive before them; false: by the hash of their flow."),
      Key::optional_key("tiers_above", Schema::list(tier, 1),
                        "Tiers of switches that choose between this one's uplinks and the top, lowest first: psn then "
                        "sprays over their paths too, by changing the UDP source port."),
      Key::with_default("drill", drill, Value(Value::Map{}), "Of policy drill: DRILL(d, m)."),
      Key::with_default("letflow", letflow, Value(Value::Map{}), "Of policies letflow and conga."),
      Key::with_default("gemma", gemma_options(), Value(Value::Map{}), "Of policy gemma."),
  };
  for (Key& key : member_hash_options()) keys.push_back(std::move(key));
  return Schema::map(std::move(keys));
}

void check_tiers(const Value& options, config::Diagnostics& diagnostics) {
  if (!options.has("tiers_above")) return;
  const Value& tiers = options["tiers_above"];
  std::uint64_t paths = 1;
  for (const Value& tier : tiers.list()) {
    const std::uint64_t members = tier["members"].unsigned_integer();
    if (!std::has_single_bit(members)) {
      return diagnostics.error(tier["members"].mark(), "tiers_above: members must be a power of two");
    }
    paths = std::min<std::uint64_t>(paths * members, 1 << 20);
  }
  if (paths > 1u << PathMap::kPortBits || !path_map_of(options)) {
    diagnostics.error(tiers.mark(),
                      "tiers_above: changes of the source port do not reach all paths: fewer members, or "
                      "other seeds");
  }
}

void check_letflow(const Value& letflow, config::Diagnostics& diagnostics) {
  const std::uint64_t gap = letflow["gap_us"].unsigned_integer();
  if (letflow["age_us"].unsigned_integer() < gap) {
    diagnostics.error(letflow["age_us"].mark(), "letflow: age_us must be at least gap_us, " + std::to_string(gap));
  }
  if (letflow["max_flows"].unsigned_integer() % FlowletTable::kWays != 0) {
    diagnostics.error(letflow["max_flows"].mark(), "letflow: max_flows must be a multiple of 4");
  }
}

// The port that a next hop of a route leads to; nullptr when the loader has yet to complain about it.
const pipeline::PortInfo* port_of(const pipeline::RouteInfo::Hop& hop, const pipeline::SwitchInfo& info) {
  if (hop.port) return *hop.port < info.ports.size() ? &info.ports[*hop.port] : nullptr;
  for (const pipeline::InterfaceAddress& own : info.addresses) {
    if (own.prefix.contains(hop.address) && own.port < info.ports.size()) return &info.ports[own.port];
  }
  return nullptr;
}

// Policies that need tags use the paths that lb_tag knows: all ports of a group must be among its uplinks.
void check_tag_paths(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  const std::string& policy = options["policy"].string();
  if (policy != "conga" && policy != "conweave" && policy != "gemma") return;
  const pipeline::StageSpec* tag = pipeline::find_stage(info, "lb_tag");
  if (tag == nullptr || !tag->options.is_map() || !tag->options.has("leaf")) return;
  const Value::List& uplinks = tag->options["uplinks"].list_or_empty();
  const auto is_uplink = [&](const std::string& name) {
    return std::any_of(uplinks.begin(), uplinks.end(), [&](const Value& uplink) { return uplink.string() == name; });
  };
  for (const pipeline::RouteInfo& route : info.routes) {
    if (route.via.size() < 2) continue;
    for (const auto& hop : route.via) {
      const pipeline::PortInfo* port = port_of(hop, info);
      if (port == nullptr || is_uplink(port->name)) continue;
      diagnostics.error(route.mark, "policy " + policy + ": the group of " + route.prefix.to_string() + " has port '" +
                                        port->name + "', which is none of the uplinks of lb_tag");
    }
  }
}

// conweave and gemma need the option of lb_tag that has their name.
void check_tag_option(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  const std::string& policy = options["policy"].string();
  if (policy != "conweave" && policy != "gemma") return;
  const pipeline::StageSpec* tag = pipeline::find_stage(info, "lb_tag");
  if (tag != nullptr && tag->options.is_map() && !tag->options.has(policy)) {
    const char* where = policy == "gemma" ? "on all switches" : "on all leaves";
    diagnostics.error(options["policy"].mark(),
                      "policy " + policy + ": lb_tag needs its option '" + policy + "', " + where);
  }
}

void check_gemma(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  if (options["gemma"]["max_flows"].unsigned_integer() % kFlowWays != 0) {
    diagnostics.error(options["gemma"]["max_flows"].mark(), "gemma: max_flows must be a multiple of 4");
  }
  const pipeline::StageSpec* tag = pipeline::find_stage(info, "lb_tag");
  const bool is_leaf = tag != nullptr && tag->options.is_map() && tag->options.has("leaf");
  if (options["policy"].string() != "gemma" || !is_leaf || pipeline::find_stage(info, "reorder") != nullptr) return;
  diagnostics.note(options["policy"].mark(),
                   "policy gemma: without the stage reorder, hosts of this leaf see packets that overtook others");
}

void check_lb(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  check_tiers(options, diagnostics);
  check_letflow(options["letflow"], diagnostics);
  check_tag_paths(options, info, diagnostics);
  check_tag_option(options, info, diagnostics);
  check_gemma(options, info, diagnostics);
  check_member_hash(options, info, diagnostics);
}

}  // namespace

pipeline::StageType lb_stage_type() {
  pipeline::StageType type;
  type.name = "lb";
  type.summary = "Picks the member of equal-cost groups.";
  type.needs = {"parsed", "group"};
  type.adjacent = {{"l3", "the group of a packet belongs to the routes of the moment"}};
  type.option_order = [](const Value& options) -> std::vector<pipeline::OptionOrder> {
    const Value& policy = options["policy"];
    constexpr std::pair<const char*, const char*> kNeeds[] = {
        {"psn", "qp"}, {"conga", "congestion"}, {"conweave", "congestion"}, {"gemma", "congestion"}};
    for (const auto& [name, need] : kNeeds) {
      if (policy.string() == name) {
        return {{.mark = policy.mark(), .what = std::string("policy ") + name, .needs = {need}}};
      }
    }
    return {};
  };
  type.options = lb_options();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/lb/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_lb;
  type.set = [](const Value& options, const pipeline::SwitchInfo& info, const std::vector<std::string>& words,
                std::uint16_t /*workers*/) {
    return pipeline::set_by_words("lb", lb_options(), check_lb, options, info, words);
  };
  type.make_shared = [](const pipeline::StageBuild& build) { return std::make_unique<LbShared>(build); };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<LbStage>(make_policy(build), build.capability<NextHopChoices>().choice(build.worker));
  };
  return type;
}

}  // namespace weft::stages
