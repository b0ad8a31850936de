// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the `lb` stage picks the member of an equal-cost group.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "switch/pipeline/context.h"
#include "switch/pipeline/stage.h"
#include "switch/pipeline/tap.h"
#include "switch/stages/l3/next_hop_choice.h"
#include "switch/stages/lb/counters.h"
#include "switch/stages/lb/path_map.h"
#include "switch/tables/ecmp_hash.h"
#include "switch/tables/next_hops.h"
#include "switch/wire/headers.h"

namespace weft::stages {

using LbItem = GroupedPacket;

/// Paths in this burst: asking whether each packet's port has a link and is not excluded would cost more than the
/// choice.
class LinkView {
 public:
  LinkView(const pipeline::Context& context, const tables::NextHops& hops) noexcept
      : context_(context), hops_(hops), all_up_(context.all_paths_up()) {}

  [[nodiscard]] bool all_up() const noexcept { return all_up_; }
  [[nodiscard]] pipeline::PortIndex port(tables::NextHopId member) const noexcept { return hops_.hop(member).port; }
  /// Of the router that the member is; unspecified when the destination itself is on the link.
  [[nodiscard]] const wire::IpAddress& address(tables::NextHopId member) const noexcept {
    return hops_.address(member);
  }
  [[nodiscard]] bool up(tables::NextHopId member) noexcept {
    if (all_up_) [[likely]]
      return true;
    const pipeline::PortIndex port = this->port(member);
    const std::uint64_t bit = std::uint64_t{1} << port % 64;
    if (port < 64 && (up_ & bit) != 0) [[likely]]
      return true;
    if (!context_.path_up(port)) return false;
    if (port < 64) up_ |= bit;
    return true;
  }

 private:
  const pipeline::Context& context_;
  const tables::NextHops& hops_;
  bool all_up_;
  std::uint64_t up_ = 0;  // ports that were seen up
};

/// One per worker and switch. A policy keeps its own state; whatever it wants to know about packets is in their
/// PacketMeta, about ports in the context.
class LbPolicy {
 public:
  virtual ~LbPolicy() = default;
  /// Sets the choice of every item. Called once per burst.
  virtual void choose(pipeline::Context& context, LinkView& links, std::span<LbItem> items) noexcept = 0;
  /// Says of a packet that choose() was called with alone, just now, why it got the choice that it has.
  /// @param reason  its rule, and what there was to compare
  virtual void explain(pipeline::Context& context, LinkView& links, const LbItem& item,
                       pipeline::PathReason& reason) noexcept = 0;
  /// A flow (addresses, protocol and ports) keeps its member while the group and the links stay as they are: l3 may
  /// then send its packets on without asking again.
  [[nodiscard]] virtual bool keeps_member() const noexcept = 0;
  /// Takes the place of `old`, of any kind, and takes over what it has learned that still holds. `old` is of no use
  /// afterwards. Allocates nothing.
  /// @param ports  what its ports are called now
  virtual void adopt(LbPolicy& /*old*/, const pipeline::PortMap& /*ports*/) noexcept {}

  /// What the policy knows: names of a table of its own, for `weftctl show`, and its rows as in Stage::rows().
  [[nodiscard]] virtual std::vector<std::string_view> tables() const { return {}; }
  [[nodiscard]] virtual nlohmann::ordered_json rows(std::uint64_t& cursor, std::size_t /*max*/) const {
    cursor = pipeline::StageShared::kEnd;
    return nlohmann::ordered_json::array();
  }

  /// Where it counts, from before the first choose() on.
  void count_in(LbCounters& counters) noexcept { counters_ = &counters; }

 protected:
  [[nodiscard]] LbCounters& counters() const noexcept { return *counters_; }

