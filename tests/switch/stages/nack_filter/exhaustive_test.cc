// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every interleaving of a small case, see explorer.h. What is claimed of `gap` is always explored in full;
// WEFT_EXHAUSTIVE=full takes the same sizes for the other checks and for a guard that fires too early, and larger ones
// for the rest, which takes ten minutes. What is not run is printed.
//
// How many states each case has is pinned in exhaustive_counts*.h: a change of these numbers says that something is
// explored that was not before, or no more. A case that has no line there fails, and prints it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/switch/stages/nack_filter/exhaustive_counts.h"
#include "tests/switch/stages/nack_filter/exhaustive_counts_full.h"
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

const std::vector<Size> kLarge{{2, 6, 1}, {2, 6, 2}, {3, 6, 1}, {3, 6, 2}, {4, 6, 1}, {4, 6, 2}};

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
         (c.last_hop_losses ? "" : " last hop whole") + (c.guessed_spans ? " guessed spans" : "") +
         (c.blocked_as_acks ? " as ACKs" : "") + (c.first_known ? "" : " first unknown");
}

std::optional<std::uint64_t> pinned_states(const std::string& name) {
  for (const auto* counts : {&kStateCounts, &kFullStateCounts}) {
    if (const auto found = counts->find(name); found != counts->end()) return found->second;
  }
  return std::nullopt;
}

// Every case comes to an end, sends later nothing but valid NACKs, lets the sender believe nothing that is not so, and
// has as many states as it had before.
NackFindings explore(const NackCase& c) {
  const NackFindings found = NackExplorer(c).run();
  EXPECT_TRUE(found.complete) << name(c);
  if (mutant()) return found;
  EXPECT_FALSE(found.cycle) << name(c) << ": some way leads back to where it has been";
  EXPECT_EQ(found.bad_frames, 0u) << name(c);
  EXPECT_EQ(found.false_acks, 0u) << name(c);
  if (const auto pinned = pinned_states(name(c))) {
    EXPECT_EQ(found.states, *pinned) << name(c);
  } else {
    ADD_FAILURE() << "exhaustive_counts.h or exhaustive_counts_full.h has no line {\"" << name(c) << "\", "
                  << found.states << "},";
  }
  std::printf("%s: %llu states %llu steps  false %llu  missed %llu  for the RTO %llu\n", name(c).c_str(),
              static_cast<unsigned long long>(found.states), static_cast<unsigned long long>(found.transitions),
              static_cast<unsigned long long>(found.false_nacks), static_cast<unsigned long long>(found.missed),
              static_cast<unsigned long long>(found.stuck));
  static_cast<void>(std::fflush(stdout));
  return found;
}

// How many cases explore_in_full() left out.
class LeftOut : public ::testing::Environment {
 public:
  static inline std::uint32_t count = 0;
  void TearDown() override {
    if (count != 0) std::printf("%u larger cases: not run, only with WEFT_EXHAUSTIVE=full\n", count);
  }
};
const auto* const kLeftOut = ::testing::AddGlobalTestEnvironment(new LeftOut);

// Takes the larger cases only with WEFT_EXHAUSTIVE=full.
template <typename F>
void explore_in_full(const NackCase& c, F&& f) {
  if (full()) {
    f(c);
  } else {
    ++LeftOut::count;
  }
}

// Both kinds of receivers that keep early packets.
template <typename F>
void for_both(NackCase c, F&& f) {
  for (const Renack renack : {Renack::lazy, Renack::eager}) {
    c.renack = renack;
    f(c);
  }
}

// Calls holds(case) for the variants of a case of each size, and of each larger size only in a full run.
// @param variants  variants(case of a size, f) calls f with each
template <typename Variants, typename F>
void in_sizes(const std::vector<Size>& sizes, const std::vector<Size>& larger, Guard guard, Variants&& variants,
              F&& holds) {
  const auto each = [&](const std::vector<Size>& of, auto&& f) {
    for (const Size& s : of) variants(NackCase{NackCheck::gap, Renack::lazy, s.paths, s.packets, s.losses, guard}, f);
  };
  each(sizes, holds);
  each(larger, [&](const NackCase& c) { explore_in_full(c, holds); });
}

