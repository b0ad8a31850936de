// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/parse/stage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "switch/stages/parse/drops.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"
#include "tests/switch/stages/nack_filter/crossover.h"

namespace weft::stages {
namespace {

using pipeline::DropReason;
using testing::Bytes;
using testing::Crossover;
using testing::Harness;
using wire::FrameBuilder;
using wire::FrameKind;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;
using wire::Validity;

class Switch {
 public:
  explicit Switch(const std::string& options = "{}", testing::HarnessOptions harness = {})
      : registry(testing::crossover_registry()),
        h(registry, testing::crossover_yaml("  - parse: " + options), harness) {}

  std::uint64_t counter(const std::string& name) const { return h.counter("parse", name); }
  std::vector<wire::Parsed>& seen() { return h.stage<Crossover>("crossover").seen; }

  pipeline::Registry registry;
  Harness h;
};

FrameBuilder roce(std::uint32_t psn = 5, std::size_t payload = 256) {
  return FrameBuilder().bth(Opcode::RC_RDMA_WRITE_MIDDLE, Qpn(17), Psn(psn)).payload(payload);
}

FrameBuilder arp() {
  const auto mac = wire::MacAddress::from_u64(0x020000000001);
  return FrameBuilder().arp(1, mac, wire::IpAddress::v4(0x0a000001), {}, wire::IpAddress::v4(0x0a000002));
}

Bytes cut(const FrameBuilder& builder, std::size_t bytes) {
  Bytes frame = builder.build();
  frame.resize(bytes);
  return frame;
}

std::map<FrameKind, Bytes> frame_of_each_kind() {
  return {{FrameKind::other, FrameBuilder().ethertype(wire::EtherType::lldp).payload(50).build()},
          {FrameKind::mac_control, FrameBuilder().pause(100).build()},
          {FrameKind::arp, arp().build()},
          {FrameKind::ipv4, FrameBuilder().ipv4("10.0.0.1", "10.0.0.2").protocol(89).payload(30).build()},
          {FrameKind::ipv6, FrameBuilder().ipv6("2001:db8::1", "2001:db8::2").protocol(89).payload(30).build()},
          {FrameKind::ipv4_fragment, FrameBuilder().udp(1, 2).payload(64).fragment(0, true).build()},
          {FrameKind::ipv6_fragment,
           FrameBuilder().ipv6("2001:db8::1", "2001:db8::2").udp(1, 2).payload(64).fragment(0, true).build()},
          {FrameKind::udp, FrameBuilder().udp(1, 2).payload(30).build()},
          {FrameKind::tcp, FrameBuilder().tcp(1, 2).payload(30).build()},
          {FrameKind::icmp, FrameBuilder().icmp(8, 0).payload(30).build()},
          {FrameKind::roce, roce().build()}};
}

std::map<Validity, Bytes> frame_of_each_invalidity() {
  Bytes strange_arp = arp().build();
  strange_arp[15] = 9;
  const auto group = wire::MacAddress::from_u64(0x010000000001);
  return {{Validity::eth_truncated, Bytes(13, 2)},
          {Validity::eth_source_multicast, roce().eth(group, wire::MacAddress::from_u64(2)).build()},
          {Validity::vlan_nested, roce().vlan(1).vlan(2).build()},
          {Validity::arp_truncated, cut(arp(), 14 + 27)},
          {Validity::arp_malformed, strange_arp},
          {Validity::ip_truncated, cut(roce(), 14 + 19)},
          {Validity::ip_version, roce().ip_version(7).build()},
          {Validity::ip_header_length, roce().ihl(4).build()},
          {Validity::ip_length, roce().ip_length(3000).build()},
          {Validity::l4_truncated, FrameBuilder().ipv4("10.0.0.1", "10.0.0.2").protocol(17).payload(7).build()},
          {Validity::udp_length, roce().udp_length(7).build()},
          {Validity::roce_truncated, FrameBuilder().udp(1, 4791).payload(15).build()},
          {Validity::roce_transport_version, roce().transport_version(1).build()},
          {Validity::roce_opcode, FrameBuilder().bth(0x1f, Qpn(17), Psn(5)).payload(64).build()},
          {Validity::roce_pad, FrameBuilder().bth(Opcode::RC_ACKNOWLEDGE, Qpn(17), Psn(5)).pad_count(1).build()},
          {Validity::roce_payload, FrameBuilder().bth(Opcode::RC_ACKNOWLEDGE, Qpn(17), Psn(5)).payload(4).build()},
          {Validity::roce_qp0, FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(0), Psn(5)).payload(4).build()}};
}

TEST(ParseStage, CountsEachKindOfFrame) {
  const auto frames = frame_of_each_kind();
  ASSERT_EQ(frames.size(), wire::kFrameKindCount);
  Switch s;
  std::uint64_t expected = 1;
  for (const auto& [kind, frame] : frames) {
    for (std::uint64_t i = 0; i < expected; ++i) s.h.inject("p1", frame);
    EXPECT_EQ(s.counter("kind_" + std::string(wire::name(kind))), expected) << wire::name(kind);
    ++expected;
  }
}

TEST(ParseStage, CountsEachRuleThatAFrameBreaks) {
  const auto frames = frame_of_each_invalidity();
  // All but `ok` and ip_checksum, which only l3 looks for.
  ASSERT_EQ(frames.size(), wire::kValidityCount - 2u);
  Switch s;
  std::uint64_t expected = 1;
  for (const auto& [validity, frame] : frames) {
    for (std::uint64_t i = 0; i < expected; ++i) s.h.inject("p1", frame);
    EXPECT_EQ(s.counter("invalid_" + std::string(wire::name(validity))), expected) << wire::name(validity);
    ++expected;
  }
}

TEST(ParseStage, CountsNoBrokenRuleForValidFrames) {
  Switch s;
  for (const auto& [kind, frame] : frame_of_each_kind()) s.h.inject("p1", frame);
  for (const auto& [validity, frame] : frame_of_each_invalidity()) {
    EXPECT_EQ(s.counter("invalid_" + std::string(wire::name(validity))), 0u) << wire::name(validity);
  }
}

TEST(ParseStage, DropsOnlyFramesWithoutAUsableEthernetHeader) {
  pipeline::DropReasons reasons;
  reasons.add(ParseDrop::block());
  for (const auto& [validity, frame] : frame_of_each_invalidity()) {
    Switch s;
    s.h.inject("p1", frame);
    const bool unusable = validity == Validity::eth_truncated || validity == Validity::eth_source_multicast;
    EXPECT_EQ(s.h.dropped_total(), unusable ? 1u : 0u) << wire::name(validity);
    if (unusable) {
      EXPECT_EQ(s.h.dropped(reasons.find(wire::name(validity)).value()), 1u) << wire::name(validity);
      continue;
    }
    const auto out = s.h.take("p2");
    ASSERT_EQ(out.size(), 1u) << wire::name(validity);
    EXPECT_EQ(out[0].bytes, frame) << wire::name(validity);
  }
}

TEST(ParseStage, DropsMacControlFramesByTheirOwnReason) {
  Switch s;
  s.h.inject("p1", FrameBuilder().pause(100).build());
  s.h.inject("p1", FrameBuilder().pfc(0xff, {}).build());
  EXPECT_EQ(s.h.dropped(DropReason::mac_control), 2u);
  EXPECT_TRUE(s.h.take("p2").empty());
}

TEST(ParseStage, DropsAnEmptyPacket) {
  Switch s;
  s.h.inject("p1", Bytes{});
  EXPECT_EQ(s.h.dropped(ParseDrop::eth_truncated), 1u);
}

TEST(ParseStage, CountsAFullBurstOfMixedFramesOneByOne) {
  Switch s;
  std::vector<Bytes> burst;
  for (int i = 0; i < 64; ++i)
    burst.push_back(i % 4 == 3 ? arp().build() : roce(static_cast<std::uint32_t>(i)).build());
  burst[10] = Bytes(5, 0);
  s.h.inject("p1", burst);
  EXPECT_EQ(s.counter("kind_roce"), 47u);
  EXPECT_EQ(s.counter("kind_arp"), 16u);
  EXPECT_EQ(s.counter("invalid_eth_truncated"), 1u);
  EXPECT_EQ(s.h.take("p2").size(), 63u);
}

// --- headers in several buffers ----------------------------------------------------------------------------------

bool same(const wire::Parsed& a, const wire::Parsed& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST(ParseStage, ReadsHeadersThatAreSpreadOverBuffersLikeContiguousOnes) {
  auto frames = frame_of_each_kind();
  frames.erase(FrameKind::mac_control);
  for (const auto& [kind, frame] : frames) {
    for (const std::vector<std::size_t>& cuts :
         {std::vector<std::size_t>{1}, {14}, {20, 30}, {1, 1, 1, 1}, {60, 1, 1}, {0, 40}, {191}, {192}, {193}}) {
      Switch s;
      s.h.inject("p1", frame);
      s.h.inject_chained("p1", frame, cuts);
      ASSERT_EQ(s.seen().size(), 2u) << wire::name(kind);
      EXPECT_TRUE(same(s.seen()[0], s.seen()[1])) << wire::name(kind) << " cut after " << cuts[0];
      const auto out = s.h.take("p2");
      ASSERT_EQ(out.size(), 2u);
      EXPECT_EQ(out[1].bytes, frame) << wire::name(kind) << " cut after " << cuts[0];
    }
  }
}

TEST(ParseStage, ReadsMutatedFramesTheSameWhetherTheyAreChainedOrNot) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Rng rng(seed);
    Switch s("{ icrc_check: all }");
    std::vector<Bytes> corpus;
    for (const auto& [kind, frame] : frame_of_each_kind()) corpus.push_back(frame);
    for (const auto& [validity, frame] : frame_of_each_invalidity()) corpus.push_back(frame);
    for (int i = 0; i < 3000; ++i) {
      Bytes frame = corpus[rng.below(corpus.size())];
      for (std::uint64_t flips = rng.below(4); flips > 0 && !frame.empty(); --flips) {
        frame[rng.below(std::min<std::size_t>(frame.size(), 80))] ^= static_cast<std::uint8_t>(1u << rng.below(8));
      }
      if (rng.below(4) == 0) frame.resize(rng.below(frame.size() + 1));
      s.seen().clear();
      s.h.inject("p1", frame);
      s.h.inject_chained("p1", frame, {rng.below(100), rng.below(100), rng.below(100)});
      ASSERT_NE(s.seen().size(), 1u) << "one was dropped, the other was not, frame " << i;
      if (s.seen().size() == 2) {
        ASSERT_TRUE(same(s.seen()[0], s.seen()[1])) << "frame " << i;
      }
      const auto out = s.h.take("p2");
      for (const auto& sent : out) ASSERT_EQ(sent.bytes, frame) << "frame " << i;
    }
    EXPECT_GT(s.counter("kind_roce"), 100u);
    EXPECT_EQ(s.counter("icrc_checked"), s.counter("kind_roce"));
  }
}

