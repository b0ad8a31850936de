// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/steer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "switch/pipeline/steer.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using pipeline::OwnerTable;
using stages::QpMail;
using stages::QpMailRings;
using stages::QpSteering;
using stages::QpTracker;
using stages::steered_qp;
using stages::TrackCounter;
using tables::PairSource;
using tables::QpTable;

// Two workers' trackers; packets go where the switch would send them.
class TwoWorkers {
 public:
  explicit TwoWorkers(stages::TrackOptions options = {.max_qps = 1000})
      : trackers{{QpTracker(options), QpTracker(options)}} {
    for (std::uint16_t w = 0; w < 2; ++w) trackers[w].steer_with(steering[w]);
  }

  static std::uint16_t by_hash(const wire::Parsed& p) { return pipeline::worker_by_hash(p.pair_hash(), 2); }

  /// Returns the worker.
  std::uint16_t send(const wire::FrameBuilder& builder) {
    TrackedFrame frame(builder.build());
    const wire::Parsed& p = frame.parsed;
    const std::uint16_t worker = table.find(p.address_key, p.dest_qp, by_hash(p));
    send_to(worker, frame);
    return worker;
  }
  void send_to(std::uint16_t worker, TrackedFrame& frame) {
    TrackedFrame* const burst[] = {&frame};
    if (trackers[worker].has_mail()) trackers[worker].read_mail(now);
    trackers[worker].track<FrameAccess, TrackedFrame>(now, burst);
  }

  /// REQ, REP and RTU of a connection of A's QP to B's QP; both begin to send with `psn`.
  void connect(Qpn a, Qpn b, std::uint32_t psn = 100, const std::string& from = kA, const std::string& to = kB) {
    const std::uint32_t id = a.value() << 8;
    send(cm(from, to, req(id, a, Psn(psn))));
    send(cm(to, from, rep(b.value() << 8, id, b, Psn(psn))));
    send(cm(from, to, rtu(id, b.value() << 8)));
  }

  void advance_s(std::uint64_t seconds) {
    const TimeNs end = now + seconds * 1'000'000'000;
    while (true) {
      const TimeNs next = std::min(trackers[0].next_deadline(), trackers[1].next_deadline());
      if (next > end) break;
      now = std::max(now, next);
      for (QpTracker& tracker : trackers) {
        if (tracker.has_mail()) tracker.read_mail(now);
        tracker.on_timer(now);
      }
    }
    now = end;
  }

  [[nodiscard]] std::uint16_t published(const std::string& from, const std::string& to, Qpn qp) const {
    return steering[0].published(steered_qp(*wire::IpAddress::parse(from), *wire::IpAddress::parse(to), qp));
  }
  [[nodiscard]] const tables::QpEntry* entry(std::uint16_t worker, const std::string& from, const std::string& to,
                                             Qpn qp) const {
    const auto f = wire::IpAddress::parse(from).value(), t = wire::IpAddress::parse(to).value();
    const std::uint32_t position =
        trackers[worker].table().find({std::uint64_t{f.v4_value()} << 32 | t.v4_value(), qp.value()});
    return position == QpTable::kNone ? nullptr : &trackers[worker].table().entry(position);
  }
  [[nodiscard]] std::uint64_t count(TrackCounter c) const {
    return trackers[0].counters().value(c) + trackers[1].counters().value(c);
  }

  OwnerTable table;
  QpMailRings mail{2};
  std::array<QpSteering, 2> steering{QpSteering(table, mail, 0), QpSteering(table, mail, 1)};
  std::array<QpTracker, 2> trackers;
  TimeNs now = 1'000'000'000;
};

std::uint16_t home() {
  return TwoWorkers::by_hash(TrackedFrame(write_from_a(Qpn(17), 0).build()).parsed);
}
Qpn qp_of_a(std::uint32_t i) {
  return Qpn(0x100 + i);
}
Qpn qp_of_b(std::uint32_t i) {
  return Qpn(0x900 + 7 * i);
}

