// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// In-band network telemetry as HPCC needs it (Li et al., SIGCOMM 2019, section 4): each switch writes into a packet how
// busy the port is through which it leaves, and the receiver sends that back with its ACK. It travels in an IPv4 option
// of 40 bytes, the most that a header holds, which the sender puts there empty, so that no packet grows on its way.
//
//   byte 0      94: an option for experiments, of the class of measurements, not copied to fragments (RFC 4727)
//        1      40
//        2      kind (4 bits: 0 collects, 1 echo, 2 mirror), hops (4 bits)
//        3      path: exclusive or of a byte of each port on the way
//        4..39  six records of six bytes, in the order of the hops. From the most significant bit on:
//               speed (4 bits), time (16), sent (16), queue (12)
//
// HPCC's own header has records of eight bytes for five hops; six let a path between data centres fit. So that few bits
// are enough, time and bytes are both counted in slots of 128 bytes, a slot of time being what the port takes to send
// them: sent over time is the utilisation at any speed, and either wraps after 8 MiB, 0.67 ms at 100 Gbit/s. Packets
// with this option are no RoCEv2 for RNICs that know nothing of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/wire/ip.h"

namespace weft::wire {

inline constexpr std::uint8_t kIntOptionType = 94;
inline constexpr std::size_t kIntOptionBytes = 40;
inline constexpr std::size_t kIntHops = 6;
inline constexpr std::uint32_t kIntSlotBytes = 128;   ///< unit of time and sent
inline constexpr std::uint32_t kIntQueueBytes = 512;  ///< unit of queue
inline constexpr std::uint32_t kIntMaxQueue = 0xfff;  ///< longer queues count as this: 2 MiB

/// Speeds in Mbit/s by their code. 0: none.
inline constexpr std::array<std::uint32_t, 16> kIntSpeedsMbps{0,       10,      100,       1'000,    2'500,   5'000,
                                                              10'000,  25'000,  40'000,    50'000,   100'000, 200'000,
                                                              400'000, 800'000, 1'600'000, 3'200'000};

/// Code of the fastest speed that is not above this one; 0 below 10 Mbit/s.
[[nodiscard]] constexpr std::uint8_t int_speed_code(std::uint64_t mbps) noexcept {
  std::uint8_t code = 0;
  while (code + 1u < kIntSpeedsMbps.size() && kIntSpeedsMbps[code + 1u] <= mbps) ++code;
  return code;
}

enum class IntKind : std::uint8_t {
  collects,  ///< on its way to the receiver: switches add records
  echo,      ///< on its way back from the receiver: switches leave it alone
  mirror,    ///< the same from a switch on the way, which has taken the records out of the packet that collected them
};

/// What one port has said.
struct IntHop {
  std::uint8_t speed = 0;   ///< code
  std::uint16_t time = 0;   ///< slots, modulo 65536
  std::uint16_t sent = 0;   ///< slots, modulo 65536
  std::uint16_t queue = 0;  ///< behind the packet, in kIntQueueBytes, at most kIntMaxQueue

  friend constexpr bool operator==(const IntHop&, const IntHop&) = default;
};

/// What all ports on the way have said.
struct IntPath {
  std::uint8_t hops = 0;
  std::uint8_t path = 0;
  std::array<IntHop, kIntHops> hop{};

  friend constexpr bool operator==(const IntPath&, const IntPath&) = default;
};

/// The option of an IPv4 header, of which all `ihl` words are there; nullptr when it has none that is right and alone.
template <typename Byte>
[[nodiscard]] Byte* find_int_option(Byte* ip) noexcept {
  constexpr std::uint8_t kVersionIhl = 0x40 | (sizeof(Ipv4Header) + kIntOptionBytes) / 4;
  Byte* const option = ip + sizeof(Ipv4Header);
  if (ip[0] != kVersionIhl || option[0] != kIntOptionType || option[1] != kIntOptionBytes) return nullptr;
  const bool known = option[2] >> 4 <= static_cast<std::uint8_t>(IntKind::mirror) && (option[2] & 15) <= kIntHops;
  return known ? option : nullptr;
}

[[nodiscard]] inline IntKind int_kind(const std::uint8_t* option) noexcept {
  return static_cast<IntKind>(option[2] >> 4);
}

/// How many ports have written into an option: at most kIntHops in one that find_int_option() has found.
[[nodiscard]] inline std::uint8_t int_hops(const std::uint8_t* option) noexcept {
  return option[2] & 15;
}

/// An option without records.
inline void begin_int(std::uint8_t* option, IntKind kind) noexcept {
  for (std::size_t i = 0; i < kIntOptionBytes; ++i) option[i] = 0;
  option[0] = kIntOptionType;
  option[1] = kIntOptionBytes;
  option[2] = static_cast<std::uint8_t>(static_cast<unsigned>(kind) << 4);
}

/// Adds a record, and the port's byte to the path.
/// @return false when all places are taken: nothing has changed
[[nodiscard]] inline bool append_int(std::uint8_t* option, const IntHop& hop, std::uint8_t port) noexcept {
  const unsigned hops = int_hops(option);
  if (hops >= kIntHops) return false;
  const std::uint64_t bits = std::uint64_t{hop.speed} << 44 | std::uint64_t{hop.time} << 28 |
                             std::uint64_t{hop.sent} << 12 | (hop.queue & kIntMaxQueue);
  std::uint8_t* const record = option + 4 + hops * 6;
  for (unsigned i = 0; i < 6; ++i) record[i] = static_cast<std::uint8_t>(bits >> (40 - 8 * i));
  ++option[2];
  option[3] ^= port;
  return true;
}

[[nodiscard]] inline IntPath read_int(const std::uint8_t* option) noexcept {
  IntPath path;
  path.hops = int_hops(option);
  path.path = option[3];
  for (unsigned h = 0; h < path.hops; ++h) {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 6; ++i) bits = bits << 8 | option[4 + h * 6 + i];
    path.hop[h] = {static_cast<std::uint8_t>(bits >> 44), static_cast<std::uint16_t>(bits >> 28),
                   static_cast<std::uint16_t>(bits >> 12), static_cast<std::uint16_t>(bits & kIntMaxQueue)};
  }
  return path;
}

/// The option with the records of `path`.
inline void write_int(std::uint8_t* option, IntKind kind, const IntPath& path) noexcept {
  begin_int(option, kind);
  for (unsigned h = 0; h < path.hops; ++h) static_cast<void>(append_int(option, path.hop[h], 0));
  option[3] = path.path;
}

}  // namespace weft::wire
