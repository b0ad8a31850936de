// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/bars.h"

#include <gtest/gtest.h>

namespace weft::weftctl {
namespace {

using Json = nlohmann::ordered_json;

Json row(int queue, std::uint64_t bytes, std::uint64_t peak, const Json& threshold) {
  return {{"port", "p1"}, {"queue", queue}, {"bytes", bytes}, {"peak_bytes", peak}, {"threshold_bytes", threshold}};
}

TEST(Bars, ABarShowsWhatIsHeldThePeakAndPercentOfTheThreshold) {
  std::vector<Json> rows{row(0, 500, 800, 1000), row(1, 0, 1000, 1000), row(2, 1000, 1000, 1000)};
  EXPECT_EQ(add_bars(rows, 10), 0U);
  EXPECT_EQ(rows[0]["occupancy"], "[#####  |  ]  50 %");
  EXPECT_EQ(rows[1]["occupancy"], "[         |]   0 %");
  EXPECT_EQ(rows[2]["occupancy"], "[##########] 100 %");
}

TEST(Bars, MoreThanTheThresholdFillsTheBarAndALittleShows) {
  std::vector<Json> rows{row(0, 1500, 1500, 1000), row(1, 1, 1, 1'000'000)};
  add_bars(rows, 10);
  EXPECT_EQ(rows[0]["occupancy"], "[##########] 150 %");
  EXPECT_EQ(rows[1]["occupancy"], "[#         ]   0 %");
}

TEST(Bars, RowsWithoutALimitShareTheHighestPeakAmongThemAsTheirScale) {
  std::vector<Json> rows{row(3, 100, 400, nullptr), row(4, 50, 50, nullptr), row(0, 9000, 9000, 9000)};
  add_bars(rows, 8);
  EXPECT_EQ(rows[0]["occupancy"], "[##     |]");
  EXPECT_EQ(rows[1]["occupancy"], "[#       ]");
}

TEST(Bars, TheBarStandsBeforeTheBytesAndIdleRowsGo) {
  std::vector<Json> rows{row(0, 0, 0, 1000), row(1, 1, 1, 1000)};
  EXPECT_EQ(add_bars(rows, 4), 1U);
  ASSERT_EQ(rows.size(), 1U);
  std::vector<std::string> keys;
  for (const auto& [key, value] : rows[0].items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"port", "queue", "occupancy", "bytes", "peak_bytes", "threshold_bytes"}));
}

TEST(Bars, OnlyTablesWithBytesPeakAndThresholdHaveThem) {
  EXPECT_TRUE(tells_occupancy({row(0, 0, 0, nullptr)}));
  EXPECT_FALSE(tells_occupancy({}));
  EXPECT_FALSE(tells_occupancy({Json{{"bytes", 1}, {"peak_bytes", 2}}}));
}

}  // namespace
}  // namespace weft::weftctl
