// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/tag.h"

#include <algorithm>
#include <cstring>

#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"

namespace weft::stages {
namespace {

using wire::header_at;
using wire::Ipv4Header;
using wire::Ipv6Header;
using wire::Parsed;
using wire::UdpHeader;

std::uint16_t plus(std::uint16_t length, int change) noexcept {
  return static_cast<std::uint16_t>(length + change);
}

// Makes the IP header, and the UDP length, say that the packet has so many bytes more.
void grow(std::uint8_t* frame, const Parsed& parsed, int change) noexcept {
  if (parsed.has(wire::ParsedFlag::ipv6)) {
    auto& ip = header_at<Ipv6Header>(frame + parsed.l3_offset);
    ip.payload_length.set(plus(ip.payload_length.value(), change));
  } else {
    auto& ip = header_at<Ipv4Header>(frame + parsed.l3_offset);
    const std::uint16_t before = ip.total_length.value();
    ip.total_length.set(plus(before, change));
    ip.checksum.set(wire::checksum_update(ip.checksum.value(), before, ip.total_length.value()));
  }
  auto& udp = header_at<UdpHeader>(frame + parsed.l4_offset);
  udp.length.set(plus(udp.length.value(), change));
}

void copy16(std::uint8_t* to, const std::uint8_t* from) noexcept {
  std::memcpy(to, from, 16);
}

// Moves `bytes` bytes by kTagBytes in pieces of as many, of which the last and the one before it overlap: memmove() of
// a length that only the packet knows costs more than all else that a tag needs. At least 16 bytes.
void move_forward(std::uint8_t* to, std::uint32_t bytes) noexcept {
  static_assert(kTagBytes == 16);
  for (std::uint32_t at = 0; at + 16 <= bytes; at += 16) copy16(to + at, to + at + 16);
  copy16(to + bytes - 16, to + bytes);
}
void move_back(std::uint8_t* from, std::uint32_t bytes) noexcept {
  std::uint32_t at = bytes;
  for (; at >= 16; at -= 16) copy16(from + at, from + at - 16);
  copy16(from + 16, from);
}

}  // namespace

LbTag read_tag(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  const auto& header = header_at<LbTagHeader>(frame + tag_offset(parsed));
  const auto& content = content_of<CongaContent>(header);
  const bool feedback = (header.flags & CongaContent::kFeedback) != 0;
  return {.leaf = header.leaf.value(),
          .path = header.path,
          .congestion = content.congestion,
          .has_feedback = feedback,
          .feedback_path = feedback ? content.feedback_path : std::uint8_t{0},
          .feedback = feedback ? content.feedback : std::uint8_t{0}};
}

void raise_congestion(std::uint8_t* frame, const Parsed& parsed, std::uint8_t congestion) noexcept {
  std::uint8_t& so_far =
      frame[tag_offset(parsed) + offsetof(LbTagHeader, content) + offsetof(CongaContent, congestion)];
  so_far = std::max(so_far, congestion);
}

LbTagHeader& make_tag(std::uint8_t* frame, const Parsed& parsed, TagKind kind) noexcept {
  move_forward(frame, tag_offset(parsed));
  grow(frame, parsed, kTagBytes);
  auto& udp = header_at<UdpHeader>(frame + parsed.l4_offset);
  auto& header = header_at<LbTagHeader>(frame + tag_offset(parsed));
  header.version_kind = version_kind(kind);
  header.destination_port = udp.destination_port;
  header.checksum = udp.checksum;
  udp.destination_port.set(kTagUdpPort);
  udp.checksum.set(0);
  return header;
}

void put_tag_on(std::uint8_t* frame, const Parsed& parsed, const LbTag& tag) noexcept {
  LbTagHeader& header = make_tag(frame, parsed, TagKind::conga);
  header.flags = tag.has_feedback ? CongaContent::kFeedback : std::uint8_t{0};
  header.leaf.set(tag.leaf);
  header.path = tag.path;
  auto& content = content_of<CongaContent>(header);
  content.congestion = tag.congestion;
  content.feedback_path = tag.feedback_path;
  content.feedback = tag.feedback;
  content.reserved.fill(0);
}

// Behind the UDP header there is no RoCE any more. Lengths were right before, and have grown together.
void note_tag_on(Parsed& parsed) noexcept {
  parsed.kind = wire::FrameKind::udp;
  parsed.validity = wire::Validity::ok;
  parsed.flags &= wire::ParsedFlag::vlan_tagged | wire::ParsedFlag::ipv6;
  parsed.opcode = 0;
  parsed.l3_length = plus(parsed.l3_length, kTagBytes);
  parsed.payload_bytes = 0;
  parsed.syndrome = 0;
  parsed.dest_qp = {};
  parsed.psn = {};
  parsed.destination_port = kTagUdpPort;
}

void take_tag_off(std::uint8_t* frame, const Parsed& parsed) noexcept {
  // The headers move before anything is written: what has been written in small pieces cannot be read in large ones
  // until it is in the cache.
  const LbTagHeader header = tag_header(frame, parsed);
  move_back(frame, tag_offset(parsed));
  grow(frame + kTagBytes, parsed, -static_cast<int>(kTagBytes));
  auto& udp = header_at<UdpHeader>(frame + kTagBytes + parsed.l4_offset);
  udp.destination_port = header.destination_port;
  udp.checksum = header.checksum;
}

}  // namespace weft::stages
