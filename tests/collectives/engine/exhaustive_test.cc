// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Everything that can happen in small cases of Mode II: see explorer.h. Two ranks at one switch with every kind of
// fault, and Tree-3-2; the PSNs of every channel wrap in the middle. WEFT_EXHAUSTIVE=full adds the largest.
// The numbers of states are pinned: another one means that the engine, the RNIC or the explorer does something else
// than before. With WEFT_EXPECT_VIOLATION the engine is a mutant, in which something must be found.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/collectives/engine/explorer.h"

namespace weft::inc {
namespace {

using testing::ExplorerCase;
using testing::ModeIIExplorer;

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

std::string name_of(const ExplorerCase& c) {
  std::string name = c.name + (c.tree ? ", tree" : "");
  if (c.losses != 0) name += ", " + std::to_string(c.losses) + " lost";
  if (c.duplicates != 0) name += ", " + std::to_string(c.duplicates) + " double";
  if (c.overtakes != 0) name += ", " + std::to_string(c.overtakes) + " overtaking";
  return name + (c.answers == Duplicates::reforward ? ", reforward" : "");
}

// States by case.
const std::map<std::string, std::uint64_t> kStates{
#include "tests/collectives/engine/exhaustive_counts.h"
};

/// True when something was found.
bool explore(const ExplorerCase& c) {
  ModeIIExplorer e(c);
  const auto violation = e.run();
  if (mutant()) return violation.has_value();
  const std::string name = name_of(c);
  EXPECT_EQ(violation.value_or(""), "");
  std::printf("%-46s %8llu states %9llu transitions, diameter %3u, copies %llu\n", name.c_str(),
              static_cast<unsigned long long>(e.states()), static_cast<unsigned long long>(e.transitions()),
              e.diameter(), static_cast<unsigned long long>(e.copies()));
  const auto pinned = kStates.find(name);
  if (pinned == kStates.end()) {
    EXPECT_TRUE(full()) << "exhaustive_counts.h has no line {\"" << name << "\", " << e.states() << "},";
  } else {
    EXPECT_EQ(e.states(), pinned->second) << name;
  }
  return false;
}

/// Every program with no fault, and with one of each kind; `both` adds a loss together with a duplicate.
bool explore_all(bool tree, Duplicates answers, bool faults, bool both) {
  bool found = false;
  for (ExplorerCase c : kPrograms) {
    c.tree = tree;
    c.answers = answers;
    found |= explore(c);
    if (!faults) continue;
    for (std::uint8_t ExplorerCase::*fault :
         {&ExplorerCase::losses, &ExplorerCase::duplicates, &ExplorerCase::overtakes}) {
      c.*fault = 1;
      found |= explore(c);
      c.*fault = 0;
    }
    c.losses = c.duplicates = 1;
    if (both) found |= explore(c);
  }
  return found;
}

TEST(ModeIIExhaustive, NothingGoesWrong) {
  if (hash_mutant()) GTEST_SKIP();
  bool found = explore_all(false, Duplicates::cache, true, true);
  found |= explore_all(false, Duplicates::reforward, true, false);
  if (!mutant() || !found) found |= explore_all(true, Duplicates::cache, false, false);
  EXPECT_EQ(found, mutant());
}

TEST(ModeIIExhaustive, TheHashTellsApartWhatGoesOnDifferently) {
  if (mutant()) GTEST_SKIP();
  bool found = false;
  for (ExplorerCase c : kPrograms) {
    c.losses = 1;
    c.duplicates = c.program.size() == 1 && c.name != "allreduce" ? 1 : 0;
    std::uint64_t exact = 0;
    const auto hole = ModeIIExplorer(c).compare(exact);
    found |= hole.has_value();
    if (hash_mutant()) continue;
    EXPECT_EQ(hole.value_or(""), "");
    ModeIIExplorer quick(c);
    EXPECT_EQ(quick.run(), std::nullopt);
    EXPECT_GE(exact, quick.states());
    std::printf("%-46s %8llu states by hash, %8llu by all members\n", name_of(c).c_str(),
                static_cast<unsigned long long>(quick.states()), static_cast<unsigned long long>(exact));
  }
  EXPECT_EQ(found, hash_mutant());
}

TEST(ModeIIExhaustive, NothingGoesWrongInATreeWithAFault) {
  if (mutant() || hash_mutant()) GTEST_SKIP();
  for (const ExplorerCase& program : kPrograms) {
    for (std::uint8_t ExplorerCase::*fault :
         {&ExplorerCase::losses, &ExplorerCase::duplicates, &ExplorerCase::overtakes}) {
      ExplorerCase c = program;
      c.tree = true;
      c.*fault = 1;
      // Half a minute each.
      const bool large = c.losses != 0 && c.name.ends_with(", allreduce");
      if (!large || full()) explore(c);
    }
  }
}

}  // namespace
}  // namespace weft::inc
