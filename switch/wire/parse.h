// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The parser: one pass over a received frame that fills Parsed. It runs once per packet, so RoCEv2 over plain IPv4 or
// IPv6 is read inline with a few wide loads; everything else goes to parse_frame_slow(). Both give the same result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

#include "switch/wire/hash.h"
#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parse_fields.h"
#include "switch/wire/parsed.h"
#include "switch/wire/validity.h"

namespace weft::wire {

/// As parse_frame(), without the fast path. Reference for tests, and the way of all other traffic.
void parse_frame_slow(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                      Parsed& out) noexcept;

namespace detail {

template <class T>
[[nodiscard]] inline T load_be(const std::uint8_t* at) noexcept {
  BigEndian<T> v;
  std::memcpy(&v, at, sizeof v);
  return v.value();
}

#if defined(__SSE4_1__)

/// The fast paths but the one for untagged IPv4: RoCEv2 over IPv4 without options behind a tag, and over IPv6 without
/// extension headers behind at most one. False, with `out` untouched, unless it is that and valid.
[[nodiscard]] bool parse_roce_rest(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                                   Parsed& out) noexcept;

/// What the fast paths need of an opcode, sixteen bytes.
struct alignas(16) FastRow {
  std::uint32_t overhead;   ///< UDP header, BTH, the other headers and ICRC
  std::uint32_t least;      ///< payload: 1 when required, else 0
  std::uint32_t span;       ///< most payload - least: 0 when the opcode has none
  std::uint16_t forbidden;  ///< bits of the BTH's first two bytes that must be 0: of the pad count without payload
  std::uint8_t aeth_mask;   ///< 0xff when an AETH follows the BTH

