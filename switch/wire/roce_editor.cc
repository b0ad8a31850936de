// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/roce_editor.h"

#include <cassert>

#include "switch/wire/checksum.h"
#include "switch/wire/hash.h"
#include "switch/wire/rss.h"

namespace weft::wire {
namespace {

/// What replacing one 16-bit word by another adds to a one's complement sum.
std::uint32_t sum_change(std::uint32_t old_word, std::uint32_t new_word) noexcept {
  return (~old_word & 0xffff) + (new_word & 0xffff);
}
std::uint32_t sum_change32(std::uint32_t old_word, std::uint32_t new_word) noexcept {
  return sum_change(old_word >> 16, new_word >> 16) + sum_change(old_word, new_word);
}

/// Swaps the bytes of both halves: what a word adds to a one's complement sum when it begins on an odd offset.
std::uint32_t swap_halves(std::uint32_t v) noexcept {
  return (v & 0x00ff00ff) << 8 | (v >> 8 & 0x00ff00ff);
}

/// The ICRC bytes of a frame in pieces.
std::array<std::uint8_t*, kIcrcBytes> find_icrc(std::span<const std::span<std::uint8_t>> segments,
                                                std::uint32_t at) noexcept {
  std::array<std::uint8_t*, kIcrcBytes> bytes{};
  std::size_t found = 0;
  std::size_t begin = 0;
  for (const auto& s : segments) {
    for (; found < kIcrcBytes && at + found < begin + s.size(); ++found) bytes[found] = s.data() + (at + found - begin);
    begin += s.size();
  }
  assert(found == kIcrcBytes);
  return bytes;
}

}  // namespace

void RoceEditor::replace(std::uint32_t at, std::uint32_t word) noexcept {
  auto& field = header_at<be32>(frame_ + at);
  const std::uint32_t old_word = field.value();
  if (old_word == word) return;
  field.set(word);
  udp_sum_ += sum_change32(old_word, word);
  if (count_ == kMaxEdits) {
    pending_ = icrc_update(pending_, edits_);
    count_ = 0;
  }
  constexpr std::uint32_t kWord = sizeof(be32);
  edits_[count_++] = {byte_swap(old_word ^ word), layout_.icrc - at - kWord};
}

void RoceEditor::set_source_port(std::uint16_t v) noexcept {
  replace(layout_.l4, std::uint32_t{v} << 16 | udp().destination_port.value());
  parsed_.source_port = v;
}

void RoceEditor::set_opcode(Opcode v) noexcept {
  assert(opcode_info(v).headers == row().headers && opcode_info(v).payload == row().payload);
  const std::uint32_t at = bth_offset();
  const std::uint32_t word = header_at<be32>(frame_ + at).value();
  replace(at, (word & 0x00ffffff) | std::uint32_t{static_cast<std::uint8_t>(v)} << 24);
  parsed_.opcode = static_cast<std::uint8_t>(v);
}

void RoceEditor::set_dest_qp(Qpn v) noexcept {
  const std::uint32_t at = bth_offset() + 4;
  replace(at, (header_at<be32>(frame_ + at).value() & 0xff000000) | v.value());
  parsed_.dest_qp = v;
}

void RoceEditor::set_psn(Psn v) noexcept {
  const std::uint32_t at = bth_offset() + 8;
  replace(at, (header_at<be32>(frame_ + at).value() & 0xff000000) | v.value());
  parsed_.psn = v;
}

void RoceEditor::set_ack_req(bool v) noexcept {
  const std::uint32_t at = bth_offset() + 8;
  replace(at, (header_at<be32>(frame_ + at).value() & 0x7fffffff) | (v ? 0x80000000 : 0));
  parsed_.flags = static_cast<std::uint8_t>((parsed_.flags & ~ParsedFlag::ack_req) | (v ? ParsedFlag::ack_req : 0));
}

void RoceEditor::set_aeth(Syndrome syndrome, std::uint32_t msn) noexcept {
  assert(row().has(HeaderMask::aeth));
  const auto at = bth_offset() + static_cast<std::uint32_t>(row().offset_of(HeaderMask::aeth));
  replace(at, std::uint32_t{syndrome.raw()} << 24 | (msn & 0xffffff));
  parsed_.syndrome = syndrome.raw();
}

void RoceEditor::set_reth(std::uint64_t virtual_address, std::uint32_t rkey, std::uint32_t dma_length) noexcept {
  assert(row().has(HeaderMask::reth));
  const auto at = bth_offset() + static_cast<std::uint32_t>(row().offset_of(HeaderMask::reth));
  replace(at, static_cast<std::uint32_t>(virtual_address >> 32));
  replace(at + 4, static_cast<std::uint32_t>(virtual_address));
  replace(at + 8, rkey);
  replace(at + 12, dma_length);
}

void RoceEditor::set_address(const IpAddress& v, std::uint32_t v4_at, std::uint32_t v6_at) noexcept {
  assert(v.is_v6() == layout_.ipv6);
  std::uint8_t* ip = frame_ + layout_.l3;
  if (!layout_.ipv6) {
    auto& header = header_at<Ipv4Header>(ip);
    const std::uint32_t old_address = header_at<be32>(ip + v4_at).value();
    replace(layout_.l3 + v4_at, v.v4_value());
    header.checksum.set(checksum_update32(header.checksum.value(), old_address, v.v4_value()));
    parsed_.address_key = std::uint64_t{header.source.value()} << 32 | header.destination.value();
    return;
  }
  for (std::uint32_t i = 0; i < 16; i += 4) {
    replace(layout_.l3 + v6_at + i, header_at<be32>(v.bytes().data() + i).value());
  }
  const auto& header = header_at<Ipv6Header>(ip);
  const Ipv6Hashes hashes = hash_v6(header.source.data(), header.destination.data());
  parsed_.address_key = hashes.ordered;
  parsed_.stored_pair_hash = pair_hash_v6(hashes.unordered, header.source.data(), header.destination.data());
}

void RoceEditor::set_source(const IpAddress& v) noexcept {
  set_address(v, offsetof(Ipv4Header, source), offsetof(Ipv6Header, source));
}

void RoceEditor::set_destination(const IpAddress& v) noexcept {
  set_address(v, offsetof(Ipv4Header, destination), offsetof(Ipv6Header, destination));
}

void RoceEditor::clear_udp_checksum() noexcept {
  udp().checksum.set(0);
}

std::uint32_t RoceEditor::updated(std::uint32_t old_icrc) const noexcept {
  return icrc_update(old_icrc ^ pending_, std::span(edits_).first(count_));
}

void RoceEditor::finish_udp_checksum(std::uint32_t old_icrc, std::uint32_t new_icrc) noexcept {
  const std::uint16_t old_checksum = udp().checksum.value();
  if (old_checksum == 0) return;
  std::uint32_t old_word = byte_swap(old_icrc);
  std::uint32_t new_word = byte_swap(new_icrc);
  if ((layout_.icrc - layout_.l4) % 2 != 0) {
    old_word = swap_halves(old_word);
    new_word = swap_halves(new_word);
  }
  std::uint64_t sum = udp_sum_ + sum_change32(old_word, new_word) + (~std::uint32_t{old_checksum} & 0xffff);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  const auto checksum = static_cast<std::uint16_t>(~sum);
  udp().checksum.set(checksum == 0 ? 0xffff : checksum);
}

void RoceEditor::finish(IcrcMode mode, std::span<const std::span<std::uint8_t>> segments) noexcept {
  const auto bytes = find_icrc(segments, layout_.icrc);
  std::uint32_t old_icrc = 0;
  for (std::size_t i = 0; i < kIcrcBytes; ++i) old_icrc |= std::uint32_t{*bytes[i]} << 8 * i;
  std::uint32_t new_icrc = 0;
  if (mode == IcrcMode::full) {
    IcrcCalculator calculator(segments.front(), layout_);
    for (const auto& s : segments.subspan(1)) calculator.add(s);
    new_icrc = calculator.value();
  } else {
    new_icrc = updated(old_icrc);
  }
  for (std::size_t i = 0; i < kIcrcBytes; ++i) *bytes[i] = static_cast<std::uint8_t>(new_icrc >> 8 * i);
  finish_udp_checksum(old_icrc, new_icrc);
}

void RoceEditor::finish(IcrcMode mode) noexcept {
  std::uint8_t* at = frame_ + layout_.icrc;
  const std::uint32_t old_icrc = load_icrc(at);
  const std::uint32_t new_icrc = mode == IcrcMode::full ? icrc_full(frame_, layout_) : updated(old_icrc);
  store_icrc(at, new_icrc);
  finish_udp_checksum(old_icrc, new_icrc);
}

void RoceEditor::finish_headers() noexcept {
  finish_udp_checksum(0, 0);
}

}  // namespace weft::wire
