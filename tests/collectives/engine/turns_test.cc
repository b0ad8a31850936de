// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Groups that have the same slot memory in turns (README of the engine, "Turns").
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/engine/mode_ii.h"
#include "switch/wire/payload_crc.h"
#include "tests/collectives/engine/hosts.h"
#include "tests/collectives/engine/network.h"
#include "tests/support/effort.h"

namespace weft::inc {
namespace {

using testing::Bytes;
using testing::Collective;
using testing::Faults;
using testing::host;
using testing::Network;

/// Memory of a switch, and who has it.
struct Shared {
  std::vector<std::byte> memory;
  int owner = 0;  ///< 0: nobody
};

class Key final : public MemoryLock {
 public:
  Key(Shared& shared, int group) : shared_(shared), group_(group) {}
  [[nodiscard]] bool take() noexcept override {
    EXPECT_NE(shared_.owner, group_);
    if (shared_.owner == 0) shared_.owner = group_;
    return shared_.owner == group_;
  }
  void give() noexcept override {
    EXPECT_EQ(shared_.owner, group_);
    shared_.owner = 0;
  }

 private:
  Shared& shared_;
  int group_;
};

constexpr std::uint32_t kWindow = testing::kSmallWindow;
constexpr std::size_t kNodes = 3;
constexpr std::size_t kTurns = 12;
const std::vector<Collective> kInATurn{{Primitive::allreduce, 0, 5},
                                       {Primitive::reduce, 2, 3},
                                       {Primitive::broadcast, 1, 2},
                                       {Primitive::allreduce, 0, 1}};
constexpr Collective kTake{Primitive::barrier, 0, 0, Turn::take};
constexpr Collective kGive{Primitive::barrier, 0, 0, Turn::give};

/// A group of four ranks over three switches whose memory others have, too. Each rank asks kTurns times.
struct Job {
  Job(std::array<Shared, kNodes>& shared, int number, const Faults& faults, std::uint64_t seed)
      : network(testing::small_leaf(), host(), {kTake}, faults, seed, testing::Verb::send,
                [&](const GroupConfig& g, std::size_t node) {
                  Shared& at = shared[node];
                  at.memory.resize(std::max(at.memory.size(), IncEngine::memory_bytes(g)));
                  keys.emplace_back(at, number);
                  return IncEngine(g, at.memory, &keys.back());
                }) {
    for (std::size_t r = 0; r < testing::kRanks; ++r) {
      network.rank(r).after_take = [this, r](bool refused) { return next(r, refused); };
    }
  }

  std::vector<Collective> next(std::size_t rank, bool refused) {
    std::vector<bool>& of = got[rank];
    of.push_back(!refused);
    std::vector<Collective> out;
    if (!refused) {
      out = kInATurn;
      out.push_back(kGive);
    }
    if (of.size() < kTurns) out.push_back(kTake);
    return out;
  }

