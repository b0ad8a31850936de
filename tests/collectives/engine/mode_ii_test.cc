// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/mode_ii.h"

#include <gtest/gtest.h>

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

constexpr std::uint32_t kWindow = testing::kSmallWindow;

GroupConfig group() {
  return testing::small_leaf();
}

TEST(ModeII, EveryPrimitiveInAnySequenceGivesWhatOneMachineWould) {
  for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
    Network n(group(), host(), kMixed, {}, seed);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
    for (std::size_t node = 0; node < 3; ++node) {
      const GroupCounters& c = n.at(node).counters();
      EXPECT_EQ(c.duplicates + c.copies + c.rnr_naks + c.stale, 0u) << "nothing is lost, so nothing is repeated";
    }
  }
}

TEST(ModeII, BroadcastsBetweenBarriersFillNoTableForEver) {
  GroupConfig g = group();
  g.window = 32;
  g.slots = 64;
  g.invocations = 66;
  for (const Duplicates duplicates : {Duplicates::cache, Duplicates::reforward}) {
    SCOPED_TRACE(static_cast<int>(duplicates));
    g.duplicates = duplicates;
    for (const std::vector<std::uint16_t>& roots : {std::vector<std::uint16_t>{0, 1, 1, 1}, {0, 3}, {1}}) {
      ASSERT_NO_FATAL_FAILURE(testing::expect_no_table_full_for_ever(g, roots));
    }
  }
}

TEST(ModeII, LossDuplicationAndOvertakingChangeNothingOfTheResult) {
  const std::vector<std::pair<const char*, Faults>> kinds{{"loss", {.loss = 0.02}},
                                                          {"duplicates", {.duplicate = 0.05}},
                                                          {"overtaking", {.overtake = 0.05}},
                                                          {"all", {0.02, 0.02, 0.02, 0.1}}};
  for (const auto& [name, faults] : kinds) {
    for (const Duplicates duplicates : {Duplicates::cache, Duplicates::reforward}) {
      for (const bool filter : {false, true}) {
        for (std::uint64_t seed = 1; seed <= weft::testing::rounds(25); ++seed) {
          GroupConfig g = group();
          g.duplicates = duplicates;
          g.epsn_filter = filter;
          Network n(g, host(), kMixed, faults, seed);
          ASSERT_EQ(n.run(), "done") << name << " seed " << seed << " filter " << filter << ": " << n.why();
        }
      }
    }
  }
}

// Each rank gives its own address and key; what a rank receives has those of its endpoint.
TEST(ModeII, WritesWithImmediateGoWhereEachRankWantsThem) {
  for (const Faults& faults : {Faults{}, Faults{.loss = 0.02}, Faults{0.02, 0.02, 0.02, 0.1}}) {
    for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
      Network n(group(), host(), kMixed, faults, seed, testing::Verb::write_imm);
      ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
    }
  }
}

// What hosts make of Reduces and Broadcasts (EPIC appendix A): the block of each rank on its own.
TEST(ModeII, ReduceScatterAndAllGatherAreSequencesOfReducesAndBroadcasts) {
  std::vector<Collective> program;
  for (std::uint16_t r = 0; r < testing::kRanks; ++r) program.push_back({Primitive::reduce, r, 3});
  for (std::uint16_t r = 0; r < testing::kRanks; ++r) program.push_back({Primitive::broadcast, r, 3});
  for (const Faults& faults : {Faults{}, Faults{0.02, 0.02, 0.02, 0.1}}) {
    for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
      Network n(group(), host(), program, faults, seed);
      ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
    }
  }
}

// A receiver that has lost the end of a Broadcast says nothing of the next one: a NAK of its neighbour, which has that
// end, must not speak for both.
TEST(ModeII, ANakWaitsForThoseWhoLackAnEarlierBroadcast) {
  const std::vector<Collective> program{{Primitive::broadcast, 0, 3}, {Primitive::broadcast, 1, 3}};
  for (std::uint64_t seed = 1200; seed <= 1300; ++seed) {
    Network n(group(), host(), program, {.overtake = 0.02}, seed);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
  }
}

// Any sequence, with every option drawn: what a rank is told last may be lost while others have long gone on.
TEST(ModeII, RandomSequencesEndRight) {
  for (std::uint64_t seed = 1; seed <= weft::testing::rounds(2000); ++seed) {
    const testing::Drawn d(seed, group());
    Network n(d.group, host(d.recovery), d.program, d.faults, seed, d.verb);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
  }
}

TEST(ModeII, AGroupThatCannotBeRunIsRefused) {
  GroupConfig g = group();
  EXPECT_EQ(check_mode_ii(g), std::nullopt);
  g.slots = 5;
  EXPECT_EQ(check_mode_ii(g), "slots are twice the window in packets, 4");
  g = group();
  g.invocations = 5;
  EXPECT_EQ(check_mode_ii(g), "invocations are 64 at least");
  g.mtu = 1000;
  EXPECT_EQ(check_mode_ii(g), "mtu is one of 256, 512, 1024, 2048, 4096");
}

