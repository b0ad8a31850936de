// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/pool.h"

#include <rte_errno.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memcpy.h>

#include <algorithm>

#include "switch/pipeline/packet.h"
#include "switch/pipeline/writable.h"
#include "switch/wire/headers.h"

namespace weft::pipeline {
namespace {

// Up to this size a plain copy costs less than a second buffer and its reference count.
constexpr std::uint32_t kCopyWhole = 512;

// Bytes between a buffer's PacketMeta and its headroom with which the payload behind Ethernet, IPv4, UDP and BTH begins
// on a cache line: the mbuf does, and is followed by the PacketMeta.
constexpr std::size_t kBeforePayload = sizeof(rte_mbuf) + kMetaSize + RTE_PKTMBUF_HEADROOM +
                                       sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header) +
                                       sizeof(wire::UdpHeader) + sizeof(wire::Bth);
constexpr std::size_t kPayloadShift = -kBeforePayload % RTE_CACHE_LINE_SIZE;

// Drops a first segment that has become empty. Otherwise copies of copies would collect empty segments.
rte_mbuf* without_first(rte_mbuf* m) noexcept {
  rte_mbuf* next = m->next;
  next->pkt_len = m->pkt_len;
  next->nb_segs = static_cast<std::uint16_t>(m->nb_segs - 1);
  rte_pktmbuf_free_seg(m);
  return next;
}

}  // namespace

int detail::scratch_offset = -1;

bool reserve_scratch() noexcept {
  constexpr rte_mbuf_dynfield kField{"weft_scratch", sizeof(std::uint64_t), alignof(std::uint64_t), 0};
  detail::scratch_offset = rte_mbuf_dynfield_register(&kField);
  return detail::scratch_offset >= 0;
}

Pool make_pool(const std::string& name, std::uint32_t count, std::uint16_t data_room_bytes, std::uint32_t cache,
               bool payload_aligned, int node) {
  if (!reserve_scratch()) return nullptr;
  const std::uint32_t usable_cache = std::min({cache, count * 2 / 3, std::uint32_t{RTE_MEMPOOL_CACHE_MAX_SIZE}});
  rte_pktmbuf_pool_private layout{};
  layout.mbuf_data_room_size = data_room_bytes;
  layout.mbuf_priv_size = static_cast<std::uint16_t>(kMetaSize + (payload_aligned ? kPayloadShift : 0));
  const auto buffer_bytes = static_cast<unsigned>(sizeof(rte_mbuf) + layout.mbuf_priv_size + data_room_bytes);
  // In steps, because rte_pktmbuf_pool_create() refuses a private area that is not a multiple of 8 bytes.
  Pool pool(rte_mempool_create_empty(name.c_str(), count, buffer_bytes, usable_cache, sizeof layout, node, 0));
  if (pool == nullptr) return nullptr;
  int result = rte_mempool_set_ops_byname(pool.get(), rte_mbuf_best_mempool_ops(), nullptr);
  if (result == 0) {
    rte_pktmbuf_pool_init(pool.get(), &layout);
    result = rte_mempool_populate_default(pool.get());
  }
  if (result < 0) {
    pool.reset();
    rte_errno = -result;
    return nullptr;
  }
  rte_mempool_obj_iter(pool.get(), rte_pktmbuf_init, nullptr);
  return pool;
}

rte_mbuf* replicate(rte_mempool* pool, rte_mbuf* m) noexcept {
  rte_mbuf* copy = rte_pktmbuf_alloc(pool);
  if (copy == nullptr) return nullptr;
  const std::uint32_t wanted = m->pkt_len <= kCopyWhole && m->nb_segs == 1 ? m->pkt_len : kHeaderBytes;
  const std::uint32_t room = rte_pktmbuf_tailroom(copy);
  const auto own = static_cast<std::uint16_t>(std::min({wanted, std::uint32_t{m->data_len}, room}));
  rte_memcpy(rte_pktmbuf_mtod(copy, void*), rte_pktmbuf_mtod(m, const void*), own);
  copy->data_len = own;
  copy->pkt_len = own;
  meta(copy) = meta(m);
  meta(copy).had_room = false;
  if (own == m->pkt_len) return copy;

  rte_mbuf* rest = rte_pktmbuf_clone(m, pool);
  if (rest == nullptr) {
    rte_pktmbuf_free(copy);
    return nullptr;
  }
  // The clone shares every segment; its view of the first one begins behind the bytes that the copy owns.
  rest->data_off = static_cast<std::uint16_t>(rest->data_off + own);
  rest->data_len = static_cast<std::uint16_t>(rest->data_len - own);
  rest->pkt_len -= own;
  if (rest->data_len == 0 && rest->next != nullptr) rest = without_first(rest);
  copy->next = rest;
  copy->nb_segs = static_cast<std::uint16_t>(1 + rest->nb_segs);
  copy->pkt_len += rest->pkt_len;
  if (icrc_offset(copy) && writable_icrc(copy) == nullptr) {
    rte_pktmbuf_free(copy);
    return nullptr;
  }
  return copy;
}

std::uint32_t own_header_bytes(const rte_mbuf* m) noexcept {
  return std::min<std::uint32_t>(kHeaderBytes, rte_pktmbuf_data_room_size(m->pool) - RTE_PKTMBUF_HEADROOM);
}

}  // namespace weft::pipeline
