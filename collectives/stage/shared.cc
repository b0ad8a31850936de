// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/shared.h"

#include <algorithm>
#include <utility>

namespace weft::inc {

std::vector<GroupSpec> groups_of(const config::Value& options, const pipeline::SwitchInfo& info) {
  std::vector<GroupSpec> groups;
  for (const config::Value& value : options["groups"].list_or_empty()) {
    GroupSpec spec;
    if (!read_group(value, info, spec)) groups.push_back(std::move(spec));
  }
  return groups;
}

IncShared::IncShared(const pipeline::StageBuild& build)
    : workers_(build.workers), owners_(build.owners), offer_(read_offer(build.options)) {
  publish<pipeline::FlowGroups>(*this);
  const std::size_t bytes = build.options["memory_kb"].unsigned_integer() * 1024;
  const auto* previous = dynamic_cast<const IncShared*>(build.previous);
  pool_ =
      previous != nullptr && previous->pool_->bytes() == bytes ? previous->pool_ : std::make_shared<MemoryPool>(bytes);
  generations_ = previous != nullptr ? previous->generations_ : std::make_shared<std::atomic<std::uint32_t>>(0);
  std::vector<std::shared_ptr<RunningGroup>> before;
  if (previous != nullptr) {
    const std::lock_guard lock(previous->mutex_);
    before = previous->groups_;
  }
  for (GroupSpec& spec : groups_of(build.options, build.info)) {
    const auto same =
        std::find_if(before.begin(), before.end(), [&](const auto& group) { return group->spec == spec; });
    if (same != before.end()) {
      groups_.push_back(*same);
    } else {
      // Groups that end with this reload hold their regions until it is over.
      static_cast<void>(add(std::move(spec), false, previous == nullptr));
    }
  }
}

void IncShared::adopt(pipeline::StageShared& old_shared, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<IncShared&>(old_shared);
  const std::lock_guard lock(mutex_);
  for (const auto& group : old.groups_) {
    const bool refused = std::any_of(groups_.begin(), groups_.end(), [&](const auto& other) {
      return other == group || conflict(other->spec, group->spec).has_value();
    });
    if (group->from_command && !refused) groups_.push_back(group);
  }
  now_.store(old.now(), std::memory_order_relaxed);
  if (adoption.ports.identity()) return;
  for (const auto& group : groups_) {
    for (Edge& edge : group->edges) edge.neighbour.forget();
  }
}

std::string IncShared::create(GroupSpec spec, bool from_command, std::uint32_t& generation) {
  const std::lock_guard lock(mutex_);
  if (auto error = offer_.refusal(spec)) return "group " + std::to_string(spec.config.id) + ": " + *error;
  for (const auto& group : groups_) {
    if (auto error = conflict(spec, group->spec)) return *error;
  }
  std::string error = add(std::move(spec), from_command, true);
  if (error.empty()) generation = groups_.back()->generation;
  return error;
}

std::string IncShared::add(GroupSpec spec, bool from_command, bool from_pool_only) {
  const std::size_t bytes = IncEngine::memory_bytes(spec.config);
  std::shared_ptr<Block> block = spec.block ? block_of(*spec.block) : nullptr;
  MemoryPool::Region region = block != nullptr ? block->region() : pool_->allocate(bytes);
  if (spec.block && block == nullptr && region != nullptr) block = std::make_shared<Block>(region);
  if (region == nullptr && from_pool_only) {
    return "group " + std::to_string(spec.config.id) + " needs " + std::to_string(bytes) + " bytes for " +
           std::to_string(spec.config.slots) + " slots, and of memory_kb the longest free range has " +
           std::to_string(pool_->largest_bytes());
  }
  const std::uint32_t generation = generations_->fetch_add(1) + 1;
  std::unique_ptr<BlockKey> key;
  if (block != nullptr) key = BlockKey::make(block, generation, bytes);
  if (block != nullptr && key == nullptr) {
    return "group " + std::to_string(spec.config.id) + " needs " + std::to_string(bytes) + " bytes, and block " +
           std::to_string(*spec.block) + " has " + std::to_string(block->bytes());
  }
  auto group = std::make_shared<RunningGroup>(std::move(spec), std::move(region), std::move(key), generation, idlest(),
                                              from_command, owners_);
  if (!group->ownership.error().empty()) return group->ownership.error();
  groups_.push_back(std::move(group));
  return "";
}

/// nullptr: no group of the switch has it.
std::shared_ptr<Block> IncShared::block_of(std::uint32_t number) const {
  for (const auto& group : groups_) {
    if (group->spec.block == number && group->key != nullptr) return group->key->block();
  }
  return nullptr;
}

std::uint16_t IncShared::idlest() const {
  std::vector<std::size_t> count(workers_, 0);
  for (const auto& group : groups_) ++count[group->worker];
  return static_cast<std::uint16_t>(std::min_element(count.begin(), count.end()) - count.begin());
}

std::shared_ptr<RunningGroup> IncShared::remove(std::uint32_t id, std::optional<std::uint32_t> generation) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) {
    return group->id() == id && (!generation || group->generation == *generation);
  });
  if (at == groups_.end()) return nullptr;
  std::shared_ptr<RunningGroup> group = *at;
  groups_.erase(at);
  return group;
}

std::vector<pipeline::FlowGroups::Flow> IncShared::flows(std::uint32_t group) const {
  const std::lock_guard lock(mutex_);
  std::vector<Flow> out;
  for (const auto& one : groups_) {
    if (one->id() != group) continue;
    for (const EdgeSpec& e : one->spec.edges) {
      out.push_back({address_key(e.peer, e.address), e.qp});
      out.push_back({address_key(e.address, e.peer), e.peer_qp});
    }
  }
  return out;
}

std::unique_ptr<GroupTable> IncShared::table(std::uint16_t worker) const {
  const std::lock_guard lock(mutex_);
  return std::make_unique<GroupTable>(groups_, worker);
}

}  // namespace weft::inc
