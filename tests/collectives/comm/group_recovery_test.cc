// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Groups that lose their switches: they go on by their hosts, or fail, and ask for switches again.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/collectives/comm/sequence.h"
#include "tests/collectives/comm/world.h"

namespace weft::inc::comm::testing {
namespace {

using State = Group::State;
using Requests = std::vector<std::shared_ptr<Request>>;

constexpr std::uint32_t kRanks = 4, kCount = 300;
constexpr std::int32_t kSum = kRanks * (kRanks - 1) / 2;

class Site : public World {
 public:
  explicit Site(std::uint64_t seed, std::uint64_t min_bytes = 0, std::uint32_t ranks = kRanks)
      : World(seed, ranks, settings(min_bytes), true) {
    connect(false);
  }
  static GroupSettings settings(std::uint64_t min_bytes) {
    GroupSettings s;
    s.shape = {256, 2, 4};
    s.min_bytes = min_bytes;
    return s;
  }

  /// Questions for switches that rank 0's daemon has heard.
  std::size_t questions() const {
    return static_cast<std::size_t>(std::count_if(
        told[0].begin(), told[0].end(), [](const DaemonMessage& m) { return std::holds_alternative<CreateGroup>(m); }));
  }
  /// The manager has made the group that rank 0 asks for: all ranks get it.
  void give(std::uint64_t generation) {
    const std::size_t before = told[1].size();
    ASSERT_TRUE(run([&] { return groups[0]->state() == State::asking; }));
    auto made = created();
    made.generation = generation;
    made.lease_ms = lease_ms;
    groups[0]->on_daemon(made);
    ASSERT_TRUE(run([&] { return told[1].size() > before; }));
    run([] { return false; });
    for (std::uint32_t r = 1; r < groups.size(); ++r) groups[r]->on_daemon(GroupHeld{7, generation, true});
  }
  /// Ranks whose daemons have been asked why the switches have ended the group.
  std::size_t asked_why() const {
    return static_cast<std::size_t>(std::count_if(told.begin(), told.end(), [](const auto& heard) {
      return !heard.empty() && std::holds_alternative<ExplainGroup>(heard.back());
    }));
  }
  void refuse() {
    ASSERT_TRUE(run([&] { return groups[0]->state() == State::asking; }));
    GroupCreated none;
    none.refusal = "no_manager";
    groups[0]->on_daemon(none);
  }
  void lose(std::uint64_t generation) {
    fabric.lose_switches();
    for (auto& g : groups) g->on_daemon(GroupGone{7, generation});
  }
  /// A group of switches loses them, and rank 2 has not heard of it.
  void lose_but_for_rank_2(std::uint64_t generation) {
    give(generation);
    ASSERT_TRUE(run_to(State::ready));
    tick(1);
    fabric.lose_switches();
    for (const std::uint32_t r : {0u, 1u, 3u}) groups[r]->on_daemon(GroupGone{7, generation});
    run([] { return false; });
  }
  void tick(nic::Time now) {
    for (auto& g : groups) g->tick(now);
  }

  std::shared_ptr<Request> post(std::uint32_t r, bool in_place) {
    in[r].assign(kCount, static_cast<std::int32_t>(r));
    auto* to = in_place ? in[r].data() : out[r].data();
    return groups[r]->post({Collective::allreduce, in[r].data(), to, kCount, DataType::int32, Op::sum, 0});
  }
  Requests post_all(bool in_place = false) {
    Requests all;
    for (std::uint32_t r = 0; r < kRanks; ++r) all.push_back(post(r, in_place));
    return all;
  }
  void expect_sums(const Requests& all) {
    ASSERT_TRUE(run([&] { return all_over(all); }));
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(all[r]->error, "") << "rank " << r;
      EXPECT_EQ(out[r], std::vector<std::int32_t>(kCount, kSum)) << "rank " << r;
      out[r].assign(kCount, 0);
    }
  }
  void expect_reason(weft_inc_reason reason) {
    for (const auto& g : groups) EXPECT_EQ(g->info().reason, reason) << g->info().detail;
  }

