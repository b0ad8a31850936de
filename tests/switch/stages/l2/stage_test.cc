// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l2/stage.h"

#include "switch/stages/l2/drops.h"
#include "switch/stages/parse/drops.h"
#include "tests/switch/stages/l2/rig.h"

namespace weft::stages::l2_rig {
namespace {

// --- forwarding ---

TEST(L2, AnUnknownDestinationIsFloodedToTheVlanAndAKnownOneIsNot) {
  Harness h(registry(), vlan_switch());
  h.inject("a", untagged(host(1), host(2)));
  EXPECT_THAT(sent_by(h, {{"b", untagged(host(1), host(2))},
                          {"c", untagged(host(1), host(2))},
                          {"n", untagged(host(1), host(2))},
                          {"t", tagged(10, host(1), host(2))}}),
              ElementsAre("b", "c", "n", "t"));
  EXPECT_EQ(h.counter("l2", "flooded_unknown"), 1u);
  EXPECT_EQ(h.counter("l2", "learned"), 1u);
  h.inject("b", untagged(host(2), host(1)));
  EXPECT_THAT(sent_by(h, {{"a", untagged(host(2), host(1))}}), ElementsAre("a"));
  h.inject("a", untagged(host(1), host(2)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("b"));
  EXPECT_EQ(h.counter("l2", "flooded_unknown"), 1u);
}

TEST(L2, BurstsForOnePortAndForSeveralLeaveWithAllTheirBytes) {
  Harness h(registry(), vlan_switch());
  for (const auto& [port, n] : {std::pair{"a", 1}, {"b", 2}, {"c", 3}}) h.inject(port, untagged(host(n), kBroadcast));
  discard(h);
  std::map<std::string, std::uint64_t> sent_bytes;
  for (const char* port : {"b", "c"}) {
    sent_bytes[port] = h.pipeline().port_totals(h.port(port).index).tx_bytes.value();
  }
  // All for one port, for two, and one whose port nobody knows.
  for (const std::vector<int>& burst : {std::vector{2, 2, 2}, {2, 2, 2}, {2, 3, 2}, {3, 9, 3}, {3, 3, 2}}) {
    std::vector<Bytes> frames;
    std::map<std::string, std::vector<Bytes>> expected;
    for (const int to : burst) {
      frames.push_back(untagged(host(1), host(to), 8 + 100 * frames.size()));
      if (to != 3) expected["b"].push_back(frames.back());
      if (to != 2) expected["c"].push_back(frames.back());
    }
    h.inject("a", frames);
    for (const char* port : {"b", "c"}) {
      auto sent = bytes_of(h.take(port));
      std::uint64_t bytes = 0;
      for (const Bytes& frame : sent) bytes += frame.size();
      // Copies follow the burst.
      std::sort(sent.begin(), sent.end());
      std::sort(expected[port].begin(), expected[port].end());
      EXPECT_EQ(sent, expected[port]) << port;
      sent_bytes[port] += bytes;
      EXPECT_EQ(h.pipeline().port_totals(h.port(port).index).tx_bytes.value(), sent_bytes[port]) << port;
    }
    discard(h);
  }
}

TEST(L2, BroadcastAndMulticastAreFloodedEveryTime) {
  Harness h(registry(), vlan_switch());
  for (int i = 0; i < 2; ++i) {
    h.inject("a", untagged(host(1), kBroadcast));
    EXPECT_THAT(sent_by(h, {}), ElementsAre("b", "c", "n", "t"));
    h.inject("a", untagged(host(1), mac("01:00:5e:00:00:fb")));
    EXPECT_THAT(sent_by(h, {}), ElementsAre("b", "c", "n", "t"));
  }
  EXPECT_EQ(h.counter("l2", "flooded_multicast"), 4u);
  EXPECT_EQ(h.counter("l2", "flooded_unknown"), 0u);
}

TEST(L2, AnAddressThatMovesIsFoundAtItsNewPortAtOnce) {
  Harness h(registry(), vlan_switch());
  h.inject("a", untagged(host(1), kBroadcast));
  h.inject("b", untagged(host(2), host(1)));
  discard(h);
  h.inject("c", untagged(host(1), kBroadcast));
  EXPECT_EQ(h.counter("l2", "moved"), 1u);
  discard(h);
  h.inject("b", untagged(host(2), host(1)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("c"));
  // And back again within the same second.
  h.inject("a", untagged(host(1), kBroadcast));
  discard(h);
  h.inject("b", untagged(host(2), host(1)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("a"));
}

TEST(L2, TheSameAddressInTwoVlansIsTwoEntries) {
  Harness h(registry(), vlan_switch());
  h.inject("a", untagged(host(1), kBroadcast));
  h.inject("d", untagged(host(1), kBroadcast));
  EXPECT_EQ(h.counter("l2", "learned"), 2u);
  discard(h);
  h.inject("t", tagged(10, host(2), host(1)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("a"));
  h.inject("t", tagged(20, host(2), host(1)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("d"));
}

TEST(L2, AStaticAddressIsKnownFromTheStartAndDoesNotMove) {
  Harness h(registry(), vlan_switch("l2", "static_macs: [ { mac: \"02:00:00:00:0a:09\", vlan: 10, port: c } ]"));
  h.inject("a", untagged(host(1), host(9)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("c"));
  h.inject("b", untagged(host(9), kBroadcast));
  discard(h);
  h.inject("a", untagged(host(1), host(9)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("c"));
  h.set_link("c", false);
  h.set_link("c", true);
  h.advance_ns(1000 * kSecond);
  h.inject("a", untagged(host(1), host(9)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("c"));
}

TEST(L2, OrderIsKeptBetweenTwoHosts) {
  Harness h(registry(), vlan_switch());
  h.inject("b", untagged(host(2), kBroadcast));
  discard(h);
  std::vector<Bytes> burst;
  for (std::size_t i = 0; i < 64; ++i) burst.push_back(untagged(host(1), host(2), 60 + i));
  h.inject("a", burst);
  EXPECT_EQ(bytes_of(h.take("b")), burst);
}

TEST(L2, FloodedFramesKeepTheirOrderAtEveryPort) {
  Harness h(registry(), vlan_switch());
  std::vector<Bytes> burst;
  for (std::size_t i = 0; i < 64; ++i) burst.push_back(untagged(host(1), host(2), 60 + i));
  h.inject("a", burst);
  for (const char* port : {"b", "c", "n"}) EXPECT_EQ(bytes_of(h.take(port)), burst) << port;
  EXPECT_EQ(h.totals().replicated.value(), 64u * 3);
}

// --- tags ---

TEST(L2, ATagIsTakenAwayForAccessPortsAndKeptForTrunks) {
  Harness h(registry(), vlan_switch());
  h.inject("t", tagged(10, host(1), host(2), 64, 5));
  EXPECT_THAT(sent_by(h, {{"a", untagged(host(1), host(2))},
                          {"b", untagged(host(1), host(2))},
                          {"c", untagged(host(1), host(2))},
                          {"n", untagged(host(1), host(2))}}),
              ElementsAre("a", "b", "c", "n"));
  h.inject("t", tagged(20, host(1), host(2), 64, 5));
  EXPECT_THAT(sent_by(h, {{"d", untagged(host(1), host(2))}, {"n", tagged(20, host(1), host(2), 64, 5)}}),
              ElementsAre("d", "n"));
}

TEST(L2, APriorityTagMeansTheNativeVlanAndItsPrioritySurvivesOnATrunk) {
  Harness h(registry(), vlan_switch());
  h.inject("a", tagged(0, host(1), host(2), 64, 6));
  EXPECT_THAT(sent_by(h, {{"b", untagged(host(1), host(2))}, {"t", tagged(10, host(1), host(2), 64, 6)}}),
              ElementsAre("b", "c", "n", "t"));
}

TEST(L2, AnAccessPortTakesFramesTaggedWithItsOwnVlan) {
  Harness h(registry(), vlan_switch());
  h.inject("a", tagged(10, host(1), host(2), 64, 3));
  EXPECT_THAT(sent_by(h, {{"b", untagged(host(1), host(2))}, {"t", tagged(10, host(1), host(2), 64, 3)}}),
              ElementsAre("b", "c", "n", "t"));
}

TEST(L2, UntaggedFramesOnATrunkBelongToItsNativeVlan) {
  Harness h(registry(), vlan_switch());
  h.inject("n", untagged(host(1), host(2)));
  EXPECT_THAT(sent_by(h, {{"a", untagged(host(1), host(2))}, {"t", tagged(10, host(1), host(2))}}),
              ElementsAre("a", "b", "c", "t"));
  h.inject("n", tagged(10, host(3), host(4)));  // tagged with it is the same
  EXPECT_THAT(sent_by(h, {{"a", untagged(host(3), host(4))}, {"t", tagged(10, host(3), host(4))}}),
              ElementsAre("a", "b", "c", "t"));
}

TEST(L2, EveryKindOfFrameSurvivesEveryChangeOfTags) {
  Harness h(registry(), vlan_switch());
  const auto build = [](int kind, bool tag, std::uint16_t vid) {
    FrameBuilder f;
    f.eth(host(1), host(2));
    if (tag) f.vlan(vid, 2, true);
    switch (kind) {
      case 0:
        return f.ipv4("10.0.0.1", "10.0.0.2")
            .udp(5000)
            .bth(wire::Opcode::RC_RDMA_WRITE_ONLY, wire::Qpn(1), wire::Psn(2))
            .payload(100)
            .build();
      case 1:
        return f.ipv6("fd00::1", "fd00::2")
            .udp(5000)
            .bth(wire::Opcode::RC_ACKNOWLEDGE, wire::Qpn(1), wire::Psn(2))
            .build();
      case 2:
        return f.arp(1, host(1), wire::IpAddress::v4(1), host(2), wire::IpAddress::v4(2)).build();
      case 3:
        return f.ipv4("10.0.0.1", "10.0.0.2").tcp(80, 81).payload(10).build();
      case 4:
        return f.ethertype(0x88b5).payload(50).build();
      case 5:
        return f.ipv6("fd00::1", "fd00::2").extension(0).udp(1, 2).payload(9).build();
      case 6:
        return f.ipv4("10.0.0.1", "10.0.0.2").fragment(0, true).udp(1, 2).payload(9).build();
      default:
        return f.ipv4("10.0.0.1", "10.0.0.2").ip_options(Bytes{1, 1, 1, 0}).icmp(8, 0).payload(1200).build();
    }
  };
  for (int kind = 0; kind < 8; ++kind) {
    SCOPED_TRACE(kind);
    h.inject("t", build(kind, true, 10));
    EXPECT_THAT(sent_by(h, {{"a", build(kind, false, 0)}, {"b", build(kind, false, 0)}, {"n", build(kind, false, 0)}}),
                ElementsAre("a", "b", "c", "n"));
    h.inject("n", build(kind, true, 20));
    EXPECT_THAT(sent_by(h, {{"d", build(kind, false, 0)}, {"t", build(kind, true, 20)}}), ElementsAre("d", "t"));
    h.inject("b", build(kind, false, 0));
    const auto sent = h.take("t");
    ASSERT_EQ(sent.size(), 1u);
    Bytes back = sent[0].bytes;
    EXPECT_EQ(Bytes(back.begin() + 12, back.begin() + 16), (Bytes{0x81, 0x00, 0x00, 10}));
    back.erase(back.begin() + 12, back.begin() + 16);
    EXPECT_EQ(back, build(kind, false, 0));
    discard(h);
  }
}

TEST(L2, AFrameWithTwoTagsIsForwardedByTheOuterOne) {
  Harness h(registry(), vlan_switch());
  const auto frame = [](std::initializer_list<std::uint16_t> vids) {
    FrameBuilder f;
    f.eth(host(1), host(2));
    for (const std::uint16_t vid : vids) f.vlan(vid);
    return f.ipv4("10.0.0.1", "10.0.0.2").udp(1, 2).payload(40).build();
  };
  h.inject("t", frame({20, 77}));
  EXPECT_THAT(bytes_of(h.take("n")), ElementsAre(frame({20, 77})));
  EXPECT_THAT(bytes_of(h.take("d")), ElementsAre(frame({77})));
}

TEST(L2, AFrameWithoutRoomForATagIsDroppedWithItsReason) {
  Harness h(registry(), vlan_switch());
  h.inject("t", tagged(10, host(2), kBroadcast));
  discard(h);
  const Bytes bytes = untagged(host(1), host(2));
  rte_mbuf* m = rte_pktmbuf_alloc(h.pool());
  m->data_off = 3;
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(bytes.size())), bytes.data(), bytes.size());
  h.inject("a", m);
  EXPECT_EQ(h.dropped(DropReason::no_headroom), 1u);
  EXPECT_THAT(sent_by(h, {}), IsEmpty());
}

// --- copies ---

// Writes over the headers of every packet that leaves: copies must not see it.
class Scribble : public pipeline::Stage {
 public:
  void ingress(Context&, Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      rte_mbuf* m = batch.packet[i];
      for (std::uint32_t at = 16; at < m->data_len && at < pipeline::kHeaderBytes; ++at) {
        pipeline::frame(m)[at] = static_cast<std::uint8_t>(pipeline::meta(m).out_port);
      }
    }
  }
};

TEST(L2, CopiesDoNotShareTheirHeaders) {
  pipeline::Registry scribbling;
  scribbling.add(parse_stage_type());
  scribbling.add(l2_stage_type());
  pipeline::StageType type;
  type.name = "scribble";
  type.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<Scribble>(); };
  scribbling.add(std::move(type));
  Harness h(scribbling,
            R"({ name: s, ports: [{ name: a, type: "null" }, { name: b, type: "null" }, { name: c, type: "null" },
                             { name: d, type: "null" }], pipeline: [parse, l2, scribble] })");
  for (const std::size_t payload : {64u, 600u, 4000u}) {
    const Bytes frame = untagged(host(1), kBroadcast, payload);
    h.inject("a", frame);
    for (const auto& port : h.state().info().ports) {
      if (port.name == "a") continue;
      Bytes expected = frame;
      for (std::size_t i = 16; i < frame.size() && i < pipeline::kHeaderBytes; ++i) {
        expected[i] = static_cast<std::uint8_t>(port.index);
      }
      EXPECT_THAT(bytes_of(h.take(port.name)), ElementsAre(expected)) << port.name << " " << payload;
    }
  }
}

TEST(L2, JumboFramesInChainsAreFloodedRetaggedAndForwardedWhole) {
  Harness h(registry(), vlan_switch());
  const Bytes plain = untagged(host(1), host(2), 4096);
  const Bytes with_tag = tagged(10, host(1), host(2), 4096);
  for (const std::vector<std::size_t>& cut : std::vector<std::vector<std::size_t>>{
           {}, {14}, {14, 20, 8}, {192}, {191}, {193, 1}, {2000, 2000}, {60, 1000, 1000, 1000}, {1, 1, 1, 1}}) {
    SCOPED_TRACE(::testing::PrintToString(cut));
    h.inject_chained("a", plain, cut);
    EXPECT_THAT(sent_by(h, {{"b", plain}, {"c", plain}, {"n", plain}, {"t", with_tag}}),
                ElementsAre("b", "c", "n", "t"));
    h.inject_chained("t", with_tag, cut);
    EXPECT_THAT(sent_by(h, {{"a", plain}, {"b", plain}, {"n", plain}}), ElementsAre("a", "b", "c", "n"));
  }
}

TEST(L2, WithoutBuffersAFloodReachesFewerPortsAndSaysSo) {
  Harness h(registry(), vlan_switch(), HarnessOptions{.buffers = 3});
  h.inject("a", untagged(host(1), host(2)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("b", "c", "t"));
  EXPECT_EQ(h.counter("l2", "flood_incomplete"), 1u);
}

// --- why a frame is dropped ---

TEST(L2, EveryReasonIsCountedUnderItsName) {
  Harness h(registry(), vlan_switch("l2", "static_macs: [ { mac: \"02:00:00:00:0a:09\", vlan: 10, port: a } ]"));
  const auto expect_drop = [&](DropReason reason, const char* port, const Bytes& frame) {
    const std::uint64_t before = h.dropped(reason);
    const std::uint64_t all = h.dropped_total();
    h.inject(port, frame);
    EXPECT_EQ(h.dropped(reason), before + 1) << registry().drop_reasons()[reason].name;
    EXPECT_EQ(h.dropped_total(), all + 1) << registry().drop_reasons()[reason].name;
    EXPECT_THAT(sent_by(h, {}), IsEmpty()) << registry().drop_reasons()[reason].name;
  };
  expect_drop(DropReason::vlan_unknown, "t", tagged(99, host(1), host(2)));
  expect_drop(DropReason::vlan_unknown, "a", tagged(99, host(1), host(2)));
  expect_drop(DropReason::vlan_unknown, "t", tagged(4095, host(1), host(2)));
  expect_drop(DropReason::vlan_not_allowed, "t", tagged(30, host(1), host(2)));
  expect_drop(L2Drop::vlan_tagged_on_access, "a", tagged(20, host(1), host(2)));
  expect_drop(L2Drop::vlan_untagged_on_trunk, "t", untagged(host(1), host(2)));
  expect_drop(L2Drop::vlan_untagged_on_trunk, "t", tagged(0, host(1), host(2)));
  expect_drop(L2Drop::same_port, "a", untagged(host(1), host(9)));
  expect_drop(L2Drop::link_local, "a", untagged(host(1), mac("01:80:c2:00:00:00")));
  expect_drop(L2Drop::link_local, "a", untagged(host(1), mac("01:80:c2:00:00:0e")));
  expect_drop(DropReason::mac_control, "a", FrameBuilder().pause(9).build());
  expect_drop(ParseDrop::eth_source_multicast, "a", untagged(kBroadcast, host(1)));
  for (const char* port : {"n", "t", "d"}) h.set_link(port, false);
  expect_drop(L2Drop::no_flood_port, "d", untagged(host(1), host(2)));
  EXPECT_EQ(h.counter("l2", "learned"), 2u);  // host 1 in VLAN 10 and in VLAN 20
}

TEST(L2, LinkLocalFramesAreFloodedWhenAskedFor) {
  Harness h(registry(), vlan_switch("l2: { forward_link_local: true }"));
  h.inject("a", untagged(host(1), mac("01:80:c2:00:00:0e")));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("b", "c", "n", "t"));
}

TEST(L2, TheGroupBehindTheLinkLocalOnesIsFlooded) {
  Harness h(registry(), vlan_switch());
  h.inject("a", untagged(host(1), mac("01:80:c2:00:00:10")));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("b", "c", "n", "t"));
}

TEST(L2, TheZeroAddressIsNotLearned) {
  Harness h(registry(), vlan_switch());
  h.inject("a", untagged(MacAddress{}, host(2)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("b", "c", "n", "t"));
  EXPECT_EQ(h.counter("l2", "learned"), 0u);
  h.inject("b", untagged(host(2), MacAddress{}));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("a", "c", "n", "t"));
}

TEST(L2, AFullTableFloodsAndSaysSo) {
  Harness h(registry(), vlan_switch("l2: { max_macs: 1 }"));
  for (int i = 0; i < 40; ++i) h.inject("a", untagged(host(i), kBroadcast));
  EXPECT_GT(h.counter("l2", "fdb_full"), 0u);
  EXPECT_EQ(h.counter("l2", "fdb_full") + h.counter("l2", "learned"), 40u);
}

// --- storm limit ---

TEST(L2, TheStormLimitIsExact) {
  Harness h(registry(), vlan_switch("l2: { storm_limit_pps: 1000 }"));
  h.advance_ns(kSecond);
  // A tenth of a second's worth at once.
  for (int i = 0; i < 150; ++i) h.inject("a", untagged(host(1), kBroadcast));
  EXPECT_EQ(h.counter("l2", "flooded_multicast"), 100u);
  EXPECT_EQ(h.dropped(L2Drop::storm_limit), 50u);
  // Then one per millisecond, exactly, asked at any interval: 7 s of 333,333 ns steps.
  const std::uint64_t before = h.counter("l2", "flooded_multicast");
  for (int i = 0; i < 21'000; ++i) {
    h.advance_ns(333'333);
    h.inject("a", untagged(host(1), kBroadcast));
    h.take("b");
  }
  EXPECT_EQ(h.counter("l2", "flooded_multicast") - before, std::uint64_t{21'000} * 333'333 / 1'000'000);
}

TEST(L2, TheStormLimitIsPerPortAndSparesKnownDestinations) {
  Harness h(registry(), vlan_switch("l2: { storm_limit_pps: 10 }"));
  h.inject("b", untagged(host(2), kBroadcast));
  h.inject("a", untagged(host(1), host(3)));
  h.inject("a", untagged(host(1), host(3)));
  EXPECT_EQ(h.dropped(L2Drop::storm_limit), 1u);
  h.inject("c", untagged(host(4), host(3)));
  EXPECT_EQ(h.dropped(L2Drop::storm_limit), 1u);
  for (int i = 0; i < 50; ++i) h.inject("a", untagged(host(1), host(2)));
  EXPECT_EQ(h.dropped(L2Drop::storm_limit), 1u);
}

// --- ageing and links ---

TEST(L2, AnAddressIsForgottenAfterTheAgeingTimeAndKeptWhileInUse) {
  Harness h(registry(), vlan_switch("l2: { ageing_s: 10 }"));
  h.inject("b", untagged(host(2), kBroadcast));
  for (int s = 0; s < 30; ++s) {
    h.advance_ns(kSecond);
    h.inject("a", untagged(host(1), kBroadcast));
    discard(h);
  }
  h.inject("c", untagged(host(3), host(1)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("a"));
  h.inject("c", untagged(host(3), host(2)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("a", "b", "n", "t"));
  EXPECT_EQ(h.rows("fdb").size(), 2u);
}

TEST(L2, AHostThatOnlySendsToOnePeerIsNotForgotten) {
  // Its packets are forwarded from memory; the table must still hear of it.
  Harness h(registry(), vlan_switch("l2: { ageing_s: 3 }"));
  h.inject("b", untagged(host(2), kBroadcast));
  discard(h);
  for (int i = 0; i < 100; ++i) {
    h.inject("a", untagged(host(1), host(2)));
    h.inject("b", untagged(host(2), host(1)));
    ASSERT_EQ(h.take("a").size(), 1u) << i;
    ASSERT_EQ(h.take("b").size(), 1u) << i;
    discard(h);
    h.advance_ns(kSecond / 10);
  }
  EXPECT_EQ(h.counter("l2", "learned"), 2u);
}

TEST(L2, ALinkThatGoesDownTakesItsAddressesWithIt) {
  Harness h(registry(), vlan_switch());
  h.inject("a", untagged(host(1), kBroadcast));
  h.inject("b", untagged(host(2), kBroadcast));
  discard(h);
  h.inject("c", untagged(host(3), host(1)));
  discard(h);
  h.set_link("a", false);
  h.inject("c", untagged(host(3), host(1)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("b", "n", "t"));
  h.inject("c", untagged(host(3), host(2)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("b"));
  h.set_link("a", true);
  h.inject("c", untagged(host(3), host(1)));
  EXPECT_THAT(sent_by(h, {}), ElementsAre("a", "b", "n", "t"));
}

// --- table ---

TEST(L2, TheTableShowsEveryAddress) {
  Harness h(registry(), vlan_switch("l2", "static_macs: [ { mac: \"02:00:00:00:0a:09\", vlan: 20, port: d } ]"));
  h.inject("a", untagged(host(1), kBroadcast));
  h.inject("t", tagged(20, host(2), kBroadcast));
  h.advance_ns(5 * kSecond);
  std::map<std::string, nlohmann::ordered_json> rows;
  for (const auto& row : h.rows("fdb")) rows[row["mac"]] = row;
  ASSERT_EQ(rows.size(), 3u);
  using json = nlohmann::ordered_json;
  EXPECT_EQ(
      rows["02:00:00:00:0a:01"].dump(),
      json({{"mac", "02:00:00:00:0a:01"}, {"vlan", 10}, {"port", "a"}, {"type", "dynamic"}, {"age_s", 5}}).dump());
  EXPECT_EQ(rows["02:00:00:00:0a:02"]["port"], "t");
  EXPECT_EQ(rows["02:00:00:00:0a:02"]["vlan"], 20);
  EXPECT_EQ(
      rows["02:00:00:00:0a:09"].dump(),
      json({{"mac", "02:00:00:00:0a:09"}, {"vlan", 20}, {"port", "d"}, {"type", "static"}, {"age_s", nullptr}}).dump());
}

TEST(L2, TheTableIsReadInPieces) {
  Harness h(registry(), vlan_switch());
  for (int i = 0; i < 100; ++i) h.inject("a", untagged(host(i), kBroadcast));
  std::set<std::string> seen;
  for (const auto& row : h.rows("fdb")) EXPECT_TRUE(seen.insert(row["mac"]).second);
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace weft::stages::l2_rig
