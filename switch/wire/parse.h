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

/// The BTH's own fields do not depend on what comes before.
using BthFields = RoceV4Fields<sizeof(EthernetHeader)>;

/// What the fast paths need of an opcode: how its headers, from the BTH on, have to look and where they go.
struct alignas(64) FastRow {
  FieldVector zero;        ///< bits that must be 0 in the sixteen bytes from the BTH on
  FieldVector to_first;    ///< shuffle of those bytes to bytes 0 to 15 of Parsed
  std::uint32_t overhead;  ///< UDP header, BTH, the other headers, ICRC, and `least`
  std::uint32_t least;     ///< payload: 1 when required, else 0
  std::uint32_t span;      ///< most payload - least: 0 when the opcode has none
  std::uint64_t flags;     ///< bits of the BTH's bytes 1 to 8, the first one lowest, that are flags
  std::uint64_t to_flags;  ///< their product with this has each in its highest byte, where ParsedFlag has it

  /// No packet has so many bytes in front of its payload: the row of an unknown opcode.
  static constexpr std::uint32_t kNever = 0x10000;
};

/// FastRow::flags and to_flags, the same for all opcodes.
struct BthFlags {
  static constexpr std::uint64_t kSolicited = 1ull << 7, kBecn = 1ull << 30, kFecn = 1ull << 31, kAckReq = 1ull << 63;
  static constexpr std::uint64_t kAll = kSolicited | kBecn | kFecn | kAckReq;
  static constexpr std::uint64_t kMoves = 1ull << 52 | 1ull << 31 | 1;
  static constexpr std::uint64_t moved(std::uint64_t flags) noexcept { return flags * kMoves >> 56; }
};
static_assert(BthFlags::moved(BthFlags::kAckReq) == ParsedFlag::ack_req);
static_assert(BthFlags::moved(BthFlags::kSolicited) == ParsedFlag::solicited);
static_assert(BthFlags::moved(BthFlags::kBecn) == ParsedFlag::becn);
static_assert(BthFlags::moved(BthFlags::kFecn) == ParsedFlag::fecn);
static_assert(BthFlags::moved(BthFlags::kAll) ==
              (ParsedFlag::ack_req | ParsedFlag::solicited | ParsedFlag::becn | ParsedFlag::fecn));