  std::uint32_t lease_ms = 5000;
  std::vector<std::vector<std::int32_t>> in{kRanks, std::vector<std::int32_t>(kCount)};
  std::vector<std::vector<std::int32_t>> out{kRanks, std::vector<std::int32_t>(kCount)};
};

TEST(Recovery, AGroupThatLosesItsSwitchesGoesOnAndGetsOthers) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    s.expect_sums(s.post_all());
    EXPECT_EQ(s.fabric.adder.collectives(), 1u);
    s.tick(nic::kMs);
    s.lose(42);
    EXPECT_EQ(std::get<LeaveGroup>(s.told[3].back()), (LeaveGroup{7, 42, true}));
    ASSERT_TRUE(s.run_to(State::ready));
    s.expect_reason(WEFT_INC_REASON_LOST);
    EXPECT_FALSE(s.groups[0]->lease().has_value());
    // By hosts; the second time rank 0 might ask, but a second has not passed.
    s.expect_sums(s.post_all());
    s.tick(900 * nic::kMs);
    s.expect_sums(s.post_all());
    EXPECT_EQ(s.questions(), 1u);
    s.tick(1100 * nic::kMs);
    const auto all = s.post_all();
    s.fabric.switches_lost = false;
    s.give(43);
    const auto& first = std::get<CreateGroup>(s.told[0].front());
    const auto next = std::find_if(s.told[0].rbegin(), s.told[0].rend(),
                                   [](const auto& m) { return std::holds_alternative<CreateGroup>(m); });
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      const QpEnd end = std::get<CreateGroup>(*next).members[r];
      EXPECT_NE(end.qpn, first.members[r].qpn) << "a queue pair is connected once";
      EXPECT_EQ(end.address, first.members[r].address);
    }
    EXPECT_EQ(s.fabric.adder.collectives(), 0u);
    s.expect_sums(all);
    EXPECT_EQ(s.fabric.adder.collectives(), 1u) << "what waited for the answer is the switches'";
    s.expect_reason(WEFT_INC_REASON_NONE);
    EXPECT_EQ(s.groups[2]->lease(), (HoldGroup{7, 43, 2, 5000}));
  }
}

TEST(Recovery, WhatIsUnderWayBeginsAgainByHosts) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    Requests all;
    for (std::uint32_t r = 0; r < 3; ++r) all.push_back(s.post(r, seed % 2 == 0));
    s.run([] { return false; });
    s.lose(42);
    // The last one begins behind the loss.
    all.push_back(s.post(3, seed % 2 == 0));
    if (seed % 2 != 0) {
      s.expect_sums(all);
      continue;
    }
    ASSERT_TRUE(s.run([&] { return all_over(all); }));
    for (const auto& v : s.in) EXPECT_EQ(v, std::vector<std::int32_t>(kCount, kSum));
  }
}

TEST(Recovery, RanksThatLackTheLastResultGetItFromOthers) {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    const auto first = s.post_all(seed % 2 == 0);
    ASSERT_TRUE(s.run([&] { return over(first[seed % kRanks]); }));
    found += all_over(first) ? 0 : 1;
    // Programs use their memory for other things.
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      if (over(first[r])) s.in[r].assign(kCount, -1);
    }
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(first); })) << "seed " << seed;
    ASSERT_TRUE(s.run_to(State::ready));
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(first[r]->error, "");
      const auto& result = seed % 2 == 0 ? s.in[r] : s.out[r];
      if (result[0] != -1) {
        EXPECT_EQ(result, std::vector<std::int32_t>(kCount, kSum)) << "seed " << seed;
      }
      s.out[r].assign(kCount, 0);
    }
    s.expect_sums(s.post_all());
  }
  EXPECT_GT(found, 10u);
}