// The sender sees no false NACK, and where the guard waits long enough, no loss is hidden.
NackFindings expect_no_false_nack_nor_hidden_loss(const NackCase& c) {
  NackFindings found = explore(c);
  EXPECT_EQ(found.false_nacks, 0u) << found.false_example;
  EXPECT_TRUE(c.guard == Guard::off || found.missed == 0) << found.missed_example;
  return found;
}

// Besides, nothing is repeated in vain but for a NACK that came twice.
void expect_nothing_in_vain(const NackCase& c) {
  const NackFindings found = expect_no_false_nack_nor_hidden_loss(c);
  EXPECT_TRUE(c.copies != 0 || found.in_vain == 0);
}

template <typename F>
void for_each_case(NackCheck check, Guard guard, F&& f) {
  const auto each = [&](const std::vector<Size>& sizes, auto&& what) {
    for (const Size& s : sizes) for_both({check, Renack::lazy, s.paths, s.packets, s.losses, guard}, what);
  };
  if (mutant()) return each({{2, 4, 1}}, f);
  if (check == NackCheck::gap && guard != Guard::early) return each(kLarge, f);
  if (!full()) each({{2, 4, 2}, {2, 5, 1}, {3, 4, 2}, {4, 5, 0}, {4, 4, 1}}, f);
  each(kLarge, [&](const NackCase& c) {
    const bool largest = c.paths == 4 && c.losses == 2, early = check != NackCheck::gap && guard == Guard::early;
    early && (largest || (c.paths > 2 && c.renack == Renack::eager))
        ? static_cast<void>(std::printf("%s: not run, it has up to tens of millions of states\n", name(c).c_str()))
        : explore_in_full(c, f);
  });
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
    const auto with_path_down = [](NackCase c, auto&& f) {
      c.path_down = true;
      for_both(c, f);
    };
    in_sizes({{2, 5, 1}, {3, 6, 0}, {3, 5, 1}}, kLarge, guard, with_path_down, expect_no_false_nack_nor_hidden_loss);
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
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    const auto with_a_copy = [](NackCase c, auto&& f) {
      c.copies = 1;
      for_both(c, f);
    };
    in_sizes({{2, 4, 1}, {2, 5, 1}, {2, 4, 2}, {3, 5, 1}, {4, 5, 1}}, {{2, 6, 2}, {3, 6, 2}}, guard, with_a_copy,
             expect_no_false_nack_nor_hidden_loss);
  }
}

struct Read {
  Size size;
  std::uint32_t psns, copies;
};
const std::vector<Read> kReads{{{2, 4, 1}, 3, 0}, {{2, 4, 2}, 2, 0}, {{3, 4, 1}, 2, 0}, {{2, 3, 1}, 4, 1}};
const std::vector<Read> kLargeReads{{{2, 5, 1}, 3, 0}, {{3, 5, 1}, 3, 1}, {{3, 5, 2}, 3, 0}, {{4, 5, 1}, 3, 0}};

// @param spans  whether the ToR knows how many PSNs a READ takes
void explore_reads(Guard guard, bool spans) {
  const auto each = [&](const std::vector<Read>& reads, auto&& what) {
    for (const Read& read : reads) {
      NackCase c{NackCheck::gap, Renack::lazy, read.size.paths, read.size.packets, read.size.losses, guard};
      c.read = read.psns;
      c.copies = read.copies;
      c.guessed_spans = !spans;
      for_both(c, what);
    }
  };
  each(kReads, expect_nothing_in_vain);
  each(kLargeReads, [](const NackCase& c) { explore_in_full(c, expect_nothing_in_vain); });
}

TEST(NackFilterExhaustive, ReadsAmongTheRequestsBringNoFalseNackAndHideNoLoss) {
  if (mutant()) GTEST_SKIP();
  for (const Guard guard : {Guard::off, Guard::bounded}) explore_reads(guard, true);
}

