// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// DPDK's memif driver (22.11, memif_disconnect) unmaps the rings of a peer that has gone in DPDK's interrupt thread,
// after it has cleared a flag that receive and transmit look at when they begin. It does not wait for a burst that has
// begun before, so a thread that reads a ring at that moment crashes the program. weft lets that thread wait: its
// munmap() is called first, and calls the kernel's when no such burst is under way any more, however long that takes.
//
// It stands in the place of the C library's munmap() for the whole process because 22.11 has no other place for it: the
// driver tells nobody of a disconnection before it unmaps, it has no lock that a
// burst could take, and its receive and transmit functions are static. Threads but DPDK's interrupt thread pass through
// it for the price of one comparison. vhost needs none of this: its driver waits for bursts by itself.
#pragma once

#include <functional>

namespace weft::ports {

/// While one lives, the interrupt thread calls `wait_for_bursts` before it unmaps anything. One at a time.
class UnmapGuard {
 public:
  explicit UnmapGuard(std::function<void()> wait_for_bursts);
  ~UnmapGuard();
  UnmapGuard(const UnmapGuard&) = delete;
  UnmapGuard& operator=(const UnmapGuard&) = delete;
};

}  // namespace weft::ports