TEST(Recovery, ABarrierThatSomeHaveLeftIsOverForAll) {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    Requests all;
    for (auto& g : s.groups) all.push_back(g->post({Collective::barrier, nullptr, nullptr, 0, {}, {}, 0}));
    ASSERT_TRUE(s.run([&] { return over(all[1]); }));
    found += all_over(all) ? 0 : 1;
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(all); }));
    ASSERT_TRUE(s.run_to(State::ready));
    for (const auto& r : all) EXPECT_EQ(r->error, "");
  }
  EXPECT_GT(found, 5u);
}

TEST(Recovery, WhoHasGivenItsPartOfAReduceGivesItAgain) {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    Requests all;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      s.in[r].assign(kCount, static_cast<std::int32_t>(r));
      all.push_back(s.groups[r]->post(
          {Collective::reduce, s.in[r].data(), s.out[r].data(), kCount, DataType::int32, Op::sum, 0}));
    }
    ASSERT_TRUE(s.run([&] { return over(all[3]); }));
    if (over(all[0])) continue;
    ++found;
    // Rank 3 has given its part, which the switch has lost, and goes on.
    s.in[3].assign(kCount, -1);
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed;
    for (const auto& r : all) EXPECT_EQ(r->error, "");
    EXPECT_EQ(s.out[0], std::vector<std::int32_t>(kCount, kSum));
    s.expect_sums(s.post_all());
  }
  EXPECT_GT(found, 5u);
}

TEST(Recovery, AResultInThePlaceOfWhatARankGaveIsEverybodys) {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    const auto all = s.post_all(true);
    ASSERT_TRUE(s.run([&] { return s.in[0][0] == kSum; }));
    if (std::any_of(all.begin(), all.end(), over)) continue;
    ++found;
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(all[r]->error, "");
      EXPECT_EQ(s.in[r], std::vector<std::int32_t>(kCount, kSum));
    }
    s.expect_sums(s.post_all());
  }
  EXPECT_GT(found, 0u);
}

/// Of a Reduce, what has come in the place of what the root gave is nobody else's: it stays there.
TEST(Recovery, AReduceInPlaceThatHasComeInPartKeepsThatPart) {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    Requests all;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      s.in[r].assign(kCount, static_cast<std::int32_t>(r));
      auto* to = r == 0 ? s.in[r].data() : nullptr;
      all.push_back(s.groups[r]->post({Collective::reduce, s.in[r].data(), to, kCount, DataType::int32, Op::sum, 0}));
    }
    ASSERT_TRUE(s.run([&] { return s.in[0][0] == kSum; }));
    if (over(all[0])) continue;
    ++found;
    // Who has given its part may have gone on.
    for (std::uint32_t r = 1; r < kRanks; ++r) {
      if (over(all[r])) s.in[r].assign(kCount, -1);
    }
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed;
    for (const auto& r : all) EXPECT_EQ(r->error, "");
    EXPECT_EQ(s.in[0], std::vector<std::int32_t>(kCount, kSum)) << "seed " << seed;
    ASSERT_TRUE(s.run_to(State::ready));
    s.expect_sums(s.post_all());
  }
  EXPECT_GT(found, 0u);
}

/// The same with one other rank: the root's only step is to receive.
TEST(Recovery, AReduceOfTwoRanksThatHasComeInPartKeepsThatPart) {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const bool in_place = seed % 2 == 0;
    Site s(seed, 0, 2);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    for (std::int32_t r = 0; r < 2; ++r) s.in[static_cast<std::size_t>(r)].assign(kCount, r + 1);
    auto& result = in_place ? s.in[0] : s.out[0];
    const Requests all{
        s.groups[0]->post({Collective::reduce, s.in[0].data(), result.data(), kCount, DataType::int32, Op::sum, 0}),
        s.groups[1]->post({Collective::reduce, s.in[1].data(), nullptr, kCount, DataType::int32, Op::sum, 0})};
    ASSERT_TRUE(s.run([&] { return result[0] == 3; }));
    if (over(all[0])) continue;
    ++found;
    if (over(all[1])) s.in[1].assign(kCount, -1);
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed;
    for (const auto& r : all) EXPECT_EQ(r->error, "");
    EXPECT_EQ(result, std::vector<std::int32_t>(kCount, 3)) << "seed " << seed;
    if (!in_place) {
      EXPECT_EQ(s.in[0], std::vector<std::int32_t>(kCount, 1)) << "it is the program's";
    }
  }
  EXPECT_GT(found, 0u);
}

