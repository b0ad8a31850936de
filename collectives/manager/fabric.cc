// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/fabric.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace weft::inc::manager {

using policy::NodeId;
using policy::TreeEdge;

namespace {

/// 0 and 1 are special; numbers below this are left to what runs on the switch itself.
constexpr std::uint32_t kFirstQp = 0x100000;
constexpr std::uint32_t kLastQp = 0xffffff;

/// Ranks below each node of a tree, ascending.
std::map<NodeId, std::vector<std::uint32_t>> ranks_below(const policy::Tree& tree, const std::vector<NodeId>& hosts) {
  std::map<NodeId, std::vector<std::uint32_t>> below;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) below[hosts[rank]] = {rank};
  for (const TreeEdge& e : tree.edges) {  // children before parents
    auto& to = below[e.parent];
    to.insert(to.end(), below[e.child].begin(), below[e.child].end());
  }
  for (auto& [node, ranks] : below) std::sort(ranks.begin(), ranks.end());
  return below;
}

}  // namespace

void Fabric::index() {
  by_address.clear();
  for (policy::LinkId id = 0; id < topology.links().size(); ++id) {
    const NodeId node = topology.link(id).lower;
    if (!topology.node(node).is_switch) by_address.emplace(addresses[id].lower, node);
  }
}

NodeId Fabric::host_of(const wire::IpAddress& address) const {
  if (!by_address.empty()) {
    const auto at = by_address.find(address);
    return at == by_address.end() ? policy::kNoNode : at->second;
  }
  for (policy::LinkId id = 0; id < topology.links().size(); ++id) {
    const NodeId node = topology.link(id).lower;
    if (addresses[id].lower == address && !topology.node(node).is_switch) return node;
  }
  return policy::kNoNode;
}

std::optional<std::uint32_t> FreeNumbers::take() {
  if (ranges_.empty()) return std::nullopt;
  const std::uint32_t number = ranges_.begin()->first;
  take(number);
  return number;
}

bool FreeNumbers::take(std::uint32_t number) {
  auto at = ranges_.upper_bound(number);
  if (at == ranges_.begin() || std::prev(at)->second < number) return false;
  at = std::prev(at);
  const auto [first, last] = *at;
  ranges_.erase(at);
  if (first < number) ranges_.emplace(first, number - 1);
  if (number < last) ranges_.emplace(number + 1, last);
  return true;
}

void FreeNumbers::give_back(std::uint32_t number) {
  std::uint32_t first = number, last = number;
  auto after = ranges_.upper_bound(number);
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    if (before->second >= number) return;
    if (before->second + 1 == number) {
      first = before->first;
      ranges_.erase(before);
    }
  }
  if (after != ranges_.end() && after->first == number + 1) {
    last = after->second;
    ranges_.erase(after);
  }
  ranges_.emplace(first, last);
}

FreeNumbers& EndpointPlanner::numbers_of(NodeId node) {
  return numbers_.try_emplace(node, kFirstQp, kLastQp).first->second;
}

void EndpointPlanner::adopt(const GroupRecord& record) {
  for (std::size_t i = 0; i < record.switches.size(); ++i) {
    FreeNumbers& numbers = numbers_of(record.decision.tree.switches[i].node);
    for (const EndpointRecord& e : record.switches[i].endpoints) numbers.take(e.qp);
  }
}

void EndpointPlanner::release(const GroupRecord& record, const std::set<NodeId>& except) {
  for (std::size_t i = 0; i < record.switches.size(); ++i) {
    const NodeId node = record.decision.tree.switches[i].node;
    if (except.contains(node)) continue;
    for (const EndpointRecord& e : record.switches[i].endpoints) {
      if (e.qp >= kFirstQp && e.qp <= kLastQp) numbers_of(node).give_back(e.qp);
    }
  }
}

void EndpointPlanner::plan(const Fabric& fabric, GroupRecord& record) {
  std::map<NodeId, std::size_t> index;
  record.switches.clear();
  for (const policy::TreeSwitch& s : record.decision.tree.switches) {
    index[s.node] = record.switches.size();
    record.switches.push_back({fabric.topology.node(s.node).name, {}});
  }
  // A group's switches have room for some thousands of groups, and there are 15 million numbers.
  const auto number = [&](NodeId node) { return numbers_of(node).take().value_or(kLastQp); };
  std::vector<NodeId> hosts;
  for (const Member& m : record.members) hosts.push_back(fabric.host_of(m.address));
  auto below = ranks_below(record.decision.tree, hosts);
  // A switch adds up in the order of its endpoints: that of the lowest rank behind each, and the parent last.
  std::vector<TreeEdge> edges = record.decision.tree.edges;
  std::stable_sort(edges.begin(), edges.end(),
                   [&](const TreeEdge& a, const TreeEdge& b) { return below[a.child][0] < below[b.child][0]; });
  std::vector<std::pair<std::size_t, EndpointRecord>> parents;
  for (const TreeEdge& e : edges) {
    const LinkAddresses& ends = fabric.addresses[e.link];
    EndpointRecord up{ends.upper, ends.lower, number(e.parent), 0, 0, 0, below[e.child], false};
    if (!fabric.topology.node(e.child).is_switch) {
      const Member& m = record.members[up.ranks.front()];
      up.is_rank = true;
      up.peer_qp = m.qp;
      up.first_rx = m.first_psn;
      up.first_tx = m.expects_psn;
    } else {
      EndpointRecord down{ends.lower, ends.upper, number(e.child), up.qp, psn(), psn(), {}, false};
      up.peer_qp = down.qp;
      up.first_rx = down.first_tx;
      up.first_tx = down.first_rx;
      parents.emplace_back(index[e.child], down);
    }
    record.switches[index[e.parent]].endpoints.push_back(std::move(up));
  }
  for (auto& [at, endpoint] : parents) record.switches[at].endpoints.push_back(std::move(endpoint));
}

std::vector<EndpointRecord> rank_endpoints(const GroupRecord& record) {
  std::vector<EndpointRecord> out(record.members.size());
  for (const SwitchRecord& s : record.switches) {
    for (const EndpointRecord& e : s.endpoints) {
      if (e.is_rank) out[e.ranks.front()] = e;
    }
  }
  return out;
}

}  // namespace weft::inc::manager
