// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The tag that ToRs put on packets for each other, and take off before hosts see them: what a policy of both edges has
// to say travels with the data. CONGA (Alizadeh et al., SIGCOMM 2014, 3.1) has it in the VXLAN header; hosts of a RoCE
// fabric have no tunnel, so it is a shim of sixteen bytes between the UDP header and what follows it. A packet with a
// tag has UDP destination port kTagUdpPort; its own port and UDP checksum wait in the shim.
//
// The tag is on UDP packets alone, without IP options, extension headers or fragmentation. UDP source port and
// addresses stay, so that switches in between hash as ever. The ICRC of a RoCE packet covers bytes that change, and is
// wrong while the tag is on: only RNICs check it. Taking the tag off gives back every byte that was there before, but
// for what routers change anyway (TTL, ECN). A protocol unit: bytes in, bytes out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// UDP destination port of packets with a tag, unassigned by IANA; two above that of RoCEv2.
inline constexpr std::uint16_t kTagUdpPort = 4793;
inline constexpr std::uint8_t kTagVersion = 1;

/// Whose content a tag has.
enum class TagKind : std::uint8_t {
  conga = 0,           ///< on data: CongaContent
  conweave = 1,        ///< on data: ConweaveContent (conweave_tag.h)
  conweave_reply = 2,  ///< a packet between ToRs: ConweaveContent, and nothing behind the tag
  gemma_report = 3,    ///< a packet between neighbours (gemma_report.h)
};

/// The shim as it lies in the packet, behind the UDP header.
struct LbTagHeader {
  std::uint8_t version_kind;            ///< version << 4 | kind
  std::uint8_t flags;                   ///< of the kind; bits that are not known are sent as 0, and not looked at
  wire::be16 destination_port;          ///< the UDP header's own
  wire::be16 checksum;                  ///< the UDP header's own; that of the packet with a tag is 0
  wire::be16 leaf;                      ///< who put it on
  std::uint8_t path;                    ///< by which of its uplinks
  std::array<std::uint8_t, 7> content;  ///< of the kind
};
static_assert(sizeof(LbTagHeader) == 16 && alignof(LbTagHeader) == 1);
inline constexpr std::uint32_t kTagBytes = sizeof(LbTagHeader);

/// Its content, of the type that its kind has, where it lies: a copy of seven bytes is made of pieces that overlap, and
/// whoever reads one waits until these have been written.
template <typename Content>
[[nodiscard]] Content& content_of(LbTagHeader& header) noexcept {
  static_assert(sizeof(Content) == sizeof header.content);
  return wire::header_at<Content>(header.content.data());
}
template <typename Content>
[[nodiscard]] const Content& content_of(const LbTagHeader& header) noexcept {
  static_assert(sizeof(Content) == sizeof header.content);
  return wire::header_at<Content>(header.content.data());
}

/// LbTagHeader::content of kind conga.
struct CongaContent {
  std::uint8_t congestion;               ///< of the links so far, the most
  std::uint8_t feedback_path;            ///< with kFeedback: one of the receiving leaf's uplinks
  std::uint8_t feedback;                 ///< with kFeedback: the congestion that packets by it have met
  std::array<std::uint8_t, 4> reserved;  ///< sent as 0, not looked at

  static constexpr std::uint8_t kFeedback = 1;  ///< in LbTagHeader::flags
};
static_assert(sizeof(CongaContent) == sizeof(LbTagHeader::content));

/// What a leaf says with a tag of kind conga.
struct LbTag {
  std::uint16_t leaf = 0;
  std::uint8_t path = 0;
  std::uint8_t congestion = 0;
  bool has_feedback = false;
  std::uint8_t feedback_path = 0;
  std::uint8_t feedback = 0;

  friend bool operator==(const LbTag&, const LbTag&) = default;
};

/// What is behind the UDP header of a packet to kTagUdpPort.
enum class TagValidity : std::uint8_t {
  none,       ///< the packet is not to that port, or can have no tag
  ok,         ///< a tag
  malformed,  ///< cut off, or its UDP length leaves no room for one
  unknown,    ///< of another version or kind
};

