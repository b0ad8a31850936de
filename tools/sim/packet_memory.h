// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Packet buffers for a process without devices: no hugepages to be reserved.
#pragma once

#include <cstdint>

#include "switch/pipeline/pool.h"

namespace weft::sim {

/// Bytes of a buffer that has room for headers alone: 64 bytes of headroom and pipeline::kHeaderBytes.
inline constexpr std::uint16_t kHeaderRoom = 256;
/// Bytes of a buffer for whole frames whose RoCE payload has up to `mtu` bytes.
[[nodiscard]] constexpr std::uint16_t frame_room(std::uint32_t mtu) noexcept {
  return static_cast<std::uint16_t>(kHeaderRoom + mtu);
}

/// Buffers of `room` bytes. nullptr when the memory is not there.
/// The memory is the process's own and asks the kernel for transparent huge pages: packets under way do not fit into
/// the caches, and with small pages not even their addresses would.
[[nodiscard]] pipeline::Pool make_packet_pool(std::uint32_t mbufs, std::uint16_t room = kHeaderRoom);

}  // namespace weft::sim
