// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Gemma's report of queue lengths as it lies in a packet between neighbours: UDP over IPv4 to all routers on the link
// (224.0.0.2, RFC 1112) and port kTagUdpPort, with a TTL of 255, which no router forwards and none could have
// forwarded (RFC 5082): a host behind another switch cannot make one. Behind the UDP header lies a tag of kind
// gemma_report, then four bytes for each leaf. A protocol unit: bytes in, bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/stages/lb/tag.h"
#include "switch/wire/addresses.h"
#include "switch/wire/headers.h"
#include "switch/wire/types.h"

namespace weft::stages {

inline constexpr std::uint8_t kReportTtl = 255;

/// How much waits on its way to a leaf.
struct GemmaEntry {
  std::uint16_t leaf = 0;   ///< its id
  std::uint64_t bytes = 0;  ///< read: a multiple of kReportUnitBytes
  friend bool operator==(const GemmaEntry&, const GemmaEntry&) = default;
};

/// The entry as it lies in the packet.
struct GemmaEntryBytes {
  wire::be16 leaf;
  wire::be16 queue;  ///< in units of kReportUnitBytes, rounded up; 0xffff: that long, or longer
};
static_assert(sizeof(GemmaEntryBytes) == 4 && alignof(GemmaEntryBytes) == 1);
inline constexpr std::uint64_t kReportUnitBytes = 256;
inline constexpr std::size_t kMaxReportEntries = 256;

/// Bytes of a report's frame with so many entries, without padding and FCS.
[[nodiscard]] constexpr std::size_t report_bytes(std::size_t entries) noexcept {
  return sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header) + sizeof(wire::UdpHeader) + kTagBytes +
         entries * sizeof(GemmaEntryBytes);
}

/// Who sends a report.
struct ReportSender {
  wire::MacAddress mac{};     ///< of the port
  wire::IpAddress address{};  ///< of the port, IPv4; unspecified when it has none
  std::uint8_t dscp = 0;
};

/// The frame of a report.
/// @param out      report_bytes(entries.size()) or kMinFrameBytes, whichever is more
/// @param entries  at most kMaxReportEntries
/// @return bytes used; 0 when `out` has no room
[[nodiscard]] std::size_t write_report(std::span<std::uint8_t> out, const ReportSender& sender,
                                       std::span<const GemmaEntry> entries) noexcept;

/// The entries of a report that lie in the frame.
/// @param contiguous  bytes of it that can be read
/// @param parsed      of a frame whose tag_validity() is ok, and tag_kind() gemma_report
/// @param room        as many as fit are read
/// @return the entries; empty when it has none, or says more than it holds
[[nodiscard]] std::span<const GemmaEntry> read_report(const std::uint8_t* frame, std::uint32_t contiguous,
                                                      const wire::Parsed& parsed, std::span<GemmaEntry> room) noexcept;

/// The packet comes from a neighbour, as kReportTtl says.
[[nodiscard]] bool is_from_neighbour(const wire::Parsed& parsed) noexcept;

}  // namespace weft::stages
