// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the egress of a ToR for RoCE looks like when its configuration does not say.
#pragma once

#include <cstdint>

#include "switch/qos/settings.h"

namespace weft::qos {

/// Traffic classes that are lossless: 3 and 4.
inline constexpr std::uint8_t kLosslessClasses = 0b00011000;
/// Bytes that all ports share, reserves and headroom not counted.
inline constexpr std::uint64_t kDefaultSharedBytes = 12'000'000;

/// What is known of a port before its qos is.
struct PortFacts {
  std::uint64_t speed_mbps = 100'000;
  std::uint64_t delay_ns = 0;  ///< one way
  std::uint32_t mtu_bytes = 1500;
  std::uint16_t workers = 1;     ///< that may each have received a burst which is not counted yet
  std::uint64_t away_ns = 0;     ///< longest time in which nobody looks at the port: naps and other work of its worker
  std::uint32_t rx_packets = 0;  ///< that the device keeps meanwhile; 0: as many as come
};

/// Marks as HPCC's simulator sets them: Kmin 4000 bytes per Gbit/s, Kmax four times that, Pmax 0.2.
[[nodiscard]] WredSettings default_wred(std::uint64_t speed_mbps) noexcept;
/// What headroom is made of, in bytes.
struct HeadroomParts {
  std::uint64_t on_the_link = 0;  ///< what travels both ways
  std::uint64_t frames = 0;       ///< the frame that is being sent at either end
  std::uint64_t bursts = 0;       ///< a burst of every worker that was received before the pause could be sent
  std::uint64_t kept = 0;         ///< what the device has kept while nobody looked at it

  [[nodiscard]] std::uint64_t sum() const noexcept { return on_the_link + frames + bursts + kept; }
};
[[nodiscard]] HeadroomParts headroom_parts(const PortFacts& facts) noexcept;
/// What may arrive after XOFF: what travels both ways, the frame that is being sent at either end, a burst of every
/// worker that was received before the pause could be sent, and what the device has kept while nobody looked at it.
/// What waits between workers is none of it: it is charged to its group already.
[[nodiscard]] std::uint64_t default_headroom(const PortFacts& facts) noexcept;
/// Of a lossless priority group, of one that is lossy, of a lossless queue, of one that is lossy.
[[nodiscard]] BufferShare lossless_group(const PortFacts& facts) noexcept;
[[nodiscard]] BufferShare lossy_group() noexcept;
[[nodiscard]] BufferShare lossless_queue() noexcept;
[[nodiscard]] BufferShare lossy_queue() noexcept;

/// Gives the groups and queues of a port, by its map, what is usual for them.
/// @param lossless  bit i: traffic class i
void set_shares(PortSettings& port, const PortFacts& facts, std::uint8_t lossless) noexcept;

/// Classes 3 and 4 lossless with ECN, queues 6 (CNP) and 7 strict, the others equal.
[[nodiscard]] PortSettings default_port(const PortFacts& facts) noexcept;
/// All reserves and headroom, and kDefaultSharedBytes.
[[nodiscard]] std::uint64_t default_pool_bytes(const Settings& settings) noexcept;
/// Reserves and headroom of all groups.
[[nodiscard]] std::uint64_t own_bytes(const Settings& settings) noexcept;

}  // namespace weft::qos
