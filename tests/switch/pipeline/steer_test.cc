// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/steer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "switch/base/rng.h"

namespace weft::pipeline {
namespace {

TEST(WorkerByHash, SpreadsEvenlyAndNeverNamesAWorkerThatIsNotThere) {
  for (const std::uint16_t workers : {1, 2, 3, 7, 16}) {
    std::vector<int> hits(workers, 0);
    Rng rng(workers);
    for (int i = 0; i < 16'000; ++i) ++hits.at(worker_by_hash(static_cast<std::uint32_t>(rng.next()), workers));
    EXPECT_LT(worker_by_hash(0xffffffff, workers), workers);
    EXPECT_EQ(worker_by_hash(0, workers), 0);
    for (const int n : hits) EXPECT_NEAR(n, 16'000 / workers, 600);
  }
}

TEST(RssWorkers, HaveAsManyEntriesAsTheOthersOrOneMore) {
  for (std::uint16_t workers = 1; workers <= 64; ++workers) {
    const RssWorkers spread(workers);
    std::vector<int> entries(workers, 0);
    for (std::uint32_t entry = 0; entry < wire::kRssEntries; ++entry) ++entries.at(spread.of_entry(entry));
    const auto [fewest, most] = std::minmax_element(entries.begin(), entries.end());
    EXPECT_LE(*most - *fewest, 1) << workers;
  }
}

TEST(RssWorkers, HostsOfOneSubnetAreSpread) {
  const RssWorkers spread(2);
  int of_first = 0, pairs = 0;
  for (std::uint64_t a = 1; a <= 16; ++a) {
    for (std::uint64_t b = a + 1; b <= 16; ++b, ++pairs) {
      const std::uint16_t worker = spread.of_v4((0x0a000000 | a) << 32 | 0x0a000000 | b);
      EXPECT_EQ(spread.of_v4((0x0a000000 | b) << 32 | 0x0a000000 | a), worker);
      of_first += worker == 0 ? 1 : 0;
    }
  }
  EXPECT_NEAR(of_first, pairs / 2, pairs / 5);
}

}  // namespace
}  // namespace weft::pipeline
