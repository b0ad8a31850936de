// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Everything that can happen in small cases: see explorer.h. Two ranks at one switch with every kind of
// fault, and Tree-3-2; the PSNs of every channel wrap in the middle. WEFT_EXHAUSTIVE=full adds the largest.
// The numbers of states are pinned in exhaustive_counts*.h: another one means that the engine, the RNIC or the explorer
// does something else than before. A case that has no line there fails, and prints it: so may a full run on a machine
// that explores more cases in WEFT_EXHAUSTIVE_MINUTES than had been explored when the lines were written.
// With WEFT_EXPECT_VIOLATION the engine is a mutant, in which something must be found.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <regex>

#include "tests/collectives/engine/explorer.h"

namespace weft::inc {
namespace {

using testing::Explorer;
using testing::ExplorerCase;

bool full() {
  const char* wish = std::getenv("WEFT_EXHAUSTIVE");
  return wish != nullptr && std::string(wish) == "full";
}
bool mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION") != nullptr;
}
/// Part of a state is missing in its hash, which the comparison with exact states must notice.
bool hash_mutant() {
  return std::getenv("WEFT_EXPECT_HASH_HOLE") != nullptr;
}

const std::vector<ExplorerCase> kPrograms{
    {"barrier", {{Primitive::barrier, 0}}},
    {"allreduce", {{Primitive::allreduce, 2}}},
    {"reduce", {{Primitive::reduce, 2, 1}}},
    {"broadcast", {{Primitive::broadcast, 2, 1}}},
    {"reduce, allreduce", {{Primitive::reduce, 2, 1}, {Primitive::allreduce, 2}}},
    {"broadcast, allreduce", {{Primitive::broadcast, 2, 1}, {Primitive::allreduce, 2}}},
    {"reduce to another root", {{Primitive::reduce, 2, 0}, {Primitive::reduce, 2, 1}}},
};

/// How a group is run. Mode I has messages of two packets, and of one behind them.
struct Way {
  Mode mode{};
  Acks acks = Acks::room;
  Duplicates answers = Duplicates::cache;

