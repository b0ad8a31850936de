// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A switch is described anew while it runs: what it has learned, holds and counted goes on. The harness asserts
// conservation after every exchange, and that no buffer leaks.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "switch/base/time.h"
#include "switch/stages/impair/drops.h"
#include "switch/stages/l3/drops.h"
#include "switch/wire/builder.h"
#include "tests/support/all_stages.h"
#include "tests/support/harness.h"

namespace weft::testing {
namespace {

using pipeline::DropReason;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FrameBuilder;
using wire::MacAddress;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

MacAddress host(int n) {
  return MacAddress::from_u64(0x020000000a00u + static_cast<unsigned>(n));
}

// From host `from` to host `to`; hosts 1, 2 and 3 are behind ports a, b and c.
Bytes packet(int from, int to, std::uint32_t psn = 0) {
  return FrameBuilder()
      .eth(host(from), host(to))
      .ipv4("10.0.0." + std::to_string(from), "10.0.0." + std::to_string(to))
      .udp(50000)
      .bth(Opcode::RC_SEND_ONLY, Qpn(static_cast<std::uint32_t>(100 + to)), Psn(psn))
      .payload(64)
      .build();
}

std::string bridge(const std::string& ports, const std::string& pipeline, const std::string& more = "") {
  std::string yaml = "name: tor\nports:\n";
  for (const char name : ports) {
    if (name == '+') {
      yaml.resize(yaml.size() - 3);
      yaml += ", rate_mbps: 1 }\n";
    } else {
      yaml += std::string("  - { name: ") + name + ", type: \"null\" }\n";
    }
  }
  return yaml + "pipeline: [" + pipeline + "]\n" + more;
}

// Everybody has been heard.
void introduce(Harness& s) {
  s.inject("a", packet(1, 9));
  s.inject("b", packet(2, 9));
  s.inject("c", packet(3, 9));
  for (const char* port : {"a", "b", "c"}) s.take(port);
}

TEST(PipelineAdopt, LearnedAddressesAndCountersGoOn) {
  Harness s(all_stages(), bridge("abc", "parse, l2"));
  introduce(s);
  const std::uint64_t learned = s.counter("l2", "learned");
  s.reload(bridge("abc", "parse, l2: { storm_limit_pps: 5 }"));
  s.inject("a", packet(1, 2));
  EXPECT_THAT(s.take("b"), SizeIs(1));
  EXPECT_THAT(s.take("c"), IsEmpty()) << "flooded: the address was forgotten";
  EXPECT_EQ(s.counter("l2", "learned"), learned);
  EXPECT_EQ(s.totals().rx.value(), 4u);
}

TEST(PipelineAdopt, ClassQueuesKeepWhatTheyHoldAndCountedWhenQosAndPortsChange) {
  Harness s(all_stages(), bridge("abc+", "parse, l2", "qos: {}\n"));
  introduce(s);
  s.advance_ns(100 * kMs);
  (void)s.take("c");
  for (std::uint32_t psn = 0; psn < 20; ++psn) s.inject("a", packet(1, 3, psn));
  s.reload(bridge("dac+", "parse, l2", "qos: { BUFFER_POOL: { model: hpcc }, PFC_WD: { all: { action: off } } }\n"));
  s.inject("a", packet(1, 3, 20));
  s.advance_ns(100 * kMs);
  EXPECT_THAT(s.take("c"), SizeIs(21));
  EXPECT_EQ(s.totals().dropped[static_cast<std::size_t>(DropReason::shutdown)].value(), 0u);
}

TEST(PipelineAdopt, LearnedAddressesFollowPortsThatGetOtherIndexes) {
  Harness s(all_stages(), bridge("abc", "parse, l2"));
  introduce(s);
  s.reload(bridge("cdb", "parse, l2"));
  s.inject("b", packet(2, 3));
  EXPECT_THAT(s.take("c"), SizeIs(1));
  EXPECT_THAT(s.take("d"), IsEmpty());
  // Host 1 was behind a port that is gone: it is looked for everywhere.
  s.inject("b", packet(2, 1));
  EXPECT_THAT(s.take("c"), SizeIs(1));
  EXPECT_THAT(s.take("d"), SizeIs(1));
}

TEST(PipelineAdopt, LearnedAddressesOfAVlanThatAPortHasLeftAreForgotten) {
  Harness s(all_stages(), bridge("abc", "parse, l2"));
  introduce(s);
  const std::string moved =
      "name: tor\nports: [{ name: a, type: \"null\" }, { name: b, type: \"null\", access_vlan: 2 }, "
      "{ name: c, type: \"null\" }]\npipeline: [parse, l2]\n";
  s.reload(moved);
  s.inject("a", packet(1, 2));
  EXPECT_THAT(s.take("b"), IsEmpty()) << "a frame of VLAN 1 left through a port of VLAN 2";
  EXPECT_THAT(s.take("c"), SizeIs(1));
}

TEST(PipelineAdopt, StaticAddressesAreThoseOfTheNewDescription) {
  const std::string before = "static_macs: [{ mac: \"02:00:00:00:0a:02\", port: c }]\n";
  Harness s(all_stages(), bridge("abc", "parse, l2", before));
  s.inject("a", packet(1, 2));
  EXPECT_THAT(s.take("c"), SizeIs(1));
  s.reload(bridge("abc", "parse, l2", "static_macs: [{ mac: \"02:00:00:00:0a:02\", port: b }]\n"));
  s.inject("a", packet(1, 2));
  EXPECT_THAT(s.take("b"), SizeIs(1));
  EXPECT_THAT(s.take("c"), IsEmpty());
}

TEST(PipelineAdopt, QueuePairsAreRemembered) {
  Harness s(all_stages(), bridge("abc", "parse, rdma_track, l2"));
  introduce(s);
  for (std::uint32_t psn = 0; psn < 10; ++psn) s.inject("a", packet(1, 2, psn));
  const auto before = s.rows("qps");
  ASSERT_THAT(before, SizeIs(4));
  s.reload(bridge("bca", "parse, impair, rdma_track: { idle_timeout_s: 5 }, l2"));
  EXPECT_EQ(s.rows("qps"), before);
  s.inject("a", packet(1, 2, 10));
  EXPECT_EQ(s.counter("rdma_track", "out_of_order"), 0u);
  EXPECT_EQ(s.counter("rdma_track", "packets"), 14u);
  // The new timeout counts.
  s.advance_ns(30'000 * kMs);
  EXPECT_THAT(s.rows("qps"), IsEmpty());
}

TEST(PipelineAdopt, ConfiguredQueuePairsComeAndGo) {
  const auto with = [](int qpn) {
    return bridge("abc", "parse, rdma_track: { idle_timeout_s: 5, qps: [{ a: { address: 10.0.0.1, qpn: " +
                             std::to_string(qpn) + " }, b: { address: 10.0.0.2, qpn: 8 } }] }, l2");
  };
  Harness s(all_stages(), with(7));
  s.advance_ns(10'000 * kMs);
  EXPECT_THAT(s.rows("qps"), SizeIs(2));
  s.reload(with(9));
  s.advance_ns(60'000 * kMs);
  const auto rows = s.rows("qps");
  ASSERT_THAT(rows, SizeIs(2));
  for (const auto& row : rows) EXPECT_TRUE(row["dest_qp"] == 9 || row["dest_qp"] == 8) << row;
}

TEST(PipelineAdopt, HeldPacketsLeaveAtTheirTime) {
  Harness s(all_stages(), bridge("abc", "parse, impair: { rules: [{ delay_us: 5000 }] }, l2"));
  introduce(s);
  s.advance_ns(10 * kMs);
  for (const char* port : {"a", "b", "c"}) s.take(port);
  s.inject("a", packet(1, 2));
  s.inject("c", packet(3, 2));
  EXPECT_EQ(s.held(), 2u);
  const auto due = s.now() + 5 * kMs;
  // The second packet's port goes away.
  s.reload(bridge("ba", "parse, impair: { rules: [{ delay_us: 90000 }] }, l2"));
  EXPECT_EQ(s.held(), 1u);
  EXPECT_EQ(s.dropped(DropReason::port_removed), 1u);
  s.advance_ns(6 * kMs);
  const auto sent = s.take("b");
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].at, due);
}

TEST(PipelineAdopt, UnchangedImpairRulesGoOnCounting) {
  const std::string rule = "parse, impair: { rules: [{ match: { ports: [a] }, nth: 3, loss: 1 }] }, l2";
  Harness s(all_stages(), bridge("abc", rule));
  introduce(s);  // the first packet from a
  s.reload(bridge("abcd", rule));
  s.inject("a", packet(1, 2));
  EXPECT_EQ(s.dropped(stages::ImpairDrop::impair_loss), 0u);
  s.reload(bridge("dcba", rule));
  s.inject("a", packet(1, 2));
  EXPECT_EQ(s.dropped(stages::ImpairDrop::impair_loss), 1u);
  EXPECT_EQ(s.rows("impair")[0]["matched"], 3);
}

TEST(PipelineAdopt, AStageThatGoesLetsItsPacketsGoOn) {
  Harness s(all_stages(), bridge("abc", "parse, impair: { rules: [{ delay_us: 5000 }] }, l2"));
  introduce(s);
  s.advance_ns(10 * kMs);
  for (const char* port : {"a", "b", "c"}) s.take(port);
  s.inject("a", packet(1, 2));
  s.reload(bridge("abc", "parse, l2"));
  s.advance_ns(kMs / 1000);
  EXPECT_THAT(s.take("b"), SizeIs(1));
  EXPECT_EQ(s.dropped_total(), 0u);
}

TEST(PipelineAdopt, AnotherWireTakesOverWhatWaits) {
  Harness s(all_stages(),
            "name: tor\nports: [{ name: a, type: \"null\" }, { name: b, type: \"null\", rate_mbps: 1 }]\n"
            "pipeline: [parse, l2]\n");
  for (std::uint32_t psn = 0; psn < 5; ++psn) s.inject("a", packet(1, 2, psn));
  EXPECT_THAT(s.take("b"), SizeIs(0));
  auto fast = std::make_unique<pipeline::EgressQueue>(1024, 0, 0);
  s.pipeline().exchange_wire(0, 1, fast);
  EXPECT_EQ(fast->held(), 0u);
  // Only the packet that the slow wire had begun to send still takes its time.
  s.advance_ns(10'000'000);
  const auto sent = s.take("b");
  ASSERT_THAT(sent, SizeIs(5));
  for (std::uint32_t psn = 0; psn < 5; ++psn) EXPECT_EQ(sent[psn].bytes, packet(1, 2, psn)) << psn;
  s.expect_conservation();
}

TEST(PipelineAdopt, QueuedPacketsStayInOrderWhenTheRateChanges) {
  Harness s(all_stages(), bridge("ab+c", "parse, l2"));
  introduce(s);
  s.advance_ns(100 * kMs);
  s.take("b");
  for (std::uint32_t psn = 0; psn < 20; ++psn) s.inject("a", packet(1, 2, psn));
  const std::size_t early = s.take("b").size();
  EXPECT_LT(early, 3u);
  s.reload(bridge("abc", "parse, l2"));
  s.advance_ns(10 * kMs);
  const auto sent = s.take("b");
  ASSERT_EQ(sent.size() + early, 20u);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].bytes, packet(1, 2, static_cast<std::uint32_t>(early + i)));
  }
}

