// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/rcu.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {
namespace {

// Counts the objects that exist, and spoils its value when it goes.
struct Probe {
  Probe(int v, std::atomic<int>& count) : value(v), alive(count) { alive.fetch_add(1); }
  ~Probe() {
    value = -1;
    alive.fetch_sub(1);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  int value;
  std::atomic<int>& alive;
};

class RcuCellTest : public testing::Test {
 protected:
  std::unique_ptr<const Probe> probe(int value) { return std::make_unique<const Probe>(value, alive_); }

  std::atomic<int> alive_{0};
  RcuDomain domain_{2};
  RcuCell<Probe> cell_{domain_, probe(1)};
};

TEST_F(RcuCellTest, ReadSeesWhatWasPublishedLast) {
  EXPECT_EQ(cell_.read().value, 1);
  cell_.replace(probe(2));
  EXPECT_EQ(cell_.read().value, 2);
}

TEST_F(RcuCellTest, AnOldObjectLivesUntilEveryReaderWasQuiescent) {
  const Probe& old = cell_.read();
  cell_.replace(probe(2));
  EXPECT_EQ(domain_.reclaim(), 0u);
  domain_.quiescent(0);
  EXPECT_EQ(domain_.reclaim(), 0u);
  EXPECT_EQ(old.value, 1);
  domain_.quiescent(1);
  EXPECT_EQ(domain_.reclaim(), 1u);
  EXPECT_EQ(alive_.load(), 1);
}

TEST_F(RcuCellTest, AQuiescentStateBeforeTheReplacementDoesNotCount) {
  domain_.quiescent(0);
  domain_.quiescent(1);
  cell_.replace(probe(2));
  EXPECT_EQ(domain_.reclaim(), 0u);
}

TEST_F(RcuCellTest, EachObjectWaitsForReadersOfItsOwnTime) {
  cell_.replace(probe(2));
  domain_.quiescent(0);
  domain_.quiescent(1);
  cell_.replace(probe(3));
  EXPECT_EQ(domain_.reclaim(), 1u);
  EXPECT_EQ(domain_.pending(), 1u);
  EXPECT_EQ(alive_.load(), 2);
}

TEST_F(RcuCellTest, AReaderIsWantedFromTheReplacementUntilItIsQuiescent) {
  EXPECT_FALSE(domain_.wanted(0));
  cell_.replace(probe(2));
  EXPECT_TRUE(domain_.wanted(0));
  domain_.quiescent(0);
  EXPECT_FALSE(domain_.wanted(0));
  EXPECT_TRUE(domain_.wanted(1));
}

TEST(RcuDomain, TheEndOfTheDomainRunsWhatIsStillDeferred) {
  int runs = 0;
  {
    RcuDomain domain(1);
    domain.defer([&] { ++runs; });
  }
  EXPECT_EQ(runs, 1);
}

TEST_F(RcuCellTest, ConcurrentReadersNeverSeeADeletedObject) {
  constexpr int kUpdates = 20'000;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const auto read = [&](std::uint16_t reader) {
    int newest = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      domain_.quiescent(reader);
      const Probe& probe = cell_.read();
      if (probe.value < newest) wrong.fetch_add(1);
      newest = probe.value;
    }
  };
  std::thread first(read, 0);
  std::thread second(read, 1);
  for (int i = 2; i < kUpdates; ++i) {
    cell_.replace(probe(i));
    domain_.reclaim();
    if (domain_.pending() > 1000) std::this_thread::yield();
  }
  stop.store(true);
  first.join();
  second.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace weft