  void set(ExplorerCase& c) const {
    c.mode = mode;
    c.acks = acks;
    c.answers = answers;
    c.message_packets = mode == Mode::i ? 2 : 1;
    for (testing::Step& step : c.program) step.packets = step.packets == 0 ? 0 : c.message_packets + 1;
  }
};
constexpr Way kWays[] = {{Mode::i}, {Mode::ii}, {Mode::iii}, {Mode::iii, Acks::arrival}};

std::string name_of(const ExplorerCase& c) {
  std::string name =
      c.name + (c.mode == Mode::ii ? "" : ", " + std::string(weft::inc::name(c.mode))) + (c.tree ? ", tree" : "");
  if (c.losses != 0) name += ", " + std::to_string(c.losses) + " lost";
  if (c.duplicates != 0) name += ", " + std::to_string(c.duplicates) + " double";
  if (c.overtakes != 0) name += ", " + std::to_string(c.overtakes) + " overtaking";
  if (c.early_timeouts != 0) name += ", " + std::to_string(c.early_timeouts) + " too early";
  if (c.any_order) name += ", any order";
  if (c.rnr_acks) name += ", RNR ACKs";
  if (c.adaptive_timeouts) name += ", adaptive";
  if (c.acks == Acks::arrival) name += ", acks on arrival";
  return name + (c.answers == Duplicates::reforward ? ", reforward" : "");
}

// States by case.
const std::map<std::string, std::uint64_t> kStates{
#include "tests/collectives/engine/exhaustive_counts.h"
#include "tests/collectives/engine/exhaustive_counts_full.h"
};

using Clock = std::chrono::steady_clock;

/// A bound of a full run; without one there is none.
double bound(const char* variable) {
  const char* wish = full() ? std::getenv(variable) : nullptr;
  return wish == nullptr ? 1e18 : std::strtod(wish, nullptr);
}
const Clock::time_point kBegin = Clock::now();
const double kMinutes = bound("WEFT_EXHAUSTIVE_MINUTES"), kMostStates = bound("WEFT_EXHAUSTIVE_STATES");

bool wanted(const std::string& name) {
  const char* wish = std::getenv("WEFT_EXHAUSTIVE_CASES");
  return wish == nullptr || std::regex_match(name, std::regex(wish));
}

/// Bytes that are allocated.
std::size_t memory_in_use() {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

/// True when something was found.
bool explore(ExplorerCase c) {
  const std::string name = name_of(c);
  if (!wanted(name)) return false;
  const auto begin = Clock::now();
  if (begin - kBegin > std::chrono::duration<double, std::ratio<60>>(kMinutes)) {
    std::printf("%s: not run\n", name.c_str());
    return false;
  }
  c.most_states = static_cast<std::uint64_t>(kMostStates);
  const std::size_t before = memory_in_use();
  Explorer e(c);
  const auto violation = e.run();
  const std::size_t memory = memory_in_use() - before;
  if (mutant()) return violation.has_value();
  const std::chrono::duration<double> took = Clock::now() - begin;
  EXPECT_EQ(violation.value_or(""), "");
  if (e.cut_short()) {
    std::printf("%s: not run to the end, which is beyond %.0f million states\n", name.c_str(), kMostStates / 1e6);
    static_cast<void>(std::fflush(stdout));
    return false;
  }
  std::printf("%-46s %8llu states by %u %9llu transitions, diameter %3u, copies %llu, %.1f s, %.1f MB\n", name.c_str(),
              static_cast<unsigned long long>(e.states()), e.renamings(),
              static_cast<unsigned long long>(e.transitions()), e.diameter(),
              static_cast<unsigned long long>(e.copies()), took.count(), static_cast<double>(memory) / 1e6);
  static_cast<void>(std::fflush(stdout));
  const auto pinned = kStates.find(name);
  if (pinned == kStates.end()) {
    ADD_FAILURE() << "exhaustive_counts.h or exhaustive_counts_full.h has no line {\"" << name << "\", " << e.states()
                  << "},";
  } else {
    EXPECT_EQ(e.states(), pinned->second) << name;
  }
  // Two states that share a hash are taken for one. Other hashes would take others.
  if (e.states() > (full() ? 5'000'000u : 20'000u)) return false;
  ExplorerCase other = c;
  other.seed = 0x5eed;
  Explorer again(other);
  EXPECT_EQ(again.run().value_or(""), "");
  EXPECT_EQ(again.states(), e.states()) << name;
  return false;
}

using Fault = std::uint8_t ExplorerCase::*;
constexpr Fault kFaults[] = {&ExplorerCase::losses, &ExplorerCase::duplicates, &ExplorerCase::overtakes};

/// Every program at one switch with no fault, and with one of each kind; `both` adds a loss together with a duplicate.
bool explore_star(const Way& way, bool both) {
  bool found = false;
  for (ExplorerCase c : kPrograms) {
    way.set(c);
    found |= explore(c);
    for (const Fault fault : kFaults) {
      c.*fault = 1;
      found |= explore(c);
      c.*fault = 0;
    }
    c.losses = c.duplicates = 1;
    if (both) found |= explore(c);
  }
  return found;
}

/// Every program in the tree.
bool explore_tree(const Way& way) {
  bool found = false;
  for (ExplorerCase c : kPrograms) {
    way.set(c);
    c.tree = true;
    const bool large = (way.acks == Acks::arrival || way.mode == Mode::i) && c.name.ends_with("allreduce");
    if (!large || full()) found |= explore(c);
  }
  return found;
}

TEST(IncExhaustive, NothingGoesWrong) {
  if (hash_mutant()) GTEST_SKIP();
  bool found = explore_star({Mode::ii, Acks::room, Duplicates::reforward}, false);
  for (const Way& way : kWays) found |= explore_star(way, true);
  for (const Way& way : kWays) found |= (!found || !mutant()) && explore_tree(way);
  EXPECT_EQ(found, mutant());
}

/// Whether states with one hash go on differently.
bool compare_with_exact(ExplorerCase c) {
  c.every_order = true;
  c.losses = 1;
  c.duplicates = c.program.size() == 1 && c.name != "allreduce" ? 1 : 0;
  std::uint64_t exact = 0;
  const auto hole = Explorer(c, true).compare(exact);
  if (hash_mutant()) return hole.has_value();
  EXPECT_EQ(hole.value_or(""), "");
  Explorer quick(c);
  EXPECT_EQ(quick.run(), std::nullopt);
  EXPECT_GE(exact, quick.states());
  std::printf("%-46s %8llu states by hash, %8llu by all members\n", name_of(c).c_str(),
              static_cast<unsigned long long>(quick.states()), static_cast<unsigned long long>(exact));
  return hole.has_value();
}

TEST(IncExhaustive, TheHashTellsApartWhatGoesOnDifferently) {
  if (mutant()) GTEST_SKIP();
  bool found = false;
  for (ExplorerCase c : kPrograms) {
    for (const Way& way : kWays) {
      way.set(c);
      found |= compare_with_exact(c);
      c.adaptive_timeouts = true;
      if (way.mode != Mode::ii) found |= compare_with_exact(c);
      c.adaptive_timeouts = false;
    }
  }
  EXPECT_EQ(found, hash_mutant());
}

// What the reduction leaves out is other ways to the same states, in which nothing is under way.
TEST(IncExhaustive, TheReductionLeavesNoEndOut) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
      for (int faults = 0; faults < 5; ++faults) {
        ExplorerCase c = program;
        Way{mode}.set(c);
        c.tree = faults == 0 && (c.name == "barrier" || c.name == "reduce");
        c.losses = faults == 1 || faults == 4 ? 1 : 0;
        c.duplicates = faults == 2 || faults == 4 ? 1 : 0;
        c.overtakes = faults == 3 ? 1 : 0;
        Explorer reduced(c);
        EXPECT_EQ(reduced.run(), std::nullopt);
        c.every_order = c.every_image = true;
        Explorer whole(c);
        EXPECT_EQ(whole.run(), std::nullopt);
        EXPECT_EQ(reduced.quiet(), whole.quiet()) << name_of(c);
        EXPECT_LE(reduced.states(), whole.states());
      }
    }
  }
}

/// Of the states that there are without the symmetry, every image is one, and each orbit has been met once with it.
void check_orbits(ExplorerCase c) {
  c.every_order = c.listed = true;
  Explorer symmetric(c);
  EXPECT_EQ(symmetric.run(), std::nullopt);
  c.every_image = true;
  Explorer whole(c);
  EXPECT_EQ(whole.run(), std::nullopt);
  EXPECT_EQ(whole.images(), whole.listed()) << name_of(c);
  EXPECT_EQ(symmetric.orbits(), whole.orbits()) << name_of(c);
  EXPECT_EQ(symmetric.states(), whole.orbits().size()) << name_of(c);
  EXPECT_EQ(symmetric.with_images(), whole.states()) << name_of(c);
  const bool any_root = c.name == "barrier" || c.name == "allreduce";
  EXPECT_EQ(symmetric.renamings(), c.tree ? (any_root ? 8u : 2u) : (any_root ? 2u : 1u)) << name_of(c);
  std::printf("%-46s %8llu orbits of %8llu states\n", name_of(c).c_str(),
              static_cast<unsigned long long>(symmetric.states()), static_cast<unsigned long long>(whole.states()));
}

TEST(IncExhaustive, TheSymmetryMeetsEachOrbitOnce) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Way& way : kWays) {
      ExplorerCase c = program;
      way.set(c);
      check_orbits(c);
      for (const Fault fault : kFaults) {
        c.*fault = 1;
        check_orbits(c);
        c.*fault = 0;
      }
      c.tree = true;
      if (c.program.size() == 1 && c.name != "allreduce") check_orbits(c);
      c.losses = 1;
      if (c.name == "barrier") check_orbits(c);
    }
  }
}