TEST(Recovery, AReduceScatterInPlaceKeepsWhatHasCome) {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    std::vector<std::vector<std::int32_t>> in(kRanks);
    Requests all;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      in[r].assign(std::size_t{kRanks} * kCount, static_cast<std::int32_t>(r));
      all.push_back(s.groups[r]->post(
          {Collective::reduce_scatter, in[r].data(), in[r].data() + r * kCount, kCount, DataType::int32, Op::sum, 0}));
    }
    const std::size_t late = seed % kRanks;
    ASSERT_TRUE(s.run([&] { return in[late][late * kCount] == kSum; }));
    if (over(all[late])) continue;
    ++found;
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(all[r]->error, "");
      const auto block = in[r].begin() + r * kCount;
      EXPECT_TRUE(std::all_of(block, block + kCount, [](std::int32_t v) { return v == kSum; })) << "seed " << seed;
    }
    s.expect_sums(s.post_all());
  }
  EXPECT_GT(found, 5u);
}

/// The switches are lost after so many steps.
void expect_that_all_end(Site& s, Sequence& sequence, std::uint64_t steps, std::uint64_t seed) {
  s.run([&] {
    sequence.spoil();
    return steps-- == 0;
  });
  s.lose(42);
  ASSERT_TRUE(s.run([&] {
    sequence.spoil();
    return sequence.all_over();
  })) << "seed "
      << seed << ": " << s.groups[0]->error();
  sequence.expect_results(seed);
  ASSERT_TRUE(s.run_to(State::ready));
  s.expect_sums(s.post_all());
}

TEST(Recovery, WhateverIsUnderWayComesToItsEnd) {
  Rng rng(7);
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    Sequence sequence(s.groups, rng, 5, 1, kCount);
    expect_that_all_end(s, sequence, rng.below(300), seed);
  }
}

/// What is too large to be kept is over when all ranks are through with it.
TEST(Recovery, WhateverIsLargeComesToItsEnd) {
  constexpr std::uint32_t kLarge = Group::kKept / sizeof(std::int32_t) + 1;
  Rng rng(11);
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    Sequence sequence(s.groups, rng, 2, kLarge / kRanks, kLarge);
    expect_that_all_end(s, sequence, rng.below(2000), seed);
  }
}

TEST(Recovery, ResultsThatAreTooLargeToBeKeptAreThereAtAllRanksOrAtNone) {
  constexpr std::uint32_t kLarge = Group::kKept / sizeof(std::int32_t) + 1;
  Rng rng(3);
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    std::vector<std::vector<std::int32_t>> in(kRanks), out(kRanks, std::vector<std::int32_t>(kLarge));
    Requests all;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      in[r].assign(kLarge, static_cast<std::int32_t>(r));
      if (seed % 2 == 0) out[r] = in[r];
      all.push_back(s.groups[r]->post({Collective::allreduce, seed % 2 == 0 ? out[r].data() : in[r].data(),
                                       out[r].data(), kLarge, DataType::int32, Op::sum, 0}));
    }
    const std::size_t until = seed % 3 == 0 ? kLarge - 1 : rng.below(kLarge);
    ASSERT_TRUE(s.run([&] { return out[seed % kRanks][until] == kSum; }));
    std::uint64_t steps = rng.below(40);
    s.run([&] { return steps-- == 0; });
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      if (over(all[r])) in[r].assign(kLarge, -1);
    }
    s.lose(42);
    ASSERT_TRUE(s.run([&] { return all_over(all); })) << "seed " << seed << ": " << s.groups[0]->error();
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(all[r]->error, "") << "seed " << seed;
      EXPECT_EQ(out[r], std::vector<std::int32_t>(kLarge, kSum)) << "seed " << seed << " rank " << r;
    }
    ASSERT_TRUE(s.run_to(State::ready));
    s.expect_sums(s.post_all());
  }
}

