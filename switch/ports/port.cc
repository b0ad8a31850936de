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

std::string Port::shut(ShutBy who, bool shut) {
  const std::uint8_t before = shut_.load(std::memory_order_relaxed);
  const auto bit = static_cast<std::uint8_t>(who);
  const auto after = static_cast<std::uint8_t>(shut ? before | bit : before & ~bit);
  if (who == ShutBy::command && !shut && after != 0) {
    return "its interface in the kernel is down (ip link set IFACE up); the port has no link until both are up";
  }
  if (who == ShutBy::kernel && before == after) return "";
  // A command to open it asks for the link even when nobody had shut it: it may have been taken down elsewhere.
  const std::string error = after != 0 && before != 0 ? "" : set_link(after == 0);
  if (error.empty() || who != ShutBy::command) shut_.store(after, std::memory_order_relaxed);
  return error;
}

std::uint32_t buffer_bytes(rte_mempool* pool) noexcept {
  return rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
}

std::string too_large_for_buffers(const std::string& what, rte_mempool* pool) {
  return what + " do not fit into packet buffers of " + std::to_string(buffer_bytes(pool)) +
         " bytes and 128 of headroom (set eal.mbuf_data_room_bytes)";
}

}  // namespace weft::ports
