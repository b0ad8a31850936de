// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/lock_recorder.h"

#include <algorithm>

namespace weft::inc::policy {

const LockRecorder::Holder* LockRecorder::holder(std::uint32_t block, TimeNs now) const {
  const auto at = holders_.find(block);
  return at == holders_.end() || at->second.until <= now ? nullptr : &at->second;
}

const LockRecorder::Holder* LockRecorder::lock(std::uint32_t block, GroupId group, TimeNs now, TimeNs until) {
  const Holder* const there = holder(block, now);
  if (there != nullptr && there->group != group) return there;
  holders_[block] = {group, there != nullptr ? there->since : now, until};
  return nullptr;
}

bool LockRecorder::unlock(std::uint32_t block, GroupId group) {
  const auto at = holders_.find(block);
  if (at == holders_.end() || at->second.group != group) return false;
  holders_.erase(at);
  return true;
}

std::optional<TreeLocks::Busy> TreeLocks::lock(GroupId group, std::span<const Allocation> memory, TimeNs now,
                                               TimeNs lease_ns) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const auto* other = recorders_[memory[i].node].lock(memory[i].block, group, now, now + lease_ns);
    if (other == nullptr) continue;
    const Busy busy{memory[i].node, other->group, other->since};
    unlock(group, memory.first(i));
    return busy;
  }
  return std::nullopt;
}

void TreeLocks::unlock(GroupId group, std::span<const Allocation> memory) {
  for (const Allocation& a : memory) recorders_[a.node].unlock(a.block, group);
}

std::size_t TreeLocks::held(GroupId group, std::span<const Allocation> memory, TimeNs now) const {
  return static_cast<std::size_t>(std::count_if(memory.begin(), memory.end(), [&](const Allocation& a) {
    const auto at = recorders_.find(a.node);
    const auto* holder = at == recorders_.end() ? nullptr : at->second.holder(a.block, now);
    return holder != nullptr && holder->group == group;
  }));
}

}  // namespace weft::inc::policy
