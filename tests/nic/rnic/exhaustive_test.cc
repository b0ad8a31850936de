// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every order of a few messages, see explorer.h. WEFT_EXHAUSTIVE=full takes the largest cases of go-back-N too, which
// take a minute or two.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "tests/nic/rnic/explorer.h"

namespace weft::nic {
namespace {

using testing::Comparison;
using testing::Explorer;
using testing::kMtu;
using testing::Receives;
using testing::Scenario;

using Mode = std::tuple<LossRecovery, Renack>;
constexpr Mode kModes[] = {{LossRecovery::gbn, Renack::lazy},
                           {LossRecovery::nic_sr, Renack::lazy},
                           {LossRecovery::nic_sr, Renack::eager},
                           {LossRecovery::irn, Renack::lazy},
                           {LossRecovery::ideal, Renack::lazy}};

/// A scenario, and how many states it has in each of kModes; 0: it is not for this mode. A count that changes means
/// that the transport or the explorer has become another one: look at why before writing the new count down.
struct Case {
  Scenario scenario;
  std::array<std::uint64_t, std::size(kModes)> states;
  bool large_gbn =
      false;  ///< go-back-N answers each reordering with up to four packets: only with WEFT_EXHAUSTIVE=full
};

std::vector<Case> cases() {
  const auto send = WrOpcode::send, write = WrOpcode::write, read = WrOpcode::read, add = WrOpcode::fetch_add;
  const auto imm = WrOpcode::write_imm;
  return {
      {{.name = "a SEND of four packets", .messages = {{send, 4 * kMtu - 100}}}, {544598, 15233, 42768, 155236, 3668}},
      {{.name = "WRITEs of one packet and three", .messages = {{write, 10}, {write, 3 * kMtu}}},
       {965424, 13652, 39293, 121429, 3566}},
      {{.name = "SEND, WRITE with immediate, empty SEND", .messages = {{send, 5}, {imm, 2 * kMtu}, {send, 0}}},
       {1260657, 13984, 35496, 88087, 3814},
       true},
      {{.name = "a READ between SENDs", .messages = {{send, 8}, {read, 2 * kMtu}, {send, 8}}},
       {3262020, 71765, 154815, 380414, 38185},
       true},
      {{.name = "atomics around a WRITE", .messages = {{add, 8}, {write, 8}, {add, 8}}},
       {47418, 7289, 11387, 34258, 4447}},
      {{.name = "a SEND before its receive is posted",
        .messages = {{send, 2 * kMtu}, {write, 4}},
        .losses = 1,
        .receives = Receives::after_rnr},
       {13002, 1546, 2064, 3455, 464}},
      {{.name = "receives posted at any time, credits",
        .messages = {{send, 2 * kMtu}, {send, 4}, {write, 4}},
        .losses = 1,
        .early_timeouts = 1,
        .receives = Receives::at_any_time,
        .credits = true},
       {399999, 61559, 71828, 172572, 22549}},
      // A packet that had come early is thrown away when no receive is there for it, and the RNR NAK that says so is
      // lost.
      {{.name = "three SENDs, receives posted at any time",
        .messages = {{send, 4}, {send, 4}, {send, 4}},
        .losses = 1,
        .duplicates = 0,
        .receives = Receives::at_any_time},
       {13922, 1397, 2320, 4181, 440}},
      {{.name = "three SENDs, credits", .messages = {{send, kMtu}, {send, 4}, {send, kMtu}}, .credits = true},
       {1528, 665, 665, 786, 497}},
      {{.name = "a SEND of three packets, a timeout too early",
        .messages = {{send, 3 * kMtu}},
        .losses = 1,
        .early_timeouts = 1},
       {99868, 19614, 28795, 131325, 3615}},
      {{.name = "a READ and a SEND, a timeout too early",
        .messages = {{read, 2 * kMtu}, {send, 8}},
        .losses = 1,
        .early_timeouts = 1},
       {628604, 191621, 191621, 428574, 74561}},
      {{.name = "two atomics, a timeout too early", .messages = {{add, 8}, {add, 8}}, .losses = 1, .early_timeouts = 1},
       {5537, 3637, 3637, 8535, 2042}},
      // IRN's responder repeats a NACK when some time has passed.
      {{.name = "a SEND of four packets, repeated NACKs", .messages = {{send, 4 * kMtu}}, .losses = 1, .pauses = 1},
       {0, 0, 0, 453578, 0}},
      // Reordering alone, which selective repeat must survive without a timeout.
      {{.name = "a SEND of four packets, no loss", .messages = {{send, 4 * kMtu}}, .losses = 0},
       {0, 3318, 11452, 40658, 133}},
      {{.name = "three messages, no loss", .messages = {{write, kMtu}, {send, kMtu}, {write, 8}}, .losses = 0},
       {0, 515, 728, 1013, 159}},
  };
}

QpConfig settings(LossRecovery recovery, Renack renack) {
  QpConfig c;
  c.path_mtu = kMtu;
  c.loss_recovery = recovery;
  c.renack = renack;
  c.reorder_window = 8;
  c.rto_ns = 1 * kMs;
  c.min_rnr_timer = 1;
  c.send_queue_depth = 4;
  c.receive_queue_depth = 4;
  c.max_rd_atomic = c.max_dest_rd_atomic = 2;
  return c;
}

bool full() {
  const char* wish = std::getenv("WEFT_EXHAUSTIVE");
  return wish != nullptr && std::string(wish) == "full";
}

/// A build in which one condition of the transport is wrong says by this variable in which mode it must be caught.
const char* mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION");
}

/// The same for a build whose hash of states leaves something out: the comparison with exact states must notice, or the
/// number of states of a case of no more than this many.
constexpr std::uint64_t kHashMutantStates = 60'000;
bool hash_mutant() {
  return std::getenv("WEFT_EXPECT_HASH_HOLE") != nullptr;
}

/// The first case in which a build with such a hole finds another number of states; empty when there is none.
std::string other_count() {
  for (std::size_t mode = 0; mode < std::size(kModes); ++mode) {
    const auto [recovery, renack] = kModes[mode];
    for (const Case& c : cases()) {
      if (c.states[mode] == 0 || c.states[mode] > kHashMutantStates) continue;
      Explorer explorer(settings(recovery, renack), c.scenario);
      const auto violation = explorer.run();
      if (violation) return *violation;
      if (explorer.states() != c.states[mode]) {
        return c.scenario.name + ": " + std::to_string(explorer.states()) + " states, not " +
               std::to_string(c.states[mode]);
      }
    }
  }
  return "";
}

TEST(Exhaustive, EveryOrderOfLossesAndDuplicatesEndsWithEveryByteOnce) {
  if (hash_mutant()) GTEST_SKIP() << "this build has a mistake built into the hash";
  for (std::size_t mode = 0; mode < std::size(kModes); ++mode) {
    const auto [recovery, renack] = kModes[mode];
    if (mutant() != nullptr && name(recovery) != mutant()) continue;
    for (const Case& c : cases()) {
      if (c.states[mode] == 0 || (c.large_gbn && recovery == LossRecovery::gbn && !full())) continue;
      Explorer explorer(settings(recovery, renack), c.scenario);
      const auto violation = explorer.run();
      std::printf("%-7s %-6s %-44s %9llu states %10llu transitions\n", std::string(name(recovery)).c_str(),
                  std::string(name(renack)).c_str(), c.scenario.name.c_str(),
                  static_cast<unsigned long long>(explorer.states()),
                  static_cast<unsigned long long>(explorer.transitions()));
      static_cast<void>(std::fflush(stdout));
      if (violation && mutant() != nullptr) {
        std::printf("caught: %s\n", violation->c_str());
        return;
      }
      if (mutant() != nullptr) continue;
      EXPECT_EQ(violation.value_or(""), "") << name(recovery) << ' ' << name(renack);
      EXPECT_EQ(explorer.states(), c.states[mode]) << c.scenario.name << ", " << name(recovery) << ' ' << name(renack);
    }
  }
  EXPECT_EQ(mutant(), nullptr) << "the mutant was not caught";
}

/// The hash of a state leaves nothing out that decides how it goes on: see Explorer::compare().
TEST(Exhaustive, StatesOfTheSameHashGoOnInTheSameWay) {
  if (mutant() != nullptr) GTEST_SKIP() << "this build has a mistake built in";
  const auto send = WrOpcode::send, read = WrOpcode::read, add = WrOpcode::fetch_add;
  const std::vector<Scenario> small = {
      {.name = "a SEND of two packets", .messages = {{send, 2 * kMtu}}, .losses = 1},
      {.name = "a SEND of two packets, a timeout too early",
       .messages = {{send, 2 * kMtu}},
       .losses = 1,
       .duplicates = 0,
       .early_timeouts = 1},
      {.name = "a READ of two packets", .messages = {{read, 2 * kMtu}}, .losses = 1},
      {.name = "two atomics", .messages = {{add, 8}, {add, 8}}, .losses = 1},
  };
  for (const auto& [recovery, renack] : kModes) {
    for (const Scenario& scenario : small) {
      const Comparison found = Explorer(settings(recovery, renack), scenario).compare();
      if (hash_mutant()) {
        if (!found.difference) continue;
        std::printf("caught: %s\n", found.difference->c_str());
        return;
      }
      Explorer by_hash(settings(recovery, renack), scenario);
      EXPECT_EQ(by_hash.run().value_or(""), "");
      EXPECT_EQ(found.difference.value_or(""), "") << name(recovery) << ' ' << name(renack);
      EXPECT_EQ(found.classes, by_hash.states()) << scenario.name << ", " << name(recovery) << ' ' << name(renack);
      EXPECT_GT(found.exact, found.classes) << "the comparison has compared nothing";
    }
  }
  if (!hash_mutant()) return;
  const std::string noticed = other_count();
  EXPECT_NE(noticed, "") << "the mistake in the hash was not noticed";
  std::printf("caught: %s\n", noticed.c_str());
}

}  // namespace
}  // namespace weft::nic