  /// No packet has so many bytes in front of its payload: the row of an unknown opcode.
  static constexpr std::uint32_t kNever = 0x10000;
};
static_assert(sizeof(FastRow) == 16);

constexpr std::array<FastRow, 256> make_fast_rows() {
  const std::array<OpcodeInfo, 256> table = make_opcode_table();
  std::array<FastRow, 256> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OpcodeInfo& o = table[i];
    rows[i].overhead = static_cast<std::uint32_t>(sizeof(UdpHeader) + o.header_bytes + kIcrcBytes);
    if (!o.known()) rows[i].overhead = FastRow::kNever;
    rows[i].least = o.payload == PayloadRule::required ? 1 : 0;
    rows[i].span = o.may_carry_payload() ? 0xffff : 0;
    rows[i].forbidden = o.may_carry_payload() ? 0 : 0x3000;
    rows[i].aeth_mask = o.has(HeaderMask::aeth) ? 0xff : 0;
  }
  return rows;
}
inline constexpr std::array<FastRow, 256> kFastRows = make_fast_rows();

/// A load without byte swap: the fast path swaps its constants instead.
template <class T>
[[nodiscard]] inline T load_raw(const std::uint8_t* at) noexcept {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
template <class T>
inline void store_at(Parsed& out, std::size_t offset, const T& v) noexcept {
  std::memcpy(reinterpret_cast<std::uint8_t*>(&out) + offset, &v, sizeof v);
}

[[nodiscard]] inline __m128i vector(const std::array<std::uint8_t, 16>& v) noexcept {
  return load_raw<__m128i>(v.data());
}

/// How much of a frame counts for a fast path: if not all headers of any opcode behind an IPv4 header at `l3` are
/// readable, the packet has to end within what is.
[[nodiscard]] constexpr std::uint32_t readable_headers(std::uint32_t l3, std::uint32_t contiguous,
                                                       std::uint32_t frame_length) noexcept {
  const std::uint32_t all = l3 + sizeof(Ipv4Header) + sizeof(UdpHeader) + kMaxRoceHeaderBytes;
  return contiguous >= all ? frame_length : contiguous;
}

/// A BTH as the fast paths read it.
struct FastTransport {
  std::uint64_t bth;  ///< opcode, flags, P_Key, resv8a, QP, first byte lowest
  const FastRow* row;
  std::uint32_t payload;
};

/// Sets row and payload from the BTH. True when opcode, lengths, pad count and QP are right.
[[gnu::always_inline]] inline bool check_bth(std::uint32_t udp_length, FastTransport& t) noexcept {
  t.row = &kFastRows[t.bth & 0xff];
  t.payload = udp_length - static_cast<std::uint32_t>(t.bth >> 12 & 3) - t.row->overhead;  // may have wrapped
  return t.payload - t.row->least <= t.row->span && (t.bth & t.row->forbidden) == 0 && t.bth >> 40 != 0;
}

/// What the sixteen bytes from the BTH on say, where Parsed has it.
struct TailFields {
  __m128i first;        ///< of its bytes 0 to 15; syndrome: what is in an AETH's place
  __m128i second;       ///< of its bytes 16 to 31
  std::uint32_t flags;  ///< ParsedFlag bits
};
[[gnu::always_inline]] inline TailFields tail_fields(__m128i tail) noexcept {
  // The BTH's own fields do not depend on what comes before.
  using Fields = RoceV4Fields<sizeof(EthernetHeader)>;
  using Window = FieldWindow<Fields>;
  using Constant = const typename Window::Vector;
  constexpr std::size_t kFrom = Fields::kBth, kSecond = 16, kThird = 32;
  alignas(16) static constexpr Constant kTo0 = Window::moves(kFrom, 0), kTo1 = Window::moves(kFrom, kSecond);
  alignas(16) static constexpr Constant kTo2 = Window::moves(kFrom, kThird),
                                        kFlagBits = Window::record(Fields::kFlagBits, kThird);
  const __m128i bits = _mm_and_si128(_mm_shuffle_epi8(tail, vector(kTo2)), vector(kFlagBits));
  // The other bytes have no bits, and are equal too.
  const int set = _mm_movemask_epi8(_mm_cmpeq_epi8(bits, vector(kFlagBits))) >> (Fields::kFlags - kThird);
  constexpr std::uint8_t kMayFlag = ParsedFlag::ack_req | ParsedFlag::solicited | ParsedFlag::becn | ParsedFlag::fecn;
  return {_mm_shuffle_epi8(tail, vector(kTo0)), _mm_shuffle_epi8(tail, vector(kTo1)),
          static_cast<std::uint32_t>(set & kMayFlag)};
}

/// RoCEv2 over IPv4 without options at offset kL3. Byte shuffles move fields to their place in Parsed. False, with
/// `out` untouched, unless everything is valid. `limit` bytes are readable or known to lie behind all headers.
template <std::uint8_t kL3>
[[gnu::always_inline]] inline bool parse_roce_ipv4(const std::uint8_t* data, std::uint32_t limit,
                                                   Parsed& out) noexcept {
  using Fields = RoceV4Fields<kL3>;
  using Window = FieldWindow<Fields>;
  using Constant = const typename Window::Vector;
  // Three vectors: from the end of the source MAC address, from the IP addresses, and from the BTH.
  constexpr std::uint32_t kHead = kL3 - 4, kMiddle = kL3 + 12, kTail = kL3 + 28;
  static_assert(kTail == Fields::kBth && kTail + 16 == Fields::kBytes);
  const auto head = load_raw<__m128i>(data + kHead);
  const auto middle = load_raw<__m128i>(data + kMiddle);
  const auto tail = load_raw<__m128i>(data + kTail);

  alignas(16) static constexpr Constant kHeadMask = Window::rules(&Rule::mask, kHead),
                                        kHeadExpected = Window::rules(&Rule::value, kHead);
  alignas(16) static constexpr Constant kMiddleMask = Window::rules(&Rule::mask, kMiddle),
                                        kMiddleExpected = Window::rules(&Rule::value, kMiddle);
  alignas(16) static constexpr Constant kTailMask = Window::rules(&Rule::mask, kTail);
  static_assert(Window::rules(&Rule::value, kTail) == typename Window::Vector{});
  const __m128i head_wrong = _mm_xor_si128(_mm_and_si128(head, vector(kHeadMask)), vector(kHeadExpected));
  const __m128i middle_wrong = _mm_xor_si128(_mm_and_si128(middle, vector(kMiddleMask)), vector(kMiddleExpected));
  const __m128i wrong = _mm_or_si128(_mm_or_si128(head_wrong, middle_wrong), _mm_and_si128(tail, vector(kTailMask)));
  if (_mm_testz_si128(wrong, wrong) == 0 || (data[6] & 1) != 0) return false;

  alignas(16) static constexpr Constant kHeadTo0 = Window::moves(kHead, 0), kMiddleTo0 = Window::moves(kMiddle, 0);
  const __m128i lengths =
      _mm_or_si128(_mm_shuffle_epi8(head, vector(kHeadTo0)), _mm_shuffle_epi8(middle, vector(kMiddleTo0)));
  static_assert(offsetof(Parsed, l3_length) == 10 && offsetof(Parsed, payload_bytes) == 12);
  const auto total = static_cast<std::uint32_t>(_mm_extract_epi16(lengths, 5));
  const auto udp_length = static_cast<std::uint32_t>(_mm_extract_epi16(lengths, 6));
  FastTransport t;
  t.bth = load_raw<std::uint64_t>(data + Fields::kBth);
  if (total != udp_length + sizeof(Ipv4Header) || kL3 + total > limit || !check_bth(udp_length, t)) return false;

  constexpr std::size_t kSecond = 16, kThird = 32;
  alignas(16) static constexpr Constant kFixed = Window::record(Fields::kFixed, 0);
  alignas(16) static constexpr Constant kMiddleTo1 = Window::moves(kMiddle, kSecond),
                                        kMiddleTo2 = Window::moves(kMiddle, kThird);
  const TailFields from_tail = tail_fields(tail);
  store_at(out, 0, _mm_or_si128(_mm_or_si128(lengths, vector(kFixed)), from_tail.first));
  store_at(out, kSecond, _mm_or_si128(_mm_shuffle_epi8(middle, vector(kMiddleTo1)), from_tail.second));
  store_at(out, kThird, _mm_cvtsi128_si64(_mm_shuffle_epi8(middle, vector(kMiddleTo2))));
  constexpr bool kTagged = kL3 != sizeof(EthernetHeader);
  out.flags = static_cast<std::uint8_t>(from_tail.flags | (kTagged ? ParsedFlag::vlan_tagged : 0));
  out.payload_bytes = static_cast<std::uint16_t>(t.payload);
  out.syndrome &= t.row->aeth_mask;
  if constexpr (kTagged) out.vlan_tci = load_be<std::uint16_t>(data + sizeof(EthernetHeader));
  return true;
}

#endif

}  // namespace detail

/// Parses the frame at `data` and writes every field of `out`.
///
/// `contiguous` bytes are readable at `data`: at least min(frame_length, 128), unless the caller knows that the headers
/// are shorter. `frame_length` is the length of the whole frame without FCS, over all its segments. A header that
/// begins inside and ends beyond the contiguous bytes counts as truncated.
///
/// Which fields are set, beyond what parsed.h says:
/// - pair_hash(): of the IP addresses if the IP header is valid; of sender and target protocol address for a valid ARP
///   message, so that it meets the IP traffic of the same pair; else of the MAC addresses; 0 if they are truncated.
/// - address_key: of a valid ARP message sender << 32 | target, host order.
/// - An invalid IP header leaves kind ipv4 or ipv6 with l3_offset only. With a truncated L4 header the kind stays ipv4
///   or ipv6 and the ports are 0.
/// - l4_offset: end of the IP header and of the walked extension headers, fragments included.
/// - mac_control: untagged only. Its content begins behind the 14 bytes of the Ethernet header.
/// - A packet with an IPv6 fragment header is a fragment even if it is the only one.
inline void parse_frame(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                        Parsed& out) noexcept {
#if defined(__SSE4_1__)
  constexpr std::uint32_t kL3 = sizeof(EthernetHeader);
  if (contiguous >= detail::RoceV4Fields<kL3>::kBytes &&
      detail::parse_roce_ipv4<kL3>(data, detail::readable_headers(kL3, contiguous, frame_length), out)) [[likely]] {
    return;
  }
  if (detail::parse_roce_rest(data, contiguous, frame_length, out)) return;
#endif
  parse_frame_slow(data, contiguous, frame_length, out);
}

}  // namespace weft::wire
