// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The pcapng file format (draft-ietf-opsawg-pcapng), as much of it as captures need. DPDK 22.11's rte_pcapng is not
// used: it writes no packet comments, knows only ports that are ethernet devices, and writes to files only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft::capture {

/// Epoch time of packets, in nanoseconds.
using EpochNs = std::uint64_t;

/// Direction of a packet, seen from the switch; values of epb_flags.
enum class PcapngDirection : std::uint8_t { unknown = 0, inbound = 1, outbound = 2 };

/// One packet as a file shows it.
struct PcapngPacket {
  std::uint32_t interface = 0;
  EpochNs time = 0;
  std::uint32_t length = 0;  ///< on the wire; may exceed the bytes
  PcapngDirection direction = PcapngDirection::unknown;
  std::string_view comment{};
};

/// Appends the start of a file: section header in this machine's byte order.
void append_section(std::string& out, std::string_view application);
/// Appends an Ethernet interface; the first one has number 0. Times have nanoseconds.
void append_interface(std::string& out, std::string_view name, std::string_view description, std::uint32_t snaplen);
/// Appends a packet.
void append_packet(std::string& out, const PcapngPacket& packet, std::span<const std::uint8_t> bytes);
/// Appends what is known about an interface at the end: packets in the file, packets that were lost.
void append_statistics(std::string& out, std::uint32_t interface, EpochNs time, std::uint64_t packets,
                       std::uint64_t lost);

}  // namespace weft::capture
