// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/group.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/collectives/comm/world.h"

namespace weft::inc::comm::testing {
namespace {

constexpr std::uint32_t kMtu = 256;

GroupSettings settings(weft_inc_backend backend) {
  GroupSettings s;
  s.backend = backend;
  s.shape = {kMtu, 2, 3};
  return s;
}

/// What a rank gives: small numbers, whose sums and products are exact in every type that is used here.
std::uint64_t value(std::uint32_t rank, std::uint64_t element) {
  return 1 + (element * 7 + rank * 3) % 5;
}

template <class T>
Bytes filled(std::uint32_t rank, std::uint64_t from, std::uint64_t count) {
  Bytes out(count * sizeof(T));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto v = static_cast<T>(value(rank, from + i));
    std::memcpy(out.data() + i * sizeof(T), &v, sizeof(T));
  }
  return out;
}

/// One call at all ranks, and what must come of it.
template <class T>
struct Case {
  Collective collective;
  DataType type;
  Op op;
  std::uint32_t root;
  std::uint64_t count;
  bool in_place;

  [[nodiscard]] std::uint64_t blocks(std::uint32_t ranks, Collective which) const {
    return collective == which ? ranks : 1;
  }
  [[nodiscard]] T reduced(std::uint32_t ranks, std::uint64_t element) const {
    T sum = static_cast<T>(value(0, element));
    for (std::uint32_t r = 1; r < ranks; ++r) {
      const T v = static_cast<T>(value(r, element));
      sum = static_cast<T>(op == Op::sum ? sum + v : op == Op::prod ? sum * v : op == Op::max ? std::max(sum, v) : sum);
    }
    return sum;
  }
  [[nodiscard]] Bytes expected(std::uint32_t rank, std::uint32_t ranks) const {
    Bytes out;
    const auto append = [&](T v) {
      const auto* p = reinterpret_cast<const std::uint8_t*>(&v);
      out.insert(out.end(), p, p + sizeof v);
    };
    if (collective == Collective::allgather) {
      for (std::uint32_t r = 0; r < ranks; ++r) {
        for (std::uint64_t i = 0; i < count; ++i) append(static_cast<T>(value(r, i)));
      }
      return out;
    }
    const std::uint64_t from = collective == Collective::reduce_scatter ? rank * count : 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      append(collective == Collective::broadcast ? static_cast<T>(value(root, i)) : reduced(ranks, from + i));
    }
    return out;
  }
};

template <class T>
void run_case(World& world, const Case<T>& c) {
  const auto ranks = static_cast<std::uint32_t>(world.groups.size());
  std::vector<Bytes> send(ranks), receive(ranks);
  std::vector<std::shared_ptr<Request>> requests;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const std::uint64_t count = c.count * c.blocks(ranks, Collective::reduce_scatter);
    send[r] = filled<T>(r, 0, count);
    receive[r].assign(c.count * sizeof(T) * c.blocks(ranks, Collective::allgather), 0xee);
    Call call{c.collective, send[r].data(), receive[r].data(), c.count, c.type, c.op, c.root};
    if (c.collective == Collective::broadcast) {
      receive[r] = r == c.root ? send[r] : receive[r];
      call.send = call.receive = receive[r].data();
    } else if (c.in_place && c.collective == Collective::allgather) {
      std::copy(send[r].begin(), send[r].end(), receive[r].begin() + static_cast<std::ptrdiff_t>(r * send[r].size()));
      call.send = receive[r].data() + r * send[r].size();
    } else if (c.in_place && c.collective == Collective::reduce_scatter) {
      call.receive = send[r].data() + r * receive[r].size();
    } else if (c.in_place) {
      receive[r] = send[r];
      call.send = receive[r].data();
    }
    ASSERT_EQ(check(call, r, ranks), "");
    requests.push_back(world.groups[r]->post(call));
    ASSERT_NE(requests.back(), nullptr);
  }
  ASSERT_TRUE(world.run([&] { return all_over(requests); }));
  for (std::uint32_t r = 0; r < ranks; ++r) {
    ASSERT_EQ(requests[r]->state, Request::State::done) << requests[r]->error;
    if (c.collective == Collective::reduce && r != c.root) continue;
    const bool at_send = c.in_place && c.collective == Collective::reduce_scatter;
    const std::size_t bytes = c.expected(r, ranks).size();
    const Bytes got = at_send ? Bytes(send[r].begin() + static_cast<std::ptrdiff_t>(r * bytes),
                                      send[r].begin() + static_cast<std::ptrdiff_t>((r + 1) * bytes))
                              : receive[r];
    EXPECT_EQ(got, c.expected(r, ranks)) << to_string(c.collective) << ", rank " << r << " of " << ranks;
  }
}

