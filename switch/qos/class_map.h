// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// From a packet's DSCP or 802.1p priority to its traffic class, and from there to the queue of its egress port and the
// priority group of its ingress port.
#pragma once

#include <array>
#include <cstdint>

#include "switch/qos/types.h"
#include "switch/wire/parsed.h"

namespace weft::qos {

/// The maps of a port, by SONiC's names.
struct ClassMap {
  std::array<std::uint8_t, 64> dscp_to_tc{};
  std::array<std::uint8_t, kClasses> dot1p_to_tc{};
  std::array<std::uint8_t, kClasses> tc_to_queue{};
  std::array<std::uint8_t, kClasses> tc_to_group{};  ///< TC_TO_PRIORITY_GROUP_MAP
  bool trust_dscp = true;                            ///< IP packets go by DSCP; otherwise by their tag as all others

  /// What switches do without configuration: DSCP 3 and 4, and 24 to 31 and 32 to 39 that RDMA adapters use by default,
  /// are the lossless classes 3 and 4; CNPs (DSCP 48) are class 6; otherwise the class selector, the upper three bits.
  /// 802.1p priorities and queues are the classes; lossless classes and 7 have a group of their own.
  [[nodiscard]] static ClassMap defaults() noexcept;
  bool operator==(const ClassMap&) const = default;
};

/// Bit i: packets of DSCP i belong to one of the traffic classes in `classes` (bit j: class j).
[[nodiscard]] std::uint64_t dscps_of(const ClassMap& map, std::uint8_t classes) noexcept;

/// A packet's place: queue and priority group in one byte.
struct PacketClass {
  std::uint8_t value = 0;
  [[nodiscard]] constexpr std::uint8_t queue() const noexcept { return value & 7; }
  [[nodiscard]] constexpr std::uint8_t group() const noexcept { return value >> 3 & 7; }
  static constexpr PacketClass of(unsigned queue, unsigned group) noexcept {
    return {static_cast<std::uint8_t>((queue & 7) | (group & 7) << 3)};
  }
};

/// A ClassMap laid out for one look-up per packet.
class Classifier {
 public:
  Classifier() : Classifier(ClassMap::defaults()) {}
  explicit Classifier(const ClassMap& map) noexcept;

  [[nodiscard]] PacketClass classify(const wire::Parsed& parsed) const noexcept {
    const bool by_dscp = parsed.kind >= first_ip_;
    const unsigned tag = parsed.has(wire::ParsedFlag::vlan_tagged) ? 64u + (parsed.vlan_tci >> 13) : kUntagged;
    return table_[by_dscp ? parsed.tos >> 2 : tag];
  }

 private:
  static constexpr unsigned kUntagged = 64 + kClasses;
  std::array<PacketClass, kUntagged + 1> table_{};
  wire::FrameKind first_ip_;  ///< kinds from here on go by DSCP
};

}  // namespace weft::qos
