// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/widths.h"

#include <algorithm>
#include <limits>

namespace weft::inc::policy {
namespace {

constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

}  // namespace

bool GroupWidths::able(NodeId node) const noexcept {
  const Abilities& a = topology_.node(node).abilities;
  // Who is in a block of one switch takes turns at all of its tree.
  const bool turns =
      options_.kind == PolicyKind::temporal && request_.mode == Mode::ii && request_.duty_per_mille < 1000;
  return (a.modes & bit(request_.mode)) != 0 && (a.types & request_.types) == request_.types && (a.blocks || !turns);
}

std::uint64_t GroupWidths::free_bytes(NodeId node, bool local) const noexcept {
  // A switch that came back may report less than its groups have.
  const std::uint64_t all = topology_.node(node).abilities.memory_bytes, used = ledger_.at(node).bytes;
  const std::uint64_t free = all > used ? all - used : 0;
  if (local || options_.local_per_mille == 0 || topology_.node(node).tier != 1) return free;
  // What is kept for groups of this switch alone, as far as none have it.
  const auto kept = static_cast<std::uint64_t>(static_cast<unsigned __int128>(all) * options_.local_per_mille / 1000);
  const std::uint64_t held = ledger_.at(node).local_bytes(), missing = kept > held ? kept - held : 0;
  return free > missing ? free - missing : 0;
}

std::uint32_t GroupWidths::bandwidth_mbps(LinkId id) const noexcept {
  const LinkUse& use = ledger_.link(id);
  const std::uint32_t rate = topology_.link(id).rate_mbps;
  const std::uint32_t left = rate > use.reserved_mbps ? rate - use.reserved_mbps : 0;
  if (request_.rate_mbps > 0) return left;
  return left == 0 ? 0 : std::max(1u, left / (use.best_effort + 1));
}

std::uint32_t GroupWidths::link(LinkId id) const {
  if (has(Limit::links) && options_.kind == PolicyKind::edge_disjoint && !ledger_.link(id).groups.empty()) return 0;
  if (!has(Limit::bandwidth)) return kUnlimited;
  const std::uint32_t width = bandwidth_mbps(id);
  return width < request_.rate_mbps ? 0 : width;
}

std::uint32_t GroupWidths::rate_mbps(std::uint64_t milli_units, unsigned depth) const noexcept {
  const std::uint64_t hops = request_.mode == Mode::ii ? depth : 1;
  const unsigned __int128 bits = static_cast<unsigned __int128>(milli_units) * request_.memory.message_bytes * 8;
  const auto rate = bits / (2 * hops * options_.hop_ns);
  return static_cast<std::uint32_t>(std::clamp<unsigned __int128>(rate, 1, kUnlimited));
}

std::uint32_t GroupWidths::crowd(LinkId link) const {
  return static_cast<std::uint32_t>(ledger_.link(link).groups.size());
}

// Switches below it count too: roots that lead through the same switches have the same links to share.
std::uint32_t GroupWidths::load(NodeId root) const {
  std::uint32_t groups = ledger_.at(root).groups;
  for (const Arc& arc : topology_.down(root)) groups += ledger_.at(arc.to).groups;
  return groups;
}

MemoryOffer GroupWidths::offer(NodeId node, std::uint32_t endpoints, std::uint32_t least, std::uint32_t most,
                               bool local) const {
  const auto units_in = [&](std::uint64_t bytes) {
    const std::uint32_t units = std::min(most, request_.memory.units_in(bytes, endpoints));
    return units < least ? 0 : units;
  };
  MemoryOffer best{.units = units_in(free_bytes(node, local)), .block = std::nullopt};
  if (options_.kind != PolicyKind::temporal) return best;
  for (const Block& block : ledger_.at(node).blocks) {
    if (block.meets(request_)) continue;
    const std::uint32_t duty = block.duty_per_mille;
    const bool in_turns = block.staggered(request_.job, request_.period_ns);
    if (duty + request_.duty_per_mille > (in_turns ? 1000 : options_.shared_per_mille)) continue;
    const std::uint32_t left = in_turns ? 1000 : 1000 - duty;
    const MemoryOffer shared{units_in(block.bytes), left, block.number};
    if (shared.worth() > best.worth()) best = shared;
  }
  return best;
}

std::uint32_t GroupWidths::node(NodeId node, const Place& place) const {
  if (has(Limit::abilities) && !able(node)) return 0;
  if (has(Limit::fan_in) && place.children > topology_.node(node).abilities.fan_in) return 0;
  if (!has(Limit::memory)) return kUnlimited;
  const bool local = place.depth == 1;
  const MemoryOffer best = offer(node, place.endpoints, request_.memory.least_units, request_.memory.units, local);
  return best.units == 0 ? 0 : rate_mbps(best.worth(), place.depth);
}

std::optional<Blocker> GroupWidths::link_blocker(LinkId id) const {
  if (link(id) > 0) return std::nullopt;
  const LinkUse& use = ledger_.link(id);
  Blocker b{.link = id};
  if (options_.kind == PolicyKind::edge_disjoint && !use.groups.empty()) {
    b.reason = Reason::links_taken;
    b.holder = use.groups.front();
    return b;
  }
  b.reason = Reason::no_bandwidth;
  b.needed = std::max(1u, request_.rate_mbps);
  b.available = bandwidth_mbps(id);
  return b;
}

std::optional<Blocker> GroupWidths::node_blocker(NodeId node, const Place& place) const {
  if (this->node(node, place) > 0) return std::nullopt;
  Blocker b{.node = node};
  if (has(Limit::abilities) && !able(node)) {
    b.reason = Reason::unsupported;
  } else if (has(Limit::fan_in) && place.children > topology_.node(node).abilities.fan_in) {
    b.reason = Reason::too_many_children;
    b.needed = place.children;
    b.available = topology_.node(node).abilities.fan_in;
  } else {
    b.reason = Reason::no_memory;
    b.needed = request_.memory.bytes(request_.memory.least_units, place.endpoints);
    b.available = free_bytes(node, place.depth == 1);
    const auto& blocks = ledger_.at(node).blocks;
    const bool busy = std::any_of(blocks.begin(), blocks.end(), [&](const Block& o) { return o.bytes >= b.needed; });
    if (options_.kind == PolicyKind::temporal && busy) b.reason = Reason::no_share;
  }
  return b;
}

}  // namespace weft::inc::policy