TEST(RdmaTrackSteer, ConnectionsOfOnePairOfHostsUseBothWorkersAndTheDirectionsOfEachMeet) {
  TwoWorkers w;
  std::array<int, 2> connections{};
  for (std::uint32_t i = 0; i < 16; ++i) {
    w.connect(qp_of_a(i), qp_of_b(i));
    const std::uint16_t worker = w.send(write_from_a(qp_of_b(i), 100));
    ++connections[worker];
    for (std::uint32_t n = 0; n < 5; ++n) {
      ASSERT_EQ(w.send(write_from_a(qp_of_b(i), 101 + n)), worker);
      ASSERT_EQ(w.send(ack_from_b(qp_of_a(i), 101 + n)), worker);
      ASSERT_EQ(w.send(from_b(Opcode::RC_SEND_ONLY, qp_of_a(i), Psn(100 + n)).payload(64)), worker);
    }
    const auto* entry = w.entry(worker, kA, kB, qp_of_b(i));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->packets, 6u);
    EXPECT_EQ(entry->source(), PairSource::cm);
    EXPECT_EQ(w.trackers[worker].table().entry(entry->peer).dest_qp(), qp_of_a(i));
    EXPECT_EQ(w.entry(1 - worker, kA, kB, qp_of_b(i)), nullptr);
    EXPECT_EQ(w.entry(1 - worker, kB, kA, qp_of_a(i)), nullptr);
  }
  EXPECT_THAT(connections, ::testing::ElementsAre(8, 8));
  // What CM said is known there: starting PSNs, so that nothing is out of order.
  EXPECT_EQ(w.count(TrackCounter::qps_active), 32u);
  EXPECT_EQ(w.count(TrackCounter::qps_learned_traffic), 0u);
  EXPECT_EQ(w.count(TrackCounter::out_of_order) + w.count(TrackCounter::psn_restarts), 0u);
  EXPECT_EQ(w.count(TrackCounter::pairs_steered), 8u);
}

TEST(RdmaTrackSteer, ConnectionsOverIpv6AreSpreadToo) {
  TwoWorkers w;
  const std::string a = "fd00::1", b = "fd00::2";
  std::set<std::uint16_t> used;
  for (std::uint32_t i = 0; i < 8; ++i) {
    w.connect(qp_of_a(i), qp_of_b(i), 100, a, b);
    const auto there = wire::FrameBuilder().ipv6(a, b).udp(50000).bth(Opcode::RC_SEND_ONLY, qp_of_b(i), Psn(100));
    const auto back = wire::FrameBuilder().ipv6(b, a).udp(50000).bth(Opcode::RC_SEND_ONLY, qp_of_a(i), Psn(100));
    const std::uint16_t worker = w.send(there);
    EXPECT_EQ(w.send(back), worker);
    used.insert(worker);
  }
  EXPECT_EQ(used.size(), 2u);
  EXPECT_EQ(w.count(TrackCounter::qps_active), 16u);
  EXPECT_EQ(w.count(TrackCounter::qps_learned_traffic) + w.count(TrackCounter::out_of_order), 0u);
  w.advance_s(1400);
  EXPECT_EQ(w.count(TrackCounter::qps_active), 0u);
  // No reference on the addresses is left.
  for (QpTracker& tracker : w.trackers) {
    std::array<std::uint8_t, 32> both{};
    std::copy_n(wire::IpAddress::parse(a)->bytes().begin(), 16, both.begin());
    std::copy_n(wire::IpAddress::parse(b)->bytes().begin(), 16, both.begin() + 16);
    EXPECT_EQ(tracker.table().pairs().find(both.data()), tables::AddressPairs::kNone);
  }
}

