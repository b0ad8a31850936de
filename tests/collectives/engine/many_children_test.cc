// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Collectives of one switch with as many children as it may have, in each mode: what every neighbour gets, to the last
// bit. Nothing is lost here; neighbours acknowledge what they get.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/engine/inc_engine.h"
#include "switch/base/rng.h"
#include "tests/collectives/engine/groups.h"

namespace weft::inc {
namespace {

using testing::Bytes;
using wire::Opcode;
using wire::Syndrome;

constexpr EndpointIndex kMostChildren = 64;
/// Two full packets and a short one.
constexpr std::uint32_t kElements = 2 * testing::kMtu / 4 + 25;

/// A switch, and neighbours that say what they are told to.
class Star final : public Sink {
 public:
  explicit Star(const GroupConfig& group)
      : group_(group), engine_(group), sent_(group.endpoints.size()), got(group.endpoints.size()) {}

  void send(EndpointIndex to, const nic::Packet& p, bool) override {
    if (!p.info().is_request()) return;
    Bytes payload;
    for (std::size_t i = 0; i < p.payload.count; ++i) {
      const auto& piece = p.payload.pieces[i];
      payload.insert(payload.end(), piece.data, piece.data + piece.bytes);
    }
    EXPECT_EQ(p.psn, group_.endpoints[to].first_tx + static_cast<std::uint32_t>(got[to].size())) << int{to};
    got[to].push_back(std::move(payload));
    answers_.emplace_back(to, testing::answer(p.psn, Syndrome::ack(), static_cast<std::uint32_t>(got[to].size())));
  }

  /// The next packet of a neighbour's stream.
  void say(EndpointIndex from, const ControlMessage& m) {
    Bytes kept;
    hand_in(from, testing::control(next_psn(from), m, kept));
  }
  void say(EndpointIndex from, const Bytes& data) {
    nic::Packet p = testing::data(next_psn(from), Opcode::RC_SEND_ONLY, data);
    p.ack_req = true;
    hand_in(from, p);
  }

  /// Runs one collective: these endpoints send their vectors, in this order in each step, of which the first has
  /// control messages. Where there is a parent and everyone takes part, it answers by `result` of the sum that it gets.
  void run(const ControlMessage& m, const std::vector<EndpointIndex>& order, const std::vector<Bytes>& vectors,
           const std::function<Bytes(Bytes)>& result = {}) {
    const std::uint32_t packets = static_cast<std::uint32_t>((m.bytes + testing::kMtu - 1) / testing::kMtu);
    for (std::uint32_t index = 0; index <= packets; ++index) {
      for (const EndpointIndex e : order) index == 0 ? say(e, m) : say(e, part(vectors[e], index));
      if (!result) continue;
      const Bytes up = got[*group_.parent].back();
      index == 0 ? say(*group_.parent, m) : say(*group_.parent, result(up));
    }
    EXPECT_FALSE(engine_.failure().has_value());
  }
  /// All data that an endpoint has got, and nothing but one control message in front of it.
  [[nodiscard]] Bytes data(EndpointIndex e) const {
    Bytes all;
    for (std::size_t i = 1; i < got[e].size(); ++i) all.insert(all.end(), got[e][i].begin(), got[e][i].end());
    return all;
  }

 private:
  static Bytes part(const Bytes& vector, std::uint32_t index) {
    const auto begin = vector.begin() + (index - 1) * testing::kMtu;
    return {begin, begin + std::min<std::ptrdiff_t>(testing::kMtu, vector.end() - begin)};
  }
  wire::Psn next_psn(EndpointIndex e) { return group_.endpoints[e].first_rx + sent_[e]++; }
  void hand_in(EndpointIndex from, const nic::Packet& p) {
    engine_.on_packet(nic::kMs, from, p, false, *this);
    while (!answers_.empty()) {
      const auto [to, ack] = answers_.front();
      answers_.erase(answers_.begin());
      engine_.on_packet(nic::kMs, to, ack, false, *this);
    }
  }

