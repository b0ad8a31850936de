// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/shared.h"

#include "tests/switch/stages/lb_tag/rig.h"

namespace weft::stages::testing {
namespace {

class LbTagSharedTest : public ::testing::Test {
 protected:
  LbTagSharedTest() : h(weft::testing::all_stages(), conga_yaml({})) {}
  LbTagShared& shared() { return h.shared<LbTagShared>("lb_tag"); }

  Harness h;
};

TEST_F(LbTagSharedTest, APathIsAsCongestedAsItsWorstPart) {
  auto& congestion = shared().congestion();
  congestion.on_feedback(1, 0, 3, h.now());
  EXPECT_EQ(shared().path_metric(1, 1, h.now()), 3);
  EXPECT_EQ(shared().path_metric(2, 1, h.now()), 0);
  EXPECT_EQ(shared().path_metric(1, 2, h.now()), 0) << "to another leaf";
  congestion.on_sent(0, 1, h.now(), 12'500 * 250 * 5 / 8 + 1000);
  EXPECT_EQ(shared().path_metric(1, 1, h.now()), 5);
  EXPECT_EQ(shared().path_metric(1, LeafMap::kNone, h.now()), 5) << "the link alone";
  EXPECT_EQ(shared().path_metric(0, 1, h.now()), 0) << "no uplink";
}

TEST_F(LbTagSharedTest, AReloadForgetsWhereTheFabricIsAnotherOne) {
  shared().congestion().on_feedback(1, 0, 3, h.now());
  h.reload(conga_yaml({.lb = "{ policy: letflow }"}));
  EXPECT_EQ(shared().congestion().remote(1, 0, h.now()), 3);
  h.reload(conga_yaml({.tag = ", age_us: 400"}));
  EXPECT_EQ(shared().congestion().remote(1, 0, h.now()), 0);
}

TEST_F(LbTagSharedTest, KnowsTheMtuOfTheMoment) {
  EXPECT_EQ(shared().mtu(1), 4216u);
  h.state().set_mtu(1, 1500);
  EXPECT_EQ(shared().mtu(1), 1500u);
}

TEST_F(LbTagSharedTest, RowsComeInPieces) {
  for (std::uint8_t path = 0; path < 4; ++path) shared().congestion().on_feedback(2, path, path, h.now());
  std::uint64_t cursor = 0;
  std::size_t rows = 0;
  for (int piece = 0; piece < 100 && cursor != pipeline::StageShared::kEnd; ++piece) {
    const auto some = shared().rows("conga", cursor, 1);
    EXPECT_LE(some.size(), 1u);
    rows += some.size();
  }
  EXPECT_EQ(rows, 4u);
  EXPECT_EQ(cursor, pipeline::StageShared::kEnd);
}

}  // namespace
}  // namespace weft::stages::testing
