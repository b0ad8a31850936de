// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/headers.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>

namespace weft::wire {
namespace {

template <class Header>
using Bytes = std::array<std::uint8_t, sizeof(Header)>;

/// Sets `width` bits at `first` of a byte string, bit 0 the most significant one of byte 0: the way in which the
/// standards draw headers.
template <class Header>
Bytes<Header> with_bits(Bytes<Header> bytes, unsigned first, unsigned width, std::uint64_t v) {
  for (unsigned i = 0; i < width; ++i) {
    const unsigned at = first + i;
    const auto bit = static_cast<std::uint8_t>(0x80 >> at % 8);
    const bool one = (v >> (width - 1 - i) & 1) != 0;
    bytes[at / 8] = static_cast<std::uint8_t>(one ? bytes[at / 8] | bit : bytes[at / 8] & ~bit);
  }
  return bytes;
}

/// Values to try: all of a narrow field, else every single bit, all bits, and one pattern.
std::vector<std::uint64_t> values_of(unsigned width) {
  std::vector<std::uint64_t> values;
  if (width <= 10) {
    for (std::uint64_t v = 0; v < std::uint64_t{1} << width; ++v) values.push_back(v);
    return values;
  }
  const std::uint64_t all = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  for (unsigned bit = 0; bit < width; ++bit) values.push_back(std::uint64_t{1} << bit);
  values.insert(values.end(), {0, all, 0x0123456789abcdef & all});
  return values;
}

/// The accessor pair reads and writes exactly the bits [first, first + width) of an all-zero and an all-one header.
template <class Header, class Get, class Set>
void check_field(const char* name, unsigned first, unsigned width, Get get, Set set) {
  for (const std::uint8_t fill : {0x00, 0xff}) {
    for (const std::uint64_t v : values_of(width)) {
      Bytes<Header> before;
      before.fill(fill);
      const Bytes<Header> expected = with_bits<Header>(before, first, width, v);
      Bytes<Header> after = before;
      auto& header = header_at<Header>(after.data());
      set(header, v);
      ASSERT_EQ(after, expected) << name << " = " << v << " on " << int{fill};
      ASSERT_EQ(static_cast<std::uint64_t>(get(static_cast<const Header&>(header))), v) << name;
    }
  }
}

#define CHECK_ACCESSORS(Header, first, width, getter, setter, Type)                   \
  check_field<Header>(                                                                \
      #Header "::" #getter, first, width, [](const Header& h) { return h.getter(); }, \
      [](Header& h, std::uint64_t v) { h.setter(static_cast<Type>(v)); })
#define CHECK_BIG_ENDIAN(Header, first, width, member)                                      \
  check_field<Header>(                                                                      \
      #Header "::" #member, first, width, [](const Header& h) { return h.member.value(); }, \
      [](Header& h, std::uint64_t v) { h.member.set(static_cast<decltype(h.member.value())>(v)); })
#define CHECK_BYTE(Header, first, member)                                       \
  check_field<Header>(                                                          \
      #Header "::" #member, first, 8, [](const Header& h) { return h.member; }, \
      [](Header& h, std::uint64_t v) { h.member = static_cast<std::uint8_t>(v); })

TEST(Headers, VlanTagFieldsTouchTheirBitsOnly) {
  CHECK_ACCESSORS(VlanTag, 0, 3, pcp, set_pcp, std::uint8_t);
  CHECK_ACCESSORS(VlanTag, 3, 1, dei, set_dei, bool);
  CHECK_ACCESSORS(VlanTag, 4, 12, vid, set_vid, std::uint16_t);
  CHECK_BIG_ENDIAN(VlanTag, 16, 16, ethertype);
}

TEST(Headers, PfcClassEnableBitsTouchTheirBitsOnly) {
  for (unsigned priority = 0; priority < 8; ++priority) {
    check_field<PfcHeader>(
        "enabled", 31 - priority, 1, [priority](const PfcHeader& h) { return h.enabled(priority); },
        [priority](PfcHeader& h, std::uint64_t v) { h.set_enabled(priority, v != 0); });
    check_field<PfcHeader>(
        "quanta", 32 + 16 * priority, 16, [priority](const PfcHeader& h) { return h.quanta[priority].value(); },
        [priority](PfcHeader& h, std::uint64_t v) { h.quanta[priority].set(static_cast<std::uint16_t>(v)); });
  }
}

TEST(Headers, ArpFieldsTouchTheirBitsOnly) {
  CHECK_BIG_ENDIAN(ArpHeader, 0, 16, hardware_type);
  CHECK_BIG_ENDIAN(ArpHeader, 16, 16, protocol_type);
  CHECK_BYTE(ArpHeader, 32, hardware_length);
  CHECK_BYTE(ArpHeader, 40, protocol_length);
  CHECK_BIG_ENDIAN(ArpHeader, 48, 16, operation);
  CHECK_BIG_ENDIAN(ArpHeader, 112, 32, sender_ip);
  CHECK_BIG_ENDIAN(ArpHeader, 192, 32, target_ip);
}

TEST(Headers, Ipv4FieldsTouchTheirBitsOnly) {
  CHECK_ACCESSORS(Ipv4Header, 0, 4, version, set_version, std::uint8_t);
  CHECK_ACCESSORS(Ipv4Header, 4, 4, ihl, set_ihl, std::uint8_t);
  CHECK_ACCESSORS(Ipv4Header, 8, 6, dscp, set_dscp, std::uint8_t);
  CHECK_ACCESSORS(Ipv4Header, 14, 2, ecn, set_ecn, Ecn);
  CHECK_BIG_ENDIAN(Ipv4Header, 16, 16, total_length);
  CHECK_BIG_ENDIAN(Ipv4Header, 32, 16, identification);
  CHECK_ACCESSORS(Ipv4Header, 49, 1, dont_fragment, set_dont_fragment, bool);
  CHECK_ACCESSORS(Ipv4Header, 50, 1, more_fragments, set_more_fragments, bool);
  CHECK_ACCESSORS(Ipv4Header, 51, 13, fragment_offset, set_fragment_offset, std::uint16_t);
  CHECK_BYTE(Ipv4Header, 64, ttl);
  CHECK_BYTE(Ipv4Header, 72, protocol);
  CHECK_BIG_ENDIAN(Ipv4Header, 80, 16, checksum);
  CHECK_BIG_ENDIAN(Ipv4Header, 96, 32, source);
  CHECK_BIG_ENDIAN(Ipv4Header, 128, 32, destination);
}

TEST(Headers, Ipv4IsAFragmentByOffsetOrMoreBitAlone) {
  Ipv4Header h{};
  h.set_dont_fragment(true);
  EXPECT_FALSE(h.is_fragment());
  h.set_more_fragments(true);
  EXPECT_TRUE(h.is_fragment());
  h.set_more_fragments(false);
  h.set_fragment_offset(1);
  EXPECT_TRUE(h.is_fragment());
}

TEST(Headers, Ipv6FieldsTouchTheirBitsOnly) {
  CHECK_ACCESSORS(Ipv6Header, 0, 4, version, set_version, std::uint8_t);
  CHECK_ACCESSORS(Ipv6Header, 4, 8, traffic_class, set_traffic_class, std::uint8_t);
  CHECK_ACCESSORS(Ipv6Header, 12, 20, flow_label, set_flow_label, std::uint32_t);
  CHECK_BIG_ENDIAN(Ipv6Header, 32, 16, payload_length);
  CHECK_BYTE(Ipv6Header, 48, next_header);
  CHECK_BYTE(Ipv6Header, 56, hop_limit);
  CHECK_ACCESSORS(Ipv6FragmentHeader, 16, 13, fragment_offset, set_fragment_offset, std::uint16_t);
  CHECK_ACCESSORS(Ipv6FragmentHeader, 31, 1, more_fragments, set_more_fragments, bool);
  CHECK_BIG_ENDIAN(Ipv6FragmentHeader, 32, 32, identification);
}

TEST(Headers, TransportFieldsTouchTheirBitsOnly) {
  CHECK_BIG_ENDIAN(UdpHeader, 0, 16, source_port);
  CHECK_BIG_ENDIAN(UdpHeader, 16, 16, destination_port);
  CHECK_BIG_ENDIAN(UdpHeader, 32, 16, length);
  CHECK_BIG_ENDIAN(UdpHeader, 48, 16, checksum);
  CHECK_BIG_ENDIAN(TcpHeader, 0, 16, source_port);
  CHECK_BIG_ENDIAN(TcpHeader, 16, 16, destination_port);
  CHECK_BIG_ENDIAN(TcpHeader, 32, 32, sequence);
  CHECK_BIG_ENDIAN(TcpHeader, 64, 32, acknowledgement);
  CHECK_ACCESSORS(TcpHeader, 96, 4, data_offset, set_data_offset, std::uint8_t);
  CHECK_BYTE(TcpHeader, 104, flags);
  CHECK_BIG_ENDIAN(TcpHeader, 112, 16, window);
  CHECK_BIG_ENDIAN(TcpHeader, 128, 16, checksum);
}

TEST(Headers, IcmpFieldsTouchTheirBitsOnly) {
  CHECK_BYTE(IcmpHeader, 0, type);
  CHECK_BYTE(IcmpHeader, 8, code);
  CHECK_BIG_ENDIAN(IcmpHeader, 16, 16, checksum);
  CHECK_ACCESSORS(IcmpHeader, 32, 16, identifier, set_identifier, std::uint16_t);
  CHECK_ACCESSORS(IcmpHeader, 48, 16, sequence, set_sequence, std::uint16_t);
  CHECK_ACCESSORS(IcmpHeader, 48, 16, mtu, set_mtu, std::uint16_t);
}

TEST(Headers, BthFieldsTouchTheirBitsOnly) {
  CHECK_BYTE(Bth, 0, opcode);
  CHECK_ACCESSORS(Bth, 8, 1, solicited, set_solicited, bool);
  CHECK_ACCESSORS(Bth, 9, 1, migrated, set_migrated, bool);
  CHECK_ACCESSORS(Bth, 10, 2, pad_count, set_pad_count, std::uint8_t);
  CHECK_ACCESSORS(Bth, 12, 4, transport_version, set_transport_version, std::uint8_t);
  CHECK_BIG_ENDIAN(Bth, 16, 16, pkey);
  CHECK_ACCESSORS(Bth, 32, 1, fecn, set_fecn, bool);
  CHECK_ACCESSORS(Bth, 33, 1, becn, set_becn, bool);
  CHECK_BIG_ENDIAN(Bth, 40, 24, dest_qp);
  CHECK_ACCESSORS(Bth, 64, 1, ack_req, set_ack_req, bool);
  CHECK_BIG_ENDIAN(Bth, 72, 24, psn);
}

TEST(Headers, ExtensionHeaderFieldsTouchTheirBitsOnly) {
  CHECK_BIG_ENDIAN(Reth, 0, 64, virtual_address);
  CHECK_BIG_ENDIAN(Reth, 64, 32, rkey);
  CHECK_BIG_ENDIAN(Reth, 96, 32, dma_length);
  CHECK_BYTE(Aeth, 0, syndrome);
  CHECK_BIG_ENDIAN(Aeth, 8, 24, msn);
  CHECK_BIG_ENDIAN(AtomicEth, 0, 64, virtual_address);
  CHECK_BIG_ENDIAN(AtomicEth, 64, 32, rkey);
  CHECK_BIG_ENDIAN(AtomicEth, 96, 64, swap_add);
  CHECK_BIG_ENDIAN(AtomicEth, 160, 64, compare);
  CHECK_BIG_ENDIAN(AtomicAckEth, 0, 64, original);
  CHECK_BIG_ENDIAN(Deth, 0, 32, qkey);
  CHECK_BIG_ENDIAN(Deth, 40, 24, source_qp);
  CHECK_BIG_ENDIAN(ImmDt, 0, 32, data);
  CHECK_BIG_ENDIAN(Ieth, 0, 32, rkey);
}

TEST(Headers, TosSplitsIntoDscpAndEcnForEveryValue) {
  for (unsigned tos = 0; tos < 256; ++tos) {
    const auto v = static_cast<std::uint8_t>(tos);
    EXPECT_EQ(unsigned{dscp_of(v)}, tos / 4);
    EXPECT_EQ(static_cast<unsigned>(ecn_of(v)), tos % 4);
    EXPECT_EQ(is_ect(v), ecn_of(v) == Ecn::ect0 || ecn_of(v) == Ecn::ect1);
    EXPECT_EQ(is_ect(tos % 4), is_ect(v));
    EXPECT_EQ(make_tos(dscp_of(v), ecn_of(v)), v);
  }
}

TEST(Syndrome, DecodesEveryByteAsTheStandardDrawsIt) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const Syndrome s(static_cast<std::uint8_t>(raw));
    // Bit 7 is reserved; bits 6-5 choose, bits 4-0 are the value.
    const unsigned kind = raw / 32 % 4;
    EXPECT_EQ(s.is_ack(), kind == 0);
    EXPECT_EQ(s.is_rnr_nak(), kind == 1);
    EXPECT_EQ(s.kind() == AethKind::reserved, kind == 2);
    EXPECT_EQ(s.is_nak(), kind == 3);
    EXPECT_EQ(s.value(), raw % 32);
    EXPECT_EQ(s.is_sequence_nak(), kind == 3 && raw % 32 == 0);
    EXPECT_EQ(s.raw(), raw);
  }
}