constexpr std::array<FastRow, 256> make_fast_rows() {
  using Window = FieldWindow<BthFields>;
  constexpr std::uint8_t kPad = 0x30, kNothing = 0x80;
  const std::array<OpcodeInfo, 256> table = make_opcode_table();
  std::array<FastRow, 256> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OpcodeInfo& o = table[i];
    FastRow& row = rows[i];
    row.zero = Window::rules(&Rule::mask, BthFields::kBth);
    if (!o.may_carry_payload()) row.zero[1] |= kPad;
    row.to_first = Window::moves(BthFields::kBth, 0);
    if (!o.has(HeaderMask::aeth)) row.to_first[offsetof(Parsed, syndrome)] = kNothing;
    row.least = o.payload == PayloadRule::required ? 1 : 0;
    row.overhead = static_cast<std::uint32_t>(sizeof(UdpHeader) + o.header_bytes + kIcrcBytes + row.least);
    if (!o.known()) row.overhead = FastRow::kNever;
    row.span = o.may_carry_payload() ? 0xffff : 0;
    row.flags = BthFlags::kAll;
    row.to_flags = BthFlags::kMoves;
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

[[nodiscard]] inline __m128i vector(const FieldVector& v) noexcept {
  return load_raw<__m128i>(v.data());
}

/// How much of a frame counts for a fast path: if not all headers of any opcode behind an IPv4 header at `l3` are
/// readable, the packet has to end within what is.
[[nodiscard]] constexpr std::uint32_t readable_headers(std::uint32_t l3, std::uint32_t contiguous,
                                                       std::uint32_t frame_length) noexcept {
  const std::uint32_t all = l3 + sizeof(Ipv4Header) + sizeof(UdpHeader) + kMaxRoceHeaderBytes;
  return contiguous >= all ? frame_length : contiguous;
}

/// Whether lengths, pad count and QP of a packet with the BTH at `bth` are right, and its payload if so.
[[gnu::always_inline]] inline bool check_bth(const std::uint8_t* bth, const FastRow& row, std::uint32_t udp_length,
                                             std::uint32_t& payload) noexcept {
  const std::uint32_t pad = bth[1] >> 4 & 3;
  const std::uint32_t beyond_least = udp_length - pad - row.overhead;  // may have wrapped
  payload = beyond_least + row.least;
  return beyond_least <= row.span && (load_raw<std::uint32_t>(bth + 4) & 0xffffff00) != 0;
}

/// The ParsedFlag bits of a BTH. With constants that the compiler knew it would not multiply, which is shorter.
[[gnu::always_inline]] inline std::uint8_t bth_flags(const std::uint8_t* bth, const FastRow& row) noexcept {
  return static_cast<std::uint8_t>((load_raw<std::uint64_t>(bth + 1) & row.flags) * row.to_flags >> 56);
}

/// What the sixteen bytes from the BTH on say, in bytes 16 to 31 of Parsed.
[[gnu::always_inline]] inline __m128i bth_numbers(__m128i tail) noexcept {
  alignas(16) static constexpr FieldVector kTo = FieldWindow<BthFields>::moves(BthFields::kBth, 16);
  return _mm_shuffle_epi8(tail, vector(kTo));
}

/// RoCEv2 over IPv4 without options at offset kL3. Byte shuffles move fields to their place in Parsed. False, with
/// `out` untouched, unless everything is valid. `limit` bytes are readable or known to lie behind all headers.
template <std::uint8_t kL3>
[[gnu::always_inline]] inline bool parse_roce_ipv4(const std::uint8_t* data, std::uint32_t limit,
                                                   Parsed& out) noexcept {
  using Fields = RoceV4Fields<kL3>;
  using Window = FieldWindow<Fields>;
  using Constant = const FieldVector;
  // Three vectors: one that ends with the fragment offset, the one behind it, and from the BTH.
  constexpr std::uint32_t kHead = kL3 - 8, kMiddle = kL3 + 8, kTail = Fields::kBth;
  static_assert(kTail + 16 == Fields::kBytes);
  const auto head = load_raw<__m128i>(data + kHead);
  const auto middle = load_raw<__m128i>(data + kMiddle);
  const auto tail = load_raw<__m128i>(data + kTail);
  const FastRow& row = kFastRows[data[kTail]];

  alignas(16) static constexpr Constant kHeadMask = Window::rules(&Rule::mask, kHead),
                                        kHeadExpected = Window::rules(&Rule::value, kHead);
  alignas(16) static constexpr Constant kMiddleMask = Window::rules(&Rule::mask, kMiddle),
                                        kMiddleExpected = Window::rules(&Rule::value, kMiddle);
  static_assert(Window::rules(&Rule::value, kTail) == FieldVector{});
  const __m128i head_wrong = _mm_xor_si128(_mm_and_si128(head, vector(kHeadMask)), vector(kHeadExpected));
  const __m128i middle_wrong = _mm_xor_si128(_mm_and_si128(middle, vector(kMiddleMask)), vector(kMiddleExpected));
  const __m128i wrong = _mm_or_si128(_mm_or_si128(head_wrong, middle_wrong), _mm_and_si128(tail, vector(row.zero)));
  if (_mm_testz_si128(wrong, wrong) == 0) return false;
  constexpr bool kTagged = kL3 != sizeof(EthernetHeader);
  // Behind a tag the first vector begins behind the byte that says so.
  if (kTagged && (data[6] & 1) != 0) return false;

  const std::uint32_t total = load_be<std::uint16_t>(data + kL3 + offsetof(Ipv4Header, total_length));
  const std::uint32_t udp_length = load_be<std::uint16_t>(data + Fields::kUdp + offsetof(UdpHeader, length));
  constexpr std::uint32_t kIpBytes = sizeof(Ipv4Header);
  std::uint32_t payload;
  if (total != udp_length + kIpBytes || kL3 + total > limit) return false;
  if (!check_bth(data + kTail, row, udp_length, payload)) return false;

  constexpr std::size_t kSecond = 16, kThird = 32;
  alignas(16) static constexpr Constant kFixed = Window::record(Fields::kFixed, 0);
  alignas(16) static constexpr Constant kHeadTo0 = Window::moves(kHead, 0), kMiddleTo0 = Window::moves(kMiddle, 0);
  alignas(16) static constexpr Constant kMiddleTo1 = Window::moves(kMiddle, kSecond),
                                        kMiddleTo2 = Window::moves(kMiddle, kThird);
  const __m128i ip =
      _mm_or_si128(_mm_shuffle_epi8(head, vector(kHeadTo0)), _mm_shuffle_epi8(middle, vector(kMiddleTo0)));
  store_at(out, 0, _mm_or_si128(_mm_or_si128(ip, vector(kFixed)), _mm_shuffle_epi8(tail, vector(row.to_first))));
  store_at(out, kSecond, _mm_or_si128(_mm_shuffle_epi8(middle, vector(kMiddleTo1)), bth_numbers(tail)));
  store_at(out, kThird, _mm_cvtsi128_si64(_mm_shuffle_epi8(middle, vector(kMiddleTo2))));
  out.flags = static_cast<std::uint8_t>(bth_flags(data + kTail, row) | (kTagged ? ParsedFlag::vlan_tagged : 0));
  out.payload_bytes = static_cast<std::uint16_t>(payload);
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
