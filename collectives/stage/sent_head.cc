// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/sent_head.h"

#include <algorithm>

#include "switch/wire/icrc_update.h"
#include "switch/wire/parse.h"
#include "switch/wire/payload_crc.h"

namespace weft::inc {

using wire::HeaderMask;
using wire::ParsedFlag;

namespace {

// The words as nic::encode() writes them, of a packet without pad.
std::uint32_t opcode_word(const nic::Packet& p) noexcept {
  constexpr std::uint32_t kMigrated = 0x40, kSolicited = 0x80;
  return static_cast<std::uint32_t>(p.opcode) | (kMigrated | (p.solicited ? kSolicited : 0)) << 8 |
         std::uint32_t{wire::kDefaultPkey} << 16;
}
std::uint32_t psn_word(const nic::Packet& p, wire::Psn psn) noexcept {
  constexpr std::uint32_t kAckReq = 0x80000000;
  return wire::byte_swap((p.ack_req ? kAckReq : 0) | psn.value());
}
std::uint32_t word_behind(const nic::Packet& p) noexcept {
  const bool aeth = p.info().has(HeaderMask::aeth);
  return wire::byte_swap(aeth ? std::uint32_t{p.syndrome} << 24 | (p.msn & 0xffffff) : p.immediate);
}

}  // namespace

void SentHead::set(const nic::HeaderTemplate& to, std::uint8_t tos, const nic::Packet& p, wire::Psn psn,
                   wire::Qpn dest_qp) noexcept {
  if (size_ == 0 || p.payload.bytes != payload_ || tos != tos_) [[unlikely]]
    return make(to, tos, p, psn, dest_qp);
  const bool one_more = has_word();
  const std::uint32_t behind_bth = payload_ + (one_more ? kWord : 0);
  const std::uint32_t opcode = opcode_word(p), with_psn = psn_word(p, psn), behind = word_behind(p);
  const wire::FieldEdit edits[]{
      {opcode_ ^ opcode, behind_bth + kPlain - kWord}, {psn_ ^ with_psn, behind_bth}, {behind_ ^ behind, payload_}};
  crc_ = wire::icrc_update(crc_, std::span(edits, one_more ? 3 : 2));
  opcode_ = opcode;
  psn_ = with_psn;
  behind_ = behind;
}

void SentHead::write_parsed(const nic::Packet& p, wire::Psn psn, wire::Parsed& out) const noexcept {
  constexpr std::uint8_t kChanging = ParsedFlag::ack_req | ParsedFlag::solicited;
  out = parsed_;
  out.opcode = static_cast<std::uint8_t>(p.opcode);
  out.psn = psn;
  out.flags = static_cast<std::uint8_t>((parsed_.flags & ~kChanging) | (p.ack_req ? ParsedFlag::ack_req : 0) |
                                        (p.solicited ? ParsedFlag::solicited : 0));
  if (p.info().has(HeaderMask::aeth)) out.syndrome = p.syndrome;
}

void SentHead::make(const nic::HeaderTemplate& to, std::uint8_t tos, const nic::Packet& packet, wire::Psn psn,
                    wire::Qpn dest_qp) noexcept {
  nic::Packet p = packet;
  p.psn = psn;
  std::uint8_t head[nic::kMaxHeadBytes];
  const nic::TxFrame frame = nic::make_frame(to, tos, p, dest_qp, head);
  size_ = static_cast<std::uint16_t>(frame.head.size());
  bth_ = static_cast<std::uint16_t>(frame.layout.l4 + sizeof(wire::UdpHeader));
  payload_ = p.payload.bytes;
  tos_ = tos;
  opcode_ = opcode_word(p);
  psn_ = psn_word(p, psn);
  behind_ = word_behind(p);
  std::copy(frame.head.begin(), frame.head.end(), bytes_.begin());
  crc_ = payload_ == 0 ? wire::icrc_full(head, frame.layout) : wire::icrc_of_head(head, frame.layout, payload_);
  wire::parse_frame(head, size_, frame.bytes(), parsed_);
}

}  // namespace weft::inc
