// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <rte_mempool.h>

#include <cstdlib>
#include <cstring>

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace weft::testing {

/// Tells ThreadSanitizer that a packet buffer which one thread gives back to its pool, and another takes from it, is
/// never used by both at once. It cannot see that: DPDK's ring of free buffers is in a library without instrumentation,
/// and orders its threads by instructions of its own. Call it after rte_eal_init(); without ThreadSanitizer it does
/// nothing.
inline void show_mempools_to_tsan() {
#ifdef __SANITIZE_THREAD__
  static rte_mempool_enqueue_t enqueue = nullptr;
  static rte_mempool_dequeue_t dequeue = nullptr;
  for (std::uint32_t i = 0; i < rte_mempool_ops_table.num_ops; ++i) {
    rte_mempool_ops& ops = rte_mempool_ops_table.ops[i];
    if (std::strcmp(ops.name, "ring_mp_mc") != 0) continue;
    enqueue = ops.enqueue;
    dequeue = ops.dequeue;
    ops.enqueue = [](rte_mempool* pool, void* const* buffers, unsigned count) {
      __tsan_release(pool);
      return enqueue(pool, buffers, count);
    };
    ops.dequeue = [](rte_mempool* pool, void** buffers, unsigned count) {
      const int result = dequeue(pool, buffers, count);
      __tsan_acquire(pool);
      return result;
    };
    return;
  }
  std::abort();
#endif
}

}  // namespace weft::testing
