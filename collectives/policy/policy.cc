// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/policy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "collectives/policy/widths.h"

namespace weft::inc::policy {
namespace {

constexpr std::array<std::string_view, 3> kKinds{"edge_disjoint", "spatial", "temporal"};

std::string mistake_of(const Topology& topology, const Request& r) {
  if (r.hosts.size() < 2) return "a group has two hosts at least";
  if (r.hosts.size() > kMaxRanks) return "a group has " + std::to_string(kMaxRanks) + " hosts at most";
  std::vector<NodeId> sorted = r.hosts;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return "a host is in the group twice";
  }
  for (const NodeId host : sorted) {
    if (host >= topology.nodes().size()) return "a host is not known";
    if (topology.node(host).is_switch) return topology.node(host).name + " is a switch";
  }
  const MemoryDemand& m = r.memory;
  if (m.unit_bytes == 0 && m.unit_bytes_per_endpoint == 0) return "a unit of memory has no bytes";
  if (m.message_bytes == 0) return "a message has no bytes";
  if (m.least_units == 0 || m.least_units > m.units) return "least_units is between 1 and units";
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // no sum overflows
  if (m.fixed_bytes > kMost || m.unit_bytes > kMost || m.unit_bytes_per_endpoint > kMost / kMaxEndpoints) {
    return "a group asks for too much memory";
  }
  if (r.duty_per_mille == 0 || r.duty_per_mille > 1000) return "duty_per_mille is between 1 and 1000";
  if (r.period_ns > kMost) return "a period is too long";
  return "";
}

/// A time at which a burst of a length keeps out of all others in a period.
std::optional<std::uint64_t> gap(std::vector<std::pair<std::uint64_t, std::uint64_t>> bursts, std::uint64_t period,
                                 std::uint64_t length) {
  std::sort(bursts.begin(), bursts.end());
  std::uint64_t from = 0;
  for (const auto& [begin, end] : bursts) {
    if (begin >= from + length) return from;
    from = std::max(from, end);
  }
  return from + length <= period ? std::optional(from) : std::nullopt;
}

class Blockers {
 public:
  explicit Blockers(Decision& decision) : decision_(decision) {}
  void add(const std::optional<Blocker>& blocker) {
    if (!blocker) return;
    if (decision_.blockers.size() == kMaxBlockers) {
      ++decision_.more_blockers;
    } else {
      decision_.blockers.push_back(*blocker);
    }
  }

 private:
  Decision& decision_;
};

}  // namespace

std::string_view to_string(PolicyKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)];
}

std::optional<PolicyKind> policy_kind_from(std::string_view name) noexcept {
  const auto at = std::find(kKinds.begin(), kKinds.end(), name);
  return at == kKinds.end() ? std::nullopt : std::optional(static_cast<PolicyKind>(at - kKinds.begin()));
}