// As the stage does until it knows the path MTU.
TEST(NackFilterExhaustive, ReadsWhoseSpanIsGuessedTooLowBringNoFalseNackAndHideNoLoss) {
  if (mutant()) GTEST_SKIP();
  for (const Guard guard : {Guard::off, Guard::bounded}) explore_reads(guard, false);
}

// With `on_block: ack`.
TEST(NackFilterExhaustive, BlockedNacksThatGoOnAsAcksTellTheSenderNothingThatIsNotSo) {
  if (mutant()) GTEST_SKIP();
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    const auto as_acks = [](NackCase c, auto&& f) {
      c.blocked_as_acks = true;
      for_both(c, f);
      NackCase copies = c, sprayed = c, read = c;
      copies.copies = 1;
      sprayed.any_order_back = true;
      read.packets = c.packets - 1;
      read.read = 2;
      for (const NackCase& other : {copies, sprayed, read}) for_both(other, f);
    };
    in_sizes({{2, 4, 2}, {3, 5, 1}}, {{2, 6, 2}, {3, 6, 1}, {4, 6, 1}}, guard, as_acks, expect_nothing_in_vain);
  }
  NackCase wrong{NackCheck::gap, Renack::lazy, 2, 4, 1};
  wrong.blocked_as_acks = wrong.acks_too_far = true;
  EXPECT_GT(NackExplorer(wrong).run().false_acks, 0u);
}

TEST(NackFilterExhaustive, WherePsnsWrapMakesNoDifferenceToTheClaims) {
  if (mutant()) GTEST_SKIP();
  for (const std::uint32_t first : {0u, 100u, 0xfffffau, 0xfffffeu, 0xffffffu}) {
    const auto from_first = [first](NackCase c, auto&& f) {
      c.first = wire::Psn(first);
      for_both(c, f);
    };
    in_sizes({{2, 5, 1}, {3, 5, 1}}, {{2, 6, 2}, {3, 6, 2}, {4, 6, 1}}, Guard::bounded, from_first,
             expect_no_false_nack_nor_hidden_loss);
  }
}

// One sign is enough here, where only a loss on the last hop could make one that is wrong, and there are none.
TEST(NackFilterExhaustive, AReceiverThatKeepsEarlyPacketsNeverShowsASignThatItDoesNot) {
  if (mutant()) GTEST_SKIP();
  std::uint64_t keeps_among_reads = 0;
  const auto holds = [&](const NackCase& c) {
    const NackFindings found = explore(c);
    EXPECT_EQ(found.in_order, 0u);
    EXPECT_TRUE(c.read != 0 || found.keeps != 0);
    if (c.read != 0) keeps_among_reads += found.keeps;
  };
  for (const Guard guard : {Guard::off, Guard::bounded}) {
    const auto with_one_sign = [](NackCase c, auto&& f) {
      c.gbn_proofs = 1;
      c.last_hop_losses = false;
      for_both(c, f);
      c.packets -= 2;
      c.read = 3;
      c.guessed_spans = true;
      for_both(c, f);
    };
    in_sizes({{2, 5, 1}, {2, 4, 2}, {3, 5, 1}}, kLarge, guard, with_one_sign, holds);
  }
  EXPECT_GT(keeps_among_reads, 0u);
}

TEST(NackFilterExhaustive, AReceiverThatKeepsNothingIsFoundAndNeverShowsASignThatItKeeps) {
  if (mutant()) GTEST_SKIP();
  const auto holds = [&](const NackCase& c) {
    const NackFindings found = explore(c);
    EXPECT_GT(found.in_order, 0u);
    EXPECT_EQ(found.keeps, 0u);
  };
  const auto of_gbn = [](NackCase c, auto&& f) {
    c.recovery = nic::LossRecovery::gbn;
    c.gbn_proofs = 1;
    f(c);
    c.packets -= 1;
    c.read = 2;
    c.guessed_spans = true;
    f(c);
  };
  in_sizes({{2, 4, 0}, {3, 4, 0}}, {{2, 5, 0}, {2, 4, 1}, {3, 5, 0}}, Guard::bounded, of_gbn, holds);
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