  GroupConfig group_;
  IncEngine engine_;
  std::vector<std::uint32_t> sent_;
  std::vector<std::pair<EndpointIndex, nic::Packet>> answers_;

 public:
  std::vector<std::vector<Bytes>> got;  ///< payloads by endpoint
};

GroupConfig group(Mode mode, EndpointIndex children, bool parent) {
  GroupConfig g = testing::star(children);
  g.mode = mode;
  if (parent) {
    g.parent = children;
    g.endpoints.push_back({.rank = {}, .first_rx = wire::Psn(500), .first_tx = wire::Psn(700)});
  }
  for (EndpointConfig& e : g.endpoints) e.address = e.rkey = 0;
  EXPECT_EQ(IncEngine::check(g), std::nullopt);
  return g;
}

ControlMessage call(Primitive primitive, DataType type, std::uint16_t root = 0, std::uint16_t sequence = 0) {
  ControlMessage m = testing::message(primitive, sequence, kElements * 4, root);
  m.type = type;
  return m;
}

std::vector<EndpointIndex> everyone_but(EndpointIndex children, int root = -1) {
  std::vector<EndpointIndex> all;
  for (EndpointIndex e = 0; e < children; ++e) {
    if (e != root) all.push_back(e);
  }
  return all;
}

std::vector<EndpointIndex> shuffled(std::vector<EndpointIndex> order, Rng& rng) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

std::vector<Bytes> integers(EndpointIndex children) {
  std::vector<Bytes> all;
  for (std::uint32_t e = 0; e < children; ++e) {
    std::vector<std::uint32_t> v(kElements);
    for (std::uint32_t i = 0; i < kElements; ++i) v[i] = e * e + 1000 * e + 7 * i;
    all.push_back(testing::bytes_of(v));
  }
  return all;
}

Bytes sum_of(const std::vector<Bytes>& vectors, const std::vector<EndpointIndex>& of, std::uint32_t more = 0) {
  std::vector<std::uint32_t> sum(kElements, more), one(kElements);
  for (const EndpointIndex e : of) {
    std::memcpy(one.data(), vectors[e].data(), vectors[e].size());
    for (std::uint32_t i = 0; i < kElements; ++i) sum[i] += one[i];
  }
  return testing::bytes_of(sum);
}

class IncManyChildren : public ::testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Mode, IncManyChildren, ::testing::Values(Mode::i, Mode::ii, Mode::iii));

TEST_P(IncManyChildren, SixtyFourRanksGetWhatOneMachineWouldHaveAddedUp) {
  const auto vectors = integers(kMostChildren);
  Rng rng(3);
  for (const bool reproducible : {false, true}) {
    GroupConfig g = group(GetParam(), kMostChildren, false);
    g.reproducible = reproducible;
    const auto all = everyone_but(kMostChildren);
    Star allreduce(g);
    allreduce.run(call(Primitive::allreduce, DataType::uint32), shuffled(all, rng), vectors);
    for (const EndpointIndex e : all) EXPECT_EQ(allreduce.data(e), sum_of(vectors, all)) << int{e};

    constexpr EndpointIndex kRoot = 63;
    const auto others = everyone_but(kMostChildren, kRoot);
    Star reduce(g);
    reduce.run(call(Primitive::reduce, DataType::uint32, kRoot), shuffled(others, rng), vectors);
    EXPECT_EQ(reduce.data(kRoot), sum_of(vectors, others));
    for (const EndpointIndex e : others) EXPECT_TRUE(reduce.got[e].empty()) << int{e};

    Star broadcast(g);
    broadcast.run(call(Primitive::broadcast, DataType::uint32, kRoot), {kRoot}, vectors);
    for (const EndpointIndex e : others) EXPECT_EQ(broadcast.data(e), vectors[kRoot]) << int{e};
    EXPECT_TRUE(broadcast.got[kRoot].empty());
  }
}

TEST_P(IncManyChildren, SixtyFourRanksBelowAParentGetWhatItSays) {
  const auto vectors = integers(kMostChildren);
  const auto all = everyone_but(kMostChildren);
  Rng rng(4);
  Star s(group(GetParam(), kMostChildren, true));
  // Others behind the parent add a million.
  const auto with_others = [](Bytes sum) {
    std::vector<std::uint32_t> v(sum.size() / 4);
    std::memcpy(v.data(), sum.data(), sum.size());
    for (std::uint32_t& one : v) one += 1'000'000;
    return testing::bytes_of(v);
  };
  s.run(call(Primitive::allreduce, DataType::uint32), shuffled(all, rng), vectors, with_others);
  EXPECT_EQ(s.data(kMostChildren), sum_of(vectors, all)) << "what went up";
  for (const EndpointIndex e : all) EXPECT_EQ(s.data(e), sum_of(vectors, all, 1'000'000)) << int{e};
}

// --- reproducible sums ---

/// Values whose sum depends on the order in which they are added.
std::vector<Bytes> floats(EndpointIndex children) {
  Rng rng(11);
  std::vector<Bytes> all;
  for (EndpointIndex e = 0; e < children; ++e) {
    std::vector<float> v(kElements);
    for (float& one : v) {
      const auto small = static_cast<float>(rng.below(1000));
      one = rng.below(3) == 0 ? small : (rng.below(2) == 0 ? 1e8f : -1e8f) + small;
    }
    all.push_back(testing::bytes_of(v));
  }
  return all;
}

/// In the order of the ranks: the one that is stated.
Bytes sum_in_order(const std::vector<Bytes>& vectors, const std::vector<EndpointIndex>& order) {
  std::vector<float> sum(kElements), one(kElements);
  bool first = true;
  for (const EndpointIndex e : order) {
    std::memcpy((first ? sum : one).data(), vectors[e].data(), vectors[e].size());
    for (std::uint32_t i = 0; i < kElements && !first; ++i) sum[i] = sum[i] + one[i];
    first = false;
  }
  return testing::bytes_of(sum);
}

/// A ReduceScatter is a Reduce to each rank in turn. An AllReduce, by another group.
void expect_sums_in_order(Mode mode, EndpointIndex ranks, std::uint64_t seeds) {
  GroupConfig g = group(mode, ranks, false);
  g.reproducible = true;
  const auto vectors = floats(ranks);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Rng rng(seed);
    Star s(g);
    for (EndpointIndex root = 0; root < ranks; ++root) {
      const auto others = everyone_but(ranks, root);
      s.run(call(Primitive::reduce, DataType::fp32, root, root), shuffled(others, rng), vectors);
      ASSERT_EQ(s.data(root), sum_in_order(vectors, others)) << "root " << int{root} << ", seed " << seed;
    }
    for (auto& packets : s.got) EXPECT_EQ(packets.size(), 4u);
    Star all(g);
    all.run(call(Primitive::allreduce, DataType::fp32), shuffled(everyone_but(ranks), rng), vectors);
    for (EndpointIndex e = 0; e < ranks; ++e) {
      ASSERT_EQ(all.data(e), sum_in_order(vectors, everyone_but(ranks))) << int{e} << ", seed " << seed;
    }
  }
}

TEST_P(IncManyChildren, ReproducibleSumsOfFourRanksAreThoseInTheOrderOfTheRanks) {
  expect_sums_in_order(GetParam(), 4, 24);
}
TEST_P(IncManyChildren, ReproducibleSumsOfSixtyFourRanksAreThoseInTheOrderOfTheRanks) {
  expect_sums_in_order(GetParam(), kMostChildren, 2);
}

// Otherwise the values above would show nothing.
TEST(IncReproducible, WithoutItSumsAreThoseInTheOrderOfArrival) {
  const auto vectors = floats(4);
  std::vector<EndpointIndex> order = everyone_but(4);
  std::reverse(order.begin(), order.end());
  Star s(group(Mode::ii, 4, false));
  s.run(call(Primitive::allreduce, DataType::fp32), order, vectors);
  EXPECT_EQ(s.data(0), sum_in_order(vectors, order));
  EXPECT_NE(s.data(0), sum_in_order(vectors, everyone_but(4)));
}

}  // namespace
}  // namespace weft::inc