// A chain whose first buffer ends after `bytes` and has `room` bytes left.
rte_mbuf* chain(rte_mempool* pool, const Bytes& frame, std::uint16_t bytes, std::uint16_t room) {
  rte_mbuf* head = rte_pktmbuf_alloc(pool);
  rte_mbuf* rest = rte_pktmbuf_alloc(pool);
  head->data_off = static_cast<std::uint16_t>(head->buf_len - bytes - room);
  std::memcpy(rte_pktmbuf_append(head, bytes), frame.data(), bytes);
  const auto left = static_cast<std::uint16_t>(frame.size() - bytes);
  std::memcpy(rte_pktmbuf_append(rest, left), frame.data() + bytes, left);
  rte_pktmbuf_chain(head, rest);
  return head;
}

TEST(ParseStage, DropsAPacketWhoseFirstBufferHasNoRoomForItsHeaders) {
  const Bytes frame = roce().build();
  Switch s;
  s.h.inject("p1", chain(s.h.pool(), frame, 40, 151));
  EXPECT_EQ(s.h.dropped(DropReason::header_split), 1u);
  s.h.inject("p1", chain(s.h.pool(), frame, 40, 152));
  EXPECT_EQ(s.h.dropped(DropReason::header_split), 1u);
  EXPECT_EQ(s.h.take("p2").size(), 1u);
}