 private:
  LbCounters* counters_ = nullptr;
};

/// A member whose path is up, chosen by the hash among those; kUnreachable when there is none.
[[nodiscard]] tables::NextHopId another_member(std::span<const tables::NextHopId> members, LinkView& links,
                                               std::uint32_t hash) noexcept;

/// The member that `hash` belongs to, or another one by the same hash if its path is down: flows of other members stay
/// where they are. kUnreachable when no path is up.
[[nodiscard]] inline tables::NextHopId member_by_hash(std::span<const tables::NextHopId> members, LinkView& links,
                                                      std::uint32_t hash) noexcept {
  const tables::NextHopId member = members[tables::EcmpHash::member(hash, static_cast<std::uint32_t>(members.size()))];
  return links.up(member) ? member : another_member(members, links, hash);
}

/// For explain(): lists the members that are up.
/// @param value_of  what a policy compares them by, of a port
template <typename ValueOf>
void add_paths(LinkView& links, const LbItem& item, pipeline::PathReason& reason, ValueOf&& value_of) noexcept {
  for (const tables::NextHopId member : item.members()) {
    if (links.up(member)) reason.add(links.port(member), value_of(links.port(member)));
  }
}

/// Rule of what goes by MemberHash.
inline constexpr const char* kByHash = "hash of the flow";

/// tables::EcmpHash of a packet's addresses, protocol and ports.
[[nodiscard]] inline std::uint32_t flow_hash(const tables::EcmpHash& hash, const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const std::uint64_t ports =
      tables::EcmpHash::ports_word(parsed.source_port, parsed.destination_port, parsed.protocol);
  if (!parsed.has(wire::ParsedFlag::ipv6)) [[likely]]
    return hash.v4(parsed.address_key, ports);
  return hash.v6(pipeline::frame(m) + parsed.l3_offset + offsetof(wire::Ipv6Header, source), ports);
}

/// `ecmp`: by MemberHash. A flow keeps its member, or, with fields of the BTH in the hash, what these tell apart does.
[[nodiscard]] std::unique_ptr<LbPolicy> make_ecmp_policy(const pipeline::StageBuild& build);
/// `random`: each packet by itself, as the weights say.
[[nodiscard]] std::unique_ptr<LbPolicy> make_random_policy(const pipeline::StageBuild& build);
/// `adaptive`: each packet by itself, to the port whose egress queue holds the fewest packets; see adaptive.cc.
[[nodiscard]] std::unique_ptr<LbPolicy> make_adaptive_policy();
/// The largest d and m of `drill`.
inline constexpr std::uint32_t kMaxDrill = 16;
/// `drill`: each packet by itself, to the shortest queue of a few; see drill.cc.
[[nodiscard]] std::unique_ptr<LbPolicy> make_drill_policy(const pipeline::StageBuild& build);
/// `letflow`: flowlets, at random; see letflow.cc.
[[nodiscard]] std::unique_ptr<LbPolicy> make_letflow_policy(const pipeline::StageBuild& build);
/// `conga`: flowlets, to the path that is least congested; see conga.cc.
[[nodiscard]] std::unique_ptr<LbPolicy> make_conga_policy(const pipeline::StageBuild& build);
/// `conweave`: requests by flow, rerouted when their path is slow; see conweave.cc.
[[nodiscard]] std::unique_ptr<LbPolicy> make_conweave_policy(const pipeline::StageBuild& build);
/// `gemma`: requests by flow, rerouted when queues on their path are long; see gemma.cc.
[[nodiscard]] std::unique_ptr<LbPolicy> make_gemma_policy(const pipeline::StageBuild& build);
/// The option `gemma`.
[[nodiscard]] config::Schema gemma_options();
/// The option `tiers_above`; nullopt when it is not there, or its hashes do not reach all paths.
[[nodiscard]] std::optional<PathMap> path_map_of(const config::Value& options);
/// `psn`: requests of known RC queue pairs by their PSN; see psn.cc.
[[nodiscard]] std::unique_ptr<LbPolicy> make_psn_policy(const pipeline::StageBuild& build);

}  // namespace weft::stages