TEST(PipelineAdopt, PacketsQueuedAtAPortThatGoesAreDroppedByName) {
  Harness s(all_stages(), bridge("ab+c", "parse, l2"));
  introduce(s);
  s.advance_ns(100 * kMs);
  for (std::uint32_t psn = 0; psn < 20; ++psn) s.inject("a", packet(1, 2, psn));
  const std::uint64_t held = s.held();
  EXPECT_GT(held, 15u);
  s.reload(bridge("ca", "parse, l2"));
  EXPECT_EQ(s.dropped(DropReason::port_removed), held);
}

// --- routing -------------------------------------------------------------------------------------------------------

std::string router(const std::string& ports, const std::string& routes) {
  std::string yaml = "name: leaf\nports:\n";
  for (const char name : ports) yaml += std::string("  - { name: ") + name + ", type: \"null\" }\n";
  yaml += "addresses:\n";
  for (const char name : ports) {
    yaml += std::string("  - { port: ") + name + ", address: 10.0." + std::to_string(name - 'a' + 1) + ".1/24 }\n";
  }
  return yaml + "routes: [" + routes + "]\npipeline: [parse, l3, lb]\n";
}

Bytes routed(const Harness& s, const std::string& to) {
  return FrameBuilder()
      .eth(host(1), s.port("a").mac)
      .ipv4("10.0.1.2", to)
      .udp(50000)
      .bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(0))
      .payload(64)
      .build();
}

