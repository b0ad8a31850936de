// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Of the Manager: what switches say when they are looked at.
#include <algorithm>
#include <iterator>

#include "collectives/manager/manager.h"

namespace weft::inc::manager {

using policy::NodeId;

std::vector<NodeId> Manager::begin_probe(TimeNs now) {
  std::vector<NodeId> nodes;
  if (now < next_probe_) return nodes;
  next_probe_ = now + options_.probe_ns;
  ++probes_;
  settled_.clear();
  for (NodeId n = 0; n < fabric_.topology.nodes().size(); ++n) {
    if (fabric_.topology.node(n).is_switch) nodes.push_back(n);
  }
  return nodes;
}

void Manager::end_probe(const std::vector<NodeId>& nodes, const std::vector<std::optional<std::vector<GroupId>>>& has) {
  silent_.clear();
  heard_.clear();
  strangers_.clear();
  std::vector<std::vector<GroupId>> should_have(fabric_.topology.nodes().size());
  for (const auto& [id, group] : groups_) {
    for (const auto& s : group.record.decision.tree.switches) should_have[s.node].push_back(id);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // New groups go around a switch that does not answer.
    policy_->set_node_up(nodes[i], has[i].has_value());
    if (has[i]) {
      heard_.insert(nodes[i]);
      silences_.erase(nodes[i]);
      compare(nodes[i], should_have[nodes[i]], *has[i]);
    } else {
      silent_.insert(nodes[i]);
      said_.erase(nodes[i]);
      count_silence(nodes[i], should_have[nodes[i]]);
    }
  }
  // Those that have not confirmed are asked again, unless they are silent.
  for (const auto& [id, group] : groups_) {
    if (group.record.state == GroupState::removing) ended_.insert(id);
  }
}

/// Neighbours of a dead switch in the tree answer ranks that repeat themselves: these would wait for ever, and renew
/// their leases meanwhile. One answer that is late ends nothing.
void Manager::count_silence(NodeId node, const std::vector<GroupId>& should_have) {
  constexpr unsigned kLooks = 3;
  const TimeNs looked = next_probe_ - options_.probe_ns;
  Silence& silence = silences_.try_emplace(node, Silence{looked, 0}).first->second;
  ++silence.looks;
  if (silence.looks < kLooks || looked - silence.since < options_.lease_ns) return;
  for (const GroupId id : should_have) {
    Group& group = groups_.at(id);
    if (group.record.state == GroupState::running) end(group, Ending::switch_silent, switches_of(group.record));
  }
}

std::vector<NodeId> Manager::to_be_asked() const {
  std::vector<NodeId> out;
  std::set_difference(heard_.begin(), heard_.end(), said_.begin(), said_.end(), std::back_inserter(out));
  return out;
}

void Manager::take_abilities(const std::vector<NodeId>& nodes,
                             const std::vector<std::optional<policy::Abilities>>& says) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    said_.insert(nodes[i]);
    policy::Abilities both = stated_[nodes[i]];
    if (says[i]) {
      both.memory_bytes = std::min(both.memory_bytes, says[i]->memory_bytes);
      both.modes &= says[i]->modes;
      both.types &= says[i]->types;
      both.fan_in = std::min(both.fan_in, says[i]->fan_in);
      both.blocks &= says[i]->blocks;
    }
    policy_->set_abilities(nodes[i], both);
  }
}

/// @param should_have  ascending: groups that the switch has, or may have
void Manager::compare(NodeId node, const std::vector<GroupId>& should_have, const std::vector<GroupId>& has) {
  const std::set<GroupId> there(has.begin(), has.end());
  for (const GroupId id : should_have) {
    Group& group = groups_.at(id);
    // What has changed while the switch was asked, its answer may not know yet.
    if (there.contains(id) || group.since_probe >= probes_) continue;
    group.owing.erase(node);
    if (group.record.state != GroupState::running) continue;
    // Its ranks hear of it when they renew; begin_removal() has the other switches.
    group.record.state = GroupState::removing;
    group.ending = Ending::switch_lost_it;
    group.owing = switches_of(group.record);
    group.owing.erase(node);
  }
  // Of those that switches have forgotten since they were asked, their answers may not know yet.
  for (const GroupId id : has) {
    if (id < options_.first_group || id > options_.last_group || settled_.contains(id)) continue;
    if (!std::binary_search(should_have.begin(), should_have.end(), id)) strangers_.push_back({node, id});
  }
}

}  // namespace weft::inc::manager
