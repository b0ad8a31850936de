// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/kernel_punt/kernel_punt.h"

#include "switch/stages/kernel_punt/drops.h"
#include "switch/stages/l3/drops.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

using wire::EtherType;

const MacAddress kBroadcast = MacAddress::from_u64(0xffffffffffff);
constexpr const char* kYaml = R"(name: router
ports:
  - { name: h1, type: "null", mtu_bytes: 1500 }
  - { name: h2, type: "null", mtu_bytes: 1500 }
kernel: { packets_per_s: 1000 }
pipeline: [parse, l3, lb]
)";

// A router whose kernel has said: 10.0.1.1/24 on h1, 10.0.2.1/24 on h2.
class L3KernelTest : public ::testing::Test {
 protected:
  L3KernelTest() : h(testing::all_stages(), kYaml), l3(h.shared<L3Shared>("l3")) {
    const auto at = [](const char* text) { return *wire::IpPrefix::parse(text); };
    const std::vector<pipeline::InterfaceAddress> addresses{{0, at("10.0.1.1/24"), {}}, {1, at("10.0.2.1/24"), {}}};
    l3.set_addresses(addresses);
    using tables::RouteSource;
    const std::vector<tables::RouteSpec> routes{
        {at("10.0.1.0/24"), RouteSource::connected, tables::kUnreachable, {{0, {}, true}}},
        {at("10.0.1.1/32"), RouteSource::local, tables::kLocal, {}},
        {at("10.0.2.0/24"), RouteSource::connected, tables::kUnreachable, {{1, {}, true}}}};
    EXPECT_TRUE(l3.set_routes(routes));
  }
  // The frames that went to the kernel, which they all came from h1 for.
  std::vector<Bytes> taken() {
    std::vector<Bytes> frames;
    rte_mbuf* m = nullptr;
    while (l3.kernel()->take(0, &m, 1) == 1) {
      EXPECT_EQ(pipeline::meta(m).in_port, 0);
      frames.emplace_back(pipeline::frame(m), pipeline::frame(m) + m->pkt_len);
      rte_pktmbuf_free(m);
    }
    return frames;
  }
  testing::Harness h;
  L3Shared& l3;
};

FrameBuilder from_host(const char* destination) {
  return FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip("10.0.1.2"), ip(destination)).udp(500).payload(20);
}

TEST_F(L3KernelTest, WhatIsForTheSwitchOrItsLinkGoesToTheKernelAsItCameAndNobodyAnswers) {
  const std::vector<Bytes> frames{
      question(kV4, "10.0.1.2", 1, "10.0.1.1"),
      question(kV6, "fe80::2", 1, "fe80::1"),
      from_host("10.0.1.1").build(),
      from_host("224.0.0.5").eth(host_mac(1), MacAddress::from_u64(0x01005e000005)).build(),
      from_host("255.255.255.255").eth(host_mac(1), kBroadcast).build(),
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip("fe80::2"), ip("fe80::1")).udp(500).payload(20).build(),
      FrameBuilder()
          .eth(host_mac(1), MacAddress::from_u64(0x0180c200000e))
          .ethertype(EtherType::lldp)
          .payload(46)
          .build()};
  for (const Bytes& frame : frames) h.inject("h1", frame);
  EXPECT_EQ(taken(), frames);
  EXPECT_EQ(h.totals().consumed.value(), frames.size());
  EXPECT_EQ(h.totals().tx.value(), 0u);
}

TEST_F(L3KernelTest, WhatIsForwardedOrForOthersDoesNotGoToTheKernel) {
  l3.learn(1, ip("10.0.2.2"), {.mac = host_mac(2), .confirmed = true}, false, h.now());
  h.inject("h1", from_host("10.0.2.2").build());
  h.inject("h1", from_host("10.0.1.1").eth(host_mac(1), host_mac(7)).build());
  h.inject("h1", from_host("239.1.1.1").eth(host_mac(1), MacAddress::from_u64(0x01005e010101)).build());
  h.inject("h1", from_host("10.9.9.9").build());
  EXPECT_TRUE(taken().empty());
  EXPECT_EQ(h.take("h2").size(), 1u);
  EXPECT_EQ(h.dropped(L3Drop::not_for_router), 1u);
  EXPECT_EQ(h.dropped(L3Drop::ip_destination), 1u);
  EXPECT_EQ(h.dropped(L3Drop::no_route), 1u);
}

