// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/conweave_tag.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "switch/tables/ecmp_hash.h"
#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"
#include "switch/wire/packet_addresses.h"

namespace weft::stages {
namespace {

using wire::EthernetHeader;
using wire::header_at;
using wire::Ipv4Header;
using wire::Ipv6Header;
using wire::Parsed;
using wire::UdpHeader;

constexpr std::uint16_t kAnswerUdpBytes = sizeof(UdpHeader) + kTagBytes;
constexpr std::uint8_t kAnswerTtl = 64;

// The IP header of the packet that is answered becomes that of the answer.
void turn_ip(std::uint8_t* l3, const Parsed& parsed, std::uint8_t tos) noexcept {
  if (parsed.has(wire::ParsedFlag::ipv6)) {
    auto& ip = header_at<Ipv6Header>(l3);
    ip.set_traffic_class(tos);
    ip.payload_length.set(kAnswerUdpBytes);
    ip.hop_limit = kAnswerTtl;
    std::swap(ip.source, ip.destination);
    return;
  }
  auto& ip = header_at<Ipv4Header>(l3);
  ip.tos = tos;
  ip.total_length.set(sizeof ip + kAnswerUdpBytes);
  ip.ttl = kAnswerTtl;
  std::swap(ip.source, ip.destination);
  ip.checksum.set(0);
  ip.checksum.set(wire::ipv4_checksum(ip));
}

}  // namespace

ConweaveLabel read_conweave(const LbTagHeader& header) noexcept {
  const auto& content = content_of<ConweaveContent>(header);
  const bool rerouted = (header.flags & ConweaveContent::kRerouted) != 0;
  return {.leaf = header.leaf.value(),
          .path = header.path,
          .tag = {.epoch = content.epoch,
                  .rerouted = rerouted,
                  // A TAIL takes the old path.
                  .tail = !rerouted && (header.flags & ConweaveContent::kTail) != 0,
                  .request = (header.flags & ConweaveContent::kRequest) != 0,
                  .sent = ConweaveTime::from_ticks(content.sent.value()),
                  .tail_sent = rerouted ? ConweaveTime::from_ticks(content.tail_sent.value()) : ConweaveTime{}}};
}

std::optional<ConweaveAnswer> read_answer(const LbTagHeader& header) noexcept {
  const std::uint8_t kind = header.flags & ConweaveContent::kReplyKind;
  if (kind > static_cast<std::uint8_t>(ConweaveReply::Kind::notify)) return std::nullopt;
  return ConweaveAnswer{header.leaf.value(),
                        header.path,
                        {static_cast<ConweaveReply::Kind>(kind), content_of<ConweaveContent>(header).epoch}};
}

FlowKey answered_flow(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  const LbTagHeader header = tag_header(frame, parsed);
  const wire::Qpn qp(content_of<ConweaveContent>(header).sent.value());
  FlowKey flow;
  flow.ports = tables::EcmpHash::ports_word(parsed.source_port, header.destination_port.value(), parsed.protocol);
  flow.addresses = wire::reverse_address_key(parsed, frame);
  return flow.with_qp(qp);
}

std::size_t write_answer(std::span<std::uint8_t> out, const std::uint8_t* frame, const Parsed& parsed,
                         const ConweaveAnswer& answer, std::uint8_t dscp) noexcept {
  const std::size_t used = parsed.l4_offset + std::size_t{kAnswerUdpBytes};
  const std::size_t bytes = std::max(used, wire::kMinFrameBytes);
  // An answer would come from a group, which no sender may be.
  if (out.size() < bytes || header_at<EthernetHeader>(frame).destination.is_multicast()) return 0;
  std::memcpy(out.data(), frame, parsed.l4_offset + sizeof(UdpHeader));
  auto& eth = header_at<EthernetHeader>(out.data());
  std::swap(eth.source, eth.destination);
  turn_ip(out.data() + parsed.l3_offset, parsed, wire::make_tos(dscp, wire::Ecn::not_ect));
  auto& udp = header_at<UdpHeader>(out.data() + parsed.l4_offset);
  LbTagHeader header{};
  header.version_kind = version_kind(TagKind::conweave_reply);
  fill_tag(header, static_cast<std::uint8_t>(answer.reply.kind), answer.leaf, answer.path,
           {.epoch = answer.reply.epoch, .sent = wire::be24(FlowKey::of_qp(parsed).qp().value()), .tail_sent = {}});
  header.destination_port = udp.destination_port;
  std::memcpy(out.data() + parsed.l4_offset + sizeof udp, &header, sizeof header);
  udp.destination_port.set(kTagUdpPort);
  udp.length.set(kAnswerUdpBytes);
  udp.checksum.set(0);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(used), out.begin() + static_cast<std::ptrdiff_t>(bytes),
            std::uint8_t{0});
  return bytes;
}

}  // namespace weft::stages