std::string_view to_string(Reason reason) noexcept {
  constexpr std::array<std::string_view, 12> kNames{"none",         "bad_request", "group_exists",      "host_down",
                                                    "no_path",      "unsupported", "links_taken",       "no_memory",
                                                    "no_bandwidth", "no_share",    "too_many_children", "no_gain"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::uint32_t MemoryDemand::units_in(std::uint64_t room, unsigned endpoints) const noexcept {
  if (room < fixed_bytes) return 0;
  const std::uint64_t count = (room - fixed_bytes) / (unit_bytes + unit_bytes_per_endpoint * endpoints);
  return count < least_units ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(count, units));
}

Policy::Policy(Topology topology, const PolicyOptions& options)
    : topology_(std::move(topology)), options_(options), ledger_(topology_), search_(topology_) {
  options_.hop_ns = std::max<std::uint64_t>(1, options_.hop_ns);
}

std::optional<Decision> Policy::refuse(const Request& request) const {
  Decision d;
  d.detail = mistake_of(topology_, request);
  if (!d.detail.empty()) {
    d.reason = Reason::bad_request;
  } else if (groups_.contains(request.group)) {
    d.reason = Reason::group_exists;
  } else if (request.hosts.size() < options_.least_hosts) {
    d.reason = Reason::no_gain;
  } else {
    Blockers blockers(d);
    for (const NodeId host : request.hosts) {
      const auto ways = topology_.up(host);
      if (std::any_of(ways.begin(), ways.end(), [&](const Arc& a) { return topology_.usable(a.link); })) continue;
      d.reason = Reason::host_down;
      blockers.add(Blocker{.reason = Reason::host_down, .node = host});
    }
  }
  return d.reason == Reason::none ? std::nullopt : std::optional(std::move(d));
}

Decision Policy::explain(const Request& request) {
  if (auto refused = refuse(request)) return std::move(*refused);
  Decision d;
  const GroupWidths widths(topology_, ledger_, options_, request);
  const bool lowest = options_.kind == PolicyKind::edge_disjoint;
  std::vector<Found> found = search_.run(request.hosts, widths, lowest);
  if (found.empty()) {
    diagnose(request, d);
    return d;
  }
  Found& best = request.prefer == Prefer::latency ? found.front() : found.back();
  d.tree = std::move(best.tree);
  d.width_mbps = best.as.width_mbps;
  for (const Found& each : found) d.frontier.push_back(each.as);
  allocate(request, d);
  stagger(request, d);
  return d;
}

void Policy::allocate(const Request& request, Decision& d) const {
  const GroupWidths widths(topology_, ledger_, options_, request);
  const bool local = d.tree.switches.size() == 1;
  d.units = request.memory.units;
  for (const TreeSwitch& s : d.tree.switches) {
    d.units = std::min(d.units, widths.offer(s.node, s.endpoints(), request.memory.least_units, d.units, local).units);
  }
  for (const TreeSwitch& s : d.tree.switches) {
    const MemoryOffer offer = widths.offer(s.node, s.endpoints(), d.units, d.units, local);
    d.memory.push_back({s.node, request.memory.bytes(d.units, s.endpoints()),
                        offer.block.value_or(ledger_.at(s.node).next_block), offer.block.has_value()});
    d.shares_memory = d.shares_memory || offer.block.has_value();
  }
}

void Policy::stagger(const Request& request, Decision& d) const {
  if (options_.kind != PolicyKind::temporal || request.job == 0 || request.period_ns == 0) return;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> bursts;
  for (const Allocation& a : d.memory) {
    if (!a.shared) continue;
    const Block& block = *ledger_.at(a.node).find(a.block);
    if (!block.staggered(request.job, request.period_ns)) return;
    for (const Share& s : block.shares) bursts.emplace_back(s.offset_ns, s.offset_ns + s.burst_ns());
  }
  const std::uint64_t length = (request.period_ns * request.duty_per_mille + 999) / 1000;
  const auto begin = gap(std::move(bursts), request.period_ns, length);
  if (!begin) return;
  d.staggered = true;
  d.offset_ns = *begin;
}

/// Leaves out limits, and finds the first one without which there is a tree: what that tree lacks is the reason.
void Policy::diagnose(const Request& request, Decision& d) {
  constexpr std::array<std::pair<Limit, Reason>, 5> kOrder{{{Limit::abilities, Reason::unsupported},
                                                            {Limit::links, Reason::links_taken},
                                                            {Limit::bandwidth, Reason::no_bandwidth},
                                                            {Limit::memory, Reason::no_memory},
                                                            {Limit::fan_in, Reason::too_many_children}}};
  std::uint8_t limits = 0;
  std::vector<Found> before =
      search_.run(request.hosts, GroupWidths(topology_, ledger_, options_, request, limits), true);
  d.reason = Reason::no_path;
  if (before.empty()) return;
  for (const auto& [limit, reason] : kOrder) {
    limits |= static_cast<std::uint8_t>(limit);
    const GroupWidths widths(topology_, ledger_, options_, request, limits);
    std::vector<Found> now = search_.run(request.hosts, widths, true);
    if (!now.empty()) {
      before = std::move(now);
      continue;
    }
    d.reason = reason;
    const Found& tree = before.front();
    Blockers blockers(d);
    for (const TreeEdge& edge : tree.tree.edges) blockers.add(widths.link_blocker(edge.link));
    for (const TreeSwitch& s : tree.tree.switches) {
      blockers.add(widths.node_blocker(s.node, {tree.as.depth, s.children, s.endpoints()}));
    }
    const auto shares = [](const Blocker& b) { return b.reason == Reason::no_share; };
    if (std::any_of(d.blockers.begin(), d.blockers.end(), shares)) d.reason = Reason::no_share;
    return;
  }
}

Decision Policy::place(const Request& request) {
  Decision d = explain(request);
  if (d.admitted()) take(request, d);
  return d;
}

std::vector<Decision> Policy::place_all(std::span<const Request> requests) {
  std::vector<Decision> out;
  for (const Request& request : requests) {
    out.push_back(place(request));
    if (out.back().admitted()) continue;
    for (std::size_t i = 0; i + 1 < out.size(); ++i) release(requests[i].group);
    break;
  }
  return out;
}

void Policy::take(const Request& request, const Decision& decision) {
  ledger_.take(request, decision);
  groups_.emplace(request.group, Placed{request, decision});
}

std::optional<std::string> Policy::adopt(const Request& request, const Decision& d) {
  if (auto mistake = mistake_of(topology_, request); !mistake.empty()) return mistake;
  if (groups_.contains(request.group)) return "there is a group " + std::to_string(request.group) + " already";
  const std::string group = "group " + std::to_string(request.group);
  for (const TreeEdge& edge : d.tree.edges) {
    if (edge.link >= topology_.links().size()) return group + " has a link that is not there any more";
    const LinkUse& use = ledger_.link(edge.link);
    if (options_.kind == PolicyKind::edge_disjoint && !use.groups.empty()) {
      return group + " has the link " + topology_.link_name(edge.link) + ", and so has group " +
             std::to_string(use.groups.front());
    }
    if (request.rate_mbps > std::numeric_limits<std::uint32_t>::max() - use.reserved_mbps) {
      return group + " has more than there is of the link " + topology_.link_name(edge.link);
    }
  }
  Decision adopted = d;
  for (Allocation& a : adopted.memory) {
    if (a.node >= topology_.nodes().size()) return group + " has a switch that is not there any more";
    const SwitchUse& use = ledger_.at(a.node);
    const Block* block = use.find(a.block);
    // Who was in a block first may be gone, and who comes later may need more of it than those that are.
    if (options_.kind == PolicyKind::temporal) a.shared = block != nullptr;
    const std::uint64_t there = a.shared && block != nullptr ? std::min(block->bytes, a.bytes) : 0;
    const std::uint64_t memory = topology_.node(a.node).abilities.memory_bytes;
    const bool fits = a.shared == (block != nullptr) && use.bytes <= memory && a.bytes - there <= memory - use.bytes;
    if (!fits) return group + " does not fit into the memory of " + topology_.node(a.node).name;
  }
  take(request, adopted);
  return std::nullopt;
}

bool Policy::release(GroupId group, const std::set<NodeId>& except) {
  const auto at = groups_.find(group);
  if (at == groups_.end()) return false;
  Placed& placed = at->second;
  ledger_.give_back(placed.request, placed.decision);
  placed.decision.tree.edges.clear();
  const auto gone = [&](const auto& x) { return !except.contains(x.node); };
  std::erase_if(placed.decision.tree.switches, gone);
  std::erase_if(placed.decision.memory, gone);
  if (placed.decision.memory.empty()) {
    groups_.erase(at);
  } else {
    // A block of its own that others came to share is there because of them.
    for (Allocation& a : placed.decision.memory) a.shared = ledger_.at(a.node).find(a.block) != nullptr;
    ledger_.take(placed.request, placed.decision);
  }
  return true;
}

}  // namespace weft::inc::policy
