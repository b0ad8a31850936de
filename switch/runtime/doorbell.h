// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "switch/base/time.h"

namespace weft {

/// Lets one thread nap until its time is over or another one rings. Ringing for a thread that is awake costs a fence
/// and a load of a cache line that no thread writes meanwhile; only waking a sleeper costs a system call, once per nap.
class Doorbell {
 public:
  /// Sleeps for at most `longest` nanoseconds, less than a second.
  /// @param nothing_to_do  asked when ring() already works: whatever was done before a ring() that came too early is
  ///                       visible to it
  /// @return whether there was nothing to do, so that it slept
  template <typename F>
  bool sleep(TimeNs longest, F&& nothing_to_do) {
    asleep_.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool sleeps = nothing_to_do();
    if (sleeps) {
      const timespec duration{0, static_cast<long>(longest)};
      syscall(SYS_futex, &asleep_, FUTEX_WAIT_PRIVATE, 1, &duration, nullptr, 0);
    }
    asleep_.store(0, std::memory_order_relaxed);
    return sleeps;
  }

  /// Any thread. Does nothing when nobody sleeps.
  void ring() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_relaxed) == 0) [[likely]]
      return;
    if (asleep_.exchange(0, std::memory_order_relaxed) == 0) return;
    syscall(SYS_futex, &asleep_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

 private:
  alignas(64) std::atomic<std::uint32_t> asleep_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the kernel compares the word itself");
};

}  // namespace weft