TEST(ParseStage, DropsAPacketWhoseFirstBufferIsSharedAndTooShort) {
  const Bytes frame = roce().build();
  Switch s;
  rte_mbuf* head = chain(s.h.pool(), frame, 40, 500);
  rte_mbuf* other = rte_pktmbuf_clone(head, s.h.pool());
  s.h.inject("p1", head);
  EXPECT_EQ(s.h.dropped(DropReason::header_split), 1u);
  s.h.inject("p1", other);
  EXPECT_EQ(s.h.dropped(DropReason::header_split), 2u) << "bytes were written into a buffer of someone else";
}

TEST(ParseStage, DropsAPacketThatHasFewerBytesThanItSays) {
  Switch s;
  rte_mbuf* m = chain(s.h.pool(), roce().build(), 40, 500);
  m->next->data_len = 10;
  s.h.inject("p1", m);
  EXPECT_EQ(s.h.dropped(DropReason::header_split), 1u);
}

// --- ICRC --------------------------------------------------------------------------------------------------------

TEST(ParseStage, ChecksNoIcrcUnlessTold) {
  Switch s;
  s.h.inject("p1", roce().icrc(1).build());
  EXPECT_EQ(s.counter("icrc_checked"), 0u);
  EXPECT_EQ(s.counter("icrc_bad"), 0u);
}