TEST(ModeII, HostsThatKeepEarlyPacketsWorkToo) {
  for (std::uint64_t seed = 1; seed <= weft::testing::rounds(40); ++seed) {
    Network n(group(), host(nic::LossRecovery::nic_sr), kMixed, {.loss = 0.02, .overtake = 0.05}, seed);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
  }
  const std::vector<Collective> no_broadcast{
      {Primitive::allreduce, 0, 9}, {Primitive::reduce, 2, 7}, {Primitive::allreduce, 0, 9}};
  for (std::uint64_t seed = 1; seed <= weft::testing::rounds(40); ++seed) {
    Network n(group(), host(nic::LossRecovery::irn), no_broadcast, {.loss = 0.02, .overtake = 0.05}, seed);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
  }
}

TEST(ModeII, ABroadcastToIrnReceiversIsRefusedByName) {
  Network n(group(), host(nic::LossRecovery::irn), {{Primitive::broadcast, 1, 3}}, {}, 1);
  EXPECT_EQ(n.run(), "failed");
  ASSERT_TRUE(n.at(0).failure().has_value());
  EXPECT_EQ(n.at(0).failure()->reason, Failure::Reason::irn_broadcast);
}

// Six seconds under a sanitizer.
const nic::Time kLate = weft::testing::rounds(60'000) * nic::kMs;

// A rank that begins 60 s late, with a timeout of 67 ms and 6 retries: the others are told to wait, and none gives up.
TEST(ModeII, ARankMayBeLateByAnyTime) {
  nic::QpConfig c = host();
  c.rto_ns = 67'108'864;
  c.retry_count = 6;
  for (const Collective& first : {Collective{Primitive::allreduce, 0, 5}, Collective{Primitive::reduce, 0, 5},
                                  Collective{Primitive::barrier, 0, 0}}) {
    GroupConfig g = group();
    g.rnr_timer = 14;
    Network n(g, c, {first, {Primitive::allreduce, 0, 5}}, {}, 3);
    n.rank(3).late = true;
    RnrWatch watch;
    n.lose = std::ref(watch);
    const nic::Time begin = n.now;
    n.on_time = [&](nic::Time now) { n.rank(3).late = now < begin + kLate; };
    ASSERT_EQ(n.run(), "done") << to_string(first.primitive);
    EXPECT_GE(n.now - begin, kLate);
    EXPECT_EQ(watch.without_ack, 0u) << "of " << watch.naks;
    EXPECT_GT(n.at(0).counters().rnr_naks, 100u);
  }
}

// The last packet of an AllReduce is repeated by the rank to which a long Reduce goes meanwhile: its slot holds
// something else by then, and the ACK must come all the same.
TEST(ModeII, WhatWasAcknowledgedIsAcknowledgedAgainWhenItsSlotIsGone) {
  Network n(group(), host(), {{Primitive::allreduce, 0, 5}, {Primitive::reduce, 2, 40}}, {}, 1);
  const wire::Psn last = testing::leaf().endpoints[0].first_rx + 5;
  int lost = 0;
  n.lose = [&](std::size_t node, const nic::Packet& p) {
    return node == 2 && p.opcode == wire::Opcode::RC_ACKNOWLEDGE && p.psn == last && lost++ < 4;
  };
  ASSERT_EQ(n.run(), "done") << n.why();
  EXPECT_GT(lost, 4);
}

TEST(ModeII, RanksThatDisagreeAllHearOfItAndNothingIsMixed) {
  const std::vector<Collective> right{{Primitive::allreduce, 0, 4}};
  const std::vector<std::pair<const char*, std::vector<Collective>>> wrong{{"size", {{Primitive::allreduce, 0, 5}}},
                                                                           {"primitive", {{Primitive::barrier, 0, 0}}},
                                                                           {"root", {{Primitive::reduce, 1, 4}}}};
  for (const auto& [name, program] : wrong) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Network n(group(), host(), right, {}, seed);
      n.set_program(3, group(), program);
      n.patient = true;
      EXPECT_EQ(n.run(), "stuck") << name;
      for (std::size_t r = 0; r < testing::kRanks; ++r) EXPECT_TRUE(n.rank(r).failed()) << name << ", rank " << r;
      // The leaf of the two ranks knows who said what.
      const auto& failure = n.at(1).failure();
      ASSERT_TRUE(failure.has_value()) << name;
      ASSERT_EQ(failure->reason, Failure::Reason::disagreement) << name;
      ASSERT_TRUE(failure->others.has_value());
      EXPECT_NE(failure->heard, *failure->others) << name;
      for (const std::size_t node : {1u, 2u}) EXPECT_EQ(n.at(node).counters().completed, 0u) << name;
    }
  }
}

