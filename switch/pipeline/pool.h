// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>

#include <cstdint>
#include <memory>
#include <string>

namespace weft::pipeline {

struct PoolDeleter {
  void operator()(rte_mempool* pool) const noexcept { rte_mempool_free(pool); }
};
using Pool = std::unique_ptr<rte_mempool, PoolDeleter>;

/// Has DPDK reserve scratch() in all buffers. make_pool() does it; who makes a pool by hand calls it before. False when
/// there is no room; rte_errno says why.
[[nodiscard]] bool reserve_scratch() noexcept;

/// A packet pool whose buffers carry a PacketMeta.
/// @param name            unique in the process
/// @param count           buffers
/// @param data_room_bytes bytes per buffer, the 128 bytes of headroom included
/// @param cache           buffers kept per lcore, 0 to 512
/// @param payload_aligned frames lie so in their buffers that a RoCE payload behind Ethernet, IPv4, UDP and BTH begins
///                        on a cache line, which spares vector instructions loads across two lines. Parsers of headers
///                        pay for it, and a buffer's private area has up to 63 unused bytes behind the PacketMeta.
/// @param node            NUMA node of the memory; SOCKET_ID_ANY: wherever there is some
/// @return nullptr when the memory is not there; rte_errno says why.
[[nodiscard]] Pool make_pool(const std::string& name, std::uint32_t count, std::uint16_t data_room_bytes,
                             std::uint32_t cache, bool payload_aligned = false, int node = SOCKET_ID_ANY);

/// A copy of `m` whose header bytes are its own, and of a RoCE packet the ICRC too; see Context::replicate(). Small
/// packets are copied whole; of others: own header | payload shared with `m` | own ICRC.
/// @return nullptr when the pool is empty; nothing has changed then
[[nodiscard]] rte_mbuf* replicate(rte_mempool* pool, rte_mbuf* m) noexcept;

/// Header bytes of the first segment that no copy of replicate() shares: kHeaderBytes, or as many as a buffer of the
/// pool of `m` has room for.
[[nodiscard]] std::uint32_t own_header_bytes(const rte_mbuf* m) noexcept;

}  // namespace weft::pipeline
