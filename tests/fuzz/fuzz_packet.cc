// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: an Ethernet frame. Both paths of the parser have to agree and to stay in bounds; a RoCEv2 packet is edited,
// its ICRC computed in pieces and updated, and answered.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "switch/wire/checksum.h"
#include "switch/wire/cm.h"
#include "switch/wire/emit.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "switch/wire/roce_editor.h"

namespace weft::wire {
namespace {

#define REQUIRE(condition)                                \
  do {                                                    \
    if (!(condition)) {                                   \
      std::fprintf(stderr, "not true: %s\n", #condition); \
      std::abort();                                       \
    }                                                     \
  } while (false)

/// Numbers that depend on the input alone, so that a crash can be repeated from its file.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> data) {
    for (const std::uint8_t b : data) state_ = (state_ ^ b) * 0x100000001b3;
  }
  std::uint32_t operator()(std::uint32_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33) % below;
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

/// Memory of exactly this size, so that the address sanitizer sees any access beyond.
struct Exact {
  explicit Exact(std::span<const std::uint8_t> data) : bytes(new std::uint8_t[data.size()]), size(data.size()) {
    std::copy(data.begin(), data.end(), bytes.get());
  }
  [[nodiscard]] std::span<std::uint8_t> span() const { return {bytes.get(), size}; }
  std::unique_ptr<std::uint8_t[]> bytes;
  std::size_t size;
};

Parsed parse_both_ways(std::span<const std::uint8_t> head, std::uint32_t length) {
  Parsed fast, slow;
  std::memset(static_cast<void*>(&fast), 0xaa, sizeof fast);
  std::memset(static_cast<void*>(&slow), 0x55, sizeof slow);
  const auto contiguous = static_cast<std::uint32_t>(head.size());
  parse_frame(head.data(), contiguous, length, fast);
  parse_frame_slow(head.data(), contiguous, length, slow);
  REQUIRE(std::memcmp(&fast, &slow, sizeof fast) == 0);
  return fast;
}

void require_in_bounds(const Parsed& p, std::uint32_t contiguous, std::uint32_t length) {
  REQUIRE(static_cast<unsigned>(p.kind) < kFrameKindCount);
  REQUIRE(!name(p.validity).empty());
  REQUIRE(p.l3_offset <= contiguous && p.l4_offset <= contiguous);
  if (p.kind != FrameKind::roce) {
    REQUIRE(p.opcode == 0 && p.payload_bytes == 0 && p.psn == Psn(0));
    return;
  }
  REQUIRE(p.validity == Validity::ok && p.dest_qp != Qpn(0));
  const std::uint32_t body =
      p.l4_offset + static_cast<std::uint32_t>(sizeof(UdpHeader)) + opcode_info(p.opcode).header_bytes;
  REQUIRE(body <= contiguous);
  REQUIRE(body + p.payload_bytes + kIcrcBytes <= std::uint32_t{p.l3_offset} + p.l3_length);
  REQUIRE(std::uint32_t{p.l3_offset} + p.l3_length <= length);
}

/// By how much the ICRC in the packet is off.
std::uint32_t icrc_error(const std::uint8_t* frame, const RoceLayout& layout) {
  return load_icrc(frame + layout.icrc) ^ icrc_full(frame, layout);
}

void require_icrc_in_pieces(std::span<const std::uint8_t> frame, const RoceLayout& layout, Choices& choose) {
  const std::uint32_t least = layout.l4 + static_cast<std::uint32_t>(sizeof(UdpHeader) + sizeof(Bth));
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  std::uint32_t at = least + choose(bytes - least + 1);
  IcrcCalculator calculator(frame.first(at), layout);
  while (at < bytes) {
    const std::uint32_t n = 1 + choose(bytes - at);
    calculator.add(frame.subspan(at, n));
    at += n;
  }
  REQUIRE(calculator.remaining() == 0 && calculator.value() == icrc_full(frame.data(), layout));
}

void edit(RoceEditor& editor, const Parsed& p, Choices& choose) {
  const OpcodeInfo& row = opcode_info(p.opcode);
  for (std::uint32_t n = choose(12); n > 0; --n) {
    const std::uint32_t v = choose(0x7fffffff);
    switch (choose(6)) {
      case 0:
        editor.set_source_port(static_cast<std::uint16_t>(v));
        break;
      case 1:
        editor.set_dest_qp(Qpn(v | 1));
        break;
      case 2:
        editor.set_psn(Psn(v));
        break;
      case 3:
        editor.set_ack_req((v & 1) != 0);
        break;
      case 4:
        if (!p.has(ParsedFlag::ipv6)) editor.set_source(IpAddress::v4(v));
        break;
      default:
        if (row.has(HeaderMask::aeth)) editor.set_aeth(Syndrome(static_cast<std::uint8_t>(v)), v);
        if (row.has(HeaderMask::reth)) editor.set_reth(v, v, v);
        break;
    }
  }
}

// What mad_in_frame() finds has to be what parse_cm() may be given; fuzz_cm goes on from there.
void require_mad(std::span<const std::uint8_t> frame, const Parsed& p) {
  const auto mad = mad_in_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), p);
  REQUIRE(mad.empty() ||
          (mad.data() >= frame.data() && mad.data() + mad.size() + kIcrcBytes <= frame.data() + frame.size()));
  CmMessage message;
  REQUIRE(parse_cm(mad, message) != CmValidity::ok || mad.size() == build_cm(message).size());
}

