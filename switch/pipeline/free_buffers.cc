// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/free_buffers.h"

#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_pause.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

namespace weft::pipeline {
namespace {

constexpr char kName[] = "weft_lifo";
static_assert(sizeof kName <= RTE_MEMPOOL_OPS_NAMESIZE);

// Looks at the lock after which its holder has probably lost its CPU. To copy a thousand pointers takes less.
constexpr int kSpins = 1000;

// Held while some pointers are copied. A worker comes here once for some hundred buffers, because its lcore has a
// cache, and waits for another one as it would in DPDK's ring, whose users wait for those before them to end.
class SpinLock {
 public:
  void lock() noexcept {
    while (held_.test_and_set(std::memory_order_acquire)) {
      for (int i = 0; held_.test(std::memory_order_relaxed); ++i) {
        if (i < kSpins) {
          rte_pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  void unlock() noexcept { held_.clear(std::memory_order_release); }

 private:
  std::atomic_flag held_;
};

struct FreeBuffers {
  alignas(64) SpinLock lock;
  unsigned count = 0;
  unsigned room = 0;
  std::unique_ptr<void*[]> items;
};

FreeBuffers& free_buffers_of(const rte_mempool* pool) {
  return *static_cast<FreeBuffers*>(pool->pool_data);
}

int make_free_buffers(rte_mempool* pool) {
  auto made = std::unique_ptr<FreeBuffers>(new (std::nothrow) FreeBuffers);
  if (made == nullptr) return -ENOMEM;
  made->items.reset(new (std::nothrow) void*[pool->size]);
  if (made->items == nullptr) return -ENOMEM;
  made->room = pool->size;
  pool->pool_data = made.release();
  return 0;
}

void forget_free_buffers(rte_mempool* pool) {
  delete static_cast<FreeBuffers*>(pool->pool_data);
}

int give_buffers(rte_mempool* pool, void* const* buffers, unsigned count) {
  FreeBuffers& free = free_buffers_of(pool);
  const std::lock_guard guard(free.lock);
  if (count > free.room - free.count) return -ENOBUFS;
  std::copy_n(buffers, count, free.items.get() + free.count);
  free.count += count;
  return 0;
}

// The caches of lcores take from the end of what they get here: the last one is the one that was freed last.
int take_buffers(rte_mempool* pool, void** buffers, unsigned count) {
  FreeBuffers& free = free_buffers_of(pool);
  const std::lock_guard guard(free.lock);
  if (free.count < count) return -ENOBUFS;
  free.count -= count;
  std::copy_n(free.items.get() + free.count, count, buffers);
  return 0;
}

unsigned count_buffers(const rte_mempool* pool) {
  FreeBuffers& free = free_buffers_of(pool);
  const std::lock_guard guard(free.lock);
  return free.count;
}

int register_kind() noexcept {
  rte_mempool_ops ops{};
  std::memcpy(ops.name, kName, sizeof kName);
  ops.alloc = make_free_buffers;
  ops.free = forget_free_buffers;
  ops.enqueue = give_buffers;
  ops.dequeue = take_buffers;
  ops.get_count = count_buffers;
  return rte_mempool_register_ops(&ops);
}

}  // namespace

const char* last_freed_first() noexcept {
  // DPDK lists the kinds of pools of a process for good.
  static const int kind = register_kind();
  if (kind >= 0) return kName;
  rte_errno = -kind;
  return nullptr;
}

}  // namespace weft::pipeline
