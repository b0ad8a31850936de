// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l2/forward_memo.h"

#include <gtest/gtest.h>

#include <memory>

#include "switch/tables/fdb.h"

namespace weft::stages {
namespace {

using tables::Fdb;
using tables::FdbKey;

constexpr std::uint16_t kVid = 10;
constexpr std::uint32_t kNow = 100;

constexpr std::uint64_t address(unsigned host) {
  return 0x020000000a00u + host;
}

// What a worker does with a frame between two hosts whose addresses are known.
class MemoOfTheDatabase : public ::testing::Test {
 protected:
  static ForwardMemo::Key key(unsigned from, unsigned to, pipeline::PortIndex in) {
    std::uint8_t frame[12];
    for (int i = 0; i < 6; ++i) {
      frame[i] = static_cast<std::uint8_t>(address(to) >> 8 * (5 - i));
      frame[6 + i] = static_cast<std::uint8_t>(address(from) >> 8 * (5 - i));
    }
    return ForwardMemo::key(frame, ForwardMemo::way_in(kVid, in));
  }
  const ForwardMemo::Entry* find_untagged() const {
    return memo_->find_untagged(key(1, 2, 0), memo_->untagged(ForwardMemo::way_in(kVid, 1)));
  }
  void learn(unsigned host, pipeline::PortIndex port) { fdb_.learn(FdbKey(address(host), kVid), port, kNow); }
  void SetUp() override {
    learn(1, 1);
    learn(2, 2);
    memo_->start_burst(fdb_.generation(), kNow);
    memo_->store(key(1, 2, 1), fdb_.find(FdbKey(address(2), kVid)), true);
  }
  bool holds(std::uint32_t now_s = kNow) {
    memo_->start_burst(fdb_.generation(), now_s);
    const auto* known = memo_->find(key(1, 2, 1));
    EXPECT_EQ(known, find_untagged());
    EXPECT_TRUE(known == nullptr || known->out == 2);
    return known != nullptr;
  }

  Fdb fdb_{1000};
  std::unique_ptr<ForwardMemo> memo_ = std::make_unique<ForwardMemo>();
};

TEST_F(MemoOfTheDatabase, HoldsWhileOthersAreLearned) {
  ASSERT_TRUE(holds());
  for (unsigned host = 3; host < 300; ++host) {
    learn(host, static_cast<pipeline::PortIndex>(host % 4));
    ASSERT_TRUE(holds()) << host;
  }
}

TEST_F(MemoOfTheDatabase, IsVoidWhenEitherHostHasMoved) {
  learn(2, 3);
  EXPECT_FALSE(holds());
  memo_->store(key(1, 2, 1), 2, true);
  EXPECT_TRUE(holds());
  learn(1, 4);
  EXPECT_FALSE(holds());
}

TEST_F(MemoOfTheDatabase, IsVoidWhenAHostIsForgottenAndWhenItGetsAStaticPort) {
  fdb_.flush(2);
  EXPECT_FALSE(holds());
  learn(2, 2);
  memo_->store(key(1, 2, 1), 2, true);
  EXPECT_TRUE(holds());
  fdb_.add_static(FdbKey(address(2), kVid), 7);
  EXPECT_FALSE(holds());
}

TEST_F(MemoOfTheDatabase, IsVoidEverySecondAndKnowsItsPairOnly) {
  EXPECT_EQ(memo_->find(key(2, 1, 2)), nullptr);
  EXPECT_EQ(memo_->find(key(1, 2, 3)), nullptr);
  EXPECT_EQ(memo_->find(key(1, 3, 1)), nullptr);
  for (const auto way : {ForwardMemo::way_in(kVid, 3), ForwardMemo::way_in(kVid + 1, 1)}) {
    EXPECT_EQ(memo_->find_untagged(key(1, 2, 1), memo_->untagged(way)), nullptr);
  }
  EXPECT_FALSE(holds(kNow + 1));
}

TEST_F(MemoOfTheDatabase, ATaggedWayOutIsNotForUntaggedFrames) {
  memo_->store(key(1, 2, 1), 2, false);
  EXPECT_NE(memo_->find(key(1, 2, 1)), nullptr);
  EXPECT_EQ(find_untagged(), nullptr);
}

}  // namespace
}  // namespace weft::stages
