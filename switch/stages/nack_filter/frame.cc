// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/frame.h"

#include <cstring>

#include "switch/wire/checksum.h"
#include "switch/wire/ib.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

void set_what_it_says(std::uint8_t* frame, wire::Parsed& parsed, wire::Psn psn, std::uint32_t msn,
                      wire::IcrcMode mode) noexcept {
  wire::RoceEditor editor(frame, parsed);
  editor.set_psn(psn);
  editor.set_aeth(wire::Syndrome::nak(wire::NakCode::psn_sequence_error), msn);
  editor.finish(mode);
}

}  // namespace

bool NackFrame::become(const std::uint8_t* frame, const wire::Parsed& parsed) noexcept {
  const std::size_t bytes = std::size_t{parsed.l3_offset} + parsed.l3_length;
  if (bytes > kMaxBytes) return false;
  bytes_ = static_cast<std::uint16_t>(bytes);
  std::memcpy(frame_.data(), frame, bytes);
  wire::Parsed own = parsed;
  set_what_it_says(frame_.data(), own, wire::Psn(0), 0, wire::IcrcMode::incremental);
  return true;
}

void NackFrame::write(std::uint8_t* to, wire::Psn psn, std::uint32_t msn, wire::IcrcMode mode,
                      wire::Parsed& parsed) const noexcept {
  std::memcpy(to, frame_.data(), bytes_);
  wire::parse_frame(to, bytes_, bytes_, parsed);
  set_what_it_says(to, parsed, psn, msn, mode);
}

void set_in_order_mark(std::uint8_t* frame, const wire::Parsed& parsed, bool marked) noexcept {
  auto& word = wire::header_at<wire::be16>(frame + parsed.l4_offset + kInOrderMarkAt);
  constexpr std::uint16_t kBit = kInOrderMark << 8;
  const std::uint16_t before = word.value();
  const auto after = static_cast<std::uint16_t>(marked ? before | kBit : before & ~kBit);
  if (after == before) return;
  word.set(after);
  auto& checksum = wire::header_at<wire::UdpHeader>(frame + parsed.l4_offset).checksum;
  if (checksum.value() == 0) return;
  const std::uint16_t changed = wire::checksum_update(checksum.value(), before, after);
  checksum.set(changed == 0 ? 0xffff : changed);
}

}  // namespace weft::stages
