// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/mode_iii.h"

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

GroupConfig group(std::uint32_t slots = 8) {
  GroupConfig g = testing::leaf();
  g.mode = Mode::iii;
  g.window = 2;
  g.slots = slots;
  g.rnr_timer = 1;
  g.timeout = 7;
  return g;
}

TEST(ModeIII, BroadcastsBetweenBarriersFillNoTableForEver) {
  testing::expect_no_table_full_for_ever(group(64), {0, 1, 1, 1});
}

TEST(ModeIII, EveryPrimitiveInAnySequenceGivesWhatOneMachineWould) {
  for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
    Network n(group(64), host(), kMixed, {}, seed);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
    n.drain();
    for (std::size_t node = 0; node < 3; ++node) {
      const GroupCounters& c = n.at(node).counters();
      EXPECT_EQ(c.duplicates + c.resent + c.rnr_naks + c.naks + c.stale, 0u) << "nothing is lost or has to wait";
      EXPECT_EQ(n.at(node).table().live(), 0u) << "all is forgotten";
    }
  }
}

// Ranks may be far ahead of the slots: they are told to wait, and nothing is overwritten (EPIC Figure 6).
TEST(ModeIII, AnyNumberOfSlotsWorksWithAnyWindow) {
  for (const std::uint32_t slots : {2u, 3u, 5u}) {
    for (const std::uint32_t window : {1u, 2u, 7u}) {
      for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
        GroupConfig g = group(slots);
        g.window = window;
        g.acks = seed % 2 == 0 ? Acks::room : Acks::arrival;
        Network n(g, host(), kMixed, {}, seed);
        ASSERT_EQ(n.run(), "done") << slots << " slots, window " << window << ", seed " << seed << ": " << n.why();
      }
    }
  }
}

TEST(ModeIII, LossDuplicationAndOvertakingChangeNothingOfTheResult) {
  const std::vector<std::pair<const char*, Faults>> kinds{{"loss", {.loss = 0.02}},
                                                          {"duplicates", {.duplicate = 0.05}},
                                                          {"overtaking", {.overtake = 0.05}},
                                                          {"all", {0.02, 0.02, 0.02, 0.1}}};
  for (const auto& [name, faults] : kinds) {
    for (const auto recovery : {nic::LossRecovery::gbn, nic::LossRecovery::nic_sr, nic::LossRecovery::irn}) {
      for (const bool filter : {false, true}) {
        for (std::uint64_t seed = 1; seed <= weft::testing::rounds(40); ++seed) {
          GroupConfig g = group(4);
          g.epsn_filter = filter;
          Network n(g, host(recovery), kMixed, faults, seed);
          ASSERT_EQ(n.run(), "done") << name << ", filter " << filter << ", recovery " << static_cast<int>(recovery)
                                     << ", seed " << seed << ": " << n.why();
        }
      }
    }
  }
}

TEST(ModeIII, RandomSequencesEndRight) {
  for (std::uint64_t seed = 1; seed <= weft::testing::rounds(2000); ++seed) {
    testing::Drawn d(seed, group());
    d.group.slots = 2 + d.one_of(7);
    const std::uint32_t kind = d.one_of(4);
    if (d.one_of(2) == 0) d.group.acks = Acks::arrival;
    if (kind == 0) d.recovery = nic::LossRecovery::irn;
    for (EndpointConfig& e : d.group.endpoints) {
      // Network gives ranks what their hosts have; between switches both are tried.
      if (!e.rank && kind == 1) e.loss_recovery = nic::LossRecovery::nic_sr;
    }
    Network n(d.group, host(d.recovery), d.program, d.faults, seed, d.verb);
    ASSERT_EQ(n.run(), "done") << "seed " << seed << ": " << n.why();
  }
}

