// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/port.h"

#include <rte_mbuf.h>

namespace weft::ports {

wire::MacAddress derived_mac(const pipeline::PortInfo& info, std::uint64_t seed) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ull ^ seed;
  for (const char c : info.name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  hash ^= hash >> 32;
  return wire::MacAddress::from_u64(std::uint64_t{0x02} << 40 | (hash & 0xffffffff) << 8 | (info.index & 0xff));
}

std::uint32_t buffer_bytes(rte_mempool* pool) noexcept {
  return rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
}

std::string too_large_for_buffers(const std::string& what, rte_mempool* pool) {
  return what + " do not fit into packet buffers of " + std::to_string(buffer_bytes(pool)) +
         " bytes and 128 of headroom (set eal.mbuf_data_room_bytes)";
}

}  // namespace weft::ports