  std::deque<Key> keys;
  std::array<std::vector<bool>, testing::kRanks> got;  ///< by rank: of each turn, whether it came
  Network network;
};

/// Runs two jobs, packet by packet in an order that is drawn. The turns that the two got.
std::array<std::size_t, 2> run_two(const Faults& faults, std::uint64_t seed) {
  std::array<Shared, kNodes> shared;
  // Regions stay where they are.
  for (Shared& s : shared) s.memory.resize(1u << 16);
  std::array<std::unique_ptr<Job>, 2> jobs{std::make_unique<Job>(shared, 1, faults, seed),
                                           std::make_unique<Job>(shared, 2, faults, seed + 1000)};
  std::array<std::string, 2> ends;
  Rng draw(seed);
  for (std::size_t step = 0; step < 2'000'000 && (ends[0].empty() || ends[1].empty()); ++step) {
    const std::size_t j = draw.below(2);
    if (ends[j].empty()) ends[j] = jobs[j]->network.step();
    if (::testing::Test::HasFatalFailure()) return {};
  }
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(ends[j], "done") << "seed " << seed << ": " << jobs[j]->network.why();
    for (const auto& of : jobs[j]->got) EXPECT_EQ(of, jobs[j]->got[0]) << "ranks go the same way, seed " << seed;
    EXPECT_EQ(jobs[j]->got[0].size(), kTurns);
  }
  // The last Barrier's result may still be under way to leaves.
  for (auto& job : jobs) job->network.drain();
  std::array<std::size_t, 2> turns{};
  for (std::size_t j = 0; j < 2; ++j) {
    turns[j] = static_cast<std::size_t>(std::count(jobs[j]->got[0].begin(), jobs[j]->got[0].end(), true));
    const GroupCounters& root = jobs[j]->network.at(2).counters();
    EXPECT_EQ(root.turns, turns[j]);
    EXPECT_EQ(root.turns_refused, kTurns - turns[j]);
  }
  for (const Shared& s : shared) EXPECT_EQ(s.owner, 0) << "seed " << seed;
  return turns;
}

TEST(Turns, GroupsWithTheSameMemoryGetRightSumsWhateverHappensToPackets) {
  const std::vector<std::pair<const char*, Faults>> kinds{
      {"nothing", {}}, {"loss", {.loss = 0.01}}, {"late copies", {.late = 0.2}}, {"all", {0.01, 0.02, 0.02, 0.1, 0.1}}};
  std::array<std::size_t, 2> got{};
  for (const auto& [name, faults] : kinds) {
    SCOPED_TRACE(name);
    for (std::uint64_t seed = 1; seed <= weft::testing::rounds(30); ++seed) {
      const auto turns = run_two(faults, seed);
      ASSERT_FALSE(::testing::Test::HasFailure());
      for (std::size_t j = 0; j < 2; ++j) got[j] += turns[j];
    }
  }
  // Of both, some of the turns were refused.
  const std::size_t asked = kinds.size() * kTurns * weft::testing::rounds(30);
  for (const std::size_t turns : got) {
    EXPECT_GT(turns, asked / 20);
    EXPECT_LT(turns, asked);
  }
}

/// One switch with two ranks, and packets by hand.
struct ByHand final : Sink {
  ByHand() {
    GroupConfig g = testing::star(2);
    g.window = kWindow;
    g.slots = 2 * kWindow;
    shared.memory.resize(IncEngine::memory_bytes(g));
    engine.emplace(g, shared.memory, &key);
  }
  void send(EndpointIndex to, const nic::Packet& p, bool) override {
    if (p.opcode == wire::Opcode::RC_ACKNOWLEDGE) return;
    ControlMessage m;
    if (to == 0 && p.payload.data() != nullptr && !read_control(p.immediate, {p.payload.data(), p.payload.bytes}, m)) {
      refused.push_back(m.refused);
    }
  }
  /// Rank `from` sends the control message of a collective, which is the number `psn` of its packets.
  void control(EndpointIndex from, std::uint32_t psn, Primitive primitive, std::uint16_t sequence, Turn turn,
               bool says_refused = false) {
    ControlMessage m = testing::message(primitive, sequence, primitive == Primitive::barrier ? 0 : 4);
    m.turn = turn;
    m.refused = says_refused;
    Bytes kept;
    const nic::Packet p = testing::control(engine->context().group().endpoints[from].first_rx + psn, m, kept);
    engine->on_packet(0, from, p, false, *this);
  }
  void barrier(std::uint32_t psn, std::uint16_t sequence, Turn turn) {
    for (const EndpointIndex e : {EndpointIndex{0}, EndpointIndex{1}}) {
      control(e, psn, Primitive::barrier, sequence, turn);
    }
  }
  /// The only packet of data of an AllReduce.
  void data(EndpointIndex from, std::uint32_t psn, bool unchecked) {
    const Bytes bytes{0, 0, 0, 7};
    const nic::Packet p =
        testing::data(engine->context().group().endpoints[from].first_rx + psn, wire::Opcode::RC_SEND_ONLY, bytes);
    if (!unchecked) return engine->on_packet(0, from, p, false, *this);
    EXPECT_TRUE(engine->on_unchecked(0, from, p, wire::payload_crc(bytes), false, *this));
  }
  [[nodiscard]] bool failed() const { return engine->failure().has_value(); }

