// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/conweave_source.h"

#include <gtest/gtest.h>

namespace weft::stages {
namespace {

constexpr FlowKey kFlow{1, 2};
using Kind = ConweaveReply::Kind;

class Paths final : public ConweavePaths {
 public:
  [[nodiscard]] bool up(std::uint16_t path) noexcept override { return path < 4 && path != down; }
  [[nodiscard]] std::uint16_t draw() noexcept override { return next; }
  [[nodiscard]] std::uint16_t any() noexcept override { return 3; }

  std::uint16_t next = 0;
  std::uint16_t down = kNone;
};

class ConweaveSourceTest : public ::testing::Test {
 protected:
  ConweaveSource::Choice send(TimeNs at, const FlowKey& key = kFlow) { return source.on_packet(at, key, paths); }
  void reply(TimeNs at, Kind kind, std::uint8_t epoch) { source.on_reply(at, kFlow, {kind, epoch}); }

  ConweaveSource source{{.reply_ns = 8 * kUs, .expiry_ns = 300 * kUs, .flows = 4}};
  Paths paths;
};

TEST_F(ConweaveSourceTest, AReplyInTimeBeginsTheNextEpochOnTheSamePath) {
  const auto first = send(0);
  EXPECT_EQ(first.path, 0);
  EXPECT_EQ(first.tag, (ConweaveTag{.epoch = 1, .request = true}));
  paths.next = 1;
  EXPECT_EQ(send(kUs).tag, (ConweaveTag{.epoch = 1, .sent = ConweaveTime::of(kUs)}));
  reply(8 * kUs, Kind::rtt, 1);
  const auto second = send(9 * kUs);
  EXPECT_EQ(second.path, 0);
  EXPECT_TRUE(second.tag.request);
  EXPECT_EQ(second.tag.epoch, 2);
  EXPECT_EQ(source.counts().replies, 1u);
  EXPECT_EQ(source.counts().epochs, 2u);
}

TEST_F(ConweaveSourceTest, WithoutAReplyATailEndsTheOldPathAndClearAllowsTheNextReroute) {
  send(0);
  paths.next = 2;
  EXPECT_FALSE(send(8 * kUs).tag.tail) << "the reply may still come";
  const auto tail = send(9 * kUs);
  EXPECT_EQ(tail.path, 0);
  EXPECT_TRUE(tail.tag.tail);
  EXPECT_FALSE(tail.tag.rerouted);
  const auto rerouted = send(40 * kUs);
  EXPECT_EQ(rerouted.path, 2);
  EXPECT_EQ(
      rerouted.tag,
      (ConweaveTag{
          .epoch = 1, .rerouted = true, .sent = ConweaveTime::of(40 * kUs), .tail_sent = ConweaveTime::of(9 * kUs)}));
  reply(41 * kUs, Kind::rtt, 1);
  EXPECT_EQ(source.counts().stray_replies, 1u) << "the phase is over";
  reply(41 * kUs, Kind::clear, 2);
  EXPECT_EQ(source.counts().stray_replies, 2u) << "of another epoch";
  EXPECT_TRUE(send(42 * kUs).tag.rerouted);
  reply(43 * kUs, Kind::clear, 1);
  const auto next = send(44 * kUs);
  EXPECT_EQ(next.path, 2);
  EXPECT_EQ(next.tag.epoch, 2);
  EXPECT_TRUE(next.tag.request);
  EXPECT_EQ(source.counts().reroutes, 1u);
}

TEST_F(ConweaveSourceTest, AFlowStaysWhenNoPathIsBetter) {
  send(0);
  for (const std::uint16_t drawn : {ConweavePaths::kNone, std::uint16_t{0}}) {
    paths.next = drawn;
    const auto choice = send(9 * kUs);
    EXPECT_EQ(choice.path, 0);
    EXPECT_FALSE(choice.tag.tail);
  }
  EXPECT_EQ(source.counts().stays, 2u);
  reply(10 * kUs, Kind::rtt, 1);
  EXPECT_EQ(source.counts().late_replies, 1u);
  paths.next = 1;
  EXPECT_TRUE(send(11 * kUs).tag.tail);
}

TEST_F(ConweaveSourceTest, AfterAPauseAFlowTakesAnyPath) {
  send(0);
  send(9 * kUs);
  paths.next = 1;
  const auto again = send(310 * kUs);
  EXPECT_EQ(again.path, 1);
  EXPECT_EQ(again.tag, (ConweaveTag{.epoch = 2, .request = true, .sent = ConweaveTime::of(310 * kUs)}));
  paths.next = ConweavePaths::kNone;
  EXPECT_EQ(send(700 * kUs).path, 1) << "all others are avoided";
  EXPECT_EQ(send(700 * kUs, {7, 7}).path, 3) << "a new flow has to take one";
}

TEST_F(ConweaveSourceTest, APathThatIsGoneIsLeftAtOnce) {
  send(0);
  paths.down = 0;
  paths.next = ConweavePaths::kNone;
  const auto other = send(kUs);
  EXPECT_EQ(other.path, 3);
  EXPECT_TRUE(other.tag.request);
}

TEST_F(ConweaveSourceTest, ALostClearDoesNotEndReroutingForEver) {
  paths.next = 0;
  send(0);
  paths.next = 1;
  EXPECT_TRUE(send(9 * kUs).tag.tail);
  EXPECT_TRUE(send(200 * kUs).tag.rerouted);
  EXPECT_TRUE(send(309 * kUs).tag.rerouted);
  const auto next = send(310 * kUs);
  EXPECT_EQ(next.path, 1);
  EXPECT_TRUE(next.tag.request);
  EXPECT_EQ(source.counts().lost_clears, 1u);
}

TEST_F(ConweaveSourceTest, AFullTableCostsTheFlowThatWasSilentLongest) {
  for (std::uint64_t flow = 0; flow < 5; ++flow) send(flow, {flow, 0});
  EXPECT_EQ(source.counts().evicted, 1u);
  EXPECT_EQ(send(9, {1, 0}).tag.epoch, 1) << "it is still known";
  EXPECT_FALSE(send(9, {1, 0}).tag.request);
  EXPECT_TRUE(send(9, {0, 0}).tag.request) << "it is new";
  source.on_reply(9, {77, 0}, {Kind::rtt, 1});
  EXPECT_EQ(source.counts().stray_replies, 1u);
}

TEST(ConweaveTime, DifferencesWrapAndAreNeverNegative) {
  const TimeNs wrap = (std::uint64_t{1} << ConweaveTime::kBits) * ConweaveTime::kTickNs;
  EXPECT_EQ(ConweaveTime::of(wrap + 320).since(ConweaveTime::of(wrap - 320)), 640u);
  EXPECT_EQ(ConweaveTime::of(320).since(ConweaveTime::of(640)), 0u);
}

TEST(ConweaveEpoch, Wraps) {
  EXPECT_TRUE(later_epoch(0, 255));
  EXPECT_FALSE(later_epoch(255, 0));
  EXPECT_FALSE(later_epoch(7, 7));
}

}  // namespace
}  // namespace weft::stages