// A rank that asks again gets its copy, and nobody else does.
TEST(ModeII, ADuplicateIsAnsweredOnceUnlessResultsAreReforwarded) {
  for (const Duplicates duplicates : {Duplicates::cache, Duplicates::reforward}) {
    GroupConfig g = group();
    g.duplicates = duplicates;
    std::uint64_t copies = 0, repeated = 0;
    for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
      Network n(g, host(), {{Primitive::allreduce, 0, 20}}, {.loss = 0.03}, seed);
      ASSERT_EQ(n.run(), "done") << n.why();
      for (std::size_t node = 0; node < 3; ++node) {
        copies += n.at(node).counters().copies;
        repeated += n.at(node).counters().duplicates;
      }
    }
    EXPECT_GT(repeated, 50u);
    if (duplicates == Duplicates::cache) {
      EXPECT_LE(copies, repeated);
    } else {
      EXPECT_GT(copies, repeated);
    }
  }
}

// When the timers of all children expire, one copy of a sum leaves for the parent, or the root of a Reduce: their
// number must not multiply what the links above carry. Whoever comes back a second time asks anew.
TEST(ModeII, RepetitionsOfAllChildrenSendOneCopyOn) {
  for (const Primitive primitive : {Primitive::barrier, Primitive::reduce}) {
    for (const Duplicates duplicates : {Duplicates::cache, Duplicates::reforward}) {
      GroupConfig g = group();
      g.duplicates = duplicates;
      ModeII unit(g, {});
      testing::Sent sent;
      testing::Bytes kept;
      const auto m =
          primitive == Primitive::barrier ? testing::message(primitive, 0, 0) : testing::message(primitive, 0, 4, 2);
      const auto repeat = [&](EndpointIndex e) {
        unit.on_packet(e, testing::control(g.endpoints[e].first_rx, m, kept), false, sent);
        return sent.requests(2).size();
      };
      EXPECT_EQ(repeat(0), 0u);
      EXPECT_EQ(repeat(1), 1u) << "the sum";
      const std::size_t others = duplicates == Duplicates::cache ? 0 : 1;
      EXPECT_EQ(repeat(1), 1u);
      EXPECT_EQ(repeat(0), others);
      EXPECT_EQ(repeat(0), 1u) << "a second time";
      EXPECT_EQ(repeat(1), others);
      EXPECT_EQ(repeat(1), 1u);
    }
  }
}

// A rank repeats its packet because of a NAK that was passed on. Nobody waits for a timer then, and an RNR NAK would
// only hold it back; but it gets one as soon as it comes back by itself, for it must not give up.
TEST(ModeII, ARepetitionThatANakAskedForIsNotToldToWait) {
  const GroupConfig g = [] {
    GroupConfig star = testing::star(2);
    star.window = kWindow;
    star.slots = 2 * kWindow;
    return star;
  }();
  ModeII unit(g, {});
  testing::Sent sent;
  testing::Bytes kept;
  const testing::Bytes four(4);
  for (EndpointIndex e = 0; e < 2; ++e) {
    unit.on_packet(e, testing::control(g.endpoints[e].first_rx, testing::message(Primitive::allreduce, 0, 4), kept),
                   false, sent);
  }
  const auto contribute = [&] {
    unit.on_packet(0, testing::data(g.endpoints[0].first_rx + 1, wire::Opcode::RC_SEND_ONLY, four), false, sent);
    return sent.rnr_naks(0);
  };
  const auto nak = [&] {
    unit.on_packet(0,
                   testing::answer(g.endpoints[0].first_tx + 1, wire::Syndrome::nak(wire::NakCode::psn_sequence_error)),
                   false, sent);
    EXPECT_EQ(sent.packets.size(), 1u) << "it goes back to the rank";
  };
  sent.packets.clear();
  EXPECT_EQ(contribute(), 0u);
  nak();
  EXPECT_EQ(contribute(), 0u) << "as it was asked to";
  EXPECT_EQ(contribute(), 1u) << "by itself";
  nak();
  EXPECT_EQ(contribute(), 1u) << "the same packet is spared once";
}

TEST(ModeII, MarksReachTheHosts) {
  Network clean(group(), host(), kMixed, {}, 1), marked(group(), host(), kMixed, {.mark = 0.2}, 1);
  ASSERT_EQ(clean.run(), "done");
  ASSERT_EQ(marked.run(), "done");
  EXPECT_EQ(clean.marked_arrivals, 0u);
  EXPECT_GT(marked.marked_arrivals, 30u);
}

}  // namespace
}  // namespace weft::inc