Bytes arp_reply(const Harness& s, const std::string& port, const std::string& from) {
  Bytes frame = FrameBuilder().eth(host(7), s.port(port).mac).ethertype(wire::EtherType::arp).payload(46).build();
  const auto to = s.port(port).mac;
  Bytes arp{0, 1, 8, 0, 6, 4, 0, 2};
  const auto append = [&](const auto& bytes, std::size_t count) {
    arp.insert(arp.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  };
  const auto four = [&](const std::string& text) {
    const std::uint32_t value = wire::IpAddress::parse(text)->v4_value();
    for (int shift = 24; shift >= 0; shift -= 8) arp.push_back(static_cast<std::uint8_t>(value >> shift));
  };
  append(host(7).bytes, 6);
  four(from);
  append(to.bytes, 6);
  four("10.0." + std::to_string(port[0] - 'a' + 1) + ".1");
  std::copy(arp.begin(), arp.end(), frame.begin() + 14);
  return frame;
}

TEST(PipelineAdopt, NeighboursAreRememberedAndRoutesAreNew) {
  Harness s(all_stages(), router("abc", "{ prefix: 20.0.0.0/8, via: [10.0.2.2] }"));
  s.inject("a", routed(s, "10.0.3.2"));
  s.inject("c", arp_reply(s, "c", "10.0.3.2"));
  ASSERT_THAT(s.take("c"), SizeIs(2)) << "the question, and the packet that waited for the answer";
  s.reload(router("cab", "{ prefix: 20.0.0.0/8, via: [10.0.3.2] }"));
  s.inject("a", routed(s, "20.0.0.1"));
  const auto sent = s.take("c");
  ASSERT_THAT(sent, SizeIs(1)) << "asked again, or no route";
  EXPECT_TRUE(std::equal(sent[0].bytes.begin(), sent[0].bytes.begin() + 6, host(7).bytes.begin()));
}

TEST(PipelineAdopt, PacketsThatWaitForANeighbourGoOnWaiting) {
  Harness s(all_stages(), router("abc", ""));
  s.inject("a", routed(s, "10.0.3.2"));
  s.take("c");
  s.reload(router("cab", "{ prefix: 20.0.0.0/8, via: [10.0.3.2] }"));
  EXPECT_EQ(s.held(), 2u) << "the packet, and the question in the egress queue";
  s.inject("c", arp_reply(s, "c", "10.0.3.2"));
  EXPECT_THAT(s.take("c"), SizeIs(2)) << "the question, and the packet";
  EXPECT_EQ(s.dropped_total(), 0u);
}

TEST(PipelineAdopt, AnAddressThatIsGoneIsNoLongerAnswered) {
  Harness s(all_stages(), router("abc", ""));
  s.inject("a", routed(s, "10.0.2.2"));
  EXPECT_THAT(s.take("b"), SizeIs(1));
  s.reload(router("ac", ""));
  EXPECT_EQ(s.dropped(DropReason::port_removed), 1u);
  s.inject("a", routed(s, "10.0.2.2"));
  EXPECT_EQ(s.dropped(stages::L3Drop::no_route), 1u);
}

}  // namespace
}  // namespace weft::testing
