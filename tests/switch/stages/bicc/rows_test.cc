// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/bicc/rig.h"

namespace weft::stages::testing {
namespace {

struct BiccRowsTest : BiccStageTest {};

TEST_P(BiccRowsTest, RowsSayWhatIsUnderWayAndWhatWaits) {
  for (std::uint32_t psn = 1; psn <= 5; ++psn) h.inject("wan", data(psn, GetParam()).build());
  const auto queues = h.rows("bicc_queues");
  ASSERT_EQ(queues.size(), 1u);
  EXPECT_EQ(queues[0]["destination"], GetParam() ? nlohmann::ordered_json() : nlohmann::ordered_json("10.1.0.1"));
  EXPECT_GT(queues[0]["in_flight_bytes"], 2000);
  EXPECT_EQ(queues[0]["held"], 3);
  const auto sums = h.rows("bicc")[0];
  EXPECT_EQ(sums["held"], 3);
  EXPECT_EQ(sums["requests"], 5);
  EXPECT_EQ(sums["in_flight_kb"], 3);
  h.advance_ns(10'000 * kUs);
}
INSTANTIATE_TEST_SUITE_P(Ip, BiccRowsTest, ::testing::Bool());

}  // namespace
}  // namespace weft::stages::testing