constexpr Collective kData[]{Collective::allreduce, Collective::reduce, Collective::broadcast,
                             Collective::reduce_scatter, Collective::allgather};

struct Backend : ::testing::TestWithParam<std::tuple<weft_inc_backend, std::uint32_t>> {};

TEST_P(Backend, EveryCollectiveGivesWhatItShould) {
  const auto [backend, ranks] = GetParam();
  World world(ranks * 100 + backend, ranks, settings(backend));
  world.connect(backend == WEFT_INC_BACKEND_SWITCH);
  ASSERT_TRUE(world.run_to(Group::State::ready)) << world.groups[0]->error();
  // Fewer elements than ranks, a message and one element more, several windows.
  for (const std::uint64_t count : {1, 3, 129, 900}) {
    for (const Collective collective : kData) {
      for (std::uint32_t root = 0; root < ranks; root += collective == Collective::reduce ? 1 : ranks - 1) {
        for (const bool in_place : {false, true}) {
          run_case<std::int32_t>(world, {collective, DataType::int32, Op::sum, root, count, in_place});
        }
      }
    }
  }
  run_case<double>(world, {Collective::allreduce, DataType::fp64, Op::prod, 0, 300, false});
  run_case<std::uint8_t>(world, {Collective::allreduce, DataType::uint8, Op::max, 0, 1001, true});
  const auto info = world.groups[0]->info();
  const bool on_switch = backend == WEFT_INC_BACKEND_SWITCH;
  EXPECT_EQ(info.reason, on_switch ? WEFT_INC_REASON_NONE : WEFT_INC_REASON_HOSTS_ASKED);
  EXPECT_EQ(world.fabric.adder.collectives() > 0, on_switch);
  EXPECT_EQ(info.calls[info.reason], std::accumulate(std::begin(info.calls), std::end(info.calls), std::uint64_t{0}));
}

TEST_P(Backend, NobodyLeavesABarrierBeforeAllAreThere) {
  const auto [backend, ranks] = GetParam();
  World world(ranks * 7 + backend, ranks, settings(backend));
  world.connect(backend == WEFT_INC_BACKEND_SWITCH);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  const Call barrier{Collective::barrier, nullptr, nullptr, 0, {}, {}, 0};
  for (std::uint32_t late = 0; late < ranks; ++late) {
    std::vector<std::shared_ptr<Request>> requests;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (r != late) requests.push_back(world.groups[r]->post(barrier));
    }
    world.run([&] { return all_over(requests); });
    for (const auto& request : requests) EXPECT_FALSE(over(request)) << "without rank " << late;
    requests.push_back(world.groups[late]->post(barrier));
    EXPECT_TRUE(world.run([&] { return all_over(requests); }));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Backend,
                         ::testing::Combine(::testing::Values(WEFT_INC_BACKEND_SWITCH, WEFT_INC_BACKEND_RING,
                                                              WEFT_INC_BACKEND_TREE),
                                            ::testing::Values(2, 3, 4, 5, 8)));

