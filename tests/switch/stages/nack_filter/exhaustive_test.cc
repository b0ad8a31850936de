// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every interleaving of a small case, see nack_filter_explorer.h. What is claimed of `gap` is always explored in full;
// WEFT_EXHAUSTIVE=full takes the same sizes for the other checks and for a guard that fires too early, which takes some
// minutes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/switch/stages/nack_filter/explorer.h"

namespace weft::stages::testing {
namespace {

using Guard = NackCase::Guard;
using nic::Renack;

struct Size {
  std::uint32_t paths, packets, losses;
};

bool full() {
  const char* wish = std::getenv("WEFT_EXHAUSTIVE");
  return wish != nullptr && std::string(wish) == "full";
}
// A build in which one condition of the filter is wrong says by this variable that it must be caught.
bool mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION") != nullptr;
}

std::vector<Size> sizes(NackCheck check, Guard guard) {
  if (mutant()) return {{2, 4, 1}};
  const bool claimed = check == NackCheck::gap && guard != Guard::early;
  if (claimed || full()) return {{2, 6, 1}, {2, 6, 2}, {3, 6, 1}, {3, 6, 2}, {4, 6, 1}, {4, 6, 2}};
  return {{2, 4, 2}, {2, 5, 1}, {3, 4, 2}, {4, 5, 0}, {4, 4, 1}};
}

const char* name(NackCheck check) {
  constexpr const char* kNames[] = {"ring_first", "ring_scan", "hwm", "gap"};
  return kNames[static_cast<std::size_t>(check)];
}
const char* name(Guard guard) {
  constexpr const char* kNames[] = {"off", "bounded", "early"};
  return kNames[static_cast<std::size_t>(guard)];
}

NackFindings explore(const NackCase& c) {
  const NackFindings found = NackExplorer(c).run();
  std::printf(
      "%-10s guard %-7s %-5s %u paths %u packets %u losses: %9llu states %10llu steps  false %8llu  missed %6llu  "
      "for the RTO %6llu\n",
      name(c.check), name(c.guard), c.renack == Renack::lazy ? "lazy" : "eager", c.paths, c.packets, c.losses,
      static_cast<unsigned long long>(found.states), static_cast<unsigned long long>(found.transitions),
      static_cast<unsigned long long>(found.false_nacks), static_cast<unsigned long long>(found.missed),
      static_cast<unsigned long long>(found.stuck));
  static_cast<void>(std::fflush(stdout));
  return found;
}

template <typename F>
void for_each_case(NackCheck check, Guard guard, F&& f) {
  for (const Size& size : sizes(check, guard)) {
    for (const Renack renack : {Renack::lazy, Renack::eager}) {
      f(NackCase{check, renack, size.paths, size.packets, size.losses, guard});
    }
  }
}

TEST(NackFilterExhaustive, GapNeverLetsTheSenderSeeANackForAPacketThatIsNotLost) {
  if (mutant()) GTEST_SKIP();
  for_each_case(NackCheck::gap, Guard::off, [](const NackCase& c) {
    const NackFindings found = explore(c);
    EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
    EXPECT_EQ(found.in_vain, 0u);
    EXPECT_TRUE(found.complete);
  });
}

TEST(NackFilterExhaustive, WithAGuardThatWaitsLongEnoughNoLossIsHiddenAndNoneInvented) {
  if (mutant()) GTEST_SKIP();
  for_each_case(NackCheck::gap, Guard::bounded, [](const NackCase& c) {
    const NackFindings found = explore(c);
    EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
    EXPECT_EQ(found.in_vain, 0u);
    EXPECT_EQ(found.missed, 0u) << found.missed_example;
    EXPECT_TRUE(found.complete);
  });
}

TEST(NackFilterExhaustive, AnswersThatOvertakeEachOtherOnTheirWayBackChangeNothing) {
  if (mutant()) GTEST_SKIP();
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    for_each_case(NackCheck::gap, guard, [&](NackCase c) {
      c.any_order_back = true;
      const NackFindings found = explore(c);
      EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
      EXPECT_EQ(found.in_vain, 0u);
      EXPECT_TRUE(guard == Guard::off || found.missed == 0) << found.missed_example;
      EXPECT_TRUE(found.complete);
    });
  }
}

TEST(NackFilterExhaustive, APathThatGoesDownAtAnyTimeBringsNoFalseNackAndHidesNoLoss) {
  if (mutant()) GTEST_SKIP();
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    for (const Size& size : {Size{2, 5, 1}, Size{3, 6, 0}, Size{3, 5, 1}}) {
      NackCase c{NackCheck::gap, Renack::eager, size.paths, size.packets, size.losses, guard};
      c.path_down = true;
      const NackFindings found = explore(c);
      EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
      EXPECT_TRUE(guard == Guard::off || found.missed == 0) << found.missed_example;
      EXPECT_TRUE(found.complete);
    }
  }
}

TEST(NackFilterExhaustive, AGuardThatFiresTooEarlyRepeatsInVainAndHidesNothing) {
  if (mutant()) GTEST_SKIP();
  std::uint64_t in_vain = 0;
  for_each_case(NackCheck::gap, Guard::early, [&](const NackCase& c) {
    const NackFindings found = explore(c);
    EXPECT_EQ(found.missed, 0u) << found.missed_example;
    EXPECT_TRUE(found.complete);
    in_vain += found.in_vain;
  });
  EXPECT_GT(in_vain, 0u);
}

TEST(NackFilterExhaustive, TheOtherChecksErr) {
  if (mutant()) GTEST_SKIP();
  for (const NackCheck check : {NackCheck::ring_first, NackCheck::ring_scan, NackCheck::hwm}) {
    NackFindings worst;
    for_each_case(check, Guard::off, [&](const NackCase& c) {
      const NackFindings found = explore(c);
      const auto shorter = [](std::string& best, const std::string& other) {
        if (!other.empty() && (best.empty() || other.size() < best.size())) best = other;
      };
      shorter(worst.false_example, found.false_example);
      shorter(worst.missed_example, found.missed_example);
      worst.false_nacks += found.false_nacks;
      worst.missed += found.missed;
    });
    std::printf("%s, shortest false NACK: %s\n%s, shortest hidden loss: %s\n", name(check), worst.false_example.c_str(),
                name(check), worst.missed_example.c_str());
    EXPECT_GT(worst.false_nacks, 0u) << name(check);
    EXPECT_GT(worst.missed, 0u) << name(check);
  }
}

TEST(NackFilterExhaustive, ItAlwaysComesToAnEnd) {
  if (mutant()) GTEST_SKIP();
  for (const NackCheck check : {NackCheck::ring_first, NackCheck::ring_scan, NackCheck::hwm, NackCheck::gap}) {
    for (const Guard guard : {Guard::off, Guard::bounded, Guard::early}) {
      EXPECT_FALSE(NackExplorer({check, Renack::eager, 2, 4, 1, guard}).run_for_cycles().cycle);
    }
  }
}

TEST(NackFilterExhaustive, AMutantIsCaught) {
  if (!mutant()) GTEST_SKIP() << "this build has no mistake built in";
  bool caught = false;
  for (const bool path_down : {false, true}) {
    for (const Guard guard : {Guard::off, Guard::bounded}) {
      for_each_case(NackCheck::gap, guard, [&](NackCase c) {
        if (caught) return;
        c.path_down = path_down;
        const NackFindings found = explore(c);
        caught = found.false_nacks != 0 || (guard == Guard::bounded && found.missed != 0);
      });
    }
  }
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace weft::stages::testing
