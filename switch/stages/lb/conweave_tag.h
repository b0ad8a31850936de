// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How what ConWeave's ToRs tell each other lies in packets: tags of kind conweave on data, and replies, which are UDP
// packets of their own to kTagUdpPort with a tag of kind conweave_reply and nothing behind it. Bytes in, bytes out.
//
// A reply has the addresses of the packet that it answers, swapped: switches in between route it like any packet of the
// hosts, and the ToR at the other end takes it out. Its source port is that of the flow too; the flow's destination
// port and QP stand in the tag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "switch/stages/lb/conweave.h"
#include "switch/stages/lb/flow_key.h"
#include "switch/stages/lb/tag.h"
#include "switch/wire/headers.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// LbTagHeader::content of kinds conweave and conweave_reply.
struct ConweaveContent {
  std::uint8_t epoch;
  wire::be24 sent;       ///< ConweaveTime::ticks(); in replies the destination QP of the answered packet
  wire::be24 tail_sent;  ///< with kRerouted

  /// LbTagHeader::flags of kind conweave.
  static constexpr std::uint8_t kRequest = 1, kTail = 2, kRerouted = 4;
  /// LbTagHeader::flags of kind conweave_reply hold ConweaveReply::Kind in these bits.
  static constexpr std::uint8_t kReplyKind = 3;
};
static_assert(sizeof(ConweaveContent) == sizeof(LbTagHeader::content));

/// A tag of kind conweave.
struct ConweaveLabel {
  std::uint16_t leaf = 0;  ///< who put it on
  std::uint8_t path = 0;   ///< by which of its uplinks
  ConweaveTag tag{};

  friend bool operator==(const ConweaveLabel&, const ConweaveLabel&) = default;
};
/// One of kind conweave_reply.
struct ConweaveAnswer {
  std::uint16_t leaf = 0;  ///< who sends it
  std::uint8_t path = 0;   ///< of the receiving leaf: the one that the answered packet took
  ConweaveReply reply{};

  friend bool operator==(const ConweaveAnswer&, const ConweaveAnswer&) = default;
};

/// @param header  of kind conweave
[[nodiscard]] ConweaveLabel read_conweave(const LbTagHeader& header) noexcept;
/// @param header  of kind conweave_reply
/// @return nullopt when it is none that is known
[[nodiscard]] std::optional<ConweaveAnswer> read_answer(const LbTagHeader& header) noexcept;
/// The flow that a packet of kind conweave_reply is about, as the one who sent its packets knows it.
[[nodiscard]] FlowKey answered_flow(const std::uint8_t* frame, const wire::Parsed& parsed) noexcept;

/// What make_tag() leaves open.
inline void fill_tag(LbTagHeader& header, std::uint8_t flags, std::uint16_t leaf, std::uint8_t path,
                     const ConweaveContent& content) noexcept {
  header.flags = flags;
  header.leaf.set(leaf);
  header.path = path;
  auto& in_packet = content_of<ConweaveContent>(header);
  in_packet.epoch = content.epoch;
  in_packet.sent.set(content.sent.value());
  in_packet.tail_sent.set(content.tail_sent.value());
}
/// As put_tag_on() of other kinds.
inline void put_tag_on(std::uint8_t* frame, const wire::Parsed& parsed, const ConweaveLabel& label) noexcept {
  const ConweaveTag& tag = label.tag;
  const auto flags = static_cast<std::uint8_t>((tag.request ? ConweaveContent::kRequest : 0) |
                                               (tag.tail ? ConweaveContent::kTail : 0) |
                                               (tag.rerouted ? ConweaveContent::kRerouted : 0));
  const ConweaveContent content{
      .epoch = tag.epoch, .sent = wire::be24(tag.sent.ticks()), .tail_sent = wire::be24(tag.tail_sent.ticks())};
  fill_tag(make_tag(frame, parsed, TagKind::conweave), flags, label.leaf, label.path, content);
}

/// Room that any reply fits into.
inline constexpr std::size_t kMaxReplyBytes = sizeof(wire::EthernetHeader) + sizeof(wire::VlanTag) +
                                              sizeof(wire::Ipv6Header) + sizeof(wire::UdpHeader) + kTagBytes;
/// Writes the reply to a packet whose tag has been taken off.
/// @param frame, parsed  of that packet, which may_have_tag()
/// @param dscp           of the reply, 0 to 63
/// @return bytes written, at least 60; 0 when `out` is too small or the packet went to a group
[[nodiscard]] std::size_t write_answer(std::span<std::uint8_t> out, const std::uint8_t* frame,
                                       const wire::Parsed& parsed, const ConweaveAnswer& answer,
                                       std::uint8_t dscp) noexcept;

}  // namespace weft::stages