TEST(IncExhaustive, NothingGoesWrongInATreeWithAFault) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
      for (const Fault fault : kFaults) {
        ExplorerCase c = program;
        Way{mode}.set(c);
        c.tree = true;
        c.*fault = 1;
        // Each takes a few seconds.
        const bool two = c.program.size() == 2,
                   large = mode == Mode::i ? two || c.name == "allreduce"
                                           : c.name.ends_with(", allreduce") && (mode == Mode::iii || c.losses != 0);
        if (!large || full()) explore(c);
        c.answers = Duplicates::reforward;
        if (mode == Mode::ii && (full() || (c.losses == 0 && !large))) explore(c);
        c.answers = Duplicates::cache;
        // These take minutes; AllReduce alone with a packet that overtakes has 22 million states.
        c.acks = Acks::arrival;
        if (mode != Mode::iii || !full()) continue;
        const bool too_large = c.name.ends_with(", allreduce") && c.overtakes != 0;
        too_large ? static_cast<void>(std::printf("%s: not run\n", name_of(c).c_str())) : static_cast<void>(explore(c));
      }
    }
  }
}

/// One case with no fault, and with each of these.
bool explore_with(ExplorerCase c, std::initializer_list<Fault> faults) {
  bool found = explore(c);
  for (const Fault fault : faults) {
    c.*fault = 1;
    found |= explore(c);
    c.*fault = 0;
  }
  return found;
}