/// Broadcasts from all in turn, with ranks that run at other times: what comes early waits.
TEST(Group, ManyAreUnderWayAtOnceAndComeInOrder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed, 4, settings(WEFT_INC_BACKEND_SWITCH));
    world.connect(true);
    ASSERT_TRUE(world.run_to(Group::State::ready));
    constexpr std::uint32_t kCalls = 12;
    std::vector<std::vector<std::vector<std::uint32_t>>> data(4);
    std::vector<std::shared_ptr<Request>> requests;
    Rng draw(seed);
    for (auto& of_rank : data) of_rank.assign(kCalls, std::vector<std::uint32_t>(500));
    for (const std::uint32_t r : {2u, 0u, 3u, 1u}) {
      for (std::uint32_t k = 0; k < kCalls; ++k) {
        auto& vector = data[r][k];
        std::fill(vector.begin(), vector.end(), 100 * k + r);
        const auto kind = k % 3 == 0 ? Collective::broadcast : k % 3 == 1 ? Collective::reduce : Collective::allreduce;
        const Call call{kind, vector.data(), vector.data(), vector.size(), DataType::uint32, Op::sum, k % 4};
        requests.push_back(world.groups[r]->post(call));
      }
      for (std::uint64_t i = draw.below(300); i > 0; --i) world.run([i = 3]() mutable { return --i == 0; });
    }
    ASSERT_TRUE(world.run([&] { return all_over(requests); })) << "seed " << seed;
    for (std::uint32_t r = 0; r < 4; ++r) {
      for (std::uint32_t k = 0; k < kCalls; ++k) {
        if (k % 3 == 1 && r != k % 4) continue;
        const std::uint32_t right = k % 3 == 0 ? 100 * k + k % 4 : 400 * k + 6;
        EXPECT_EQ(data[r][k], std::vector<std::uint32_t>(500, right)) << "rank " << r << ", call " << k;
      }
    }
  }
}

TEST(Group, SwitchesAndHostsTakeTurns) {
  GroupSettings s = settings(WEFT_INC_BACKEND_AUTO);
  s.min_bytes = 100;
  s.max_bytes = 3000;
  World world(5, 4, s);
  world.connect(true);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  const std::vector<std::size_t> counts{10, 25, 100, 751, 750, 1, 400, 24, 2000};
  std::vector<std::vector<std::vector<std::uint32_t>>> data(4);
  std::vector<std::shared_ptr<Request>> requests;
  for (std::uint32_t r = 0; r < 4; ++r) {
    for (const std::size_t count : counts) data[r].emplace_back(count, r + 1);
    for (auto& v : data[r]) {
      requests.push_back(
          world.groups[r]->post({Collective::allreduce, v.data(), v.data(), v.size(), DataType::uint32, Op::sum, 0}));
    }
  }
  ASSERT_TRUE(world.run([&] { return all_over(requests); }));
  for (const auto& of_rank : data) {
    for (const auto& v : of_rank) EXPECT_EQ(v, std::vector<std::uint32_t>(v.size(), 10));
  }
  const auto info = world.groups[2]->info();
  EXPECT_EQ(info.calls[WEFT_INC_REASON_NONE], 4u);
  EXPECT_EQ(info.calls[WEFT_INC_REASON_TOO_SMALL], 3u);
  EXPECT_EQ(info.calls[WEFT_INC_REASON_TOO_LARGE], 2u);
  EXPECT_EQ(world.fabric.adder.collectives(), 4u);
}

