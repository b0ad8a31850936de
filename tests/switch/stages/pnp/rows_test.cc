// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/pnp/rig.h"

namespace weft::stages::testing {
namespace {

struct PnpRowsTest : PnpStageTest {};

TEST_F(PnpRowsTest, RowsSayWhatHappened) {
  h.inject("in", data().build());
  h.inject("in", data().build());
  const auto flows = h.rows("pnp_flows");
  ASSERT_EQ(flows.size(), 1u);
  EXPECT_EQ(flows[0]["source"], "10.1.0.1");
  EXPECT_EQ(flows[0]["destination"], "10.2.0.1");
  EXPECT_EQ(flows[0]["dest_qp"], 34);
  EXPECT_EQ(flows[0]["client_qp"], 17);
  EXPECT_EQ(flows[0]["marked"], 2);
  EXPECT_EQ(flows[0]["cnps"], 1);
  EXPECT_EQ(h.rows("pnp")[0]["marks_cleared"], 2);
}

}  // namespace
}  // namespace weft::stages::testing
