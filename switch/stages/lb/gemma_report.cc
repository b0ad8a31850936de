// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/gemma_report.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "switch/wire/checksum.h"
#include "switch/wire/parsed.h"

namespace weft::stages {
namespace {

using wire::EthernetHeader;
using wire::header_at;
using wire::Ipv4Header;
using wire::UdpHeader;

constexpr std::uint32_t kAllRouters = 0xe0000002;  ///< 224.0.0.2

/// LbTagHeader::content of kind gemma_report.
struct ReportContent {
  wire::be16 entries;
  std::array<std::uint8_t, 5> reserved;  ///< sent as 0, not looked at
};
static_assert(sizeof(ReportContent) == sizeof(LbTagHeader::content));

std::uint16_t units_of(std::uint64_t bytes) noexcept {
  return static_cast<std::uint16_t>(std::min<std::uint64_t>((bytes + kReportUnitBytes - 1) / kReportUnitBytes, 0xffff));
}

void write_ip(std::uint8_t* at, const ReportSender& sender, std::size_t bytes) noexcept {
  auto& ip = header_at<Ipv4Header>(at);
  ip.version_ihl = 0x45;
  ip.tos = wire::make_tos(sender.dscp, wire::Ecn::not_ect);
  ip.total_length.set(static_cast<std::uint16_t>(bytes));
  ip.identification.set(0);
  ip.flags_fragment.set(Ipv4Header::kDontFragment);
  ip.ttl = kReportTtl;
  ip.protocol = wire::IpProtocol::udp;
  ip.source.set(sender.address.is_v6() ? 0 : sender.address.v4_value());
  ip.destination.set(kAllRouters);
  ip.checksum.set(0);
  ip.checksum.set(wire::ipv4_checksum(ip));
}

}  // namespace

std::size_t write_report(std::span<std::uint8_t> out, const ReportSender& sender,
                         std::span<const GemmaEntry> entries) noexcept {
  const std::size_t used = report_bytes(entries.size());
  const std::size_t bytes = std::max(used, wire::kMinFrameBytes);
  if (out.size() < bytes || entries.size() > kMaxReportEntries) return 0;
  auto& eth = header_at<EthernetHeader>(out.data());
  eth.destination = wire::MacAddress::from_u64(0x01005e000002);
  eth.source = sender.mac;
  eth.ethertype.set(wire::EtherType::ipv4);
  std::uint8_t* at = out.data() + sizeof eth;
  write_ip(at, sender, used - sizeof eth);
  at += sizeof(Ipv4Header);
  auto& udp = header_at<UdpHeader>(at);
  udp.source_port.set(kTagUdpPort);
  udp.destination_port.set(kTagUdpPort);
  udp.length.set(static_cast<std::uint16_t>(used - sizeof eth - sizeof(Ipv4Header)));
  udp.checksum.set(0);
  at += sizeof udp;
  LbTagHeader header{};
  header.version_kind = version_kind(TagKind::gemma_report);
  ReportContent content{};
  content.entries.set(static_cast<std::uint16_t>(entries.size()));
  header.content = std::bit_cast<decltype(header.content)>(content);
  std::memcpy(at, &header, sizeof header);
  at += sizeof header;
  for (const GemmaEntry& entry : entries) {
    auto& to = header_at<GemmaEntryBytes>(at);
    to.leaf.set(entry.leaf);
    to.queue.set(units_of(entry.bytes));
    at += sizeof to;
  }
  std::fill(at, out.data() + bytes, std::uint8_t{0});
  return bytes;
}

std::span<const GemmaEntry> read_report(const std::uint8_t* frame, std::uint32_t contiguous, const wire::Parsed& parsed,
                                        std::span<GemmaEntry> room) noexcept {
  const std::size_t first = parsed.l4_offset + sizeof(UdpHeader) + kTagBytes;
  const std::size_t told = std::bit_cast<ReportContent>(tag_header(frame, parsed).content).entries.value();
  const std::size_t held =
      header_at<UdpHeader>(frame + parsed.l4_offset).length.value() - sizeof(UdpHeader) - kTagBytes;
  const std::size_t bytes = told * sizeof(GemmaEntryBytes);
  if (bytes > held || first + bytes > contiguous) return {};
  const std::size_t count = std::min(told, room.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& entry = header_at<GemmaEntryBytes>(frame + first + i * sizeof(GemmaEntryBytes));
    room[i] = {entry.leaf.value(), entry.queue.value() * kReportUnitBytes};
  }
  return room.first(count);
}

bool is_from_neighbour(const wire::Parsed& parsed) noexcept {
  return !parsed.has(wire::ParsedFlag::ipv6) && parsed.ttl == kReportTtl;
}

}  // namespace weft::stages