TEST(Group, SaysWhatSwitchesWouldRun) {
  World world(1, 2, settings(WEFT_INC_BACKEND_AUTO));
  const auto& g = *world.groups[0];
  EXPECT_EQ(g.can(Collective::allreduce, DataType::fp32, Op::sum, 8), WEFT_INC_REASON_NOT_READY);
  world.connect(true);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  EXPECT_EQ(g.can(Collective::allreduce, DataType::fp32, Op::sum, 8), WEFT_INC_REASON_NONE);
  EXPECT_EQ(g.can(Collective::allreduce, DataType::fp32, Op::band, 8), WEFT_INC_REASON_NO_OPERATION);
  EXPECT_EQ(g.can(Collective::broadcast, DataType::fp32, Op::band, 8), WEFT_INC_REASON_NONE);
  EXPECT_EQ(g.can(Collective::broadcast, static_cast<DataType>(99), Op::sum, 8), WEFT_INC_REASON_NO_OPERATION);
  EXPECT_EQ(g.can(static_cast<Collective>(6), DataType::fp32, Op::sum, 8), WEFT_INC_REASON_NO_OPERATION);
}

TEST(Group, TakesSoManyRequestsAtATime) {
  World world(1, 2, settings(WEFT_INC_BACKEND_AUTO));
  world.connect(true);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  const Call barrier{Collective::barrier, nullptr, nullptr, 0, {}, {}, 0};
  for (std::size_t i = 0; i < Group::kMaxRequests; ++i) ASSERT_NE(world.groups[0]->post(barrier), nullptr);
  EXPECT_EQ(world.groups[0]->post(barrier), nullptr);
}

TEST(Group, RanksThatRunOtherCollectivesFail) {
  for (const auto backend : {WEFT_INC_BACKEND_TREE, WEFT_INC_BACKEND_RING}) {
    World world(3, 2, settings(backend));
    world.connect(false);
    ASSERT_TRUE(world.run_to(Group::State::ready));
    std::vector<std::uint32_t> a(100), b(100);
    const Call longer{Collective::allreduce, a.data(), a.data(), 100, DataType::uint32, Op::sum, 0};
    const Call shorter{Collective::allreduce, b.data(), b.data(), 60, DataType::uint32, Op::sum, 0};
    const std::vector<std::shared_ptr<Request>> requests{world.groups[0]->post(longer), world.groups[1]->post(shorter)};
    world.run([&] { return over(requests[0]); });
    EXPECT_EQ(requests[0]->state, Request::State::failed);
    EXPECT_NE(requests[0]->error.find("ranks run different collectives"), std::string::npos) << requests[0]->error;
    EXPECT_EQ(world.groups[0]->state(), Group::State::failed);
  }
}

TEST(Group, OneRankIsDoneAtOnce) {
  World world(1, 1, settings(WEFT_INC_BACKEND_AUTO));
  world.connect(false);
  EXPECT_EQ(world.groups[0]->info().reason, WEFT_INC_REASON_SINGLE_RANK);
  for (const Collective c : kData) run_case<std::int32_t>(world, {c, DataType::int32, Op::sum, 0, 5, false});
}

/// A block is on its way to the next rank before the one before it is acknowledged, and nothing is overwritten that may
/// have to be sent once more.
TEST(Group, StepsOfHostsOverlap) {
  for (const auto backend : {WEFT_INC_BACKEND_RING, WEFT_INC_BACKEND_TREE}) {
    for (std::uint32_t ranks = 2; ranks <= 6; ++ranks) {
      World world(ranks, ranks, settings(backend));
      world.fabric.late_acks = true;
      world.connect(false);
      ASSERT_TRUE(world.run_to(Group::State::ready));
      for (const std::uint64_t count : {1, 128, 400, 3000}) {
        for (const Collective collective : kData) {
          for (const bool in_place : {false, true}) {
            run_case<std::int32_t>(world, {collective, DataType::int32, Op::sum, ranks - 1, count, in_place});
          }
        }
      }
    }
  }
}

