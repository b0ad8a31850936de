// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/tag.h"

#include <algorithm>
#include <bit>
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

std::uint32_t tag_offset(const Parsed& parsed) noexcept {
  return parsed.l4_offset + static_cast<std::uint32_t>(sizeof(UdpHeader));
}

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

}  // namespace

TagValidity tag_validity(const std::uint8_t* frame, std::uint32_t contiguous, const Parsed& parsed) noexcept {
  if (parsed.destination_port != kTagUdpPort || !may_have_tag(parsed)) return TagValidity::none;
  if (contiguous < tag_offset(parsed) + kTagBytes) return TagValidity::malformed;
  const auto& udp = header_at<UdpHeader>(frame + parsed.l4_offset);
  if (udp.length.value() < sizeof(UdpHeader) + kTagBytes) return TagValidity::malformed;
  const std::uint8_t found = frame[tag_offset(parsed)];
  const bool known = found >= version_kind(TagKind::conga) && found <= version_kind(TagKind::gemma_report);
  return known ? TagValidity::ok : TagValidity::unknown;
}

LbTagHeader tag_header(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  return header_at<LbTagHeader>(frame + tag_offset(parsed));
}

TagKind tag_kind(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  return static_cast<TagKind>(frame[tag_offset(parsed)] & 15);
}

LbTag read_tag(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  const LbTagHeader header = tag_header(frame, parsed);
  const auto content = std::bit_cast<CongaContent>(header.content);
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

void put_tag_on(std::uint8_t* frame, const Parsed& parsed, LbTagHeader header) noexcept {
  std::memmove(frame, frame + kTagBytes, tag_offset(parsed));
  grow(frame, parsed, kTagBytes);
  auto& udp = header_at<UdpHeader>(frame + parsed.l4_offset);
  header.destination_port = udp.destination_port;
  header.checksum = udp.checksum;
  std::memcpy(frame + tag_offset(parsed), &header, sizeof header);
  udp.destination_port.set(kTagUdpPort);
  udp.checksum.set(0);
}

void put_tag_on(std::uint8_t* frame, const Parsed& parsed, const LbTag& tag) noexcept {
  const CongaContent content{
      .congestion = tag.congestion, .feedback_path = tag.feedback_path, .feedback = tag.feedback, .reserved = {}};
  LbTagHeader header{};
  header.version_kind = version_kind(TagKind::conga);
  header.flags = tag.has_feedback ? CongaContent::kFeedback : std::uint8_t{0};
  header.leaf.set(tag.leaf);
  header.path = tag.path;
  header.content = std::bit_cast<decltype(header.content)>(content);
  put_tag_on(frame, parsed, header);
}

void take_tag_off(std::uint8_t* frame, const Parsed& parsed) noexcept {
  const auto& header = header_at<LbTagHeader>(frame + tag_offset(parsed));
  auto& udp = header_at<UdpHeader>(frame + parsed.l4_offset);
  udp.destination_port = header.destination_port;
  udp.checksum = header.checksum;
  grow(frame, parsed, -static_cast<int>(kTagBytes));
  std::memmove(frame + kTagBytes, frame, tag_offset(parsed));
}

}  // namespace weft::stages
