// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/trp/rig.h"

namespace weft::stages::testing {
namespace {

struct TrpRowsTest : TrpStageTest {};

TEST_P(TrpRowsTest, RowsSayWhatIsHeld) {
  h.inject("in", cnp().build());
  h.inject("wan", data(1).build());
  const auto flows = h.rows("trp_flows");
  ASSERT_EQ(flows.size(), 1u);
  EXPECT_EQ(flows[0]["source"], "10.2.0.1");
  EXPECT_EQ(flows[0]["dest_qp"], 34);
  EXPECT_EQ(flows[0]["status"], "throttled");
  EXPECT_EQ(flows[0]["loop_num"], 1);
  EXPECT_EQ(flows[0]["held"], 1);
  EXPECT_EQ(h.rows("trp")[0]["held"], 1);
  h.advance_ns(10 * kUs);
}
INSTANTIATE_TEST_SUITE_P(One, TrpRowsTest, ::testing::Values(false));

}  // namespace
}  // namespace weft::stages::testing