TEST(Recovery, RanksThatDoNotMeetFailInTime) {
  Site s(1);
  s.lose_but_for_rank_2(42);
  s.tick(Group::kMeetAgain);
  EXPECT_EQ(s.groups[1]->state(), State::recounting);
  EXPECT_EQ(s.groups[1]->info().reason, WEFT_INC_REASON_LOST);
  s.tick(Group::kMeetAgain + 2);
  EXPECT_EQ(s.groups[1]->state(), State::failed);
  EXPECT_NE(s.groups[1]->error().find("not all ranks have come"), std::string::npos);
  EXPECT_FALSE(s.groups[1]->formed());
}

/// With a long lease, daemons renew it seldom, and so a rank that sends nothing hears late of the loss.
TEST(Recovery, RanksWaitForThoseWhoHearOfTheLossFromTheirDaemons) {
  Site s(1);
  s.lease_ms = 60'000;
  s.lose_but_for_rank_2(42);
  s.tick(16'000 * nic::kMs);
  s.groups[2]->on_daemon(GroupGone{7, 42});
  ASSERT_TRUE(s.run_to(State::ready)) << s.groups[1]->error();
  s.expect_reason(WEFT_INC_REASON_LOST);
  s.expect_sums(s.post_all());
}

/// What has come of a large AllReduce goes to all ranks by their hosts, which takes longer than they wait for each
/// other. One of them has nothing to do for half of that.
TEST(Recovery, HostsHaveTheTimeThatALargeResultTakesThem) {
  constexpr std::uint32_t kLarge = 1 << 20;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Site s(seed);
    s.give(42);
    ASSERT_TRUE(s.run_to(State::ready));
    std::vector<std::int32_t> out[kRanks];
    Requests all;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      out[r].assign(kLarge, static_cast<std::int32_t>(r));
      all.push_back(s.groups[r]->post(
          {Collective::allreduce, out[r].data(), out[r].data(), kLarge, DataType::int32, Op::sum, 0}));
    }
    ASSERT_TRUE(s.run([&] { return out[0][kLarge / 8 * 7] == kSum; }));
    s.lose(42);
    nic::Time now = 0, gives = 0;
    ASSERT_TRUE(s.run([&] {
      s.tick(now += nic::kMs);
      if (s.groups[0]->state() == State::catching_up) gives += nic::kMs;
      return all_over(all);
    })) << s.groups[0]->error();
    EXPECT_GT(gives, Group::kMeetAgain) << "too short to show anything";
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(all[r]->error, "") << "seed " << seed;
      EXPECT_EQ(out[r], std::vector<std::int32_t>(kLarge, kSum)) << "seed " << seed << " rank " << r;
    }
  }
}

TEST(Recovery, WithCollectivesOfHostsBesideThoseOfSwitchesTheGroupFails) {
  Site s(1, kCount * 4 + 1);
  s.give(42);
  ASSERT_TRUE(s.run_to(State::ready));
  s.expect_sums(s.post_all());
  EXPECT_EQ(s.fabric.adder.collectives(), 0u) << "the vectors are too small";
  s.lose(42);
  EXPECT_EQ(s.groups[0]->state(), State::failed);
}