// In any order there are far more states: of Mode II and of a Reduce with three packets, of the others with two.
TEST(IncExhaustive, NothingGoesWrongWhenPacketsArriveInAnyOrder) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Way& way : kWays) {
      ExplorerCase c = program;
      way.set(c);
      c.any_order = true;
      const bool reduces = c.name == "reduce" || c.name == "reduce to another root";
      for (testing::Step& step : c.program) {
        if (way.mode != Mode::ii && !reduces) step.packets = std::min(step.packets, 1u);
      }
      const bool large = way.mode != Mode::ii && c.program.size() == 2;
      explore_with(c, {&ExplorerCase::losses});
      c.duplicates = 1;
      if (!large || full()) explore(c);
      c.losses = 1;
      if (way.mode == Mode::ii) explore(c);
      c.losses = c.duplicates = 0;
      c.tree = true;
      if (c.name == "barrier" ? way.mode == Mode::iii : way.mode == Mode::ii) explore(c);
      if (full()) explore_with(c, {&ExplorerCase::losses});
    }
  }
}

TEST(IncExhaustive, NothingGoesWrongWhenTimersExpireTooEarly) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Way& way : kWays) {
      ExplorerCase c = program;
      way.set(c);
      c.early_timeouts = 2;
      explore(c);
      c.early_timeouts = 1;
      explore_with(c, {&ExplorerCase::losses, &ExplorerCase::duplicates, &ExplorerCase::overtakes});
      c.tree = true;
      if ((c.name == "barrier" && way.mode != Mode::ii) || full()) explore(c);
    }
  }
}

// An ACK in front of an RNR NAK brings no requester of ours on, so the other cases do without.
TEST(IncExhaustive, NothingGoesWrongWithAnAckInFrontOfEachRnrNak) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Way& way : kWays) {
      ExplorerCase c = program;
      way.set(c);
      c.rnr_acks = true;
      explore_with(c, {&ExplorerCase::losses, &ExplorerCase::duplicates, &ExplorerCase::overtakes});
    }
  }
}

// Round trips take as long as what was lost, or nothing: each measurement is another state, so few cases have them.
TEST(IncExhaustive, NothingGoesWrongWithAdaptiveTimeouts) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Way& way : kWays) {
      if (way.mode == Mode::ii) continue;
      ExplorerCase c = program;
      way.set(c);
      c.adaptive_timeouts = true;
      explore_with(c, {&ExplorerCase::losses, &ExplorerCase::duplicates, &ExplorerCase::overtakes});
      c.early_timeouts = 1;
      explore_with(c, {&ExplorerCase::losses});
    }
  }
}

TEST(IncExhaustive, NothingGoesWrongInATreeWithTwoFaults) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
      ExplorerCase c = program;
      Way{mode}.set(c);
      c.tree = true;
      for (const Fault second : {&ExplorerCase::losses, &ExplorerCase::duplicates}) {
        c.losses = 1;
        c.duplicates = 0;
        ++(c.*second);
        const bool adds_all = c.name.ends_with("allreduce");
        if (adds_all && mode != Mode::ii) {
          std::printf("%s: not run\n", name_of(c).c_str());
        } else if (full() || (!adds_all && mode != Mode::i) || c.name == "barrier") {
          explore(c);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::inc
