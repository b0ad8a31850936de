// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/steer.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::pipeline
