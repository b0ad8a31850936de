// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/rank_progress.h"

#include <gmock/gmock.h>

namespace weft::inc {
namespace {

ControlMessage collective(Primitive primitive, std::uint64_t bytes, std::uint16_t root = 0) {
  ControlMessage m;
  m.primitive = primitive;
  m.bytes = bytes;
  m.root = root;
  return m;
}

TEST(RankProgress, MessagesAreOfTheSizesThatTheWindowAllows) {
  const std::vector<ControlMessage> all{collective(Primitive::allreduce, 2500)};
  RankProgress p(1, 2, 1000, all);
  const auto control = p.post(), first = p.post();
  ASSERT_TRUE(control && first);
  EXPECT_TRUE(control->is_control());
  EXPECT_EQ(control->bytes, 0u);
  EXPECT_EQ(first->offset, 0u);
  EXPECT_EQ(first->bytes, 1000u);
  EXPECT_FALSE(p.post()) << "two are under way";
  p.sent();
  EXPECT_EQ(p.post()->offset, 1000u);
  p.sent();
  const auto last = p.post();
  EXPECT_EQ(last->offset, 2000u);
  EXPECT_EQ(last->bytes, 500u);
  p.sent();
  p.sent();
  EXPECT_FALSE(p.post());
  EXPECT_FALSE(p.done()) << "nothing has come";
  for (std::uint32_t n = 0; n < 4; ++n) {
    const auto got = p.arrived();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->number, n);
  }
  EXPECT_FALSE(p.post());
  EXPECT_TRUE(p.done());
  EXPECT_FALSE(p.arrived()) << "nobody was to send more";
}

TEST(RankProgress, ACollectiveBeginsWhenTheEarlierOnesHaveBroughtAll) {
  const std::vector<ControlMessage> all{collective(Primitive::reduce, 100, 0), collective(Primitive::broadcast, 100, 1),
                                        collective(Primitive::barrier, 0)};
  // The root of the Reduce sends nothing in it, and has to wait for it.
  RankProgress root(0, 8, 1000, all);
  EXPECT_FALSE(root.post());
  EXPECT_EQ(root.passed(), 0u);
  EXPECT_EQ(root.arrived()->collective, 0u);
  EXPECT_EQ(root.arrived()->collective, 0u);
  EXPECT_FALSE(root.post()) << "the Broadcast comes first";
  EXPECT_EQ(root.passed(), 1u);
  EXPECT_EQ(root.arrived()->collective, 1u);
  EXPECT_EQ(root.arrived()->collective, 1u);
  const auto barrier = root.post();
  ASSERT_TRUE(barrier);
  EXPECT_EQ(barrier->collective, 2u);
  // The sender of the Broadcast goes on from the Reduce at once.
  RankProgress sender(1, 8, 1000, all);
  std::vector<std::size_t> posted;
  while (const auto m = sender.post()) posted.push_back(m->collective);
  EXPECT_THAT(posted, ::testing::ElementsAre(0u, 0u, 1u, 1u, 2u));
  EXPECT_EQ(sender.receiving(), 0u);
  EXPECT_EQ(sender.arrived()->collective, 2u) << "the first that brings it anything";
}

}  // namespace
}  // namespace weft::inc