TEST(ParseStage, ForwardsAndCountsABadIcrc) {
  Switch s("{ icrc_check: all }");
  s.h.inject("p1", {roce(1).build(), roce(2).icrc(1).build(), arp().build(), roce(3).build()});
  EXPECT_EQ(s.counter("icrc_checked"), 3u);
  EXPECT_EQ(s.counter("icrc_bad"), 1u);
  EXPECT_EQ(s.h.take("p2").size(), 4u);
}

TEST(ParseStage, DropsABadIcrcWhenTold) {
  Switch s("{ icrc_check: all, icrc_bad: drop }");
  s.h.inject("p1", {roce(1).build(), roce(2).icrc(1).build(), roce(3).build()});
  EXPECT_EQ(s.counter("icrc_bad"), 1u);
  EXPECT_EQ(s.h.dropped(ParseDrop::icrc), 1u);
  EXPECT_EQ(s.h.take("p2").size(), 2u);
}

TEST(ParseStage, ChecksEveryNthRocePacketOfASample) {
  Switch s("{ icrc_check: sample, icrc_sample_every: 10 }");
  for (std::uint32_t i = 1; i <= 95; ++i) {
    // Bad where it is looked at: at 10, 20, ...
    s.h.inject("p1", {roce(i).icrc(i % 10 == 0 ? 1 : 2).build(), arp().build()});
  }
  EXPECT_EQ(s.counter("icrc_checked"), 9u);
  EXPECT_EQ(s.counter("icrc_bad"), 9u);
}

TEST(ParseStage, SamplesTheSamePacketsInBurstsOfAnySize) {
  for (const std::size_t size : {1, 3, 32, 64}) {
    Switch s("{ icrc_check: sample, icrc_sample_every: 7 }");
    std::vector<Bytes> burst;
    for (std::uint32_t i = 1; i <= 210; ++i) {
      burst.push_back(i % 7 == 0 ? roce(i).icrc(1).build() : roce(i).build());
      if (burst.size() < size && i != 210) continue;
      s.h.inject("p1", burst);
      burst.clear();
    }
    EXPECT_EQ(s.counter("icrc_checked"), 30u) << "bursts of " << size;
    EXPECT_EQ(s.counter("icrc_bad"), 30u) << "bursts of " << size;
  }
}

TEST(ParseStage, ChecksTheIcrcAcrossBuffers) {
  const Bytes good = roce(5, 601).vlan(10).build();
  Bytes bad = good;
  bad[400] ^= 4;
  for (std::size_t at = 1; at <= good.size(); ++at) {
    Switch s("{ icrc_check: all, icrc_bad: drop }");
    s.h.inject_chained("p1", good, {at, 1, 0, 200});
    s.h.inject_chained("p1", bad, {at, 1, 0, 200});
    ASSERT_EQ(s.counter("icrc_checked"), 2u) << "cut after " << at;
    ASSERT_EQ(s.counter("icrc_bad"), 1u) << "cut after " << at;
    ASSERT_EQ(s.h.take("p2").size(), 1u) << "cut after " << at;
  }
}

TEST(ParseStage, ChecksTheIcrcOfAJumboFrameInSeveralBuffers) {
  Switch s("{ icrc_check: all }");
  s.h.inject("p1", roce(5, 4096).build());
  s.h.inject("p1", roce(5, 4096).ipv6("2001:db8::1", "2001:db8::2").build());
  s.h.inject("p1", roce(6, 4096).icrc(3).build());
  EXPECT_EQ(s.counter("icrc_checked"), 3u);
  EXPECT_EQ(s.counter("icrc_bad"), 1u);
}

}  // namespace
}  // namespace weft::stages
