// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/mode_i.h"

#include <gtest/gtest.h>

#include "tests/collectives/engine/disagreement.h"
#include "tests/collectives/engine/hosts.h"
#include "tests/collectives/engine/network.h"
#include "tests/support/effort.h"

namespace weft::inc {
namespace {

using testing::Collective;
using testing::Faults;
using testing::host;
using testing::kMixed;
using testing::Network;
using testing::RnrWatch;

GroupConfig group(std::uint32_t window = 2, std::uint32_t message_packets = 2) {
  GroupConfig g = testing::leaf();
  g.mode = Mode::i;
  g.window = window;
  g.message_packets = message_packets;
  g.rnr_timer = 1;
  g.timeout = 7;
  return g;
}

TEST(ModeI, BroadcastsBetweenBarriersFillNoTableForEver) {
  testing::expect_no_table_full_for_ever(group(), {0, 1, 1, 1});
}

TEST(ModeI, EveryPrimitiveInAnySequenceGivesWhatOneMachineWould) {
  for (const std::uint32_t packets : {1u, 2u, 3u}) {
    for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
      Network n(group(4, packets), host(), kMixed, {}, seed);
      ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
      n.drain();
      for (std::size_t node = 0; node < 3; ++node) {
        const GroupCounters& c = n.at(node).counters();
        EXPECT_EQ(c.duplicates + c.stale + c.timeouts, 0u);
        EXPECT_EQ(n.at(node).table().live(), 0u) << "all is forgotten";
        EXPECT_FALSE(n.at(node).waiting().has_value());
      }
    }
  }
}

TEST(ModeI, LossDuplicationAndOvertakingChangeNothingOfTheResult) {
  const std::vector<std::pair<const char*, Faults>> kinds{{"loss", {.loss = 0.02}},
                                                          {"duplicates", {.duplicate = 0.05}},
                                                          {"overtaking", {.overtake = 0.05}},
                                                          {"all", {0.02, 0.02, 0.02, 0.1}}};
  for (const auto& [name, faults] : kinds) {
    for (const auto recovery : {nic::LossRecovery::gbn, nic::LossRecovery::nic_sr, nic::LossRecovery::irn}) {
      for (std::uint64_t seed = 1; seed <= weft::testing::rounds(40); ++seed) {
        Network n(group(1 + seed % 3), host(recovery), kMixed, faults, seed);
        ASSERT_EQ(n.run(), "done") << name << ", recovery " << static_cast<int>(recovery) << ", seed " << seed << ": "
                                   << n.why();
      }
    }
  }
}

// Each rank gives its own address and key; what a rank receives has those of its endpoint.
TEST(ModeI, WritesWithImmediateGoWhereEachRankWantsThem) {
  for (const Faults& faults : {Faults{}, Faults{.loss = 0.02}, Faults{0.02, 0.02, 0.02, 0.1}}) {
    for (const auto recovery : {nic::LossRecovery::gbn, nic::LossRecovery::nic_sr, nic::LossRecovery::irn}) {
      for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
        Network n(group(), host(recovery), kMixed, faults, seed, testing::Verb::write_imm);
        ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
      }
    }
  }
}

TEST(ModeI, RandomSequencesEndRight) {
  for (std::uint64_t seed = 1; seed <= weft::testing::rounds(2000); ++seed) {
    testing::Drawn d(seed, group());
    if (d.one_of(4) == 0) d.recovery = nic::LossRecovery::irn;
    const auto between = static_cast<nic::LossRecovery>(d.one_of(3));
    for (EndpointConfig& e : d.group.endpoints) {
      if (!e.rank) e.loss_recovery = between;
    }
    Network n(d.group, host(d.recovery), d.program, d.faults, seed, d.verb);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
  }
}