TEST(Group, ARingDoesNotWaitForTheAcknowledgementOfAStep) {
  World world(1, 4, settings(WEFT_INC_BACKEND_RING));
  world.connect(false);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  std::vector<std::vector<std::uint32_t>> data(4, std::vector<std::uint32_t>(400, 1));
  std::vector<std::shared_ptr<Request>> requests;
  world.fabric.holds_acks_of_hosts = true;
  for (std::uint32_t r = 0; r < 4; ++r) {
    requests.push_back(world.groups[r]->post(
        {Collective::allreduce, data[r].data(), data[r].data(), 400, DataType::uint32, Op::sum, 0}));
  }
  world.run([] { return false; });
  EXPECT_EQ(world.fabric.unacknowledged(), 4u * 3) << "a window of each rank, of a message in each step";
  world.fabric.release_acks();
  ASSERT_TRUE(world.run([&] { return all_over(requests); }));
  EXPECT_EQ(data[2], std::vector<std::uint32_t>(400, 4));
}

/// What everybody gives to is over with its result: the program may use its memory for something else.
TEST(Group, ASmallAllReduceDoesNotWaitForAcknowledgements) {
  World world(1, 4, settings(WEFT_INC_BACKEND_SWITCH));
  world.connect(true);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  const std::size_t regions = world.fabric.regions.size();
  for (int round = 0; round < 3; ++round) {
    world.fabric.holds_acks = true;
    std::vector<std::vector<std::uint32_t>> in(4, std::vector<std::uint32_t>(100, 2)), out = in;
    std::vector<std::shared_ptr<Request>> requests;
    for (std::uint32_t r = 0; r < 4; ++r) {
      requests.push_back(world.groups[r]->post(
          {Collective::allreduce, in[r].data(), out[r].data(), 100, DataType::uint32, Op::sum, 0}));
    }
    ASSERT_TRUE(world.run([&] { return all_over(requests); }));
    EXPECT_EQ(world.fabric.regions.size(), regions);
    for (std::uint32_t r = 0; r < 4; ++r) {
      EXPECT_EQ(out[r], std::vector<std::uint32_t>(100, 8));
      std::fill(in[r].begin(), in[r].end(), 3);
    }
    world.fabric.release_acks();
    world.run([] { return false; });
  }
}

/// Who only gives does not know before that the switch has it.
TEST(Group, AReduceWaitsForAcknowledgements) {
  World world(1, 2, settings(WEFT_INC_BACKEND_SWITCH));
  world.connect(true);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  world.fabric.holds_acks = true;
  std::uint32_t a = 1, b = 2;
  const std::vector<std::shared_ptr<Request>> requests{
      world.groups[0]->post({Collective::reduce, &a, &a, 1, DataType::uint32, Op::sum, 0}),
      world.groups[1]->post({Collective::reduce, &b, nullptr, 1, DataType::uint32, Op::sum, 0})};
  world.run([] { return false; });
  EXPECT_TRUE(over(requests[0]));
  EXPECT_EQ(a, 3u);
  EXPECT_FALSE(over(requests[1]));
  world.fabric.release_acks();
  EXPECT_TRUE(world.run([&] { return all_over(requests); }));
}

TEST(Group, RegisteredMemoryIsUsedAsItIs) {
  World world(1, 2, settings(WEFT_INC_BACKEND_SWITCH));
  world.connect(true);
  ASSERT_TRUE(world.run_to(Group::State::ready));
  constexpr std::size_t kLarge = SwitchPath::kMostCopied;
  std::vector<std::uint32_t> a(kLarge, 1), b(kLarge, 2);
  world.memories[0]->add(a.data(), a.size() * 4);
  const std::uint32_t keys = world.fabric.next_key;
  const std::vector<std::shared_ptr<Request>> requests{
      world.groups[0]->post({Collective::allreduce, &a[10], &a[10], kLarge - 10, DataType::uint32, Op::sum, 0}),
      world.groups[1]->post({Collective::allreduce, &b[10], &b[10], kLarge - 10, DataType::uint32, Op::sum, 0})};
  EXPECT_EQ(world.fabric.next_key, keys + 1) << "only rank 1's was not registered";
  ASSERT_TRUE(world.run([&] { return all_over(requests); }));
  EXPECT_EQ(a[10], 3u);
  world.memories[0]->remove(a.data());
}

}  // namespace
}  // namespace weft::inc::comm::testing