  Shared shared;
  Key key{shared, 1};
  std::optional<IncEngine> engine;
  std::vector<bool> refused;  ///< what rank 0 is told
};

TEST(Turns, RanksAreToldWhetherTheyHaveTheMemory) {
  ByHand one;
  one.barrier(0, 0, Turn::take);
  EXPECT_EQ(one.shared.owner, 1);
  one.barrier(1, 1, Turn::give);
  EXPECT_EQ(one.shared.owner, 0);
  one.shared.owner = 2;
  one.barrier(2, 2, Turn::take);
  EXPECT_EQ(one.shared.owner, 2);
  EXPECT_EQ(one.refused, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(one.engine->counters().turns, 1u);
  EXPECT_EQ(one.engine->counters().turns_refused, 1u);
  EXPECT_EQ(one.engine->counters().memory_busy, 1u);
  EXPECT_FALSE(one.failed());
}

TEST(Turns, DataIsTakenInATurnAlone) {
  ByHand before;
  before.control(0, 0, Primitive::allreduce, 0, Turn::none);
  EXPECT_TRUE(before.failed());

  ByHand within;
  within.barrier(0, 0, Turn::take);
  within.control(0, 1, Primitive::allreduce, 1, Turn::none);
  EXPECT_FALSE(within.failed());

  ByHand refused;
  refused.shared.owner = 2;
  refused.barrier(0, 0, Turn::take);
  refused.control(0, 1, Primitive::allreduce, 1, Turn::none);
  EXPECT_TRUE(refused.failed());
  EXPECT_EQ(refused.shared.owner, 2);

  // One rank has ended the turn, and goes on as if it had not.
  ByHand behind;
  behind.barrier(0, 0, Turn::take);
  behind.control(0, 1, Primitive::barrier, 1, Turn::give);
  behind.control(0, 2, Primitive::allreduce, 2, Turn::none);
  EXPECT_TRUE(behind.failed());
  EXPECT_EQ(behind.shared.owner, 0) << "who fails leaves the memory to others";
}

// Ranks that give their turn back before they are through with it: what they send then is for memory of others.
TEST(Turns, WhatComesBehindThemWritesNothing) {
  for (const bool unchecked : {false, true}) {
    ByHand late;
    late.barrier(0, 0, Turn::take);
    for (const EndpointIndex e : {EndpointIndex{0}, EndpointIndex{1}}) {
      late.control(e, 1, Primitive::allreduce, 1, Turn::none);
    }
    late.data(0, 2, unchecked);
    EXPECT_EQ(late.engine->counters().contributions, 5u);
    late.barrier(3, 2, Turn::give);
    ASSERT_EQ(late.shared.owner, 0);
    late.shared.owner = 2;
    std::fill(late.shared.memory.begin(), late.shared.memory.end(), std::byte{0x5a});
    const auto before = late.shared.memory;
    for (const EndpointIndex e : {EndpointIndex{0}, EndpointIndex{1}}) late.data(e, 2, unchecked);
    EXPECT_EQ(late.shared.memory, before);
    EXPECT_EQ(late.engine->counters().contributions, 7u) << "those of the Barrier alone came after it";
    EXPECT_FALSE(late.failed());
    EXPECT_EQ(late.shared.owner, 2);
  }
}

TEST(Turns, OneIsOverBeforeTheNextBegins) {
  ByHand twice;
  twice.barrier(0, 0, Turn::take);
  twice.barrier(1, 1, Turn::take);
  EXPECT_TRUE(twice.failed());
  EXPECT_EQ(twice.shared.owner, 0);
}

TEST(Turns, RanksDoNotSpeakForSwitches) {
  ByHand one;
  one.control(0, 0, Primitive::barrier, 0, Turn::take, true);
  EXPECT_TRUE(one.failed());
}

/// A group of two ranks at one switch. Each rank asks for a turn; where it comes, it runs an AllReduce of one element
/// and gives the turn back. Packets arrive at once, and so do the ranks' answers.
class Two final : Sink {
 public:
  static constexpr int kStages = 3;

  Two(Shared& shared, int number) : shared_(shared), number_(number), key_(shared, number) {
    GroupConfig g = testing::star(2);
    g.slots = 2;
    shared_.memory.resize(IncEngine::memory_bytes(g));
    engine_.emplace(g, shared_.memory, &key_);
  }

  /// Whether the rank can go on now: not where its group has been refused, or others are not as far.
  [[nodiscard]] bool can(std::size_t rank) const {
    if (stage_[rank] == 1) return verdict_[rank] == true;
    return stage_[rank] == 0 || (stage_[rank] == 2 && result_[rank]);
  }
  [[nodiscard]] bool over(std::size_t rank) const {
    return stage_[rank] == kStages || (stage_[rank] == 1 && verdict_[rank] == false);
  }
  void act(std::size_t rank) {
    switch (stage_[rank]++) {
      case 0:
        return control(rank, Primitive::barrier, 0, 0, Turn::take);
      case 1:
        control(rank, Primitive::allreduce, 1, 1, Turn::none);
        return arrive(rank, {testing::data(psn(rank, 2), wire::Opcode::RC_SEND_ONLY, given(rank)), given(rank)});
      default:
        return control(rank, Primitive::barrier, 3, 2, Turn::give);
    }
  }
  /// All that was sent comes once more.
  void repeat() {
    const auto all = sent_;
    for (const auto& [rank, packet] : all) deliver(rank, packet);
  }
  [[nodiscard]] bool granted() const { return verdict_[0] == true; }
  void expect_right() const {
    EXPECT_FALSE(engine_->failure()) << number_;
    EXPECT_EQ(verdict_[0], verdict_[1]);
    if (granted()) {
      EXPECT_EQ(sums_, (std::vector<std::uint8_t>(2, static_cast<std::uint8_t>(30 * number_ + 1))));
    }
  }

 private:
  struct Sent {
    nic::Packet packet;
    Bytes bytes;
  };

  [[nodiscard]] wire::Psn psn(std::size_t rank, std::uint32_t n) const {
    return engine_->context().group().endpoints[rank].first_rx + n;
  }
  [[nodiscard]] Bytes given(std::size_t rank) const {
    return {0, 0, 0, static_cast<std::uint8_t>(15 * number_ + static_cast<int>(rank))};
  }
  void control(std::size_t rank, Primitive primitive, std::uint32_t n, std::uint16_t sequence, Turn turn) {
    ControlMessage m = testing::message(primitive, sequence, primitive == Primitive::barrier ? 0 : 4);
    m.turn = turn;
    Bytes kept;
    const nic::Packet p = testing::control(psn(rank, n), m, kept);
    arrive(rank, {p, kept});
  }
  void arrive(std::size_t rank, const Sent& what) {
    sent_.emplace_back(rank, what);
    deliver(rank, what);
  }
  void deliver(std::size_t rank, const Sent& what) {
    const auto before = shared_.memory;
    const bool had = shared_.owner == number_;
    nic::Packet p = what.packet;
    p.payload.set(what.bytes.data(), static_cast<std::uint32_t>(what.bytes.size()));
    engine_->on_packet(0, static_cast<EndpointIndex>(rank), p, false, *this);
    for (const auto& [to, answer] : std::exchange(answers_, {})) engine_->on_packet(0, to, answer, false, *this);
    if (!had && shared_.owner != number_) {
      ASSERT_EQ(shared_.memory, before) << "memory of others, group " << number_;
    }
  }
  void send(EndpointIndex to, const nic::Packet& p, bool) override {
    if (p.opcode == wire::Opcode::RC_ACKNOWLEDGE) return;
    ASSERT_NE(p.payload.data(), nullptr);
    nic::Packet ack;
    ack.opcode = wire::Opcode::RC_ACKNOWLEDGE;
    ack.psn = p.psn;
    ack.syndrome = wire::Syndrome::ack().raw();
    answers_.emplace_back(to, ack);
    // A rank takes each packet once, in order.
    if (p.psn != engine_->context().group().endpoints[to].first_tx + taken_[to]) return;
    ++taken_[to];
    if (taken_[to] == 3) {
      sums_.push_back(p.payload.data()[3]);
      result_[to] = true;
      return;
    }
    ControlMessage m;
    ASSERT_EQ(read_control(p.immediate, {p.payload.data(), p.payload.bytes}, m), std::nullopt);
    if (m.turn == Turn::take) verdict_[to] = !m.refused;
  }

  Shared& shared_;
  int number_;
  Key key_;
  std::optional<IncEngine> engine_;
  std::array<int, 2> stage_{};
  std::array<std::optional<bool>, 2> verdict_;
  std::array<bool, 2> result_{};
  std::array<std::uint32_t, 2> taken_{};
  std::vector<std::uint8_t> sums_;
  std::vector<std::pair<std::size_t, Sent>> sent_;
  std::vector<std::pair<EndpointIndex, nic::Packet>> answers_;
};

/// Runs two groups in the order that `choices` says, and from its end on in the first that there is; `choices` is all
/// of it then, and `open` how many there were to choose from at each step. How many groups had a turn.
int run_order(std::vector<std::size_t>& choices, std::vector<std::size_t>& open) {
  Shared shared;
  std::array<Two, 2> groups{Two(shared, 1), Two(shared, 2)};
  open.clear();
  for (std::size_t step = 0;; ++step) {
    std::vector<std::size_t> able;
    for (std::size_t who = 0; who < 4; ++who) {
      if (groups[who / 2].can(who % 2)) able.push_back(who);
    }
    if (able.empty()) break;
    if (step == choices.size()) choices.push_back(0);
    open.push_back(able.size());
    const std::size_t who = able[choices[step]];
    groups[who / 2].act(who % 2);
    for (Two& group : groups) group.repeat();
  }
  for (const Two& group : groups) {
    group.expect_right();
    EXPECT_TRUE(group.over(0) && group.over(1));
  }
  EXPECT_EQ(shared.owner, 0);
  return (groups[0].granted() ? 1 : 0) + (groups[1].granted() ? 1 : 0);
}

TEST(Turns, TwoGroupsInAnyOrderWithEveryPacketRepeatedAfterEachStep) {
  std::vector<std::size_t> choices, open;
  std::array<std::uint64_t, 3> ends{};  // by the number of groups that had a turn
  for (bool more = true; more;) {
    ++ends[static_cast<std::size_t>(run_order(choices, open))];
    ASSERT_FALSE(::testing::Test::HasFailure());
    // The next one: the last step that has another choice.
    while (!choices.empty() && choices.back() + 1 == open[choices.size() - 1]) choices.pop_back();
    more = !choices.empty();
    if (more) ++choices.back();
  }
  EXPECT_EQ(ends[0], 0u) << "one of them always gets it";
  EXPECT_EQ(ends[1], 576u);
  EXPECT_EQ(ends[2], 896u);
}

}  // namespace
}  // namespace weft::inc
