// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/checksum.h"

#include <gtest/gtest.h>

#include "tests/switch/wire/samples.h"
#include "tests/switch/wire/vectors.h"

namespace weft::wire {
namespace {

using vectors::from_hex;

/// RFC 1071 by one byte at a time.
std::uint16_t slow_checksum(std::span<const std::uint8_t> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += std::uint32_t{bytes[i]} << (i % 2 == 0 ? 8 : 0);
    if (sum > 0xffff) sum -= 0xffff;
  }
  return static_cast<std::uint16_t>(~sum);
}

TEST(Checksum, AgreesWithABytewiseSumAtEveryLength) {
  TestRandom random;
  std::vector<std::uint8_t> bytes;
  for (std::size_t n = 0; n < 300; ++n) {
    const auto copy = exact_copy(bytes.data(), n);
    ASSERT_EQ(internet_checksum({copy.get(), n}), slow_checksum(bytes)) << n;
    bytes.push_back(static_cast<std::uint8_t>(random(256)));
  }
}

TEST(Checksum, TheExampleOfRfc1071Holds) {
  const std::vector<std::uint8_t> bytes{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(internet_checksum(bytes), static_cast<std::uint16_t>(~0xddf2));
}

TEST(Ipv4Checksum, AgreesWithScapy) {
  for (const auto hex : {vectors::kConnectX4Cnp, vectors::kSendOnlyPad, vectors::kAck, vectors::kIpOptions}) {
    auto frame = from_hex(hex);
    auto& ip = header_at<Ipv4Header>(frame.data() + 14);
    EXPECT_TRUE(ipv4_checksum_ok(ip));
    EXPECT_EQ(ipv4_checksum(ip), ip.checksum.value());
    ip.ttl ^= 1;
    EXPECT_FALSE(ipv4_checksum_ok(ip));
  }
}

TEST(Ipv4Checksum, UpdateEqualsRecomputingForRandomHeadersAndChanges) {
  TestRandom random;
  for (int i = 0; i < 20000; ++i) {
    auto frame = FrameBuilder()
                     .ipv4(random.word(), random.word())
                     .identification(static_cast<std::uint16_t>(random.word()))
                     .tos(static_cast<std::uint8_t>(random.word()))
                     .ttl(static_cast<std::uint8_t>(1 + random(255)))
                     .udp(1)
                     .build();
    auto& ip = header_at<Ipv4Header>(frame.data() + 14);
    decrement_ttl(ip);
    ASSERT_TRUE(ipv4_checksum_ok(ip));
    rewrite_tos(ip, static_cast<std::uint8_t>(random.word()));
    ASSERT_TRUE(ipv4_checksum_ok(ip));
    const std::uint32_t old_address = ip.source.value();
    ip.source.set(random.word());
    ip.checksum.set(checksum_update32(ip.checksum.value(), old_address, ip.source.value()));
    ASSERT_TRUE(ipv4_checksum_ok(ip));
    ASSERT_EQ(ip.checksum.value(), ipv4_checksum(ip));
  }
}

TEST(Ipv4Checksum, UpdateIsRightForTheCornerCaseOfRfc1624) {
  // RFC 1624 section 4: from 0xdd2f, with 0x5555 becoming 0x3285, to 0x0000, where RFC 1141 gives 0xffff.
  EXPECT_EQ(checksum_update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

TEST(TransportChecksum, AgreesWithScapyForUdpTcpAndIcmp) {
  const auto field = [](std::vector<std::uint8_t>& frame, std::size_t at) {
    auto& checksum = header_at<be16>(frame.data() + at);
    const std::uint16_t expected = checksum.value();
    checksum.set(0);
    return expected;
  };
  auto tcp = from_hex(vectors::kTcpSyn);
  const auto tcp_expected = field(tcp, 14 + 20 + 16);
  EXPECT_EQ(l4_checksum(header_at<Ipv4Header>(tcp.data() + 14), IpProtocol::tcp, std::span(tcp).subspan(34)),
            tcp_expected);
  auto tcp6 = from_hex(vectors::kTcp6);
  const auto tcp6_expected = field(tcp6, 14 + 40 + 16);
  EXPECT_EQ(l4_checksum(header_at<Ipv6Header>(tcp6.data() + 14), IpProtocol::tcp, std::span(tcp6).subspan(54)),
            tcp6_expected);
  auto udp6 = from_hex(vectors::kUdp6);
  const auto udp6_expected = field(udp6, 14 + 40 + 6);
  EXPECT_EQ(l4_checksum(header_at<Ipv6Header>(udp6.data() + 14), IpProtocol::udp, std::span(udp6).subspan(54)),
            udp6_expected);
  auto echo6 = from_hex(vectors::kEcho6);
  const auto echo6_expected = field(echo6, 14 + 40 + 2);
  EXPECT_EQ(l4_checksum(header_at<Ipv6Header>(echo6.data() + 14), IpProtocol::icmpv6, std::span(echo6).subspan(54)),
            echo6_expected);
  auto echo = from_hex(vectors::kIcmpEcho);
  const auto echo_expected = field(echo, 14 + 20 + 2);
  EXPECT_EQ(internet_checksum(std::span(echo).subspan(34)), echo_expected);
}

TEST(TransportChecksum, AUdpSumOfZeroIsSentAsAllOnes) {
  const auto frame = FrameBuilder().udp(1, 2).with_udp_checksum().payload(std::vector<std::uint8_t>{0, 0}).build();
  const std::uint16_t checksum = header_at<UdpHeader>(frame.data() + 34).checksum.value();
  const std::vector<std::uint8_t> cancelling{static_cast<std::uint8_t>(checksum >> 8),
                                             static_cast<std::uint8_t>(checksum)};
  const auto zero = FrameBuilder().udp(1, 2).with_udp_checksum().payload(cancelling).build();
  EXPECT_EQ(header_at<UdpHeader>(zero.data() + 34).checksum.value(), 0xffff);
}

}  // namespace
}  // namespace weft::wire
