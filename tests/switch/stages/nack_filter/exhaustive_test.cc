// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every interleaving of a small case, see explorer.h. What is claimed of `gap` is always explored in full;
// WEFT_EXHAUSTIVE=full takes the same sizes for the other checks and for a guard that fires too early, and larger ones
// for READs and copies of NACKs, which takes some minutes.
//
// How many states a case has is pinned in exhaustive_counts.h: a change of these numbers says that something is
// explored that was not before, or no more. WEFT_EXHAUSTIVE=print prints that table anew.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/switch/stages/nack_filter/exhaustive_counts.h"
#include "tests/switch/stages/nack_filter/explorer.h"

namespace weft::stages::testing {
namespace {

using Guard = NackCase::Guard;
using nic::Renack;

struct Size {
  std::uint32_t paths, packets, losses;
};

bool wished(const char* what) {
  const char* wish = std::getenv("WEFT_EXHAUSTIVE");
  return wish != nullptr && std::string(wish) == what;
}
bool full() {
  return wished("full");
}
// A build in which one condition of the filter is wrong says by this variable that it must be caught.
bool mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION") != nullptr;
}

std::vector<Size> sizes(NackCheck check, Guard guard) {
  if (mutant()) return {{2, 4, 1}};
  const bool claimed = check == NackCheck::gap && guard != Guard::early;
  if (claimed) return {{2, 6, 1}, {2, 6, 2}, {3, 6, 1}, {3, 6, 2}, {4, 6, 1}, {4, 6, 2}};
  // A guard that fires early makes the largest of them too large for 24 GiB.
  if (full() && guard == Guard::early) return {{2, 6, 1}, {2, 6, 2}, {3, 6, 1}, {3, 6, 2}, {4, 6, 1}};
  if (full()) return {{2, 6, 1}, {2, 6, 2}, {3, 6, 1}, {3, 6, 2}, {4, 6, 1}, {4, 6, 2}};
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

std::string name(const NackCase& c) {
  const auto number = [](auto n) { return std::to_string(n); };
  return std::string(name(c.check)) + " guard " + name(c.guard) + (c.renack == Renack::lazy ? " lazy " : " eager ") +
         number(c.paths) + " paths " + number(c.packets) + " packets " + number(c.losses) + " losses" +
         (c.copies != 0 ? " " + number(c.copies) + " copies" : "") + (c.read != 0 ? " READ " + number(c.read) : "") +
         (c.first == NackCase{}.first ? "" : " from " + number(c.first.value())) + (c.path_down ? " path down" : "") +
         (c.any_order_back ? " any order" : "") + (c.recovery == nic::LossRecovery::gbn ? " gbn" : "") +
         (c.gbn_proofs == NackCase{}.gbn_proofs ? "" : " proofs " + number(c.gbn_proofs)) +
         (c.last_hop_losses ? "" : " last hop whole");
}

// Every case comes to an end, sends later nothing but valid NACKs, and has as many states as it had before.
NackFindings explore(const NackCase& c) {
  const NackFindings found = NackExplorer(c).run();
  EXPECT_TRUE(found.complete) << name(c);
  if (mutant()) return found;
  EXPECT_FALSE(found.cycle) << name(c) << ": some way leads back to where it has been";
  EXPECT_EQ(found.bad_frames, 0u) << name(c);
  if (wished("print")) {
    std::printf("    {\"%s\", %llu},\n", name(c).c_str(), static_cast<unsigned long long>(found.states));
    return found;
  }
  const auto pinned = kStateCounts.find(name(c));
  if (pinned != kStateCounts.end()) {
    EXPECT_EQ(found.states, pinned->second) << name(c);
  } else {
    EXPECT_TRUE(full()) << name(c) << " is not in exhaustive_counts.h";
  }
  std::printf("%s: %llu states %llu steps  false %llu  missed %llu  for the RTO %llu\n", name(c).c_str(),
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

// The other claims explore every case for ways that lead back, too: see explore().
TEST(NackFilterExhaustive, ItAlwaysComesToAnEnd) {
  if (mutant()) GTEST_SKIP();
  for (const NackCheck check : {NackCheck::ring_first, NackCheck::ring_scan, NackCheck::hwm, NackCheck::gap}) {
    for (const Guard guard : {Guard::off, Guard::bounded, Guard::early}) {
      // Of the others the claims above say it.
      const bool explored = check == NackCheck::gap || guard == Guard::off;
      if (!explored) for_each_case(check, guard, [](const NackCase& c) { EXPECT_FALSE(explore(c).cycle); });
    }
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tree{{0, 1}, {0, 2}, {1, 2}, {2, 3}};
  EXPECT_FALSE(has_cycle(tree));
  tree.emplace_back(3, 1);
  EXPECT_TRUE(has_cycle(tree)) << "the search for cycles finds one";
}

TEST(NackFilterExhaustive, ANackThatReachesTheTorTwiceBringsNoFalseNackAndHidesNoLoss) {
  if (mutant()) GTEST_SKIP();
  std::vector<Size> sizes{{2, 4, 1}, {2, 5, 1}, {2, 4, 2}, {3, 5, 1}, {4, 5, 1}};
  if (full()) sizes.insert(sizes.end(), {{2, 6, 2}, {3, 6, 2}});
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    for (const Size& size : sizes) {
      for (const Renack renack : {Renack::lazy, Renack::eager}) {
        NackCase c{NackCheck::gap, renack, size.paths, size.packets, size.losses, guard};
        c.copies = 1;
        const NackFindings found = explore(c);
        EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
        EXPECT_TRUE(guard == Guard::off || found.missed == 0) << found.missed_example;
      }
    }
  }
}

TEST(NackFilterExhaustive, ReadsAmongTheRequestsBringNoFalseNackAndHideNoLoss) {
  if (mutant()) GTEST_SKIP();
  struct Read {
    Size size;
    std::uint32_t psns, copies;
  };
  std::vector<Read> reads{{{2, 4, 1}, 3, 0}, {{2, 4, 2}, 2, 0}, {{3, 4, 1}, 2, 0}, {{2, 3, 1}, 4, 1}};
  if (full()) reads.insert(reads.end(), {{{2, 5, 1}, 3, 0}, {{3, 5, 1}, 3, 1}});
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    for (const Read& read : reads) {
      NackCase c{NackCheck::gap, Renack::lazy, read.size.paths, read.size.packets, read.size.losses, guard};
      c.read = read.psns;
      c.copies = read.copies;
      const NackFindings found = explore(c);
      EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
      EXPECT_TRUE(guard == Guard::off || found.missed == 0) << found.missed_example;
    }
  }
}

TEST(NackFilterExhaustive, WherePsnsWrapMakesNoDifferenceToTheClaims) {
  if (mutant()) GTEST_SKIP();
  for (const std::uint32_t first : {0u, 100u, 0xfffffau, 0xfffffeu, 0xffffffu}) {
    for (const Size& size : {Size{2, 5, 1}, Size{3, 5, 1}}) {
      NackCase c{NackCheck::gap, Renack::lazy, size.paths, size.packets, size.losses, Guard::bounded};
      c.first = wire::Psn(first);
      const NackFindings found = explore(c);
      EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
      EXPECT_EQ(found.missed, 0u) << found.missed_example;
    }
  }
}

// One sign is enough here, where only a loss on the last hop could make one that is wrong, and there are none.
TEST(NackFilterExhaustive, AReceiverThatKeepsEarlyPacketsNeverShowsASignThatItDoesNot) {
  if (mutant()) GTEST_SKIP();
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    for (const Size& size : {Size{2, 5, 1}, Size{2, 4, 2}, Size{3, 5, 1}}) {
      NackCase c{NackCheck::gap, Renack::lazy, size.paths, size.packets, size.losses, guard};
      c.gbn_proofs = 1;
      c.last_hop_losses = false;
      const NackFindings found = explore(c);
      EXPECT_EQ(found.in_order, 0u);
      EXPECT_GT(found.keeps, 0u);
    }
  }
}

TEST(NackFilterExhaustive, AReceiverThatKeepsNothingIsFoundAndNeverShowsASignThatItKeeps) {
  if (mutant()) GTEST_SKIP();
  NackCase c{NackCheck::gap, Renack::lazy, 2, 4, 0, Guard::bounded};
  c.recovery = nic::LossRecovery::gbn;
  c.gbn_proofs = 1;
  const NackFindings found = explore(c);
  EXPECT_GT(found.in_order, 0u);
  EXPECT_EQ(found.keeps, 0u);
}

// States told apart by all they are made of: those that the hash takes for equal have the same future.
TEST(NackFilterExhaustive, TheHashOfStatesForgetsNothingThatDecides) {
  if (mutant()) GTEST_SKIP();
  NackCase plain{NackCheck::gap, Renack::lazy, 2, 4, 1, Guard::bounded};
  NackCase copies = plain, read = plain, ring = plain, path = plain;
  copies.copies = 1;
  read.packets = 2;
  read.read = 3;
  ring.check = NackCheck::ring_scan;
  path.path_down = true;
  for (const NackCase& c : {plain, copies, read, ring, path}) {
    const NackFindings found = NackExplorer(c).run_exact();
    EXPECT_TRUE(found.complete);
    EXPECT_EQ(found.forgotten, 0u) << name(c);
  }
  for (const HashMistake mistake : {HashMistake::lane_as_sum, HashMistake::forgets_the_mark}) {
    EXPECT_GT(NackExplorer(plain, mistake).run_exact().forgotten, 0u) << static_cast<int>(mistake);
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
        c.copies = path_down ? 0 : 1;
        const NackFindings found = explore(c);
        caught = found.bad_frames != 0 || found.false_nacks != 0 || (guard == Guard::bounded && found.missed != 0);
      });
    }
  }
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace weft::stages::testing