// Six seconds under a sanitizer.
const nic::Time kLate = weft::testing::rounds(60'000) * nic::kMs;

// A rank that begins 60 s late, with a timeout of 67 ms and 6 retries: the others find no buffer, and none gives up.
TEST(ModeI, ARankMayBeLateByAnyTime) {
  nic::QpConfig c = host();
  c.rto_ns = 67'108'864;
  c.retry_count = 6;
  for (const Primitive first : {Primitive::allreduce, Primitive::reduce}) {
    GroupConfig g = group(1);
    g.rnr_timer = 14;
    Network n(g, c, {{first, 0, 5}, {Primitive::allreduce, 0, 5}}, {}, 3);
    n.rank(3).late = true;
    RnrWatch watch;
    n.lose = std::ref(watch);
    const nic::Time begin = n.now;
    n.on_time = [&](nic::Time now) { n.rank(3).late = now < begin + kLate; };
    std::string end = n.run();
    if (end == "stuck") {
      // All that fits is taken, and acknowledged: nothing is under way.
      n.now = begin + kLate;
      n.rank(3).late = false;
      end = n.run();
    }
    ASSERT_EQ(end, "done") << to_string(first) << n.why();
    EXPECT_GE(n.now - begin, kLate);
    EXPECT_EQ(watch.without_ack, 0u) << "of " << watch.naks;
  }
}

// The rank behind the parent is late: the leaf says of whom it has what, and of whom it waits.
TEST(ModeI, SaysWhatItWaitsFor) {
  Network n(group(), host(), {{Primitive::allreduce, 0, 5}}, {}, 1);
  n.rank(1).late = true;
  EXPECT_EQ(n.run(5'000), "endless");
  const auto waiting = n.at(0).waiting();
  ASSERT_TRUE(waiting.has_value());
  EXPECT_EQ(waiting->index, 0u);
  EXPECT_FALSE(waiting->for_result);
  EXPECT_FALSE(waiting->missing.has(0));
  EXPECT_TRUE(waiting->missing.has(1));
  EXPECT_EQ(waiting->invocation->message.primitive, Primitive::allreduce);
}

// A rank that contributes and acknowledges no result is the one that is named, not its neighbour, who has sent as much.
TEST(ModeI, SaysWhoseAcknowledgementItWaitsFor) {
  GroupConfig patient = group();
  patient.timeout = 24;
  Network n(patient, host(), {{Primitive::allreduce, 0, 20}}, {}, 1);
  n.lose = [](std::size_t node, const nic::Packet& p) { return node == 1 && p.info().is_request(); };
  n.patient = true;
  n.run(5'000);
  const auto waiting = n.at(0).waiting();
  ASSERT_TRUE(waiting.has_value());
  EXPECT_TRUE(waiting->for_result);
  EXPECT_FALSE(waiting->missing.has(0));
  EXPECT_TRUE(waiting->missing.has(1));
}

TEST(ModeI, RanksThatDisagreeAllHearOfItAndNothingIsMixed) {
  testing::expect_that_disagreement_is_told(group());
}

TEST(ModeI, APeerThatAnswersNothingEndsTheGroup) {
  Network n(group(), host(), {{Primitive::allreduce, 0, 5}}, {}, 1);
  n.lose = [](std::size_t node, const nic::Packet&) { return node == 3; };
  n.patient = true;
  EXPECT_EQ(n.run(), "stuck");
  ASSERT_TRUE(n.at(1).failure().has_value());
  EXPECT_EQ(n.at(1).failure()->reason, Failure::Reason::peer_silent);
  EXPECT_EQ(n.at(1).failure()->endpoint, 1);
  ASSERT_TRUE(n.at(0).failure().has_value());
  EXPECT_EQ(n.at(0).failure()->reason, Failure::Reason::peer_failed);
}

// With 7 retries after 4.2 ms each, 35 ms would end the group.
TEST(ModeI, APeerMayBeSilentForHalfASecond) {
  constexpr nic::Time kSilent = 500 * nic::kMs;
  nic::QpConfig c = host();
  c.rto_ns = kSilent;
  GroupConfig g = group();
  g.timeout = 10;
  Network n(g, c, {{Primitive::allreduce, 0, 5}}, {}, 1);
  const nic::Time begin = n.now;
  n.lose = [&](std::size_t node, const nic::Packet&) { return node == 3 && n.now < begin + kSilent; };
  n.patient = true;
  ASSERT_EQ(n.run(), "done") << n.why();
  EXPECT_GE(n.now - begin, kSilent);
}

TEST(ModeI, MarksReachTheHosts) {
  Network clean(group(), host(), kMixed, {}, 1), marked(group(), host(), kMixed, {.mark = 0.2}, 1);
  ASSERT_EQ(clean.run(), "done");
  ASSERT_EQ(marked.run(), "done");
  EXPECT_EQ(clean.marked_arrivals, 0u);
  EXPECT_GT(marked.marked_arrivals, 30u);
}

// A copy made in the middle ends as the original does, each in memory of its own.
TEST(ModeI, ACopyGoesOnByItself) {
  struct Out final : Sink {
    void send(EndpointIndex to, const nic::Packet& p, bool) override {
      if (!p.info().is_request()) return;
      for (std::size_t i = 0; i < p.payload.count; ++i) {
        const auto* from = p.payload.pieces[i].data;
        bytes[to].insert(bytes[to].end(), from, from + p.payload.pieces[i].bytes);
      }
    }
    std::array<testing::Bytes, 2> bytes;
  };
  GroupConfig g = testing::star(2);
  g.mode = Mode::i;
  g.window = 2;
  g.message_packets = 2;
  IncEngine engine(g);
  Out out;
  testing::Bytes kept;
  const auto announcement = testing::message(Primitive::allreduce, 0, 2 * testing::kMtu);
  const auto give = [&](IncEngine& to, EndpointIndex e, Sink& sink, std::uint32_t value) {
    const testing::Bytes half = testing::bytes_of(std::vector<std::uint32_t>(testing::kMtu / 4, value));
    const wire::Psn first = g.endpoints[e].first_rx;
    to.on_packet(nic::kMs, e, testing::control(first, announcement, kept), false, sink);
    to.on_packet(nic::kMs, e, testing::data(first + 1, wire::Opcode::RC_SEND_FIRST, half), false, sink);
    to.on_packet(nic::kMs, e, testing::data(first + 2, wire::Opcode::RC_SEND_LAST, half), false, sink);
  };
  give(engine, 0, out, 1);
  IncEngine copy = engine;
  EXPECT_TRUE(copy == engine);
  Out copied;
  give(engine, 1, out, 10);
  EXPECT_FALSE(copy == engine);
  give(copy, 1, copied, 20);
  const auto sums = [](const Out& o) {
    std::uint32_t v = 0;
    EXPECT_EQ(o.bytes[0].size(), kControlPayloadBytes + 2 * testing::kMtu);
    if (o.bytes[0].size() >= kControlPayloadBytes + 4) std::memcpy(&v, o.bytes[0].data() + kControlPayloadBytes, 4);
    return v;
  };
  EXPECT_EQ(sums(out), 11u);
  EXPECT_EQ(sums(copied), 21u);
}

// Three ranks at a switch with room for one message that is sent: the second collective begins where the first has
// stopped for want of room. It may not overtake, whoever asks first when there is room again.
class OneAfterTheOther : public ::testing::Test, public Sink {
 protected:
  OneAfterTheOther() : group_(testing::star(3)) {
    group_.mode = Mode::i;
    engine_.emplace(group_);
  }
  void send(EndpointIndex to, const nic::Packet& p, bool) override {
    if (p.info().is_request()) sent_.emplace_back(to, p.opcode);
  }
  void control(EndpointIndex e, Primitive primitive, std::uint16_t sequence, std::uint16_t root) {
    testing::Bytes kept;
    const auto announcement = testing::message(primitive, sequence, testing::kMtu, root);
    engine_->on_packet(nic::kMs, e, testing::control(next(e), announcement, kept), false, *this);
  }
  void data(EndpointIndex e) {
    const testing::Bytes bytes(testing::kMtu, 1);
    engine_->on_packet(nic::kMs, e, testing::data(next(e), wire::Opcode::RC_SEND_ONLY, bytes), false, *this);
  }
  void acknowledge(EndpointIndex e) {
    nic::Packet p;
    p.psn = group_.endpoints[e].first_tx;
    p.syndrome = wire::Syndrome::ack().raw();
    engine_->on_packet(nic::kMs, e, p, false, *this);
  }
  std::vector<std::pair<EndpointIndex, wire::Opcode>> sent_;

 private:
  wire::Psn next(EndpointIndex e) { return group_.endpoints[e].first_rx + counts_[e]++; }

  GroupConfig group_;
  std::optional<IncEngine> engine_;
  std::array<std::uint32_t, 3> counts_{};
};

TEST_F(OneAfterTheOther, WhatIsAddedIsOfOneCollective) {
  for (const EndpointIndex e : {1, 2}) control(e, Primitive::reduce, 0, 0);
  for (const EndpointIndex e : {1, 2}) data(e);
  control(0, Primitive::reduce, 1, 1);
  ASSERT_EQ(sent_.size(), 1u);
  acknowledge(0);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1], std::pair(EndpointIndex{0}, wire::Opcode::RC_SEND_ONLY));
}

TEST_F(OneAfterTheOther, EveryStreamIsInOrder) {
  control(1, Primitive::broadcast, 0, 1);
  data(1);
  control(0, Primitive::broadcast, 1, 0);
  ASSERT_EQ(sent_.size(), 2u);
  for (const EndpointIndex e : {0, 2}) acknowledge(e);
  ASSERT_EQ(sent_.size(), 4u);
  EXPECT_EQ(sent_[2], std::pair(EndpointIndex{0}, wire::Opcode::RC_SEND_ONLY));
  EXPECT_EQ(sent_[3], std::pair(EndpointIndex{2}, wire::Opcode::RC_SEND_ONLY));
}

// Two ranks whose WRITEs are aimed at different places, or are not as long as they say, end the group.
TEST(ModeI, WritesThatDoNotBelongTogetherAreNotAdded) {
  struct Quiet final : Sink {
    void send(EndpointIndex, const nic::Packet& p, bool) override { written += is_write(p.opcode) ? 1 : 0; }
    int written = 0;
  };
  GroupConfig g = testing::star(2);
  g.mode = Mode::i;
  g.window = 2;
  const auto announcement = testing::message(Primitive::allreduce, 0, testing::kMtu);
  const testing::Bytes bytes(testing::kMtu, 1);
  const auto run = [&](std::uint64_t offset, std::uint32_t length) {
    IncEngine engine(g);
    Quiet sink;
    for (EndpointIndex e = 0; e < 2; ++e) {
      testing::Bytes kept;
      const wire::Psn first = g.endpoints[e].first_rx;
      engine.on_packet(nic::kMs, e, testing::control(first, announcement, kept), false, sink);
      nic::Packet write = testing::data(first + 1, wire::Opcode::RC_RDMA_WRITE_ONLY_IMM, bytes);
      write.remote_address = g.endpoints[e].address + (e == 1 ? offset : 64);
      write.dma_length = e == 1 ? length : testing::kMtu;
      engine.on_packet(nic::kMs, e, write, false, sink);
    }
    return std::pair(engine.failure().has_value(), sink.written);
  };
  EXPECT_EQ(run(64, testing::kMtu), std::pair(false, 2));
  EXPECT_EQ(run(65, testing::kMtu), std::pair(true, 0));
  EXPECT_EQ(run(64, testing::kMtu - 1), std::pair(true, 0));
}

}  // namespace
}  // namespace weft::inc
