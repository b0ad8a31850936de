// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/row_scan.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::pipeline {
namespace {

// Every third entry has a row.
nlohmann::ordered_json row_of(std::uint64_t entry) {
  return entry % 3 == 0 ? nlohmann::ordered_json{{"entry", entry}} : nlohmann::ordered_json();
}

// The entries of all rows, call by call.
std::vector<std::vector<std::uint64_t>> calls(std::uint64_t entries, std::size_t max) {
  std::vector<std::vector<std::uint64_t>> out;
  for (std::uint64_t cursor = 0; cursor != StageShared::kEnd && out.size() < 100;) {
    out.emplace_back();
    for (const auto& row : scan_rows(cursor, max, entries, row_of)) out.back().push_back(row.at("entry"));
  }
  return out;
}

using Calls = std::vector<std::vector<std::uint64_t>>;

TEST(RowScan, GoesOnWhereItStoppedAndLosesNoRow) {
  EXPECT_EQ(calls(0, 10), Calls{{}});
  EXPECT_EQ(calls(8, 10), (Calls{{0, 3, 6}}));
  EXPECT_EQ(calls(8, 2), (Calls{{0, 3}, {6}}));
  EXPECT_EQ(calls(7, 3), (Calls{{0, 3, 6}})) << "the last entry was looked at: nobody need ask again";
}

TEST(RowScan, LooksAtABoundedNumberOfEntriesWhateverTheyHold) {
  std::uint64_t cursor = 0, looked = 0;
  const auto none = [&](std::uint64_t) {
    ++looked;
    return nlohmann::ordered_json();
  };
  EXPECT_TRUE(scan_rows(cursor, 10, kRowsScanned + 1, none).empty());
  EXPECT_EQ(looked, kRowsScanned);
  EXPECT_EQ(cursor, kRowsScanned);
  EXPECT_TRUE(scan_rows(cursor, 10, kRowsScanned + 1, none).empty());
  EXPECT_EQ(looked, kRowsScanned + 1);
  EXPECT_EQ(cursor, StageShared::kEnd);
}

}  // namespace
}  // namespace weft::pipeline
