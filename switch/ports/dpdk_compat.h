// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Everything that differs between DPDK 22.11 and later releases. Nothing else asks for the version.
#pragma once

#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "weft needs DPDK 22.11 or later"
#endif

namespace weft::ports {

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

}  // namespace weft::ports
