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

constexpr std::uint8_t kVersionKind = kTagVersion << 4;

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
  return frame[tag_offset(parsed)] == kVersionKind ? TagValidity::ok : TagValidity::unknown;
}

LbTag read_tag(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  const auto& header = header_at<LbTagHeader>(frame + tag_offset(parsed));
  const bool feedback = (header.flags & LbTagHeader::kFeedback) != 0;
  return {.leaf = header.leaf.value(),
          .path = header.path,
          .congestion = header.congestion,
          .has_feedback = feedback,
          .feedback_path = feedback ? header.feedback_path : std::uint8_t{0},
          .feedback = feedback ? header.feedback : std::uint8_t{0}};
}

void raise_congestion(std::uint8_t* frame, const Parsed& parsed, std::uint8_t congestion) noexcept {
  auto& header = header_at<LbTagHeader>(frame + tag_offset(parsed));
  header.congestion = std::max(header.congestion, congestion);
}

void put_tag_on(std::uint8_t* frame, const Parsed& parsed, const LbTag& tag) noexcept {
  std::memmove(frame, frame + kTagBytes, tag_offset(parsed));
  grow(frame, parsed, kTagBytes);
  auto& udp = header_at<UdpHeader>(frame + parsed.l4_offset);
  LbTagHeader header{};
  header.version_kind = kVersionKind;
  header.flags = tag.has_feedback ? LbTagHeader::kFeedback : std::uint8_t{0};
  header.destination_port = udp.destination_port;
  header.checksum = udp.checksum;
  header.leaf.set(tag.leaf);
  header.path = tag.path;
  header.congestion = tag.congestion;
  header.feedback_path = tag.feedback_path;
  header.feedback = tag.feedback;
  std::memcpy(frame + tag_offset(parsed), &header, sizeof header);
  udp.destination_port.set(kTagUdpPort);
  udp.checksum.set(0);
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
