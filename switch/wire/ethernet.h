// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Layer 2 headers: Ethernet II, 802.1Q, ARP for IPv4 over Ethernet, and MAC control (PAUSE and PFC).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/wire/addresses.h"
#include "switch/wire/types.h"

namespace weft::wire {

/// Ethertypes that weft reads. Smaller values than `first` are lengths of LLC frames.
struct EtherType {
  static constexpr std::uint16_t first = 0x0600;
  static constexpr std::uint16_t ipv4 = 0x0800;
  static constexpr std::uint16_t arp = 0x0806;
  static constexpr std::uint16_t vlan = 0x8100;  ///< 802.1Q customer tag
  static constexpr std::uint16_t ipv6 = 0x86dd;
  static constexpr std::uint16_t mac_control = 0x8808;   ///< 802.3 clause 31
  static constexpr std::uint16_t service_vlan = 0x88a8;  ///< 802.1ad service tag
  static constexpr std::uint16_t lldp = 0x88cc;
};

/// Smallest Ethernet frame without FCS. Shorter frames get padded by the sender's MAC.
inline constexpr std::size_t kMinFrameBytes = 60;

/// Ethernet II header, 14 bytes.
struct EthernetHeader {
  MacAddress destination;
  MacAddress source;
  be16 ethertype;
};
static_assert(sizeof(EthernetHeader) == 14 && alignof(EthernetHeader) == 1);
static_assert(offsetof(EthernetHeader, source) == 6 && offsetof(EthernetHeader, ethertype) == 12);

/// What follows the tag's ethertype (IEEE 802.1Q 9.6): tag control information, then the ethertype of the content.
struct VlanTag {
  be16 tci;
  be16 ethertype;

  /// VLAN identifier, 0-4095. 0 is a priority tag; 4095 is reserved.
  [[nodiscard]] constexpr std::uint16_t vid() const noexcept { return tci.value() & 0x0fff; }
  /// Bits above the twelfth are discarded.
  constexpr void set_vid(std::uint16_t v) noexcept {
    tci.set(static_cast<std::uint16_t>((tci.value() & 0xf000) | (v & 0x0fff)));
  }
  /// Drop eligible indicator.
  [[nodiscard]] constexpr bool dei() const noexcept { return (tci.value() & 0x1000) != 0; }
  constexpr void set_dei(bool v) noexcept {
    tci.set(static_cast<std::uint16_t>((tci.value() & 0xefff) | (v ? 0x1000 : 0)));
  }
  /// Priority code point, 0-7.
  [[nodiscard]] constexpr std::uint8_t pcp() const noexcept { return static_cast<std::uint8_t>(tci.value() >> 13); }
  /// Bits above the third are discarded.
  constexpr void set_pcp(std::uint8_t v) noexcept {
    tci.set(static_cast<std::uint16_t>((tci.value() & 0x1fff) | (v & 7) << 13));
  }
};
static_assert(sizeof(VlanTag) == 4 && offsetof(VlanTag, ethertype) == 2);

/// ARP operations (RFC 826).
struct ArpOperation {
  static constexpr std::uint16_t request = 1;
  static constexpr std::uint16_t reply = 2;
};

/// ARP for IPv4 over Ethernet, 28 bytes.
struct ArpHeader {
  be16 hardware_type;            ///< 1: Ethernet
  be16 protocol_type;            ///< 0x0800: IPv4
  std::uint8_t hardware_length;  ///< 6
  std::uint8_t protocol_length;  ///< 4
  be16 operation;
  MacAddress sender_mac;
  be32 sender_ip;
  MacAddress target_mac;
  be32 target_ip;

  static constexpr std::uint16_t kEthernet = 1;
};
static_assert(sizeof(ArpHeader) == 28 && alignof(ArpHeader) == 1);
static_assert(offsetof(ArpHeader, operation) == 6 && offsetof(ArpHeader, sender_mac) == 8);
static_assert(offsetof(ArpHeader, sender_ip) == 14 && offsetof(ArpHeader, target_mac) == 18);
static_assert(offsetof(ArpHeader, target_ip) == 24);

/// Destination of PAUSE and PFC frames, 01:80:c2:00:00:01, which bridges never forward (IEEE 802.3 annex 31B).
inline constexpr MacAddress kMacControlAddress = MacAddress::from_u64(0x0180c2000001);

/// MAC control opcodes.
struct MacControlOpcode {
  static constexpr std::uint16_t pause = 0x0001;  ///< IEEE 802.3 annex 31B
  static constexpr std::uint16_t pfc = 0x0101;    ///< IEEE 802.1Qbb, priority-based flow control
};

/// Pause times count quanta of 512 bit times of the link.
inline constexpr std::uint32_t kPauseQuantumBits = 512;

/// What follows the Ethernet header of a PAUSE frame; the rest of the 60 bytes is zero.
struct PauseHeader {
  be16 opcode;
  be16 quanta;  ///< 0: transmit again
};
static_assert(sizeof(PauseHeader) == 4 && offsetof(PauseHeader, quanta) == 2);

/// What follows the Ethernet header of a PFC frame; the rest of the 60 bytes is zero.
struct PfcHeader {
  be16 opcode;
  be16 class_enable;           ///< bit i: quanta[i] is meant; the upper eight bits are reserved
  std::array<be16, 8> quanta;  ///< per priority; 0: transmit again

  [[nodiscard]] constexpr bool enabled(unsigned priority) const noexcept {
    return (class_enable.value() >> (priority & 7) & 1) != 0;
  }
  constexpr void set_enabled(unsigned priority, bool v) noexcept {
    const unsigned bit = 1u << (priority & 7);
    class_enable.set(static_cast<std::uint16_t>((class_enable.value() & ~bit) | (v ? bit : 0)));
  }
};
static_assert(sizeof(PfcHeader) == 20 && offsetof(PfcHeader, class_enable) == 2 && offsetof(PfcHeader, quanta) == 4);

}  // namespace weft::wire