TEST_F(L3KernelTest, TheKernelIsAskedForANeighbourAndItsAnswerSendsThePacketsThatWait) {
  h.inject("h1", from_host("10.0.2.2").build());
  L3Kernel::Question asked;
  ASSERT_TRUE(l3.kernel()->next_question(0, asked));
  EXPECT_EQ(asked.port, 1);
  EXPECT_EQ(asked.address, ip("10.0.2.2"));
  EXPECT_FALSE(asked.known);
  EXPECT_FALSE(l3.kernel()->next_question(0, asked));
  EXPECT_EQ(h.totals().tx.value(), 0u);
  l3.learn(1, ip("10.0.2.2"), {.mac = host_mac(2), .confirmed = false}, false, h.now());
  h.advance_ns(1000);
  EXPECT_EQ(h.take("h2").size(), 1u);
  // Learned from a question of its own: the kernel is to check it.
  h.inject("h1", from_host("10.0.2.2").build());
  ASSERT_TRUE(l3.kernel()->next_question(0, asked));
  EXPECT_TRUE(asked.known);
  EXPECT_EQ(h.take("h2").size(), 1u);
}

TEST_F(L3KernelTest, ALostNeighbourIsAskedForAgain) {
  l3.learn(1, ip("10.0.2.2"), {.mac = host_mac(2), .confirmed = true}, false, h.now());
  l3.lose(1, ip("10.0.2.2"), L3Shared::Loss::unreachable, h.now());
  h.inject("h1", from_host("10.0.2.2").build());
  L3Kernel::Question asked;
  ASSERT_TRUE(l3.kernel()->next_question(0, asked));
  EXPECT_FALSE(asked.known);
  h.advance_ns(10 * kSecond);
}

TEST_F(L3KernelTest, PacketsOfTheKernelLeaveThroughTheirPortAndAreCountedAsGenerated) {
  rte_mbuf* m = rte_pktmbuf_alloc(h.pool());
  const Bytes frame = from_host("10.0.1.2").build();
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
  pipeline::meta(m).out_port = 1;
  ASSERT_TRUE(l3.kernel()->give(0, m));
  EXPECT_LE(h.pipeline().next_deadline(), h.now());
  h.advance_ns(1000);
  const auto sent = h.take("h2");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, frame);
  EXPECT_EQ(h.totals().generated.value(), 1u);
}

TEST_F(L3KernelTest, APortGetsItsRateAndNoMore) {
  // 1000 a second, a twentieth at once.
  for (int i = 0; i < 60; ++i) h.inject("h1", from_host("10.0.1.1").build());
  EXPECT_EQ(taken().size(), 50u);
  EXPECT_EQ(h.dropped(KernelDrop::kernel_rate), 10u);
  h.advance_ns(kSecond / 100);
  for (int i = 0; i < 20; ++i) h.inject("h1", from_host("10.0.1.1").build());
  EXPECT_EQ(taken().size(), 10u);
  const auto rows = h.rows("kernel");
  EXPECT_EQ(rows[0]["over_rate"], 20u);
  EXPECT_EQ(rows[1]["over_rate"], 0u);
}

TEST_F(L3KernelTest, WhatNobodyTakesIsBounded) {
  for (int i = 0; i < 400; ++i) {
    h.inject("h1", from_host("10.0.1.1").build());
    h.advance_ns(kSecond / 1000);
  }
  EXPECT_EQ(h.dropped(KernelDrop::kernel_queue_full), 400u - L3Kernel::kMostWaiting);
  EXPECT_EQ(taken().size(), L3Kernel::kMostWaiting);
}

}  // namespace
}  // namespace weft::stages
