// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/gemma_reporter.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::stages {
namespace {

// Times of reports, in periods, with looks from 0 to `looks` at queues of this length.
std::vector<unsigned> reports(GemmaReporter& reporter, unsigned from, unsigned looks, std::uint64_t bytes) {
  std::vector<unsigned> at;
  for (unsigned look = from; look < from + looks; ++look) {
    EXPECT_LE(reporter.next_deadline(), look * TimeNs{5'000});
    if (reporter.on_look(look * TimeNs{5'000}, bytes)) at.push_back(look);
    EXPECT_EQ(reporter.next_deadline(), (look + 1) * TimeNs{5'000});
  }
  return at;
}

using Times = std::vector<unsigned>;

TEST(GemmaReporter, IntervalsDoubleWhileAllQueuesAreShort) {
  GemmaReporter reporter({});
  EXPECT_EQ(reports(reporter, 0, 40, 49'999), (Times{0, 1, 3, 7, 15, 23, 31, 39}));
  EXPECT_EQ(reporter.interval_ns(), 40'000u);
}

TEST(GemmaReporter, ALongQueueIsToldAtOnceAndEveryTime) {
  GemmaReporter reporter({});
  reports(reporter, 0, 25, 0);
  EXPECT_EQ(reports(reporter, 25, 3, 100'001), (Times{25, 26, 27}));
  EXPECT_EQ(reports(reporter, 28, 4, 0), (Times{28, 30})) << "and then ever more rarely";
}

TEST(GemmaReporter, InBetweenTheIntervalStays) {
  GemmaReporter reporter({});
  reports(reporter, 0, 3, 0);
  EXPECT_EQ(reporter.interval_ns(), 10'000u);
  EXPECT_EQ(reports(reporter, 3, 6, 50'000), (Times{3, 5, 7}));
}

}  // namespace
}  // namespace weft::stages
