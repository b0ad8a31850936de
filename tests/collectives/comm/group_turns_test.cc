// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Groups whose memory of switches is other groups', too: they ask for it in front of each collective.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "tests/collectives/comm/sequence.h"
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

TEST(GroupTurns, TheManagerHearsOfTheRhythmAndAllRanksHearWhenToBegin) {
  GroupSettings settings = Sharers::settings();
  settings.rhythm = {400, 1000, 5};
  World w(1, 2, settings, true);
  w.connect(false);
  ASSERT_TRUE(w.run([&] { return w.groups[0]->state() == State::asking; }));
  EXPECT_EQ(std::get<CreateGroup>(w.told[0].back()).rhythm, settings.rhythm);
  auto made = w.created();
  made.turns = true;
  made.offset_ns = 400'000;
  w.groups[0]->on_daemon(made);
  ASSERT_TRUE(w.run([&] { return w.told[1].size() > 0; }));
  w.groups[1]->on_daemon(GroupHeld{7, 42, true});
  ASSERT_TRUE(w.run_to(State::ready));
  for (const auto& g : w.groups) {
    EXPECT_EQ(g->info().turns, 1);
    EXPECT_EQ(g->info().staggered, 1);
    EXPECT_EQ(g->info().offset_ns, 400'000u);
  }
  w.fabric.lose_switches();
  for (const auto& g : w.groups) g->on_daemon(GroupGone{7, 42});
  ASSERT_TRUE(w.run_to(State::ready));
  EXPECT_EQ(w.groups[1]->info().turns + w.groups[1]->info().staggered, 0) << "it has no switches";
}

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

TEST(GroupTurns, WhoWaitsForATurnGoesOnWithoutSwitches) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Sharers s(seed);
    const auto post = [&](std::uint32_t r) { return s.groups[r]->post({Collective::barrier, {}, {}, 0, {}, {}, 0}); };
    Requests all{post(0), post(2)};
    s.run([] { return false; });
    s.fabric.lose_switches();
    for (auto& g : s.groups) g->on_daemon(GroupGone{7, 42});
    s.run([] { return false; });
    EXPECT_FALSE(over(all[0])) << "not everybody has come";
    for (const std::uint32_t r : {1u, 3u}) all.push_back(post(r));
    ASSERT_TRUE(s.run([&] { return all_over(all); }));
    for (const auto& r : all) EXPECT_EQ(r->error, "");
    for (std::uint32_t r = 0; r < kSharers; ++r) EXPECT_EQ(s.calls(r, WEFT_INC_REASON_LOST), 1u);
  }
}

/// Of a large Reduce that had no turn, some ranks have long done their part when the root's host comes to its own.
TEST(GroupTurns, WhoIsThroughWithACollectiveOfHostsWaitsForThoseWhoAreNot) {
  constexpr std::uint32_t kLarge = 1 << 20, kRoot = 0, kLeaf = 3, kOthers = 0b1110;
  Sharers s(1);
  s.fabric.adder.refuses = [](std::uint16_t) { return true; };
  std::vector<std::int32_t> given[kSharers], sum(kLarge);
  Requests all;
  for (std::uint32_t r = 0; r < kSharers; ++r) {
    given[r].assign(kLarge, static_cast<std::int32_t>(r));
    all.push_back(
        s.groups[r]->post({Collective::reduce, given[r].data(), sum.data(), kLarge, DataType::int32, Op::sum, kRoot}));
  }
  ASSERT_TRUE(s.run([&] { return s.calls(kRoot, WEFT_INC_REASON_BUSY) == 1; }));
  s.run([&] { return over(all[kLeaf]); }, kOthers);
  const auto hear = [&](std::uint32_t r) { s.groups[r]->on_daemon(GroupGone{7, 42}); };
  s.fabric.lose_switches();
  for (std::uint32_t r = 0; r < kSharers; ++r) {
    if (r != kRoot) hear(r);
  }
  s.run([] { return false; }, kOthers);
  ASSERT_EQ(s.groups[kLeaf]->state(), State::recounting) << s.groups[kLeaf]->error();
  for (auto& g : s.groups) g->tick(8000 * nic::kMs);
  hear(kRoot);
  ASSERT_TRUE(s.run([&] { return all_over(all); })) << s.groups[kLeaf]->error();
  for (const auto& r : all) EXPECT_EQ(r->error, "");
  EXPECT_EQ(sum, std::vector<std::int32_t>(kLarge, kSharers * (kSharers - 1) / 2));
  ASSERT_TRUE(s.run_to(State::ready)) << s.groups[kLeaf]->error();
  EXPECT_EQ(s.groups[kLeaf]->info().reason, WEFT_INC_REASON_LOST);
}