/// LbTagHeader::version_kind of this version.
[[nodiscard]] constexpr std::uint8_t version_kind(TagKind kind) noexcept {
  return static_cast<std::uint8_t>(kTagVersion << 4 | static_cast<std::uint8_t>(kind));
}

/// Packets that may have a tag; see above.
[[nodiscard]] inline bool may_have_tag(const wire::Parsed& parsed) noexcept {
  const bool udp = parsed.kind == wire::FrameKind::roce || parsed.kind == wire::FrameKind::udp;
  // UDP whose length is right: whatever else may be wrong is behind it.
  const bool right = parsed.validity == wire::Validity::ok || parsed.validity >= wire::Validity::roce_truncated;
  return udp && right && !parsed.has(wire::ParsedFlag::ip_options);
}

/// Where the tag of a packet begins in its frame.
[[nodiscard]] inline std::uint32_t tag_offset(const wire::Parsed& parsed) noexcept {
  return parsed.l4_offset + static_cast<std::uint32_t>(sizeof(wire::UdpHeader));
}
/// @param frame       the frame that `parsed` belongs to
/// @param contiguous  bytes of it that can be read
[[nodiscard]] inline TagValidity tag_validity(const std::uint8_t* frame, std::uint32_t contiguous,
                                              const wire::Parsed& parsed) noexcept {
  if (parsed.destination_port != kTagUdpPort || !may_have_tag(parsed)) return TagValidity::none;
  if (contiguous < tag_offset(parsed) + kTagBytes) return TagValidity::malformed;
  const auto& udp = wire::header_at<wire::UdpHeader>(frame + parsed.l4_offset);
  if (udp.length.value() < sizeof udp + kTagBytes) return TagValidity::malformed;
  const std::uint8_t found = frame[tag_offset(parsed)];
  const bool known = found >= version_kind(TagKind::conga) && found <= version_kind(TagKind::gemma_report);
  return known ? TagValidity::ok : TagValidity::unknown;
}
/// Of a packet whose tag_validity() is ok.
[[nodiscard]] inline TagKind tag_kind(const std::uint8_t* frame, const wire::Parsed& parsed) noexcept {
  return static_cast<TagKind>(frame[tag_offset(parsed)] & 15);
}
/// The same packet's tag as it lies there.
[[nodiscard]] inline LbTagHeader tag_header(const std::uint8_t* frame, const wire::Parsed& parsed) noexcept {
  return wire::header_at<LbTagHeader>(frame + tag_offset(parsed));
}
/// Of a packet whose tag_kind() is conga.
[[nodiscard]] LbTag read_tag(const std::uint8_t* frame, const wire::Parsed& parsed) noexcept;
/// Of a packet whose tag_kind() is conga: the congestion of the links so far grows to at least this.
void raise_congestion(std::uint8_t* frame, const wire::Parsed& parsed, std::uint8_t congestion) noexcept;

// Putting a tag on and taking it off are here because calls cost as much as the work. They take the record as a copy:
// as far as the compiler knows, bytes of a frame may be those of the record, which it would read again after each.
namespace tag_bytes {

[[nodiscard]] inline std::uint16_t plus(std::uint16_t length, int change) noexcept {
  return static_cast<std::uint16_t>(length + change);
}

/// Makes the IP header, and the UDP length, say that the packet has so many bytes more. What a word adds to the sum of
/// the header when it grows does not depend on the word.
template <int change>
inline void grow(std::uint8_t* frame, const wire::Parsed& parsed) noexcept {
  if (parsed.has(wire::ParsedFlag::ipv6)) {
    auto& ip = wire::header_at<wire::Ipv6Header>(frame + parsed.l3_offset);
    ip.payload_length.set(plus(ip.payload_length.value(), change));
  } else {
    auto& ip = wire::header_at<wire::Ipv4Header>(frame + parsed.l3_offset);
    ip.total_length.set(plus(ip.total_length.value(), change));
    ip.checksum.set(wire::checksum_update(ip.checksum.value(), 0, plus(change < 0 ? 0xffff : 0, change)));
  }
  auto& udp = wire::header_at<wire::UdpHeader>(frame + parsed.l4_offset);
  udp.length.set(plus(udp.length.value(), change));
}

inline void copy16(std::uint8_t* to, const std::uint8_t* from) noexcept {
  std::memcpy(to, from, 16);
}

// Headers in front of a tag over IPv4 without a VLAN tag.
constexpr std::uint32_t kMostOften = sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header) + sizeof(wire::UdpHeader);