// Six seconds under a sanitizer.
const nic::Time kLate = weft::testing::rounds(60'000) * nic::kMs;

// A rank that begins 60 s late, with a timeout of 67 ms and 6 retries: the others are told to wait, and none gives up.
TEST(ModeIII, ARankMayBeLateByAnyTime) {
  nic::QpConfig c = host();
  c.rto_ns = 67'108'864;
  c.retry_count = 6;
  for (const Collective& first : {Collective{Primitive::allreduce, 0, 5}, Collective{Primitive::allreduce, 0, 6},
                                  Collective{Primitive::reduce, 0, 5}, Collective{Primitive::broadcast, 3, 5},
                                  Collective{Primitive::barrier, 0, 0}}) {
    GroupConfig g = group(2);
    g.rnr_timer = 14;
    g.acks = first.packets % 2 == 0 ? Acks::room : Acks::arrival;
    Network n(g, c, {first, {Primitive::allreduce, 0, 5}}, {}, 3);
    n.rank(3).late = true;
    RnrWatch watch;
    n.lose = std::ref(watch);
    const nic::Time begin = n.now;
    // Nothing may be under way at all while everybody waits for this rank.
    n.on_time = [&](nic::Time now) { n.rank(3).late = now < begin + kLate; };
    const std::string end = n.run();
    if (end == "stuck") {
      EXPECT_TRUE(first.primitive == Primitive::barrier || first.primitive == Primitive::broadcast);
      n.now = begin + kLate;
      n.rank(3).late = false;
      ASSERT_EQ(n.run(), "done") << to_string(first.primitive);
    } else {
      ASSERT_EQ(end, "done") << to_string(first.primitive);
      EXPECT_GT(n.at(0).counters().rnr_naks, 100u);
      EXPECT_EQ(n.at(0).counters().cnps, g.acks == Acks::room ? 0 : n.at(0).counters().rnr_naks);
    }
    EXPECT_GE(n.now - begin, kLate);
    EXPECT_EQ(watch.without_ack, 0u) << "of " << watch.naks;
  }
}

TEST(ModeIII, RanksThatDisagreeAllHearOfItAndNothingIsMixed) {
  testing::expect_that_disagreement_is_told(group());
}

// While nothing is lost, nobody is ahead of the pipe, however unevenly the ranks are served.
TEST(ModeIII, AcksAreHeldBackForWhoWouldRunAhead) {
  for (const Acks acks : {Acks::room, Acks::arrival}) {
    std::uint64_t ahead = 0;
    for (std::uint64_t seed = 1; seed <= weft::testing::rounds(20); ++seed) {
      GroupConfig g = group(4);
      g.acks = acks;
      Network n(g, host(), {{Primitive::allreduce, 0, 30}}, {}, seed);
      ASSERT_EQ(n.run(), "done") << n.why();
      for (std::size_t node = 0; node < 3; ++node) ahead += n.at(node).counters().ahead;
    }
    EXPECT_EQ(ahead == 0, acks == Acks::room) << ahead;
  }
}

// One packet lost: one NAK, and a receiver that keeps early packets gets that packet alone.
TEST(ModeIII, AGapIsAskedForOnce) {
  for (const auto recovery : {nic::LossRecovery::gbn, nic::LossRecovery::nic_sr}) {
    GroupConfig g = group(64);
    g.window = 16;
    Network n(g, host(recovery), {{Primitive::allreduce, 0, 20}}, {}, 5);
    bool up = true, down = true;
    n.lose = [&](std::size_t node, const nic::Packet& p) {
      bool& once = node == 6 ? up : down;
      const bool here = (node == 6 && p.psn == wire::Psn(705)) || (node == 1 && p.psn == wire::Psn(0x800010 + 9));
      return here && p.info().is_request() && std::exchange(once, false);
    };
    ASSERT_EQ(n.run(), "done") << n.why();
    EXPECT_FALSE(up || down);
    n.drain();
    EXPECT_EQ(n.at(2).counters().naks, 1u);
    EXPECT_EQ(n.at(0).counters().naks, 0u);
    EXPECT_EQ(n.at(0).counters().timeouts, 0u);
    if (recovery == nic::LossRecovery::nic_sr) {
      EXPECT_LE(n.at(0).counters().resent, 16u) << "by going back at the hop between switches alone";
    }
  }
}

// After a timeout an IRN receiver gets the oldest and the newest packet, and then what it says that it misses, once. To
// nic_sr receivers, who do not say it, everything goes again.
TEST(ModeIII, ATimeoutAsksAnIrnReceiverWhatItMisses) {
  constexpr std::uint32_t kData = 6;
  for (const auto recovery : {nic::LossRecovery::irn, nic::LossRecovery::nic_sr}) {
    GroupConfig g = testing::star(2);
    g.mode = Mode::iii;
    g.window = kData + 1;
    g.slots = 16;
    g.timeout = 7;
    for (EndpointConfig& e : g.endpoints) e.loss_recovery = recovery;
    ModeIII unit(g, {}, {});
    testing::Sent sent;
    testing::Bytes kept;
    const testing::Bytes payload(testing::kMtu);
    for (EndpointIndex e = 0; e < 2; ++e) {
      const wire::Psn first = g.endpoints[e].first_rx;
      const auto m = testing::message(Primitive::allreduce, 0, kData * testing::kMtu);
      unit.on_packet(nic::kMs, e, testing::control(first, m, kept), false, sent);
      for (std::uint32_t n = 1; n <= kData; ++n) {
        unit.on_packet(nic::kMs, e, testing::data(first + n, wire::Opcode::RC_SEND_ONLY, payload), false, sent);
      }
    }
    const std::uint32_t oldest = g.endpoints[0].first_tx.value(), newest = oldest + kData;
    EXPECT_EQ(sent.requests(0).size(), kData + 1);
    unit.on_timer(unit.next_deadline(), sent);
    if (recovery == nic::LossRecovery::nic_sr) {
      EXPECT_EQ(sent.requests(0).size(), kData + 1);
      continue;
    }
    EXPECT_EQ(sent.requests(0), (std::vector<std::uint32_t>{oldest, newest}));
    const auto nak = wire::Syndrome::nak(wire::NakCode::psn_sequence_error);
    for (int times = 0; times < 2; ++times) {
      unit.on_packet(nic::kMs, 0, testing::answer(wire::Psn(oldest + 1), nak, newest), false, sent);
      const std::vector<std::uint32_t> missing{oldest + 1, oldest + 2, oldest + 3, oldest + 4, oldest + 5};
      EXPECT_EQ(sent.requests(0), times == 0 ? missing : std::vector<std::uint32_t>{});
    }
  }
}

TEST(ModeIII, APeerThatAnswersNothingEndsTheGroup) {
  for (const bool adaptive : {false, true}) {
    GroupConfig g = group();
    g.adaptive_timeouts = adaptive;
    Network n(g, host(), {{Primitive::allreduce, 0, 5}}, {}, 1);
    n.lose = [](std::size_t node, const nic::Packet&) { return node == 3; };
    n.patient = true;
    EXPECT_EQ(n.run(), "stuck");
    ASSERT_TRUE(n.at(1).failure().has_value());
    EXPECT_EQ(n.at(1).failure()->reason, Failure::Reason::peer_silent);
    EXPECT_EQ(n.at(1).failure()->endpoint, 1);
    // The first one and seven retries; those before the longest timeout do not count.
    EXPECT_EQ(n.at(1).counters().timeouts, adaptive ? 7u + 8u : 8u);
    ASSERT_TRUE(n.at(0).failure().has_value());
    EXPECT_EQ(n.at(0).failure()->reason, Failure::Reason::peer_failed);
  }
}

TEST(ModeIII, MarksReachTheHosts) {
  Network clean(group(), host(), kMixed, {}, 1), marked(group(), host(), kMixed, {.mark = 0.2}, 1);
  ASSERT_EQ(clean.run(), "done");
  ASSERT_EQ(marked.run(), "done");
  EXPECT_EQ(clean.marked_arrivals, 0u);
  EXPECT_GT(marked.marked_arrivals, 30u);
}

TEST(ModeIII, AGroupThatCannotBeRunIsRefused) {
  GroupConfig g = group(3);
  EXPECT_EQ(check_mode_iii(g), std::nullopt);
  g.timeout = 32;
  EXPECT_EQ(check_mode_iii(g), "the timeout's code is 0 to 31");
  g.timeout = 31;
  g.retries = 8;
  EXPECT_EQ(check_mode_iii(g), "retries are 0 to 7");
  g.slots = 1;
  EXPECT_EQ(check_mode_iii(g), "slots are 2 to 1048576");
}

}  // namespace
}  // namespace weft::inc
