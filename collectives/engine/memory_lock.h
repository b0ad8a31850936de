// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Slot memory that several groups have in turns (EPIC 6.2, temporal multiplexing): what a group's unit needs of it.
// README, "Turns", says when it is taken and given back, and why nobody writes to memory that is another group's.
#pragma once

namespace weft::inc {

/// A group's key to the memory that it shares. Nobody waits: who does not get it goes without.
class MemoryLock {
 public:
  MemoryLock() = default;
  MemoryLock(const MemoryLock&) = delete;
  MemoryLock& operator=(const MemoryLock&) = delete;

  /// First come, first served. True: it is this group's until give(), and all that its last owner wrote is visible.
  [[nodiscard]] virtual bool take() noexcept = 0;
  /// From here on it may be another group's.
  virtual void give() noexcept = 0;

 protected:
  ~MemoryLock() = default;
};

}  // namespace weft::inc