void exercise_roce(std::span<const std::uint8_t> original, Parsed p, Choices& choose) {
  const Exact copy(original);
  const std::span<std::uint8_t> frame = copy.span();
  const RoceLayout layout = roce_layout(frame.data(), p);
  REQUIRE(layout.icrc + kIcrcBytes <= frame.size());
  require_icrc_in_pieces(frame, layout, choose);
  require_mad(frame, p);  // Before the editor sends the packet to another queue pair.

  const std::uint32_t error = icrc_error(frame.data(), layout);
  const bool ip_sum_right =
      p.has(ParsedFlag::ipv6) || ipv4_checksum_ok(header_at<Ipv4Header>(frame.data() + p.l3_offset));
  const IcrcMode mode = choose(4) == 0 ? IcrcMode::full : IcrcMode::incremental;
  RoceEditor editor(frame.data(), p);
  edit(editor, p, choose);
  editor.finish(mode);
  REQUIRE(icrc_error(frame.data(), layout) == (mode == IcrcMode::full ? 0 : error));
  REQUIRE(p.has(ParsedFlag::ipv6) ||
          ipv4_checksum_ok(header_at<Ipv4Header>(frame.data() + p.l3_offset)) == ip_sum_right);
  const Parsed again = parse_both_ways(frame, static_cast<std::uint32_t>(frame.size()));
  REQUIRE(std::memcmp(&again, &p, sizeof p) == 0);

  std::array<std::uint8_t, kMaxEmittedBytes> answer;
  const std::size_t bytes = write_cnp(answer, reply_addressing(frame.data(), p), Qpn(1 + choose(1000)));
  const Parsed cnp = parse_both_ways(std::span(answer).first(bytes), static_cast<std::uint32_t>(bytes));
  const bool group_answers = (frame[0] & 1) != 0;  // A packet to a group would be answered from the group.
  REQUIRE(group_answers || (cnp.kind == FrameKind::roce && icrc_ok(answer.data(), cnp)));
}

void exercise(std::span<const std::uint8_t> data) {
  Choices choose(data);
  const auto length = static_cast<std::uint32_t>(data.size());
  const Exact whole(data);
  const Parsed p = parse_both_ways(whole.span(), length);
  require_in_bounds(p, length, length);
  // The same frame, as if it went on in another segment.
  const std::uint32_t contiguous = choose(length + 1);
  const Exact head(data.first(contiguous));
  require_in_bounds(parse_both_ways(head.span(), length), contiguous, length);
  if (p.kind == FrameKind::roce) exercise_roce(data, p, choose);
}

}  // namespace
}  // namespace weft::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLargestFrame = 16384;
  if (size <= kLargestFrame) weft::wire::exercise({data, size});
  return 0;
}
