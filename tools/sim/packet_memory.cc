// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/packet_memory.h"

#include <rte_mbuf.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "switch/pipeline/free_buffers.h"
#include "switch/pipeline/packet.h"

namespace weft::sim {

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
  const char* const kind = pipeline::last_freed_first();
  if (kind == nullptr || rte_mempool_set_ops_byname(pool.get(), kind, nullptr) != 0) return nullptr;
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
