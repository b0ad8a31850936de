// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Groups whose memory of switches is other groups', too: they ask for it in front of each collective.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "tests/collectives/comm/world.h"

namespace weft::inc::comm::testing {
namespace {

using State = Group::State;
using Requests = std::vector<std::shared_ptr<Request>>;

constexpr std::uint32_t kSharers = 4, kElements = 300;

/// A group that has its switches, and takes turns.
class Sharers : public World {
 public:
  explicit Sharers(std::uint64_t seed) : World(seed, kSharers, settings(), true) {
    connect(false);
    EXPECT_TRUE(run([&] { return groups[0]->state() == State::asking; }));
    auto made = created();
    made.turns = true;
    groups[0]->on_daemon(made);
    EXPECT_TRUE(run([&] { return told[1].size() > 0; }));
    run([] { return false; });
    for (std::uint32_t r = 1; r < kSharers; ++r) groups[r]->on_daemon(GroupHeld{7, 42, true});
    EXPECT_TRUE(run_to(State::ready));
  }
  static GroupSettings settings() {
    GroupSettings s;
    s.shape = {256, 2, 4};
    return s;
  }

  /// Number `n` of the program's collectives.
  Requests post_all(std::uint32_t n) {
    auto& to = out.emplace_back(kSharers, std::vector<std::int32_t>(kElements));
    auto& from = in.emplace_back(kSharers);
    Requests all;
    for (std::uint32_t r = 0; r < kSharers; ++r) {
      from[r].assign(kElements, static_cast<std::int32_t>(n * 100 + r));
      all.push_back(groups[r]->post(
          {collective(n), from[r].data(), to[r].data(), kElements, DataType::int32, Op::sum, n % kSharers}));
    }
    return all;
  }
  static Collective collective(std::uint32_t n) { return n % 3 == 1 ? Collective::reduce : Collective::allreduce; }
  void expect_result(std::uint32_t n) const {
    const auto sum = static_cast<std::int32_t>(kSharers * n * 100 + kSharers * (kSharers - 1) / 2);
    for (std::uint32_t r = 0; r < kSharers; ++r) {
      if (collective(n) == Collective::reduce && r != n % kSharers) continue;
      EXPECT_EQ(out[n][r], std::vector<std::int32_t>(kElements, sum)) << "rank " << r << ", number " << n;
    }
  }
  std::uint64_t calls(std::uint32_t r, weft_inc_reason reason) const { return groups[r]->info().calls[reason]; }

  std::deque<std::vector<std::vector<std::int32_t>>> in, out;  ///< by number, by rank
};

TEST(GroupTurns, SwitchesOrHostsRunEachCollectiveAndAllRanksAgreeWho) {
  constexpr std::uint32_t kCalls = 12;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Sharers s(seed);
    Rng draw(seed);
    std::map<std::uint16_t, bool> said;
    s.fabric.adder.refuses = [&](std::uint16_t sequence) {
      const auto [at, first] = said.try_emplace(sequence, false);
      if (first) at->second = draw.below(2) == 0;
      return at->second;
    };
    Requests all;
    for (std::uint32_t n = 0; n < kCalls; ++n) {
      for (auto& r : s.post_all(n)) all.push_back(std::move(r));
      // Some follow each other closely.
      if (draw.below(2) == 0) {
        ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed;
      }
    }
    ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed;
    for (const auto& r : all) EXPECT_EQ(r->error, "");
    for (std::uint32_t n = 0; n < kCalls; ++n) s.expect_result(n);
    const auto busy =
        static_cast<std::uint64_t>(std::count_if(said.begin(), said.end(), [](const auto& one) { return one.second; }));
    EXPECT_EQ(said.size(), kCalls) << "one question for each";
    for (std::uint32_t r = 0; r < kSharers; ++r) {
      EXPECT_EQ(s.calls(r, WEFT_INC_REASON_BUSY), busy);
      EXPECT_EQ(s.calls(r, WEFT_INC_REASON_NONE), kCalls - busy);
      EXPECT_EQ(s.groups[r]->info().reason, WEFT_INC_REASON_NONE);
    }
    // Each turn that came has been given back.
    std::uint64_t given = 0;
    for (std::size_t n = 0; n < s.fabric.adder.collectives(); ++n) {
      given += s.fabric.adder.collective(n).turn == Turn::give ? 1 : 0;
    }
    EXPECT_EQ(given, kCalls - busy);
  }
}

TEST(GroupTurns, SwitchesThatAreLostBetweenTurnsAreDoneWithout) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Sharers s(seed);
    s.fabric.adder.refuses = [](std::uint16_t sequence) { return sequence == 0; };
    // The first one is the hosts', and the second the switches'.
    for (const std::uint32_t n : {0u, 1u}) {
      const auto all = s.post_all(n);
      ASSERT_TRUE(s.run([&] { return all_over(all); }));
      s.expect_result(n);
    }
    s.fabric.lose_switches();
    for (auto& g : s.groups) g->on_daemon(GroupGone{7, 42});
    const auto all = s.post_all(2);
    ASSERT_TRUE(s.run([&] { return all_over(all); }));
    s.expect_result(2);
    for (std::uint32_t r = 0; r < kSharers; ++r) {
      EXPECT_EQ(all[r]->error, "");
      EXPECT_EQ(s.calls(r, WEFT_INC_REASON_LOST), 1u);
    }
  }
}

// Others may know that there is no turn, and be at work as hosts.
TEST(GroupTurns, WhoWaitsForATurnFailsWithoutSwitches) {
  Sharers s(1);
  Requests some{s.groups[0]->post({Collective::barrier, nullptr, nullptr, 0, DataType::int32, Op::sum, 0})};
  s.run([] { return false; });
  s.fabric.lose_switches();
  for (auto& g : s.groups) g->on_daemon(GroupGone{7, 42});
  ASSERT_TRUE(s.run([&] { return all_over(some); }));
  EXPECT_EQ(some[0]->state, Request::State::failed);
}

}  // namespace
}  // namespace weft::inc::comm::testing
