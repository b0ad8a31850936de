// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/stage.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "switch/pipeline/set_words.h"
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
  if (balanced != 0) counters_[static_cast<std::size_t>(LbCounter::balanced)].add(balanced);
}

void LbStage::balance(Context& context, Batch& batch, std::span<GroupedPacket> packets) noexcept {
  LinkView links(context, choice_.next_hops());
  policy_->choose(context, links, packets);
  const auto lost = std::count_if(packets.begin(), packets.end(),
                                  [](const GroupedPacket& p) { return p.choice == tables::kUnreachable; });
  if (lost != 0) {
    counters_[static_cast<std::size_t>(LbCounter::no_member_up)].add(static_cast<std::uint64_t>(lost));
  }
  choice_.forward(context, batch, packets, policy_->keeps_member());
}

namespace {

using PolicyMaker = std::unique_ptr<LbPolicy> (*)(const pipeline::StageBuild&);

// By the words of the option `policy`.
constexpr std::pair<std::string_view, PolicyMaker> kPolicies[] = {
    {"ecmp", make_ecmp_policy},
    {"random", [](const pipeline::StageBuild&) { return make_random_policy(); }},
    {"adaptive", [](const pipeline::StageBuild&) { return make_adaptive_policy(); }},
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
      Key::required_key("seed", Schema::integer(0, std::numeric_limits<std::int64_t>::max()),
                        "The seed of its switches, whose policy is ecmp; all have the same."),
      Key::required_key("members", Schema::integer(2, 1 << PathMap::kPortBits),
                        "Next hops that each of them chooses from, a power of two."),
  });
  std::vector<std::string> words;
  for (const auto& [name, make] : kPolicies) words.emplace_back(name);
  return Schema::map({
      Key::with_default("policy", Schema::one_of(std::move(words)), Value("ecmp"),
                        "ecmp: by a hash of the flow; random: each packet by itself; adaptive: each packet to the "
                        "shortest egress queue; psn: requests of known RC queue pairs by their PSN (Themis-S)."),
      accept_option(),
      Key::optional_key("weights", Schema::dictionary(Schema::integer(1, 64)),
                        "Share of a port among unequal paths, by its name; 1 where none is given. For policy psn."),
      Key::with_default("spray_acks", Schema::boolean(), Value(true),
                        "psn sends ACKs of known queue pairs over all paths in turn, unless READ or ATOMIC responses "
                        "have to arrive before them; false: by the hash of their flow."),
      Key::optional_key("tiers_above", Schema::list(tier, 1),
                        "Tiers of switches that choose between this one's uplinks and the top, lowest first: psn then "
                        "sprays over their paths too, by changing the UDP source port."),
  });
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

void check_lb(const Value& options, const pipeline::SwitchInfo& info, config::Diagnostics& diagnostics) {
  check_tiers(options, diagnostics);
  if (!options.has("weights")) return;
  for (const auto& [name, weight] : options["weights"].map()) {
    const bool known = std::any_of(info.ports.begin(), info.ports.end(),
                                   [&name = name](const pipeline::PortInfo& port) { return port.name == name; });
    if (!known) diagnostics.error(weight.mark(), "weights: the switch has no port '" + name + "'");
  }
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
    if (policy.string() != "psn") return {};
    return {{.mark = policy.mark(), .what = "policy psn", .needs = {"qp"}}};
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
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<LbStage>(make_policy(build), build.capability<NextHopChoices>().choice(build.worker));
  };
  return type;
}

}  // namespace weft::stages