// Moves `bytes` bytes by kTagBytes in pieces of as many, of which the last and the one before it overlap: memmove() of
// a length that only the packet knows costs more than all else that a tag needs. At least 16 bytes.
inline void move_forward(std::uint8_t* to, std::uint32_t bytes) noexcept {
  static_assert(kTagBytes == 16);
  if (bytes == kMostOften) [[likely]] {
    copy16(to, to + 16);
    copy16(to + 16, to + 32);
    return copy16(to + kMostOften - 16, to + kMostOften);
  }
  for (std::uint32_t at = 0; at + 16 <= bytes; at += 16) copy16(to + at, to + at + 16);
  copy16(to + bytes - 16, to + bytes);
}
inline void move_back(std::uint8_t* from, std::uint32_t bytes) noexcept {
  if (bytes == kMostOften) [[likely]] {
    copy16(from + kMostOften, from + kMostOften - 16);
    copy16(from + kMostOften - 16, from + kMostOften - 32);
    return copy16(from + 16, from);
  }
  std::uint32_t at = bytes;
  for (; at >= 16; at -= 16) copy16(from + at, from + at - 16);
  copy16(from + 16, from);
}

}  // namespace tag_bytes

/// Puts a tag on. All headers up to the UDP header move forward. Flags, leaf, path and content are for the caller to
/// fill in: they hold anything.
/// @param frame   the new first byte: kTagBytes in front of the frame that `parsed` belongs to, which may_have_tag()
///                and has at most 65535 - kTagBytes bytes by its IP header
/// @return the tag as it lies in the packet
[[nodiscard]] inline LbTagHeader& make_tag(std::uint8_t* frame, wire::Parsed parsed, TagKind kind) noexcept {
  tag_bytes::move_forward(frame, tag_offset(parsed));
  tag_bytes::grow<kTagBytes>(frame, parsed);
  auto& udp = wire::header_at<wire::UdpHeader>(frame + parsed.l4_offset);
  auto& header = wire::header_at<LbTagHeader>(frame + tag_offset(parsed));
  header.version_kind = version_kind(kind);
  header.destination_port = udp.destination_port;
  header.checksum = udp.checksum;
  udp.destination_port.set(kTagUdpPort);
  udp.checksum.set(0);
  return header;
}

/// The same for a tag of kind conga.
inline void put_tag_on(std::uint8_t* frame, const wire::Parsed& parsed, const LbTag& tag) noexcept {
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

/// The record of a packet that has got a tag becomes what the parser would make of it.
inline void note_tag_on(wire::Parsed& parsed) noexcept {
  // Behind the UDP header there is no RoCE. Lengths were right before, and have grown together.
  parsed.kind = wire::FrameKind::udp;
  parsed.validity = wire::Validity::ok;
  parsed.flags &= wire::ParsedFlag::vlan_tagged | wire::ParsedFlag::ipv6;
  parsed.opcode = 0;
  parsed.l3_length = tag_bytes::plus(parsed.l3_length, kTagBytes);
  parsed.payload_bytes = 0;
  parsed.syndrome = 0;
  parsed.dest_qp = {};
  parsed.psn = {};
  parsed.destination_port = kTagUdpPort;
}

/// Takes the tag off a packet whose tag_validity() is ok. Its first byte is kTagBytes behind `frame` afterwards.
inline void take_tag_off(std::uint8_t* frame, wire::Parsed parsed) noexcept {
  // The headers move before anything is written: what has been written in small pieces cannot be read in large ones
  // until it is in the cache.
  const LbTagHeader header = tag_header(frame, parsed);
  tag_bytes::move_back(frame, tag_offset(parsed));
  tag_bytes::grow<-static_cast<int>(kTagBytes)>(frame + kTagBytes, parsed);
  auto& udp = wire::header_at<wire::UdpHeader>(frame + kTagBytes + parsed.l4_offset);
  udp.destination_port = header.destination_port;
  udp.checksum = header.checksum;
}

}  // namespace weft::stages