TEST(RdmaTrackSteer, QueuePairsWithoutAConnectionStayWithTheWorkerOfTheirHosts) {
  TwoWorkers w;
  for (std::uint32_t i = 0; i < 16; ++i) {
    for (std::uint32_t n = 0; n < 20; ++n) {
      EXPECT_EQ(w.send(write_from_a(qp_of_b(i), 100 + n)), home());
      EXPECT_EQ(w.send(ack_from_b(qp_of_a(i), 100 + n)), home());
    }
  }
  EXPECT_GT(w.count(TrackCounter::pairs_traffic), 0u);
  EXPECT_EQ(w.count(TrackCounter::pairs_steered), 0u);
}

TEST(RdmaTrackSteer, ADisconnectReachesTheWorkerThatHasTheQueuePair) {
  TwoWorkers w({.max_qps = 1000, .idle_timeout_s = 600, .closed_timeout_s = 5});
  for (std::uint32_t i = 0; i < 4; ++i) {
    w.connect(qp_of_a(i), qp_of_b(i));
    w.send(write_from_a(qp_of_b(i), 100));
    w.send(cm(kA, kB, dreq(qp_of_a(i).value() << 8, qp_of_b(i).value() << 8, qp_of_b(i))));
  }
  EXPECT_EQ(w.count(TrackCounter::cm_unmatched), 0u);
  w.advance_s(15);
  EXPECT_EQ(w.count(TrackCounter::qps_active), 0u);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(w.published(kA, kB, qp_of_b(i)), QpSteering::kNobody);
}

TEST(RdmaTrackSteer, AgeingWithdrawsBothDirectionsAtOnce) {
  // So large a table that it takes many timer calls to look at all of it.
  TwoWorkers w({.max_qps = 20'000, .idle_timeout_s = 60, .closed_timeout_s = 5});
  for (std::uint32_t i = 0; i < 64; ++i) {
    w.connect(qp_of_a(i), qp_of_b(i));
    w.send(write_from_a(qp_of_b(i), 100));
  }
  int withdrawn = 0;
  for (int s = 0; s < 3000; ++s) {
    w.now += 30'000'000;
    for (QpTracker& tracker : w.trackers) tracker.on_timer(w.now);
    withdrawn = 0;
    for (std::uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ(w.published(kA, kB, qp_of_b(i)), w.published(kB, kA, qp_of_a(i))) << "split";
      if (w.published(kA, kB, qp_of_b(i)) == QpSteering::kNobody) ++withdrawn;
    }
  }
  EXPECT_EQ(withdrawn, 64);
  EXPECT_EQ(w.count(TrackCounter::qps_active), 0u);
  EXPECT_EQ(w.count(TrackCounter::qps_aged), 128u);
}

TEST(RdmaTrackSteer, AQueuePairThatIsConnectedAgainStaysWhereItIsAndStartsAnew) {
  TwoWorkers w;
  std::uint32_t i = 0;
  while (w.published(kA, kB, qp_of_b(i)) == QpSteering::kNobody) {
    ++i;
    w.connect(qp_of_a(i), qp_of_b(i));
  }
  const std::uint16_t worker = w.send(write_from_a(qp_of_b(i), 100));
  ASSERT_EQ(worker, 1 - home());
  const Qpn again(0x777);
  w.connect(again, qp_of_b(i), 5000);
  EXPECT_EQ(w.send(write_from_a(qp_of_b(i), 5000)), worker);
  EXPECT_EQ(w.send(ack_from_b(again, 5000)), worker);
  EXPECT_EQ(w.entry(worker, kA, kB, qp_of_b(i))->packets, 1u);
  EXPECT_EQ(w.count(TrackCounter::psn_restarts) + w.count(TrackCounter::out_of_order), 0u);
}

TEST(RdmaTrackSteer, EntriesOfAnOlderConnectionGoWhenTheNewOneIsAnotherWorkers) {
  TwoWorkers w;
  // Traffic of unknown connections first, on QPNs that are connected later.
  for (std::uint32_t i = 0; i < 8; ++i) w.send(write_from_a(qp_of_b(i), 9));
  for (std::uint32_t i = 0; i < 8; ++i) w.connect(qp_of_a(i), qp_of_b(i));
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint16_t worker = w.send(write_from_a(qp_of_b(i), 100));
    EXPECT_EQ(w.entry(1 - worker, kA, kB, qp_of_b(i)), nullptr);
    // A straggler that was handed over before makes no second entry.
    if (worker == home()) continue;
    TrackedFrame straggler(write_from_a(qp_of_b(i), 10).build());
    w.send_to(home(), straggler);
    EXPECT_EQ(straggler.handle, 0u);
    EXPECT_EQ(w.entry(home(), kA, kB, qp_of_b(i)), nullptr);
  }
  EXPECT_EQ(w.count(TrackCounter::untracked), 4u);
}

TEST(RdmaTrackSteer, AFullMailboxKeepsConnectionsWithTheWorkerOfTheirHosts) {
  TwoWorkers w({.max_qps = 4000});
  // Only CM messages: the other worker reads no mail.
  constexpr std::uint32_t kConnections = 2 * QpMailRings::Ring::kCapacity + 20;
  for (std::uint32_t i = 0; i < kConnections; ++i) w.connect(qp_of_a(i), Qpn(0x10000 + i));
  EXPECT_EQ(w.count(TrackCounter::pairs_steered), QpMailRings::Ring::kCapacity);
  EXPECT_EQ(w.count(TrackCounter::steer_full), 10u);
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    const std::uint16_t worker = w.send(write_from_a(Qpn(0x10000 + i), 100));
    EXPECT_EQ(w.send(ack_from_b(qp_of_a(i), 100)), worker);
  }
  EXPECT_EQ(w.count(TrackCounter::qps_active), 2 * kConnections);
  EXPECT_EQ(w.count(TrackCounter::qps_learned_traffic), 0u);
}

