// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Everything that differs between DPDK 22.11 and later releases. Nothing else asks for the version.
#pragma once

#include <rte_fib6.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include <cstdint>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "weft needs DPDK 22.11 or later"
#endif

namespace weft::pipeline {

/// 22.11's af_packet driver neither scatters nor reports frames that exceed its ring's frame size: it cuts them. Later
/// drivers size the ring from the MTU.
inline constexpr bool kAfPacketTruncates = RTE_VERSION < RTE_VERSION_NUM(26, 3, 0, 0);

/// Largest frame that an af_packet ring with 8192-byte frames carries: the ring's own header takes the rest.
inline constexpr unsigned kAfPacketFrameSize = 8192;
inline constexpr unsigned kAfPacketBlockSize = 65536;
/// Frames of an af_packet ring, the driver's default.
inline constexpr unsigned kAfPacketRingFrames = 512;
inline constexpr unsigned kAfPacketMaxFrame = kAfPacketFrameSize - 96;
/// What the driver demands of a packet buffer behind its headroom, for that frame size.
inline constexpr unsigned kAfPacketBufferBytes = kAfPacketFrameSize - 32;

// Addresses of rte_fib6 are 16 bytes, and from 24.11 on a structure of those 16 bytes.
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
using Fib6Address = rte_ipv6_addr;
inline const Fib6Address* fib6_address(const std::uint8_t* bytes) noexcept {
  return reinterpret_cast<const Fib6Address*>(bytes);
}
inline const Fib6Address* fib6_addresses(const std::uint8_t* first) noexcept {
  return reinterpret_cast<const Fib6Address*>(first);
}
#else
inline const std::uint8_t* fib6_address(const std::uint8_t* bytes) noexcept {
  return bytes;
}
inline std::uint8_t (*fib6_addresses(const std::uint8_t* first) noexcept)[16] {
  return reinterpret_cast<std::uint8_t(*)[16]>(const_cast<std::uint8_t*>(first));
}
#endif

/// Adds an unsigned number to a telemetry dictionary; 23.03 gave the function another name.
inline int add_telemetry_number(rte_tel_data* data, const char* name, std::uint64_t value) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
  return rte_tel_data_add_dict_uint(data, name, value);
#else
  return rte_tel_data_add_dict_u64(data, name, value);
#endif
}

}  // namespace weft::pipeline
