// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/stage.h"

#include "switch/stages/lb_tag/drops.h"
#include "tests/switch/stages/lb_tag/rig.h"

namespace weft::stages::testing {
namespace {

class LbTagStageTest : public ::testing::Test {
 protected:
  explicit LbTagStageTest(const CongaLeaf& leaf = {}) : h(weft::testing::all_stages(), conga_yaml(leaf)) {}

  // The only frame that left upwards.
  Sent sent(const FrameBuilder& frame) {
    h.inject("h1", frame.build());
    auto all = upwards(h);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Sent{} : std::move(all[0]);
  }
  std::uint64_t counter(const char* name) const { return h.counter("lb_tag", name); }

  Harness h;
};

TEST_F(LbTagStageTest, TheFirstLeafPutsTheTagOnAndTheLastTakesItOff) {
  const Sent on = sent(packet(1, 2));
  EXPECT_EQ(tag_of(on.bytes), (LbTag{.leaf = 1, .path = static_cast<std::uint8_t>(on.uplink)}));
  EXPECT_EQ(counter("put_on"), 1u);
  Harness last(weft::testing::all_stages(), conga_yaml({.number = 2}));
  Bytes arriving = on.bytes;
  const auto mac = leaf_mac(1).bytes;
  std::copy(mac.begin(), mac.end(), arriving.begin());
  last.inject("s1", arriving);
  const auto out = last.take("h1");
  ASSERT_EQ(out.size(), 1u);
  const wire::Parsed parsed = parsed_of(out[0].bytes);
  EXPECT_EQ(parsed.kind, wire::FrameKind::roce);
  EXPECT_TRUE(wire::icrc_ok(out[0].bytes.data(), parsed));
  // Two routers have been on the way; otherwise it is what the host sent.
  Bytes expected = packet(1, 2).ttl(62).eth(leaf_mac(0), MacAddress::from_u64(0x02aa00000001)).build();
  EXPECT_EQ(out[0].bytes, expected);
  EXPECT_EQ(last.counter("lb_tag", "taken_off"), 1u);
  EXPECT_EQ(last.counter("rdma_track", "bytes"), expected.size()) << "it is RoCE for all that follows";
}

TEST_F(LbTagStageTest, AJumboPacketInSeveralBuffersIsTaggedAndComesBack) {
  const Sent on = sent(packet(1, 2).payload(4000));
  EXPECT_EQ(validity(on.bytes), TagValidity::ok);
  EXPECT_EQ(on.bytes.size(), packet(1, 2).payload(4000).build().size() + kTagBytes);
  h.inject("s2", tagged(packet(2, 1).payload(4000), {.leaf = 2}, 2));
  const auto out = h.take("h1");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(wire::icrc_ok(out[0].bytes.data(), parsed_of(out[0].bytes)));
}

TEST_F(LbTagStageTest, WhatALeafToldIsLearnedAndAnswered) {
  h.inject("s1",
           tagged(packet(2, 1),
                  {.leaf = 2, .path = 3, .congestion = 5, .has_feedback = true, .feedback_path = 1, .feedback = 6}));
  EXPECT_EQ(counter("taken_off"), 1u);
  EXPECT_EQ(counter("feedback"), 1u);
  const auto& congestion = h.shared<LbTagShared>("lb_tag").congestion();
  EXPECT_EQ(congestion.remote(1, 1, h.now()), 6);
  EXPECT_EQ(congestion.remote(1, 0, h.now()), 0);
  const LbTag back = tag_of(sent(packet(1, 2)).bytes);
  EXPECT_TRUE(back.has_feedback);
  EXPECT_EQ(back.feedback_path, 3);
  EXPECT_EQ(back.feedback, 5);
  EXPECT_FALSE(tag_of(sent(packet(1, 3)).bytes).has_feedback) << "the third leaf was not heard of";
}

// What was true once is believed again, until its age is over or the next packet tells better.
TEST_F(LbTagStageTest, AReplayedTagIsBelievedForItsAgeAlone) {
  const LbTag old{.leaf = 2, .path = 3, .congestion = 5, .has_feedback = true, .feedback_path = 1, .feedback = 6};
  LbTag newer = old;
  newer.feedback = 2;
  const auto metric = [&] { return h.shared<LbTagShared>("lb_tag").congestion().remote(1, 1, h.now()); };
  h.inject("s1", tagged(packet(2, 1), old));
  h.inject("s1", tagged(packet(2, 1), newer));
  EXPECT_EQ(metric(), 2);
  h.inject("s1", tagged(packet(2, 1), old));
  EXPECT_EQ(metric(), 6);
  h.inject("s1", tagged(packet(2, 1), newer));
  EXPECT_EQ(metric(), 2);
  h.inject("s1", tagged(packet(2, 1), old));
  h.advance_ns(501 * kUs);
  EXPECT_EQ(metric(), 0);
}

TEST_F(LbTagStageTest, OnlyUdpToOtherLeavesHasATag) {
  h.inject("h1", packet(1, 9).build());
  h.inject("h1", FrameBuilder()
                     .eth(MacAddress::from_u64(0x02aa00000001), leaf_mac(0))
                     .ipv4("10.0.1.2", "10.0.2.2")
                     .tcp(50000, 80)
                     .build());
  h.inject("h1", packet(1, 2).fragment(0, true).build());
  const auto all = upwards(h);
  ASSERT_EQ(all.size(), 3u);
  for (const Sent& frame : all) EXPECT_EQ(validity(frame.bytes), TagValidity::none);
  EXPECT_EQ(counter("put_on"), 0u);
  EXPECT_EQ(counter("no_room"), 0u);
}

TEST_F(LbTagStageTest, ATagThatAHostForgedGoesThroughUnbelieved) {
  Bytes forged = tagged(packet(1, 2), {.leaf = 3, .path = 0, .congestion = 7, .has_feedback = true, .feedback = 7});
  const auto mac = leaf_mac(0).bytes;
  std::copy(mac.begin(), mac.end(), forged.begin());
  h.inject("h1", forged);
  EXPECT_EQ(counter("forged"), 1u);
  const auto all = upwards(h);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(tag_of(all[0].bytes).leaf, 1) << "the leaf's own tag is around it";
  // At the other end only that one is taken off.
  Harness last(weft::testing::all_stages(), conga_yaml({.number = 2}));
  Bytes arriving = all[0].bytes;
  const auto last_mac = leaf_mac(1).bytes;
  std::copy(last_mac.begin(), last_mac.end(), arriving.begin());
  last.inject("s1", arriving);
  const auto out = last.take("h1");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(std::equal(out[0].bytes.begin() + 34, out[0].bytes.end(), forged.begin() + 34, forged.end()));
  EXPECT_EQ(last.shared<LbTagShared>("lb_tag").congestion().from_leaf(2, 0), PathMetric{});
}

TEST_F(LbTagStageTest, ATagOfNobodyIsTakenOffAndTellsNothing) {
  h.inject("s1", tagged(packet(2, 1), {.leaf = 3, .congestion = 5}));
  h.inject("s1", tagged(packet(7, 1), {.leaf = 7, .congestion = 5}));
  h.inject("s1", tagged(packet(1, 1), {.leaf = 1, .congestion = 5}));
  EXPECT_EQ(counter("unknown_leaf"), 3u) << "of another leaf's source, of no leaf, of this one";
  EXPECT_EQ(counter("taken_off"), 3u);
  EXPECT_EQ(h.take("h1").size(), 3u);
  h.inject("s1", tagged(packet(2, 1), {.leaf = 2, .has_feedback = true, .feedback_path = kUplinks, .feedback = 7}));
  EXPECT_EQ(counter("unknown_path"), 1u);
  EXPECT_EQ(counter("feedback"), 0u);
}

TEST_F(LbTagStageTest, WhatCannotBeReadIsCountedAndForwarded) {
  Bytes other = tagged(packet(2, 1), {.leaf = 2});
  other[42] = 0x20;
  h.inject("s1", other);
  EXPECT_EQ(counter("unknown_version"), 1u);
  h.inject(
      "s1",
      packet(2, 1).eth(MacAddress::from_u64(0x02aa00000011), leaf_mac(1)).udp(50000, kTagUdpPort).payload(3).build());
  EXPECT_EQ(counter("unknown_version") + counter("malformed"), 2u);
  h.inject("s1", FrameBuilder()
                     .eth(MacAddress::from_u64(0x02aa00000011), leaf_mac(1))
                     .ipv4("10.0.2.2", "10.0.1.2")
                     .udp(50000, kTagUdpPort)
                     .payload(3)
                     .build());
  EXPECT_GE(counter("malformed"), 1u);
  EXPECT_EQ(h.take("h1").size(), 3u);
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(LbTagStageTest, ShowsWhatItKnows) {
  EXPECT_EQ(h.rows("conga").size(), 0u);
  h.inject("s1",
           tagged(packet(2, 1),
                  {.leaf = 2, .path = 3, .congestion = 5, .has_feedback = true, .feedback_path = 1, .feedback = 6}));
  h.advance_ns(100 * kUs);
  sent(packet(1, 2));
  const auto rows = h.rows("conga");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].dump(), R"({"leaf":2,"direction":"to","path":1,"uplink":"s2","link":0,"metric":6,"age_us":100,)"
                            R"("counts":true})");
  EXPECT_EQ(rows[1].dump(), R"({"leaf":2,"direction":"from","path":3,"uplink":null,"link":null,"metric":5,)"
                            R"("age_us":100,"counts":true})");
}

class LbTagSmallMtu : public LbTagStageTest {
 protected:
  LbTagSmallMtu() : LbTagStageTest({.mtu = 4200}) {}
};

TEST_F(LbTagSmallMtu, WhatHasNoRoomLeavesWithoutATagUnlessItIsForged) {
  const auto full = [](std::uint16_t port) {
    return FrameBuilder()
        .eth(MacAddress::from_u64(0x02aa00000001), leaf_mac(0))
        .ipv4("10.0.1.2", "10.0.2.2")
        .udp(50000, port)
        .payload(4200 - 28)
        .build();
  };
  h.inject("h1", full(5000));
  auto all = upwards(h);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(validity(all[0].bytes), TagValidity::none);
  EXPECT_EQ(counter("no_room"), 1u);
  h.inject("h1", full(kTagUdpPort));
  EXPECT_EQ(upwards(h).size(), 0u);
  EXPECT_EQ(h.dropped(LbTagDrop::forged_tag), 1u);
}

TEST(LbTagTransit, ASwitchBetweenLeavesNotesTheCongestionOfItsLinks) {
  Harness h(weft::testing::all_stages(), R"(
name: spine
ports:
  - { name: l1, type: "null", mtu_bytes: 4216, rate_mbps: 1000 }
  - { name: l2, type: "null", mtu_bytes: 4216, rate_mbps: 1000 }
addresses:
  - { port: l1, address: 10.1.1.254/24 }
  - { port: l2, address: 10.1.2.254/24 }
neighbours:
  - { port: l1, address: 10.1.1.1, mac: "02:aa:00:00:00:01" }
  - { port: l2, address: 10.1.2.1, mac: "02:aa:00:00:00:02" }
routes:
  - { prefix: 10.0.1.0/24, via: [10.1.1.1] }
  - { prefix: 10.0.2.0/24, via: [10.1.2.1] }
pipeline: [parse, lb_tag, l3]
)");
  const auto arriving = [](std::uint8_t congestion) {
    Bytes frame = tagged(packet(1, 2).payload(1024), {.leaf = 1, .path = 2, .congestion = congestion});
    const auto mac = leaf_mac(0).bytes;
    std::copy(mac.begin(), mac.end(), frame.begin());
    return frame;
  };
  // As fast as the link to leaf 2 sends: 1 Gbit/s.
  std::uint8_t seen = 0;
  for (int i = 0; i < 300; ++i) {
    h.inject("l1", arriving(0));
    h.advance_ns(9200);
    for (const auto& frame : h.take("l2")) {
      EXPECT_GE(tag_of(frame.bytes).congestion + 1, seen);
      seen = std::max(seen, tag_of(frame.bytes).congestion);
      EXPECT_EQ(tag_of(frame.bytes).path, 2);
    }
  }
  EXPECT_EQ(seen, 7);
  EXPECT_GT(h.counter("lb_tag", "passed_on"), 290u);
  h.advance_ns(100'000 * kUs);
  static_cast<void>(h.take("l2"));
  h.inject("l1", arriving(6));
  h.advance_ns(100 * kUs);
  const auto out = h.take("l2");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(tag_of(out[0].bytes).congestion, 6) << "that of the links before";
}

}  // namespace
}  // namespace weft::stages::testing
