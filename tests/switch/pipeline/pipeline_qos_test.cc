// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <cmath>

#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "tests/switch/pipeline/qos_rig.h"

namespace weft::pipeline {
namespace {

using wire::Ecn;

void expect_empty(const QosRig& rig, std::uint16_t ports) {
  const qos::SharedBuffer& b = *rig.state->buffer();
  EXPECT_EQ(b.shared_used(), 0u);
  for (unsigned p = 0; p < ports; ++p) {
    for (unsigned i = 0; i < qos::kClasses; ++i) {
      EXPECT_EQ(b.queue(p, i).bytes.value(), 0u);
      EXPECT_EQ(b.queue(p, i).packets.value(), 0u);
      EXPECT_EQ(b.group(p, i).bytes.value(), 0u);
      EXPECT_EQ(b.group(p, i).headroom.value(), 0u);
    }
  }
}

TEST(PipelineQos, WithoutCongestionEveryPacketLeavesUnmarkedInOrderFromItsClassQueue) {
  // Two lossless queues, and queue 6 for ACK, NAK and CNP (DSCP 48).
  QosRig rig(qos_options(plain_qos(3)));
  for (std::uint32_t psn = 0; psn < 300; ++psn) {
    for (const unsigned dscp : {3u, 4u, 48u}) rig.arrive(0, QosRig::roce(2, dscp, Ecn::ect0, 1100, psn));
    rig.run_until_quiet();
  }
  ASSERT_EQ(rig.data(2).size(), 900u);
  EXPECT_EQ(rig.sent[0].size(), 0u) << "no PFC";
  std::map<unsigned, std::uint32_t> next;
  for (const auto& f : rig.data(2)) {
    EXPECT_EQ(f.parsed.tos & 3, 2);
    EXPECT_EQ(f.parsed.psn.value(), next[f.parsed.tos >> 2]++);
  }
  for (const unsigned queue : {3u, 4u, 6u}) EXPECT_EQ(rig.queues(2).counters(queue).packets.value(), 300u);
  expect_empty(rig, 3);
}

TEST(PipelineQos, APortIsWorthServingBeforeTheEndOfALoopWhenABurstWaits) {
  QosRig rig(qos_options(plain_qos(2)));
  const auto f = QosRig::roce(1, 3, Ecn::ect0, 1000);
  EXPECT_FALSE(rig.pipelines[0]->worth_serving(1));
  rig.arrive(0, f, EgressQueue::kBurst - 1);
  EXPECT_FALSE(rig.pipelines[0]->worth_serving(1));
  rig.arrive(0, f);
  EXPECT_TRUE(rig.pipelines[0]->worth_serving(1));
  EXPECT_FALSE(rig.pipelines[0]->worth_serving(0));
  EXPECT_EQ(rig.pipelines[0]->serve_port(rig.now, 1), EgressQueue::kBurst);
  EXPECT_FALSE(rig.pipelines[0]->worth_serving(1));
}

// Fills queue 3 of port 1 with `count` packets and lets them leave; returns how many were to be marked on average, and
// the variance of that.
struct Expected {
  double mean = 0;
  double variance = 0;
};
Expected drain_marked(QosRig& rig, unsigned count, const std::vector<std::uint8_t>& f,
                      const qos::CurveSettings& curve) {
  Expected e;
  for (unsigned i = 0; i < count; ++i) rig.arrive(0, f);
  for (unsigned left = count; left-- != 0;) {
    const double depth = static_cast<double>(left) * static_cast<double>(f.size());
    const double over =
        (depth - static_cast<double>(curve.min_bytes)) / static_cast<double>(curve.max_bytes - curve.min_bytes);
    const double p = over <= 0 ? 0 : over > 1 ? 1 : over * curve.probability;
    e.mean += p;
    e.variance += p * (1 - p);
  }
  rig.run_until_quiet();
  return e;
}

TEST(PipelineQos, MarksAtDequeueFollowTheCurveWithinTheBinomialBound) {
  qos::Settings s = plain_qos(2);
  const qos::CurveSettings curve{50'000, 200'000, 0.2};
  s.ports[1].wred[3]->mark = curve;
  QosRig rig(qos_options(s));
  rig.keep_frames = false;
  std::uint64_t marked = 0;
  rig.on_sent = [&](PortIndex, const SentFrame& f) { marked += (f.parsed.tos & 3) == 3 ? 1 : 0; };
  Expected all;
  const auto f = QosRig::roce(1, 26, Ecn::ect0, 1000);
  for (int round = 0; round < 300; ++round) {
    const Expected e = drain_marked(rig, 300, f, curve);
    all.mean += e.mean;
    all.variance += e.variance;
  }
  EXPECT_GT(all.mean, 10'000);
  EXPECT_NEAR(static_cast<double>(marked), all.mean, 5 * std::sqrt(all.variance));
  EXPECT_EQ(rig.queues(1).counters(3).ecn_marked.value(), marked);
}

TEST(PipelineQos, MarkedPacketsKeepDscpChecksumAndIcrc) {
  for (const bool ipv6 : {false, true}) {
    for (const auto point : {qos::WredSettings::Point::dequeue, qos::WredSettings::Point::enqueue}) {
      qos::Settings s = plain_qos(2);
      s.ports[1].wred[3]->mark = {0, 0, 1};
      s.ports[1].wred[3]->mark_at = point;
      QosRig rig(qos_options(s));
      for (const Ecn ecn : {Ecn::ect0, Ecn::ect1, Ecn::not_ect, Ecn::ce}) {
        for (std::uint32_t i = 0; i < 3; ++i) rig.arrive(0, QosRig::roce(1, 27, ecn, 600, i, ipv6));
      }
      rig.run_until_quiet();
      ASSERT_EQ(rig.data(1).size(), 12u);
      unsigned ce = 0;
      for (const auto& f : rig.data(1)) {
        EXPECT_EQ(f.parsed.tos >> 2, 27);
        ce += (f.parsed.tos & 3) == 3 ? 1 : 0;
        EXPECT_TRUE(wire::icrc_ok(f.bytes.data(), f.parsed));
        EXPECT_TRUE(ipv6 || wire::ipv4_checksum_ok(wire::header_at<wire::Ipv4Header>(f.bytes.data() + 14)));
      }
      // The last one to leave leaves nothing behind, and the first one to come finds nothing.
      const auto& c = rig.queues(1).counters(3);
      const bool at_arrival = point == qos::WredSettings::Point::enqueue;
      EXPECT_EQ(c.ecn_marked.value(), at_arrival ? 5u : 6u);
      EXPECT_EQ(c.ecn_ce.value(), 3u);
      EXPECT_EQ(ce, c.ecn_marked.value() + 3);
    }
  }
}

TEST(PipelineQos, PacketsThatAreNotEcnCapableAreDroppedByTheCurveOrOnlyAtTheLimitByChoice) {
  for (const bool by_curve : {false, true}) {
    qos::Settings s = plain_qos(2);
    auto& wred = *s.ports[1].wred[3];
    wred.mark = {1'000'000, 2'000'000, 1};
    wred.drop_by_curve = by_curve;
    wred.drop = {10'000, 20'000, 0.5};
    QosRig rig(qos_options(s));
    for (int i = 0; i < 100; ++i) rig.arrive(0, QosRig::roce(1, 26, Ecn::not_ect, 1000));
    // Above the end of the curve nothing gets in.
    EXPECT_EQ(rig.dropped(DropReason::wred) > 0, by_curve);
    EXPECT_LE(rig.depth(1, 3), by_curve ? 22'000u : 100'000u);
    EXPECT_EQ(rig.queues(1).counters(3).dropped_wred.value(), rig.dropped(DropReason::wred));
    // ECN-capable packets do.
    const auto before = rig.dropped(DropReason::wred);
    for (int i = 0; i < 100; ++i) rig.arrive(0, QosRig::roce(1, 26, Ecn::ect1, 1000));
    EXPECT_EQ(rig.dropped(DropReason::wred), before);
    rig.run_until_quiet();
  }
}

// Hosts on ports 0 to 2 send to port 3, each at the port's rate, in virtual time.
struct Incast {
  explicit Incast(unsigned dscp, const qos::Settings& s, std::uint64_t packets)
      : rig(qos_options(s, 10'000)), priority(rig.state->info().qos->ports[0].map.dscp_to_tc[dscp]) {
    rig.keep_frames = false;
    for (PortIndex p = 0; p < 3; ++p) {
      hosts.emplace_back(rig, p, QosRig::roce(3, dscp, Ecn::ect0, 1000), 10'000);
      hosts.back().left = packets;
    }
    rig.on_sent = [this](PortIndex port, const SentFrame& f) {
      if (f.parsed.kind == wire::FrameKind::mac_control) {
        // A microsecond on the link.
        arriving.push_back({rig.now + 1000, port, f.bytes});
      } else {
        ++delivered;
        ce += (f.parsed.tos & 3) == 3 ? 1 : 0;
      }
    };
  }

  void run() {
    for (int guard = 0; guard < 10'000'000; ++guard) {
      TimeNs next = rig.pipelines[0]->next_deadline();
      for (const Host& h : hosts) next = std::min(next, h.next());
      for (const auto& a : arriving) next = std::min(next, a.at);
      if (next == kNever) break;
      rig.now = std::max(rig.now + 1, next);
      for (auto a = arriving.begin(); a != arriving.end();) {
        if (a->at > rig.now) {
          ++a;
          continue;
        }
        if (a->port < 3) hosts[a->port].on_pfc(rig.now, a->bytes, 10'000, priority);
        a = arriving.erase(a);
      }
      for (Host& h : hosts) h.step();
      rig.run_until_quiet();
    }
  }

  struct Arriving {
    TimeNs at;
    PortIndex port;
    std::vector<std::uint8_t> bytes;
  };
  QosRig rig;
  unsigned priority;
  std::vector<Host> hosts;
  std::vector<Arriving> arriving;
  std::uint64_t delivered = 0;
  std::uint64_t ce = 0;
};

qos::Settings small_buffer() {
  qos::Settings s = plain_qos(4);
  s.pool_bytes = qos::own_bytes(s) + 1'500'000;
  return s;
}

TEST(PipelineQos, ALosslessClassLosesNothingUnderThreeToOneIncastAndEveryXoffHasItsXon) {
  for (const auto model : {qos::BufferModel::hpcc, qos::BufferModel::conweave}) {
    qos::Settings s = small_buffer();
    s.model = model;
    Incast incast(26, s, 4000);
    incast.run();
    EXPECT_EQ(incast.delivered, 12'000u);
    EXPECT_EQ(incast.rig.dropped(DropReason::headroom_full), 0u);
    EXPECT_GT(incast.ce, 1000u);
    for (PortIndex p = 0; p < 3; ++p) {
      EXPECT_GT(incast.hosts[p].pauses, 0u) << "congestion must have reached the sender";
      const auto& c = incast.rig.queues(p).sender().counters();
      EXPECT_GT(c.xoff[3].value(), 0u);
      EXPECT_EQ(c.xoff[3].value(), c.xon[3].value());
      EXPECT_GT(c.paused_ns[3].value(), 0u);
      EXPECT_GT(incast.rig.state->buffer()->group(p, 3).peak_headroom.value(), 0u);
    }
    expect_empty(incast.rig, 4);
  }
}

TEST(PipelineQos, WithoutEnoughHeadroomALosslessClassLosesAndSaysSo) {
  qos::Settings s = small_buffer();
  for (auto& port : s.ports) port.group[3].headroom_bytes = 1000;
  Incast incast(26, s, 4000);
  incast.run();
  EXPECT_GT(incast.rig.dropped(DropReason::headroom_full), 0u);
  EXPECT_EQ(incast.delivered + incast.rig.dropped(DropReason::headroom_full), 12'000u);
}

TEST(PipelineQos, ALossyClassLosesUnderThreeToOneIncastAndIsNotPausedNorMarked) {
  Incast incast(8, small_buffer(), 4000);
  incast.run();
  const std::uint64_t lost = incast.rig.dropped(DropReason::buffer_egress);
  EXPECT_GT(lost, 4000u);
  EXPECT_EQ(incast.delivered + lost, 12'000u);
  EXPECT_EQ(incast.ce, 0u);
  EXPECT_EQ(incast.rig.queues(3).counters(1).dropped_queue.value(), lost);
  for (const Host& h : incast.hosts) EXPECT_EQ(h.pauses, 0u);
}

TEST(PipelineQos, EcnKeepsAClassFromBeingPausedWhenSendersSlowDownInTime) {
  // The marks begin well before XOFF: with them alone, senders that stop in time are never paused.
  Incast incast(26, small_buffer(), 150);
  incast.run();
  EXPECT_EQ(incast.delivered, 450u);
  EXPECT_GT(incast.ce, 0u);
  for (const Host& h : incast.hosts) EXPECT_EQ(h.pauses, 0u);
}

TEST(PipelineQos, DwrrSharesOfAPortAreTheWeightsWithinOnePercentAndStrictIsNeverInverted) {
  qos::Settings s = plain_qos(2);
  for (unsigned q = 0; q < 6; ++q) s.ports[1].scheduler[q].weight = q + 1;
  for (auto& w : s.ports[1].wred) w.reset();
  QosRig rig(qos_options(s, 10'000));
  rig.keep_frames = false;
  std::array<std::uint64_t, 8> bytes{};
  bool inverted = false;
  rig.on_sent = [&](PortIndex, const SentFrame& f) {
    const unsigned queue = f.parsed.tos >> 5;
    bytes[queue] += f.bytes.size();
  };
  const auto top_up = [&] {
    for (unsigned tc = 0; tc < 6; ++tc) {
      while (rig.depth(1, tc) < 40'000) rig.arrive(0, QosRig::roce(1, tc << 3, Ecn::not_ect, 300 + 100 * tc));
    }
  };
  const TimeNs end = rig.now + 60'000'000;
  while (rig.now < end) {
    top_up();
    // A strict packet goes before all that wait, but for those that are on the wire already.
    rig.arrive(0, QosRig::roce(1, 56, Ecn::not_ect, 200));
    rig.advance_to(rig.now + 20'000);
    inverted |= rig.depth(1, 7) != 0;
  }
  EXPECT_FALSE(inverted);
  double sum = 0;
  for (unsigned q = 0; q < 6; ++q) sum += static_cast<double>(bytes[q]);
  for (unsigned q = 0; q < 6; ++q) {
    EXPECT_NEAR(static_cast<double>(bytes[q]) / sum, (q + 1) / 21.0, 0.01 * (q + 1) / 21.0) << q;
  }
}

TEST(PipelineQos, AReceivedPauseHoldsItsClassBackForItsQuantaAndNoOther) {
  QosRig rig(qos_options(plain_qos(2, 10'000)));
  rig.pfc_arrives(1, 0b1000, 1000);
  // 1000 quanta of 512 bits at 10 Gbit/s.
  const TimeNs end = rig.now + 51'200;
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500), 5);
  rig.arrive(0, QosRig::roce(1, 34, Ecn::ect0, 500), 5);
  rig.run_until_quiet();
  EXPECT_EQ(rig.data(1).size(), 5u);
  EXPECT_EQ(rig.data(1)[0].parsed.tos >> 2, 34);
  EXPECT_EQ(rig.pipelines[0]->port_deadline(1), end);
  rig.advance_to(end - 1);
  EXPECT_EQ(rig.data(1).size(), 5u);
  rig.advance_to(end);
  EXPECT_EQ(rig.data(1).size(), 10u);
  // XON ends it early.
  rig.pfc_arrives(1, 0b1000, 0xffff);
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500));
  rig.run_until_quiet();
  EXPECT_EQ(rig.data(1).size(), 10u);
  rig.pfc_arrives(1, 0b1000, 0);
  rig.run_until_quiet();
  EXPECT_EQ(rig.data(1).size(), 11u);
  EXPECT_EQ(rig.queues(1).receiver().counters().pfc.value(), 3u);
  EXPECT_EQ(rig.pipelines[0]->totals().consumed.value(), 3u);
}

TEST(PipelineQos, PfcFramesGoAheadOfWhatWaits) {
  qos::Settings s = plain_qos(2);
  for (auto& port : s.ports) port.group[3] = {.dynamic_th = -8, .headroom_bytes = 100'000};
  s.pool_bytes = qos::own_bytes(s) + 1'000'000;
  QosRig rig(qos_options(s, 1000));
  // Port 0 has much to send itself, and its host sends more than port 1 can.
  for (int i = 0; i < 60; ++i) rig.arrive(1, QosRig::roce(0, 8, Ecn::not_ect, 1000));
  rig.advance_to(rig.now + 20'000);
  for (int i = 0; i < 10; ++i) rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 1000));
  const TimeNs full = rig.now;
  rig.advance_to(full + 100'000);
  const auto& sent = rig.sent[0];
  const auto pfc = std::find_if(sent.begin(), sent.end(),
                                [](const auto& f) { return f.parsed.kind == wire::FrameKind::mac_control; });
  ASSERT_NE(pfc, sent.end());
  // Behind the frame that was being sent: 1024 bytes, and its own 84, at 1 Gbit/s.
  EXPECT_LE(pfc->at, full + 8192 + 672);
  rig.advance_to(full + 10'000'000);
}

TEST(PipelineQos, AMalformedOrUnwantedPauseNeverStopsAPort) {
  QosRig rig(qos_options(plain_qos(2)));
  std::vector<std::uint8_t> broken(wire::kMinFrameBytes);
  wire::write_pfc(broken, {}, 0, {});
  rig.arrive(1, broken);
  rig.pfc_arrives(1, 0b11100111, 0xffff);
  std::vector<std::uint8_t> pause(wire::kMinFrameBytes);
  wire::write_pause(pause, {}, 0xffff);
  rig.arrive(1, pause);
  for (unsigned tc = 0; tc < 8; ++tc) rig.arrive(0, QosRig::roce(1, tc << 3, Ecn::not_ect, 200));
  rig.run_until_quiet();
  EXPECT_EQ(rig.data(1).size(), 8u);
  EXPECT_EQ(rig.queues(1).receiver().counters().malformed.value(), 1u);
  EXPECT_EQ(rig.queues(1).receiver().counters().ignored.value(), 2u);
}

TEST(PipelineQos, AStormEmptiesTheQueueUntilItIsOverByActionDrop) {
  qos::Settings s = plain_qos(2);
  QosRig rig(qos_options(s));
  const TimeNs begin = rig.now;
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500), 10);
  for (; rig.now < begin + 200'000'000; rig.now += 1'000'000) {
    rig.pfc_arrives(1, 0b1000, 0xffff);
    rig.run_until_quiet();
  }
  EXPECT_EQ(rig.data(1).size(), 0u);
  rig.pfc_arrives(1, 0b1000, 0xffff);
  rig.run_until_quiet();
  EXPECT_EQ(rig.dropped(DropReason::pfc_watchdog), 10u);
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500), 3);
  EXPECT_EQ(rig.dropped(DropReason::pfc_watchdog), 13u);
  EXPECT_EQ(rig.queues(1).counters(3).dropped_watchdog.value(), 13u);
  rig.advance_to(rig.now + 250'000'000);
  EXPECT_EQ(rig.queues(1).watchdog().counters().restored[3].value(), 1u);
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500), 3);
  rig.run_until_quiet();
  EXPECT_EQ(rig.data(1).size(), 3u);
  expect_empty(rig, 2);
}

TEST(PipelineQos, AStormDoesNotHoldTheQueueBackByActionForward) {
  qos::Settings s = plain_qos(2);
  s.ports[1].watchdog.action = qos::WatchdogSettings::Action::forward;
  QosRig rig(qos_options(s));
  const TimeNs begin = rig.now;
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500), 10);
  for (; rig.now <= begin + 200'000'000; rig.now += 1'000'000) {
    EXPECT_EQ(rig.data(1).size(), 0u);
    rig.pfc_arrives(1, 0b1000, 0xffff);
    rig.run_until_quiet();
  }
  EXPECT_EQ(rig.data(1).size(), 10u);
  rig.pfc_arrives(1, 0b1000, 0xffff);
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500), 3);
  rig.run_until_quiet();
  EXPECT_EQ(rig.data(1).size(), 13u);
  EXPECT_EQ(rig.dropped(DropReason::pfc_watchdog), 0u);
}

TEST(PipelineQos, ManyClassesAndPortsOnSeveralWorkersLoseTrackOfNothing) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    for (const std::uint16_t workers : {1, 2, 3}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", workers " + std::to_string(workers));
      Rng rng(seed);
      qos::Settings s = plain_qos(4);
      s.pool_bytes = qos::own_bytes(s) + 60'000;
      RigOptions o = qos_options(s, seed % 2 == 0 ? 10'000 : 0);
      o.workers = workers;
      o.seed = seed;
      QosRig rig(o);
      rig.keep_frames = false;
      for (int i = 0; i < 6000; ++i) {
        const auto in = static_cast<PortIndex>(rng.below(4));
        const auto out = static_cast<PortIndex>(rng.below(4));
        if (rng.below(20) == 0) {
          rig.pfc_arrives(in, static_cast<std::uint8_t>(rng.next()), static_cast<std::uint16_t>(rng.below(300)));
        }
        rig.arrive(in,
                   QosRig::roce(out, static_cast<unsigned>(rng.below(64)), static_cast<Ecn>(rng.below(4)),
                                80 + 4 * rng.below(350)),
                   static_cast<std::uint16_t>(1 + rng.below(20)));
        if (rng.below(3) != 0) continue;
        for (std::uint16_t w = 0; w < workers; ++w) (void)rig.step(w);
        rig.now += rng.below(20'000);
      }
      EXPECT_EQ(rig.imbalance(), "");
      EXPECT_GT(rig.dropped(DropReason::buffer_egress) + rig.dropped(DropReason::buffer_ingress), 0u);
      rig.advance_to(rig.now + 500'000'000);
      EXPECT_EQ(rig.held(), 0u);
      expect_empty(rig, 4);
      for (PortIndex p = 0; p < 4; ++p) {
        const auto& c = rig.queues(p).sender().counters();
        for (unsigned i = 0; i < qos::kClasses; ++i) EXPECT_EQ(c.xoff[i].value(), c.xon[i].value());
      }
    }
  }
}

TEST(PipelineQos, APauseThatAnotherWorkerReceivedIsHeededByTheOwnerOfThePort) {
  RigOptions o = qos_options(plain_qos(2));
  o.workers = 2;
  QosRig rig(o);
  std::vector<std::uint8_t> f(wire::kMinFrameBytes);
  std::array<std::uint16_t, 8> quanta{};
  quanta.fill(100);
  wire::write_pfc(f, {}, 0b1000, quanta);
  rte_mbuf* m = rte_pktmbuf_alloc(rig.pool());
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(f.size())), f.data(), f.size());
  // Port 1 belongs to worker 1; the device gave the frame to worker 0.
  rig.pipelines[0]->receive(rig.now, 1, &m, 1);
  rig.run_until_quiet();
  EXPECT_EQ(rig.queues(1).receiver().counters().pfc.value(), 1u);
  EXPECT_EQ(rig.imbalance(), "");
}

}  // namespace
}  // namespace weft::pipeline
