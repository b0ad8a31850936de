// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Gemma at the sender's leaf.
#include <set>

#include "tests/switch/stages/lb_tag/reporting.h"

namespace weft::stages::testing {
namespace {

class GemmaNear : public ::testing::Test {
 protected:
  Sent send(const FrameBuilder& frame = packet(1, 2)) {
    h.inject("h1", frame.build());
    auto all = upwards(h);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Sent{} : std::move(all[0]);
  }
  // The spine behind an uplink (from 0) tells of the queue to a leaf, and the leaf has looked.
  void told(unsigned uplink, std::uint64_t bytes, std::uint16_t leaf = 2) {
    h.inject("s" + std::to_string(uplink + 1), report_of({{leaf, bytes}}));
    h.advance_ns(5 * kUs);
  }
  std::uint64_t counter(const char* name) const { return h.counter("lb", name); }

  Harness h{weft::testing::all_stages(), conga_yaml(gemma_leaf(1, "{}", "{ guard_us: 8 }"))};
};

TEST_F(GemmaNear, AFlowLeavesAPathWhoseQueueBeyondIsLong) {
  const unsigned first = send().uplink;
  told(first, 99'840);
  EXPECT_EQ(send().uplink, first) << "as long as S_reroute";
  told(first, 102'400, 3);
  EXPECT_EQ(send().uplink, first) << "the queue to another leaf";
  told(first, 102'400);
  const unsigned second = send().uplink;
  EXPECT_NE(second, first);
  EXPECT_EQ(counter("gemma_reroutes"), 1u);
  told(second, 200'000);
  for (unsigned uplink = 0; uplink < kUplinks; ++uplink) {
    if (uplink != second) told(uplink, 190'000);
  }
  EXPECT_EQ(send().uplink, second) << "no other one is better by 26 KB";
  EXPECT_EQ(counter("gemma_stays"), 1u);
  EXPECT_EQ(h.counter("lb_tag", "gemma_reports"), 7u);
  EXPECT_EQ(h.totals().consumed.value(), 7u);
}

TEST_F(GemmaNear, WhatIsToldCountsFromTheNextScanOn) {
  h.advance_ns(5 * kUs - h.now() % (5 * kUs));
  const unsigned first = send().uplink;
  h.inject("s" + std::to_string(first + 1), report_of({{2, 500'000}}));
  h.advance_ns(5 * kUs - 1);
  EXPECT_EQ(send().uplink, first);
  h.advance_ns(1);
  EXPECT_NE(send().uplink, first);
}

TEST_F(GemmaNear, ALongQueueOfItsOwnCountsToo) {
  const unsigned first = send().uplink;
  const std::string port = "s" + std::to_string(first + 1);
  h.block_device(port, true);
  unsigned packets = 0;
  while (upwards(h).empty() && ++packets < 200) h.inject("h1", packet(1, 2).payload(4000).build());
  EXPECT_GE(packets, 24u) << "100 KB wait";
  EXPECT_LE(packets, 60u) << "and a burst that the device was offered";
  EXPECT_EQ(counter("gemma_reroutes"), 1u);
  h.block_device(port, false);
}

TEST_F(GemmaNear, OnlyRequestsToOtherLeavesAreBalanced) {
  for (int i = 0; i < 3; ++i) send();
  EXPECT_EQ(counter("gemma_flows"), 1u);
  FrameBuilder ack = packet(1, 2);
  ack.payload(0).bth(wire::Opcode::RC_ACKNOWLEDGE, wire::Qpn(34), wire::Psn(7)).aeth(wire::Syndrome::ack(), 1);
  send(ack);
  send(packet(1, 9));
  EXPECT_EQ(counter("gemma_flows"), 1u) << "to nobody's host";
  EXPECT_EQ(counter("balanced"), 5u);
  EXPECT_EQ(validity(send().bytes), TagValidity::none) << "Gemma needs no tags";
}

TEST_F(GemmaNear, NewFlowsTakeAllPathsAndADeadOneIsLeft) {
  std::set<unsigned> ways;
  for (std::uint16_t flow = 0; flow < 64; ++flow) ways.insert(send(packet(1, 2, flow)).uplink);
  EXPECT_EQ(ways.size(), 4u);
  h.set_link("s1", false);
  for (std::uint16_t flow = 0; flow < 64; ++flow) EXPECT_NE(send(packet(1, 2, flow)).uplink, 0u);
  EXPECT_GT(counter("gemma_cut"), 0u);
}

TEST_F(GemmaNear, ThePolicyChangesUnderTrafficAndFlowsStayWhereTheyAre) {
  const unsigned first = send().uplink;
  ASSERT_EQ(h.set("lb", {"gemma.reroute_kb=400", "gemma.max_flows=64"}), "");
  EXPECT_EQ(send().uplink, first);
  told(first, 399'872);
  EXPECT_EQ(send().uplink, first);
  ASSERT_EQ(h.set("lb", {"policy=ecmp"}), "");
  send();
  ASSERT_EQ(h.set("lb", {"policy=gemma"}), "");
  send();
  EXPECT_THAT(h.set("lb", {"gemma.max_flows=6"}), ::testing::HasSubstr("max_flows must be a multiple of 4"));
}

TEST_F(GemmaNear, ShowsItsFlows) {
  const unsigned first = send().uplink;
  h.advance_ns(3 * kUs);
  send(packet(1, 2, 1));
  const auto rows = h.rows("gemma_flows");
  ASSERT_EQ(rows.size(), 2u);
  const auto& row = rows[0]["silent_us"] == 3 ? rows[0] : rows[1];
  EXPECT_EQ(row["flow"], "addresses 0a0001020a000202 protocol 17 ports 50000 4791");
  EXPECT_EQ(row["port"], "s" + std::to_string(first + 1));
  EXPECT_EQ(row["reroutes"], 0);
  EXPECT_EQ(row["score_bytes"], 0);
  told(first, 51'200);
  send();
  const auto later = h.rows("gemma_flows");
  EXPECT_EQ(later[later[0]["silent_us"] == 0 ? 0 : 1]["score_bytes"], 51'200);
}

TEST(GemmaAbove, ASwitchBetweenChoosesAmongItsUplinksByTheSameRule) {
  Harness h(weft::testing::all_stages(), aggregation_yaml(", up: false"));
  const auto way = [&] {
    FrameBuilder frame = packet(1, 3);
    frame.eth(other_mac(1), leaf_mac(0));
    h.inject("l1", frame.build());
    const bool first = !h.take("c1").empty();
    EXPECT_NE(first, !h.take("c2").empty());
    return first ? "c1" : "c2";
  };
  const std::string first = way();
  h.inject(first, report_of({{3, 300'000}}));
  h.advance_ns(5 * kUs);
  EXPECT_NE(way(), first);
  EXPECT_EQ(h.counter("lb", "gemma_reroutes"), 1u);
}

}  // namespace
}  // namespace weft::stages::testing