TEST(Syndrome, EncodesTheValuesThatRnicsSend) {
  EXPECT_EQ(Syndrome::ack().raw(), 0x1f);
  EXPECT_EQ(Syndrome::ack(0).raw(), 0x00);
  EXPECT_EQ(Syndrome::rnr_nak(12).raw(), 0x2c);
  EXPECT_EQ(Syndrome::nak(NakCode::psn_sequence_error).raw(), 0x60);
  EXPECT_EQ(Syndrome::nak(NakCode::invalid_request).raw(), 0x61);
  EXPECT_EQ(Syndrome::nak(NakCode::remote_access_error).raw(), 0x62);
  EXPECT_EQ(Syndrome::nak(NakCode::remote_operational_error).raw(), 0x63);
  EXPECT_EQ(Syndrome::nak(NakCode::invalid_rd_request).raw(), 0x64);
}

TEST(RnrTimer, FollowsItsLawForEveryCode) {
  // From code 2 on, even codes double 20 us every second step and odd codes are half as long again as the one before;
  // code 1 is 10 us, and code 0 stands where code 32 would.
  const auto law = [](unsigned code) {
    const std::uint64_t even = std::uint64_t{10'000} << code / 2;
    return code % 2 == 0 ? even : even + even / 2;
  };
  EXPECT_EQ(rnr_timer_ns(0), law(32));
  EXPECT_EQ(rnr_timer_ns(1), 10'000u);
  for (unsigned code = 2; code < 32; ++code)
    EXPECT_EQ(rnr_timer_ns(static_cast<std::uint8_t>(code)), law(code)) << code;
  EXPECT_EQ(rnr_timer_ns(25), 61'440'000u);
}

TEST(Credits, FollowTheirLawForEveryCode) {
  // 0 to 3 as they are, then two steps per power of two: 4, 6, 8, 12, ...
  const auto law = [](unsigned code) -> std::uint32_t {
    if (code < 4) return code;
    return code % 2 == 0 ? 1u << code / 2 : 3u << (code / 2 - 1);
  };
  for (unsigned code = 0; code < 31; ++code)
    EXPECT_EQ(credit_count(static_cast<std::uint8_t>(code)), law(code)) << code;
  EXPECT_EQ(credit_count(kInvalidCreditCode), 0xffffffffu);
}

}  // namespace
}  // namespace weft::wire
