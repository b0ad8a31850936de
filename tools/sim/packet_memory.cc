// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/packet_memory.h"

#include <rte_mbuf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>
#include <vector>

#include "switch/pipeline/packet.h"

namespace weft::sim {
namespace {

// Last in, first out: as many buffers are ever touched as were in use at once, and the next one is in the cache. DPDK's
// own stack would do, but for its lock, which ThreadSanitizer does not see.
struct FreeBuffers {
  std::mutex lock;
  std::vector<void*> items;
};

FreeBuffers& free_buffers_of(const rte_mempool* pool) {
  return *static_cast<FreeBuffers*>(pool->pool_data);
}

int make_free_buffers(rte_mempool* pool) {
  auto* made = new FreeBuffers;
  made->items.reserve(pool->size);
  pool->pool_data = made;
  return 0;
}

void forget_free_buffers(rte_mempool* pool) {
  delete static_cast<FreeBuffers*>(pool->pool_data);
}

int give_buffers(rte_mempool* pool, void* const* buffers, unsigned count) {
  FreeBuffers& free = free_buffers_of(pool);
  const std::lock_guard guard(free.lock);
  free.items.insert(free.items.end(), buffers, buffers + count);
  return 0;
}

int take_buffers(rte_mempool* pool, void** buffers, unsigned count) {
  FreeBuffers& free = free_buffers_of(pool);
  const std::lock_guard guard(free.lock);
  if (free.items.size() < count) return -ENOBUFS;
  std::reverse_copy(free.items.end() - count, free.items.end(), buffers);
  free.items.resize(free.items.size() - count);
  return 0;
}

unsigned count_buffers(const rte_mempool* pool) {
  FreeBuffers& free = free_buffers_of(pool);
  const std::lock_guard guard(free.lock);
  return static_cast<unsigned>(free.items.size());
}

rte_mempool_ops mempool_ops() {
  rte_mempool_ops ops{};
  std::copy_n("weft_lifo", sizeof "weft_lifo", ops.name);
  ops.alloc = make_free_buffers;
  ops.free = forget_free_buffers;
  ops.enqueue = give_buffers;
  ops.dequeue = take_buffers;
  ops.get_count = count_buffers;
  return ops;
}

}  // namespace

pipeline::Pool make_packet_pool(std::uint32_t mbufs, std::uint16_t room) {
  constexpr std::size_t kHugePage = 2 * 1024 * 1024;
  constexpr unsigned kCache = RTE_MEMPOOL_CACHE_MAX_SIZE;
  const unsigned buffer = static_cast<unsigned>(sizeof(rte_mbuf) + pipeline::kMetaSize) + room;
  if (!pipeline::reserve_scratch()) return nullptr;
  static int serial = 0;
  const std::string name = "weft_sim" + std::to_string(serial++);
  pipeline::Pool pool(rte_mempool_create_empty(name.c_str(), mbufs, buffer, std::min(kCache, mbufs * 2 / 3),
                                               sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0));
  if (!pool) return nullptr;
  // DPDK lists the kinds of pools of a process for good.
  static const int kind = [] {
    const rte_mempool_ops ops = mempool_ops();
    return rte_mempool_register_ops(&ops);
  }();
  if (kind < 0) return nullptr;
  pool->ops_index = kind;
  rte_pktmbuf_pool_private settings{};
  settings.mbuf_data_room_size = room;
  settings.mbuf_priv_size = pipeline::kMetaSize;
  rte_pktmbuf_pool_init(pool.get(), &settings);
  const std::size_t element = pool->header_size + pool->elt_size + pool->trailer_size;
  // No buffer lies across two pages of the size that the machine counts in, unless it is larger than one.
  constexpr std::size_t kPage = 4096;
  const std::size_t pages = element > kPage ? (mbufs * element) / kPage + 1 : mbufs / (kPage / element) + 1;
  const std::size_t bytes = (pages * kPage + kHugePage) / kHugePage * kHugePage;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_HUGEPAGE);
  const auto unmap = [](rte_mempool_memhdr* chunk, void* size) {
    munmap(chunk->addr, reinterpret_cast<std::uintptr_t>(size));
  };
  const int got = rte_mempool_populate_iova(pool.get(), static_cast<char*>(memory), RTE_BAD_IOVA, bytes, unmap,
                                            reinterpret_cast<void*>(bytes));
  if (got < static_cast<int>(mbufs)) return nullptr;
  rte_mempool_obj_iter(pool.get(), rte_pktmbuf_init, nullptr);
  return pool;
}

}  // namespace weft::sim
