// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/cookie.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "switch/wire/builder.h"
#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

using wire::FrameBuilder;
using wire::MacAddress;
using Tcp = wire::TcpHeader;

TcpSegment syn() {
  return {.pair = 99,
          .from_lower = true,
          .source_port = 40000,
          .destination_port = 18515,
          .flags = Tcp::kSyn,
          .sequence = 0xffffffff};
}
TcpSegment ack(std::uint32_t cookie) {
  TcpSegment s = syn();
  s.flags = Tcp::kAck;
  s.sequence = 0;
  s.acknowledgement = cookie + 1;
  return s;
}

// Appendix A of the reference implementation (SipHash-2-4, 64 bits): key 00..0f, input 00, 01, 02...
TEST(SipHash, IsThatOfItsAuthors) {
  constexpr std::uint64_t kKey0 = 0x0706050403020100, kKey1 = 0x0f0e0d0c0b0a0908;
  const std::array<std::uint64_t, 2> words{kKey0, kKey1};
  EXPECT_EQ(siphash(kKey0, kKey1, {}), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(siphash(kKey0, kKey1, std::span(words).first(1)), 0x93f5f5799a932462u);
  EXPECT_EQ(siphash(kKey0, kKey1, words), 0x3f2acc7f57c29bdbu);
}

TEST(HandshakeCookies, AnAckThatAnswersItShowsTheClient) {
  const HandshakeCookies cookies(1, 2);
  const std::uint32_t cookie = cookies.of_syn(5 * kSecond, syn());
  EXPECT_TRUE(cookies.answered_by(6 * kSecond, ack(cookie)));
  EXPECT_TRUE(cookies.answered_by(6 * kSecond, ack(cookie))) << "nothing is kept";
  EXPECT_FALSE(cookies.answered_by(6 * kSecond, ack(cookie + 1)));
  EXPECT_FALSE(HandshakeCookies(1, 3).answered_by(6 * kSecond, ack(cookie))) << "another key";
}

TEST(HandshakeCookies, BelongsToOneConnection) {
  const HandshakeCookies cookies(1, 2);
  const std::uint32_t cookie = cookies.of_syn(0, syn());
  std::vector<TcpSegment> others(5, ack(cookie));
  others[0].pair = 98;
  others[1].from_lower = false;
  others[2].source_port = 40001;
  others[3].destination_port = 18516;
  others[4].sequence = 1;
  for (const TcpSegment& other : others) EXPECT_FALSE(cookies.answered_by(0, other));
}

TEST(HandshakeCookies, IsGoodForItsLifetimeAndNotForTwice) {
  const HandshakeCookies cookies(1, 2);
  for (const TimeNs begin : {TimeNs{0}, 63 * kSecond, 64 * kSecond, 1000 * kSecond}) {
    const std::uint32_t cookie = cookies.of_syn(begin, syn());
    EXPECT_TRUE(cookies.answered_by(begin + HandshakeCookies::kLifetimeNs, ack(cookie))) << begin;
    EXPECT_FALSE(cookies.answered_by(begin + 2 * HandshakeCookies::kLifetimeNs, ack(cookie))) << begin;
  }
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(cookies.of_syn(i * HandshakeCookies::kLifetimeNs, syn()));
  EXPECT_EQ(seen.size(), 100u);
}

class TcpAnswer : public testing::TestWithParam<bool> {};

TEST_P(TcpAnswer, IsWhatTheServerWouldSend) {
  const bool v6 = GetParam();
  const MacAddress client = MacAddress::from_u64(0x02aa00000001), router = MacAddress::from_u64(0x020000000100);
  FrameBuilder from, to;
  from.eth(client, router).vlan(7);
  to.eth(router, client);
  if (v6) {
    from.ipv6("fd01::1", "fd02::1").dscp(10).ecn(wire::Ecn::ect0);
    to.ipv6("fd02::1", "fd01::1").dscp(10);
  } else {
    from.ipv4("10.1.0.1", "10.2.0.1").dscp(10).ecn(wire::Ecn::ect0);
    to.ipv4("10.2.0.1", "10.1.0.1").dscp(10);
  }
  const auto frame = from.tcp(40000, 18515, Tcp::kSyn, 5).build();
  auto expected = to.tcp(18515, 40000, Tcp::kSyn | Tcp::kAck, 900).build();
  const std::size_t l4 = 14 + (v6 ? 40 : 20);
  auto& tcp = wire::header_at<Tcp>(expected.data() + l4);
  tcp.acknowledgement.set(6);
  tcp.window.set(0);
  wire::Parsed parsed;
  wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()),
                    parsed);
  std::array<std::uint8_t, kMaxTcpAnswerBytes> out{};
  const std::size_t used = write_tcp_answer(out, frame.data(), parsed, Tcp::kSyn | Tcp::kAck, 900, 6);
  ASSERT_EQ(used, v6 ? 74u : 60u);
  // The pseudo header, and the checksum itself, add up to nothing.
  const std::span<const std::uint8_t> segment(out.data() + l4, sizeof(Tcp));
  if (v6) {
    EXPECT_EQ(wire::l4_checksum(wire::header_at<wire::Ipv6Header>(out.data() + 14), wire::IpProtocol::tcp, segment), 0);
  } else {
    EXPECT_EQ(wire::l4_checksum(wire::header_at<wire::Ipv4Header>(out.data() + 14), wire::IpProtocol::tcp, segment), 0);
    EXPECT_TRUE(wire::ipv4_checksum_ok(wire::header_at<wire::Ipv4Header>(out.data() + 14)));
  }
  tcp.checksum = wire::header_at<Tcp>(out.data() + l4).checksum;
  EXPECT_TRUE(
      std::equal(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(l4 + sizeof tcp), out.begin()));
  EXPECT_EQ(write_tcp_answer(std::span(out).first(used - 1), frame.data(), parsed, Tcp::kRst, 1, 0), 0u);
}

INSTANTIATE_TEST_SUITE_P(Families, TcpAnswer, testing::Bool());

}  // namespace
}  // namespace weft::stages
