// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/stage/group_table.h"
#include "collectives/stage/memory_pool.h"
#include "switch/pipeline/flow_groups.h"
#include "switch/pipeline/stage.h"

namespace weft::inc {

/// The groups of one switch and their memory. All member functions are for control threads, any of them.
class IncShared : public pipeline::StageShared, public pipeline::FlowGroups {
 public:
  explicit IncShared(const pipeline::StageBuild& build);

  void housekeeping(TimeNs now) override { now_.store(now, std::memory_order_relaxed); }
  /// Groups that a command has made stay; of the file's, those that have not changed.
  void adopt(pipeline::StageShared& old, const pipeline::Adoption& adoption) override;

  /// Makes a group for the worker that has the fewest. Workers run it when they have their next table().
  /// @param generation  receives RunningGroup::generation
  /// @return empty, or why nothing has changed
  [[nodiscard]] std::string create(GroupSpec spec, bool from_command, std::uint32_t& generation);
  /// Takes a group out; whoever holds the pointer may still use it.
  /// @param generation  of the group that is meant; nullopt: whichever has the id
  /// @return nullptr when there is none
  [[nodiscard]] std::shared_ptr<RunningGroup> remove(std::uint32_t id, std::optional<std::uint32_t> generation = {});

  [[nodiscard]] std::vector<Flow> flows(std::uint32_t group) const override;
  /// What a worker looks packets up in, as of now.
  [[nodiscard]] std::unique_ptr<GroupTable> table(std::uint16_t worker) const;
  [[nodiscard]] const MemoryPool& pool() const noexcept { return *pool_; }
  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }
  /// Of the last housekeeping.
  [[nodiscard]] TimeNs now() const noexcept { return now_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::uint16_t idlest() const;
  [[nodiscard]] std::shared_ptr<Block> block_of(std::uint32_t number) const;
  [[nodiscard]] std::string add(GroupSpec spec, bool from_command, bool from_pool_only);

  std::uint16_t workers_;
  pipeline::OwnerTable* owners_;
  const Offer offer_;
  std::shared_ptr<MemoryPool> pool_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<RunningGroup>> groups_;
  std::shared_ptr<std::atomic<std::uint32_t>> generations_;  ///< the same for all that come after each other
  std::atomic<TimeNs> now_{0};
};

/// The groups of the options, which have been checked.
[[nodiscard]] std::vector<GroupSpec> groups_of(const config::Value& options, const pipeline::SwitchInfo& info);

}  // namespace weft::inc
