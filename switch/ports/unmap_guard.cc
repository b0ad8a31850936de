// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/unmap_guard.h"

#include <rte_interrupts.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace weft::ports {
namespace {

std::mutex guard_mutex;
std::function<void()> guard;

}  // namespace

UnmapGuard::UnmapGuard(std::function<void()> wait_for_bursts) {
  const std::lock_guard lock(guard_mutex);
  guard = std::move(wait_for_bursts);
}

UnmapGuard::~UnmapGuard() {
  const std::lock_guard lock(guard_mutex);
  guard = nullptr;
}

}  // namespace weft::ports

// The definition in the program comes before that of the C library, for DPDK's libraries too.
extern "C" __attribute__((visibility("default"))) int munmap(void* address, std::size_t bytes) noexcept {
  if (rte_thread_is_intr() != 0) {
    const std::lock_guard lock(weft::ports::guard_mutex);
    if (weft::ports::guard) weft::ports::guard();
  }
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}
