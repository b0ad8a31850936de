// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// ConWeave at the sender's leaf.
#include <set>

#include "switch/stages/lb_tag/shared.h"
#include "tests/switch/stages/lb_tag/weaving.h"

namespace weft::stages::testing {
namespace {

using Kind = ConweaveReply::Kind;

class ConweaveNear : public ::testing::Test {
 protected:
  Sent send(const FrameBuilder& frame = packet(1, 2)) {
    h.inject("h1", frame.build());
    auto all = upwards(h);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Sent{} : std::move(all[0]);
  }
  // What leaf 2 answers to a packet.
  void answered(const Sent& sent, const ConweaveReply& reply, std::uint16_t leaf = 2) {
    Bytes plain = sent.bytes;
    take_tag_off(plain.data(), parsed_of(plain));
    plain.erase(plain.begin(), plain.begin() + kTagBytes);
    const ConweaveAnswer answer{leaf, static_cast<std::uint8_t>(sent.uplink), reply};
    const Bytes out = answer_to(plain, answer);
    h.inject("s" + std::to_string(sent.uplink + 1), by_spine(out, sent.uplink + 1));
  }
  std::uint64_t counter(const char* name) const { return h.counter("lb_tag", name); }

  Harness h{weft::testing::all_stages(), conga_yaml(weaving(1))};
};

TEST_F(ConweaveNear, RequestsHaveTheTagAndOthersGoByTheirHash) {
  const Sent first = send();
  EXPECT_EQ(label_of(first.bytes).leaf, 1);
  EXPECT_EQ(label_of(first.bytes).path, first.uplink);
  EXPECT_TRUE(label_of(first.bytes).tag.request);
  const auto second = send();
  EXPECT_EQ(second.uplink, first.uplink);
  EXPECT_FALSE(label_of(second.bytes).tag.request);
  FrameBuilder ack = packet(1, 2);
  ack.payload(0).bth(wire::Opcode::RC_ACKNOWLEDGE, wire::Qpn(34), wire::Psn(7)).aeth(wire::Syndrome::ack(), 1);
  EXPECT_EQ(kind_of(send(ack).bytes), TagKind::conga);
  EXPECT_EQ(validity(send(packet(1, 9)).bytes), TagValidity::none) << "to nobody's host";
  EXPECT_EQ(h.counter("lb", "balanced"), 4u);
}

TEST_F(ConweaveNear, AnAnswerIsTakenOutAndBeginsTheNextEpoch) {
  const Sent first = send();
  answered(first, {Kind::rtt, 1});
  EXPECT_EQ(counter("conweave_replies"), 1u);
  EXPECT_EQ(h.take("h1").size(), 0u) << "hosts do not see it";
  EXPECT_EQ(h.totals().consumed.value(), 1u);
  const ConweaveTag next = label_of(send().bytes).tag;
  EXPECT_EQ(next.epoch, 2);
  EXPECT_TRUE(next.request);
}

TEST_F(ConweaveNear, WithoutAnAnswerInTimeAFlowIsReroutedBehindItsTail) {
  const Sent first = send();
  answered(first, {Kind::rtt, 1});
  send();
  h.advance_ns(9 * kUs);
  Sent tail;
  unsigned tries = 0;
  do {
    tail = send();
    EXPECT_EQ(tail.uplink, first.uplink);
  } while (!label_of(tail.bytes).tag.tail && ++tries < 50);
  EXPECT_TRUE(label_of(tail.bytes).tag.tail);
  EXPECT_EQ(counter("conweave_stays"), 0u) << "counted with the next answer";
  const Sent rerouted = send();
  EXPECT_NE(rerouted.uplink, first.uplink);
  EXPECT_EQ(label_of(rerouted.bytes).path, rerouted.uplink);
  EXPECT_TRUE(label_of(rerouted.bytes).tag.rerouted);
  EXPECT_EQ(label_of(rerouted.bytes).tag.tail_sent, label_of(tail.bytes).tag.sent);
  answered(tail, {Kind::clear, 2});
  EXPECT_EQ(counter("conweave_reroutes"), 1u);
  EXPECT_EQ(counter("conweave_stays"), tries);
  EXPECT_EQ(h.counter("lb", "conweave_asked"), 2u);
  EXPECT_EQ(h.counter("lb", "conweave_tails"), 1u);
  EXPECT_EQ(h.counter("lb", "conweave_rerouted"), 1u);
  const Sent next = send();
  EXPECT_EQ(next.uplink, rerouted.uplink);
  EXPECT_EQ(label_of(next.bytes).tag.epoch, 3);
}

TEST_F(ConweaveNear, ALeafThatNeverAnswersGetsNoReroutes) {
  const unsigned way = send().uplink;
  for (int i = 0; i < 40; ++i) {
    h.advance_ns(9 * kUs);
    const Sent sent = send();
    EXPECT_EQ(sent.uplink, way);
    EXPECT_FALSE(label_of(sent.bytes).tag.tail);
  }
}

TEST_F(ConweaveNear, PathsThatAreCongestedAreAvoidedForAWhile) {
  Sent sent = send();
  answered(sent, {Kind::rtt, 1});
  for (unsigned path = 0; path < 3; ++path) {
    sent.uplink = path;
    answered(sent, {Kind::notify, 0});
  }
  EXPECT_EQ(counter("conweave_notifies"), 3u);
  // Of 16 draws of two paths 7 find the fourth one; where both are avoided the hash decides.
  int good = 0;
  for (std::uint16_t flow = 0; flow < 64; ++flow) good += send(packet(1, 2, flow)).uplink == 3 ? 1 : 0;
  EXPECT_GT(good, 64 * 7 / 16);
  h.advance_ns(16 * kUs);
  std::set<unsigned> ways;
  for (std::uint16_t flow = 100; flow < 140; ++flow) ways.insert(send(packet(1, 2, flow)).uplink);
  EXPECT_EQ(ways.size(), 4u);
  sent.uplink = 0;
  const Bytes plain = packet(1, 2).build();
  const Bytes out = answer_to(plain, {2, 9, {Kind::notify, 0}});
  h.inject("s1", by_spine(out));
  EXPECT_EQ(counter("unknown_path"), 1u);
}

TEST_F(ConweaveNear, AnswersOfNobodyAndToNothingChangeNothing) {
  const Sent first = send();
  answered(first, {Kind::rtt, 1}, 3);
  EXPECT_EQ(counter("unknown_leaf"), 1u) << "another leaf's id";
  answered(first, {Kind::clear, 1});
  answered(first, {Kind::rtt, 200});
  EXPECT_EQ(counter("conweave_stray_replies"), 2u);
  answered(first, {Kind::rtt, 1});
  answered(first, {Kind::rtt, 1});
  EXPECT_EQ(counter("conweave_stray_replies"), 3u) << "replayed";
  EXPECT_EQ(counter("conweave_replies"), 1u);
  EXPECT_EQ(h.take("h1").size(), 0u);
  EXPECT_EQ(label_of(send().bytes).tag.epoch, 2);
}

TEST_F(ConweaveNear, WhatAHostForgesGoesThroughUnbelieved) {
  const Bytes plain = packet(2, 1).build();
  Bytes forged = answer_to(plain, {2, 0, {Kind::notify, 0}});
  const auto to = leaf_mac(0).bytes, from = other_mac(1).bytes;
  std::copy(to.begin(), to.end(), forged.begin());
  std::copy(from.begin(), from.end(), forged.begin() + 6);
  h.inject("h1", forged);
  EXPECT_EQ(counter("forged"), 1u);
  EXPECT_EQ(counter("conweave_notifies"), 0u);
  const auto all = upwards(h);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(tag_of(all[0].bytes).leaf, 1) << "the leaf's own tag is around it";
  Harness last(weft::testing::all_stages(), conga_yaml(weaving(2)));
  last.inject("s1", by_spine(all[0].bytes));
  EXPECT_EQ(last.counter("lb_tag", "conweave_notifies"), 0u);
  EXPECT_EQ(last.take("h1").size(), 1u);
}

TEST_F(ConweaveNear, ThePolicyChangesUnderTraffic) {
  EXPECT_EQ(label_of(send().bytes).tag.epoch, 1);
  ASSERT_EQ(h.set("lb", {"policy=conga"}), "");
  EXPECT_EQ(kind_of(send().bytes), TagKind::conga);
  ASSERT_EQ(h.set("lb", {"policy=conweave"}), "");
  EXPECT_FALSE(label_of(send().bytes).tag.request) << "the flow is still known";
}

TEST_F(ConweaveNear, ShowsItsFlows) {
  send();
  answered(send(), {Kind::rtt, 1});
  const auto rows = h.rows("conweave");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["edge"], "source");
  EXPECT_EQ(rows[0]["state"], "stable");
  EXPECT_EQ(rows[0]["epoch"], 1);
  EXPECT_EQ(rows[0]["flow"], "addresses 0a0001020a000202 protocol 17 ports 50000 4791 qp 34");
}

}  // namespace
}  // namespace weft::stages::testing
