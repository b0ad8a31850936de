// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who uses memory that several groups have (EPIC 6.2, temporal multiplexing without a schedule): a switch records the
// first to come; a group that does not get all of its tree gives back what it got, and leaves the collective to its
// hosts. Nobody waits, so nothing can wait for each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "collectives/policy/request.h"
#include "switch/base/time.h"

namespace weft::inc::policy {

/// The recorder of one switch.
class LockRecorder {
 public:
  struct Holder {
    GroupId group = 0;
    TimeNs since = 0;
    TimeNs until = 0;  ///< when it is taken to have crashed
  };

  /// First come, first served; a group that has the block keeps it until a new time. nullptr: it is the caller's now;
  /// otherwise whose it is.
  const Holder* lock(std::uint32_t block, GroupId group, TimeNs now, TimeNs until);
  /// False when the group does not have it.
  bool unlock(std::uint32_t block, GroupId group);
  /// nullptr: nobody has it at this time.
  [[nodiscard]] const Holder* holder(std::uint32_t block, TimeNs now) const;

 private:
  std::map<std::uint32_t, Holder> holders_;
};

/// The recorders of a fabric, as one collective sees them.
class TreeLocks {
 public:
  struct Busy {
    NodeId node = kNoNode;  ///< the first switch that refused
    GroupId holder = 0;
    TimeNs since = 0;
  };

  /// Locks the group's memory at all switches of its tree, or at none: then who has it.
  /// @param lease_ns  after which the locks are anybody's
  [[nodiscard]] std::optional<Busy> lock(GroupId group, std::span<const Allocation> memory, TimeNs now,
                                         TimeNs lease_ns);
  void unlock(GroupId group, std::span<const Allocation> memory);
  /// Locks of a group, at all switches.
  [[nodiscard]] std::size_t held(GroupId group, std::span<const Allocation> memory, TimeNs now) const;

 private:
  std::map<NodeId, LockRecorder> recorders_;
};

}  // namespace weft::inc::policy