TEST(Recovery, PausesBetweenQuestionsGrow) {
  Site s(1);
  s.refuse();
  ASSERT_TRUE(s.run_to(State::ready));
  s.expect_reason(WEFT_INC_REASON_NO_MANAGER);
  // Whether the next collectives come to a question, which is refused.
  const auto asks = [&] {
    for (int i = 0; i < 130; ++i) {
      const auto all = s.post_all();
      s.run([&] { return all_over(all) || s.groups[0]->state() == State::asking; });
      const bool asked = s.groups[0]->state() == State::asking;
      if (asked) s.refuse();
      s.expect_sums(all);
      if (asked) return true;
    }
    return false;
  };
  nic::Time last = 0;
  for (const nic::Time pause : {1000 * nic::kMs, 2000 * nic::kMs, 4000 * nic::kMs}) {
    s.tick(last + pause - 1);
    EXPECT_FALSE(asks());
    last += pause;
    s.tick(last);
    EXPECT_TRUE(asks());
  }
  s.expect_reason(WEFT_INC_REASON_NO_MANAGER);
}

constexpr const char* kWhy = "leaf1: rank 3 (10.0.4.2): ranks began different collectives; it said barrier #0";

/// All ranks have sent what the switches refuse.
Requests refused(Site& s) {
  s.give(42);
  EXPECT_TRUE(s.run_to(State::ready));
  s.fabric.refuse();
  const auto all = s.post_all();
  EXPECT_TRUE(s.run_to(State::explaining));
  EXPECT_EQ(s.asked_why(), kRanks);
  return all;
}

TEST(GroupRefused, RanksLearnWhatTheirSwitchesSayBeforeTheyGiveTheGroupUp) {
  Site s(1);
  const auto all = refused(s);
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_FALSE(over(all[r]));
    s.groups[r]->on_daemon(GroupGone{7, 42});  // of a rank that has its answer; ours is under way
    s.groups[r]->on_daemon(GroupExplained{7, 41, "another group's"});
    EXPECT_EQ(s.groups[r]->state(), State::explaining);
    s.groups[r]->on_daemon(GroupExplained{7, 42, kWhy});
    EXPECT_EQ(s.groups[r]->state(), State::failed);
    EXPECT_EQ(all[r]->error, std::string("switch: remote operation error; ") + kWhy);
    EXPECT_EQ(s.told[r].back(), DaemonMessage(LeaveGroup{7, 42, true}));
  }
}

TEST(GroupRefused, NobodyWaitsForAnAnswerForEver) {
  Site s(2);
  s.tick(1);
  const auto all = refused(s);
  s.tick(1 + Group::kExplained);
  EXPECT_EQ(s.groups[0]->state(), State::explaining);
  s.tick(2 + Group::kExplained);
  s.groups[0]->on_daemon(GroupExplained{7, 42, kWhy});
  EXPECT_EQ(all[0]->error, "switch: remote operation error");
}

TEST(GroupRefused, WithoutADaemonOrAnAnswerItFailsAtOnce) {
  Site s(3);
  const auto all = refused(s);
  s.groups[0]->on_daemon_lost();
  EXPECT_EQ(all[0]->error, "switch: remote operation error");
  s.groups[1]->on_daemon(GroupExplained{7, 42, ""});
  EXPECT_EQ(all[1]->error, "switch: remote operation error");
}

TEST(GroupRefused, ARankThatHasSentNothingHearsOfItWhenTheGroupIsGone) {
  Site s(4);
  s.give(42);
  ASSERT_TRUE(s.run_to(State::ready));
  s.groups[1]->on_daemon(GroupExplained{7, 42, kWhy});
  EXPECT_EQ(s.groups[1]->state(), State::ready) << "it is not gone yet";
  s.groups[1]->on_daemon(GroupGone{7, 42});
  EXPECT_EQ(s.groups[1]->state(), State::failed);
  EXPECT_EQ(s.groups[1]->error(), std::string("the switches have ended the group: ") + kWhy);
}

}  // namespace
}  // namespace weft::inc::comm::testing