TEST(RdmaTrackSteer, AWorkerWithoutRoomGivesTheConnectionBack) {
  TwoWorkers w({.max_qps = 4});
  for (std::uint32_t i = 0; i < 8; ++i) w.connect(qp_of_a(i), qp_of_b(i));
  for (std::uint32_t i = 0; i < 8; ++i) {
    w.send(write_from_a(qp_of_b(i), 100));  // the first one to the other worker makes it read its mail
    const std::uint16_t worker = w.send(write_from_a(qp_of_b(i), 101));
    EXPECT_EQ(w.send(ack_from_b(qp_of_a(i), 100)), worker);
  }
  EXPECT_EQ(w.count(TrackCounter::steer_full), 2u);
  int published = 0;
  for (std::uint32_t i = 0; i < 8; ++i) published += w.published(kA, kB, qp_of_b(i)) != QpSteering::kNobody ? 1 : 0;
  EXPECT_EQ(published, 2);
}

TEST(RdmaTrackSteer, MailArrivesInOrderAndAFullRingRefuses) {
  QpMailRings rings(3);
  QpMail mail;
  for (std::uint32_t i = 0; i < QpMailRings::Ring::kCapacity; ++i) {
    mail.qp_of_a = Qpn(i);
    ASSERT_TRUE(rings.ring(2, 1).push(mail));
  }
  EXPECT_FALSE(rings.ring(2, 1).push(mail));
  EXPECT_TRUE(rings.ring(0, 1).push(mail));
  EXPECT_TRUE(rings.pending(1));
  EXPECT_FALSE(rings.pending(2));
  for (std::uint32_t i = 0; i < QpMailRings::Ring::kCapacity; ++i) {
    ASSERT_TRUE(rings.ring(2, 1).pop(mail));
    ASSERT_EQ(mail.qp_of_a, Qpn(i));
  }
  EXPECT_FALSE(rings.ring(2, 1).pop(mail));
  EXPECT_TRUE(rings.ring(0, 1).pop(mail));
  EXPECT_FALSE(rings.pending(1));
}

}  // namespace
}  // namespace weft::testing