/// Switches are lost at any moment: some ranks wait for a turn, of which others have the answer; hosts are at work, or
/// some of them are through with it. And ranks hear of the loss one after the other.
struct LostAtAnyMoment {
  static constexpr std::uint32_t kSeeds = 1500, kLength = 6;

  void run(std::uint64_t seed) {
    Sharers s(seed);
    Rng draw(seed);
    std::map<std::uint16_t, bool> said;
    s.fabric.adder.refuses = [&](std::uint16_t sequence) {
      return said.try_emplace(sequence, draw.below(2) == 0).first->second;
    };
    Sequence sequence(s.groups, draw, kLength, 1, kElements);
    std::uint64_t steps = draw.below(300);
    s.run([&] {
      sequence.spoil();
      if (steps > 0) return --steps, false;
      return seed % 2 == 0 || !same_busy(s);
    });
    learnt += same_busy(s) ? 0 : 1;
    s.fabric.lose_switches();
    std::vector<std::uint64_t> hear(kSharers);
    for (auto& after : hear) after = draw.below(2) == 0 ? 0 : draw.below(100);
    std::uint64_t now = 0;
    const auto all_end = [&] {
      sequence.spoil();
      for (std::uint32_t r = 0; r < kSharers; ++r) {
        if (hear[r] == now) s.groups[r]->on_daemon(GroupGone{7, 42});
      }
      return ++now > 100 && sequence.all_over();
    };
    // Nothing goes on while the last ones have not heard of it.
    while (now <= 100) s.run(all_end);
    ASSERT_TRUE(s.run(all_end)) << "seed " << seed << ": " << s.groups[0]->error();
    sequence.expect_results(seed);
    ASSERT_TRUE(s.run_to(State::ready)) << "seed " << seed << ": " << s.groups[0]->error();
    for (std::uint32_t r = 0; r < kSharers; ++r) {
      EXPECT_EQ(s.groups[r]->info().reason, WEFT_INC_REASON_LOST);
      EXPECT_EQ(s.calls(r, WEFT_INC_REASON_BUSY), s.calls(0, WEFT_INC_REASON_BUSY)) << "seed " << seed;
    }
    Sequence more(s.groups, draw, 3, 1, kElements);
    ASSERT_TRUE(s.run([&] { return more.all_over(); })) << "seed " << seed;
    more.expect_results(seed);
  }

  /// Whether all ranks know as much of turns that there were not.
  static bool same_busy(const Sharers& s) {
    for (std::uint32_t r = 1; r < kSharers; ++r) {
      if (s.calls(r, WEFT_INC_REASON_BUSY) != s.calls(0, WEFT_INC_REASON_BUSY)) return false;
    }
    return true;
  }

  std::uint64_t learnt = 0;  ///< how often some had to hear from others that there was no turn
};

TEST(GroupTurns, WhateverIsUnderWayComesToItsEndWithoutSwitches) {
  LostAtAnyMoment one;
  for (std::uint64_t seed = 1; seed <= LostAtAnyMoment::kSeeds; ++seed) {
    one.run(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(one.learnt, LostAtAnyMoment::kSeeds / 20);
}

}  // namespace
}  // namespace weft::inc::comm::testing
