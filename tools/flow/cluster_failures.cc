// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Switches and links that go down and come back. A group whose tree has one of them gets another tree, or goes on in a
// ring; its collective begins again, because sums are lost with a switch. A ring's flows take other ways and go on.
#include <algorithm>
#include <utility>

#include "tools/flow/cluster.h"

namespace weft::flow {

Failure failure_of(const inc::policy::Topology& topology, inc::policy::NodeId node, TimeNs from, TimeNs to) {
  Failure out{{}, node, from, to};
  for (const auto arcs : {topology.down(node), topology.up(node)}) {
    for (const inc::policy::Arc& arc : arcs) out.links.push_back(arc.link);
  }
  return out;
}

bool Cluster::crosses(const std::optional<TransferId>& transfer, const std::vector<bool>& gone) const {
  if (!transfer) return false;
  const auto uses = shares_.uses(*transfer);
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return gone[use.link / 2]; });
}

void Cluster::apply(const Failure& failure, bool up) {
  ++events_;
  // Of several failures of one switch at a time the first takes it down, and the last brings it back.
  const auto changes = [up](std::uint32_t& failures) { return (up ? --failures : failures++) == 0; };
  std::vector<bool> gone(shares_.links() / 2, false);
  for (const inc::policy::LinkId link : failure.links) {
    fabric_.set_link_up(link, up);
    if (policy_ && !failure.node && changes(link_down_[link])) policy_->set_link_up(link, up);
    gone[link] = !up;
  }
  if (policy_ && failure.node && changes(node_down_[*failure.node])) policy_->set_node_up(*failure.node, up);
  for (JobId job = 0; job < running_.size(); ++job) {
    if (!running_[job]) continue;
    if (up) {
      come_back(job);
    } else {
      leave(job, gone);
    }
  }
}

void Cluster::leave(JobId job, const std::vector<bool>& gone) {
  std::vector<std::uint32_t> trees, rings;
  for (std::uint32_t i = 0; i < running_[job]->groups.size(); ++i) {
    const Group& g = running_[job]->groups[i];
    if (g.tree && crosses(g.tree->transfer, gone)) trees.push_back(i);
    if (crosses(g.ring.transfer, gone)) rings.push_back(i);
  }
  if (trees.empty() && rings.empty()) return;
  disturb(job);
  unclaim(job);
  std::vector<Rest> rests;
  for (const std::uint32_t i : rings) move_ring(job, i, rests);
  for (const std::uint32_t i : trees) move_tree(job, i, rests);
  // Looks at the past of jobs whose ways it crosses from now on, where it was not yet.
  claim(job);
  for (const Rest& rest : rests) {
    Group& g = running_[job]->groups[rest.group];
    if (rest.left) {
      send(job, g, *rest.left);
    } else {
      begin(job, rest.group, *g.collective);
    }
  }
}

/// Groups without a tree ask again; those that have one keep it.
void Cluster::come_back(JobId job) {
  if (!policy_) return;
  const std::vector<std::uint32_t> without = without_tree(job);
  if (without.empty()) return;
  disturb(job);
  unclaim(job);
  make_trees(job, without);
  for (const std::uint32_t i : without) results_[job].came_back += running_[job]->groups[i].tree ? 1 : 0;
  claim(job);
}

/// For groups with hosts at leaves where memory has become free. Every tree has its hosts' leaves, and what keeps a
/// group from one is nearly always there.
void Cluster::ask_again() {
  if (std::find(freed_.begin(), freed_.end(), true) == freed_.end()) return;
  const std::vector<bool> freed = std::exchange(freed_, std::vector<bool>(freed_.size(), false));
  if (!options_.admission.ask_again) return;
  note_occupancy();
  const auto at_freed = [&](Gpu gpu) { return freed[policy_->topology().up(fabric_.node_of(gpu)).front().to]; };
  for (JobId job = 0; job < running_.size(); ++job) {
    if (!running_[job]) continue;
    const std::vector<std::uint32_t> without = without_tree(job);
    const bool near = std::any_of(without.begin(), without.end(), [&](std::uint32_t i) {
      const Group& g = running_[job]->groups[i];
      return std::any_of(g.gpus.begin(), g.gpus.end(), at_freed);
    });
    if (near) come_back(job);
  }
}

/// Stops what a group sends; what is left is not counted as sent any more.
/// @return bytes of a flow that are left
double Cluster::interrupt(JobId job, Group& g) {
  const double left = std::max(0.0, g.left - g.rate * static_cast<double>(now_ - g.since));
  Counts& counts = results_[job].counts;
  for (const Use& use : shares_.uses(*g.way->transfer)) {
    counts.tier_bytes[fabric_.tier_of(use.link)] -= use.flows * left;
  }
  shares_.stop(*g.way->transfer);
  g.sending = false;
  ++g.version;
  return left;
}

void Cluster::move_ring(JobId job, std::uint32_t group, std::vector<Rest>& rests) {
  Group& g = running_[job]->groups[group];
  if (g.sending && g.way == &g.ring) rests.push_back({group, interrupt(job, g)});
  fabric_.count(shares_.uses(*g.ring.transfer), -1);
  shares_.forget(*g.ring.transfer);
  make_ring(job, jobs_[job].plan->groups[group], g);
}

void Cluster::move_tree(JobId job, std::uint32_t group, std::vector<Rest>& rests) {
  Group& g = running_[job]->groups[group];
  if (g.sending && g.way == &*g.tree) {
    static_cast<void>(interrupt(job, g));
    rests.push_back({group, std::nullopt});
    results_[job].counts.in_network -= g.collective->count;
  }
  if (std::exchange(g.waiting, false)) {
    for (auto& entry : waiting_)
      std::erase_if(entry.second, [&](const Owner& o) { return o.job == job && o.group == group; });
    rests.push_back({group, std::nullopt});
  }
  unlock(g);
  give_up_tree(g);
  make_trees(job, {group});
  ++(g.tree ? results_[job].moved : results_[job].fell_back);
}

}  // namespace weft::flow
