// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "switch/wire/icrc.h"
#include "switch/wire/qcn_cnp.h"
#include "switch/wire/rtt_echo.h"
#include "switch/wire/telemetry_cnp.h"
#include "tests/nic/rnic/fabric.h"
#include "tests/switch/wire/vectors.h"

namespace weft::nic {
namespace {

using testing::Fabric;
using testing::Fate;

QpConfig fast() {
  QpConfig c;
  c.path_mtu = 1024;
  c.rto_ns = 200 * kUs;
  return c;
}

std::size_t write_many(Fabric& f, std::uint32_t count, std::uint32_t bytes, Time limit = 10'000 * kMs) {
  f.a.memory(1 << 16, 1);
  f.b.memory(1 << 16, 2);
  for (std::uint32_t i = 0; i < count; ++i) {
    SendWr wr;
    wr.opcode = WrOpcode::write;
    wr.with(f.a.sge(0, bytes));
    wr.remote_address = f.b.mr.address;
    wr.rkey = f.b.mr.key;
    EXPECT_EQ(f.a.qp->post_send(wr), PostResult::ok);
  }
  std::size_t done = 0;
  f.run(
      [&] {
        for (const Wc& wc : f.a.poll()) done += wc.status == WcStatus::success ? 1 : 0;
        return done == count;
      },
      limit);
  return done;
}

TEST(Device, DataIsEctAcksAreNotAndCnpsHaveTheirOwnClass) {
  Fabric f;
  QpConfig c = fast();
  c.dscp = 26;
  f.connect(c);
  std::map<std::uint8_t, std::uint8_t> tos;  // by opcode
  f.rule = [&](bool, const wire::Parsed& p) {
    tos[p.opcode] = p.tos;
    return p.opcode == static_cast<std::uint8_t>(wire::Opcode::RC_RDMA_WRITE_MIDDLE) ? Fate::mark : Fate::pass;
  };
  EXPECT_EQ(write_many(f, 1, 4096), 1u);
  EXPECT_EQ(tos[static_cast<std::uint8_t>(wire::Opcode::RC_RDMA_WRITE_FIRST)], 26 << 2 | 2);
  EXPECT_EQ(tos[static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE)], 26 << 2);
  EXPECT_EQ(tos[static_cast<std::uint8_t>(wire::Opcode::CNP)], 48 << 2 | 2);
  EXPECT_EQ(f.a.qp->counters().cnps_received, 2u);
  EXPECT_EQ(f.b.qp->counters().ce_marked, 2u);
}

// A ConnectX-4 Lx sends this one, others may set the migration bit.
TEST(Device, CnpsAreThoseOfAConnectXAndCountWithTheMigrationBitToo) {
  Fabric f;
  f.connect(fast());
  const auto recorded = wire::vectors::from_hex(wire::vectors::kConnectX4Cnp);
  constexpr std::size_t kBth = sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header) + sizeof(wire::UdpHeader);
  unsigned cnps = 0;
  f.rule = [&](bool from_a, const wire::Parsed&) { return from_a ? Fate::mark : Fate::pass; };
  f.on_the_way = [&](bool, testing::Bytes& frame, const wire::Parsed& p) {
    if (p.opcode != static_cast<std::uint8_t>(wire::Opcode::CNP)) return;
    ASSERT_EQ(frame.size(), recorded.size());
    testing::Bytes expected(recorded.begin() + kBth, recorded.end() - wire::kIcrcBytes);
    wire::header_at<wire::Bth>(expected.data()).dest_qp.set(p.dest_qp.value());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frame.begin() + kBth));
    if (++cnps % 2 == 0) return;
    wire::header_at<wire::Bth>(frame.data() + kBth).set_migrated(true);
    const wire::RoceLayout layout = wire::roce_layout(frame.data(), p);
    wire::store_icrc(frame.data() + layout.icrc, wire::icrc_full(frame.data(), layout));
  };
  EXPECT_EQ(write_many(f, 4, 4096), 4u);
  EXPECT_GT(cnps, 1u);
  EXPECT_EQ(f.a.qp->counters().cnps_received, cnps);
}

TEST(Device, MarksLowerTheRateAndTheirEndRaisesIt) {
  Fabric f;
  QpConfig c = fast();
  c.line_bps = 10'000'000'000;
  c.congestion_control = CongestionControl::dcqcn;
  c.dcqcn = *dcqcn_parameters("hpcc_mix", c.line_bps);
  f.connect(c);
  bool marking = true;
  f.rule = [&](bool from_a, const wire::Parsed&) { return marking && from_a ? Fate::mark : Fate::pass; };
  EXPECT_EQ(write_many(f, 64, 32768), 64u);
  const double low = f.a.qp->rate().rate_bps(f.now);
  EXPECT_LT(low, 5e9);
  marking = false;
  EXPECT_GT(f.a.qp->rate().rate_bps(f.now + 1000 * kMs), low);
}

QpConfig with_hpcc() {
  QpConfig c = fast();
  c.line_bps = 10'000'000'000;
  c.congestion_control = CongestionControl::hpcc;
  c.hpcc.base_rtt_ns = 10 * kUs;
  return c;
}

/// The option of a frame; `change` may write it.
template <typename Change>
void change_option(testing::Bytes& frame, const wire::Parsed& p, Change&& change) {
  std::uint8_t* const option = wire::find_int_option(frame.data() + p.l3_offset);
  ASSERT_NE(option, nullptr);
  change(option);
  const wire::RoceLayout layout = wire::roce_layout(frame.data(), p);
  wire::store_icrc(frame.data() + layout.icrc, wire::icrc_full(frame.data(), layout));
}

/// A port of 10 Gbit/s, at a time.
wire::IntHop port_at(Time now, double used, std::uint16_t queue = 0) {
  const double slots = static_cast<double>(now) / 102.4;
  return {wire::int_speed_code(10'000), static_cast<std::uint16_t>(static_cast<std::uint64_t>(slots)),
          static_cast<std::uint16_t>(static_cast<std::uint64_t>(slots * used)), queue};
}

TEST(Device, WhatPortsSayComesBackWithAcksAndSetsTheRate) {
  Fabric f;
  f.connect(with_hpcc());
  double used = 2;
  std::deque<wire::IntPath> told;  // and not yet sent back
  std::uint64_t requests = 0, echoes = 0;
  f.on_the_way = [&](bool from_a, testing::Bytes& frame, const wire::Parsed& p) {
    change_option(frame, p, [&](std::uint8_t* option) {
      EXPECT_EQ(wire::int_kind(option), from_a ? wire::IntKind::collects : wire::IntKind::echo);
      ++(from_a ? requests : echoes);
      if (from_a) {
        EXPECT_TRUE(wire::append_int(option, port_at(f.now, used), 0x11));
        told.push_back(wire::read_int(option));
      } else {
        EXPECT_EQ(wire::read_int(option), told.front());
        told.pop_front();
      }
    });
  };
  EXPECT_EQ(write_many(f, 64, 32768), 64u);
  EXPECT_EQ(requests, 2048u);
  EXPECT_EQ(echoes, requests) << "each packet is answered";
  EXPECT_NEAR(f.a.qp->rate().hpcc()->utilisation(), 2, 0.05);
  EXPECT_NEAR(f.a.qp->rate().rate_bps(f.now), 1e8, 1);
  EXPECT_EQ(f.b.qp->rate().rate_bps(f.now), 1e10) << "the peer only tells";
  used = 0.5;
  EXPECT_EQ(write_many(f, 64, 32768), 64u);
  EXPECT_EQ(f.a.qp->rate().rate_bps(f.now), 1e10);
}

TEST(Device, TelemetryInTheWrongPlaceOrUnknownChangesNothing) {
  Fabric f;
  f.connect(with_hpcc());
  f.on_the_way = [&](bool from_a, testing::Bytes& frame, const wire::Parsed& p) {
    change_option(frame, p, [&](std::uint8_t* option) {
      EXPECT_EQ(wire::read_int(option).hops, 0);
      wire::IntPath path;
      path.hops = 1;
      path.hop[0] = port_at(f.now, 2, 4000);
      wire::write_int(option, wire::IntKind::echo, path);
      if (!from_a) option[2] = 0x71;  // of an unknown kind
    });
  };
  EXPECT_EQ(write_many(f, 64, 32768), 64u);
  for (const testing::Node* node : {&f.a, &f.b}) {
    EXPECT_EQ(node->qp->rate().changes()->cuts, 0u);
    EXPECT_EQ(node->qp->rate().hpcc()->utilisation(), 1);
  }
}

TEST(Device, RecordsThatASwitchSendsBackSetTheRateOfTheirQueuePair) {
  struct Nowhere : TxSink {
    void send(const TxFrame&) noexcept override {}
  } nowhere;
  Fabric f;
  QpConfig c = with_hpcc();
  c.hpcc.near_rtt_ns = 10 * kUs;
  f.connect(c);
  wire::RoceAddressing to;
  to.source = f.b.device.config().address;
  to.destination = f.a.device.config().address;
  for (const bool known : {false, true}) {
    for (int i = 0; i < 10; ++i) {
      f.now += 10 * kUs;
      wire::IntPath path;
      path.hops = 1;
      path.hop[0] = port_at(f.now, 2);
      std::array<std::uint8_t, wire::kMirrorBytes> cnp;
      const wire::Qpn qpn = known ? f.a.qp->qpn() : wire::Qpn(f.a.qp->qpn().value() ^ 1);
      const std::size_t bytes = wire::write_mirror(cnp, to, qpn, path);
      f.a.device.on_packet(f.now, std::span(cnp).first(bytes), nowhere);
    }
    EXPECT_EQ(f.a.qp->counters().cnps_received, known ? 10u : 0u);
    EXPECT_EQ(f.a.qp->rate().rate_bps(f.now) < 5e8, known);
  }
  EXPECT_EQ(f.a.qp->rate().hpcc()->cuts(), 0u);
}

// QCN's number in the reserved bytes of a CNP: without near_qcn, and where these bytes are anything else, it is a CNP.
TEST(Device, ACnpThatSaysHowCongestedAQueueIsCutsTheNearRate) {
  struct Nowhere : TxSink {
    void send(const TxFrame&) noexcept override {}
  } nowhere;
  for (const bool listens : {true, false}) {
    Fabric f;
    QpConfig c = fast();
    c.line_bps = 10'000'000'000;
    c.congestion_control = CongestionControl::dcqcn;
    c.dcqcn = *dcqcn_parameters("longhaul", c.line_bps);
    c.dcqcn.near_qcn.enabled = listens;
    f.connect(c);
    wire::RoceAddressing to;
    to.source = f.b.device.config().address;
    to.destination = f.a.device.config().address;
    std::array<std::uint8_t, wire::kMaxEmittedBytes> cnp;
    const std::size_t bytes = wire::write_qcn_cnp(cnp, to, f.a.qp->qpn(), 32);
    f.a.device.on_packet(f.now, std::span(cnp).first(bytes), nowhere);
    EXPECT_EQ(f.a.qp->counters().cnps_received, 1u);
    EXPECT_EQ(f.a.qp->rate().rate_bps(f.now), listens ? 7.5e9 : 1e10) << "DCQCN cuts later";
    EXPECT_EQ(f.a.qp->rate().dcqcn()->cnps(), listens ? 0u : 1u);

    wire::Parsed p;
    wire::parse_frame(cnp.data(), static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes), p);
    std::uint8_t* const reserved = cnp.data() + p.l4_offset + sizeof(wire::UdpHeader) + sizeof(wire::Bth);
    for (const std::uint8_t byte : {0, 0xff}) {
      std::memset(reserved, byte, wire::kCnpReservedBytes);
      const wire::RoceLayout layout{p.l3_offset, p.l4_offset, static_cast<std::uint32_t>(bytes - wire::kIcrcBytes),
                                    false};
      wire::store_icrc(cnp.data() + layout.icrc, wire::icrc_full(cnp.data(), layout));
      f.a.device.on_packet(f.now, std::span(cnp).first(bytes), nowhere);
    }
    EXPECT_EQ(f.a.qp->counters().cnps_received, 3u);
    EXPECT_EQ(f.a.qp->rate().dcqcn()->cnps(), listens ? 2u : 3u);
    EXPECT_EQ(f.a.device.counters().icrc_errors, 0u);
  }
}

TEST(Device, RequestsAskASwitchForEchoesAndTheseSetTheRate) {
  for (const bool listens : {true, false}) {
    Fabric f;
    QpConfig c = fast();
    c.line_bps = 10'000'000'000;
    c.congestion_control = CongestionControl::timely;
    c.timely.near_echo = listens;
    f.connect(c);
    struct Nowhere : TxSink {
      void send(const TxFrame&) noexcept override {}
    } nowhere;
    wire::RoceAddressing to;
    to.source = f.b.device.config().address;
    to.destination = f.a.device.config().address;
    std::vector<wire::Psn> asked;
    f.on_the_way = [&](bool from_a, testing::Bytes& frame, const wire::Parsed& p) {
      const auto& bth = wire::header_at<wire::Bth>(frame.data() + p.l4_offset + sizeof(wire::UdpHeader));
      if (!wire::is_rtt_echo(bth)) return;
      EXPECT_TRUE(from_a);
      EXPECT_TRUE(wire::icrc_ok(frame.data(), p));
      asked.push_back(p.psn);
    };
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(write_many(f, 1, 4096), 1u);
      ASSERT_EQ(asked.size(), static_cast<std::size_t>(listens ? round + 1 : 0)) << "one at a time";
      f.now += 600 * kUs;  // longer than T_high
      // Nobody has asked for the one that comes first.
      for (const std::uint32_t off : {1u, 0u}) {
        std::array<std::uint8_t, wire::kMaxEmittedBytes> echo;
        const wire::Psn psn = listens ? asked.back() : wire::Psn(100 + static_cast<std::uint32_t>(round));
        const std::size_t bytes = wire::write_rtt_echo(echo, to, f.a.qp->qpn(), psn + off);
        f.a.device.on_packet(f.now, std::span(echo).first(bytes), nowhere);
      }
    }
    EXPECT_EQ(f.a.qp->counters().echoes_received, 40u);
    EXPECT_EQ(f.a.qp->counters().cnps_received, 0u);
    EXPECT_EQ(f.a.qp->rate().rate_bps(f.now) < 5e9, listens);
  }
}

TEST(Device, TheWindowOfHpccBoundsWhatIsUnderWay) {
  Fabric f;
  f.delay_ns = 50 * kUs;  // ten times the base round trip
  f.connect(with_hpcc());
  std::uint64_t most = 0;
  f.rule = [&](bool, const wire::Parsed&) {
    most = std::max(most, f.a.qp->requester().inflight_packets());
    return Fate::pass;
  };
  EXPECT_EQ(write_many(f, 8, 32768), 8u);
  EXPECT_EQ(most, 11u) << "12500 bytes in packets of up to 1138";
}

TEST(Device, AWindowOfOnePacketGetsThroughLosses) {
  for (const auto recovery : {LossRecovery::gbn, LossRecovery::nic_sr, LossRecovery::irn}) {
    Fabric f;
    QpConfig c = with_hpcc();
    c.loss_recovery = recovery;
    c.retry_count = 7;
    f.connect(c);
    f.faults = {.loss = 0.1, .duplicate = 0.1, .reorder = 0.1};
    f.on_the_way = [&](bool from_a, testing::Bytes& frame, const wire::Parsed& p) {
      if (!from_a) return;
      change_option(frame, p, [&](std::uint8_t* o) { EXPECT_TRUE(wire::append_int(o, port_at(f.now, 3), 1)); });
    };
    EXPECT_EQ(write_many(f, 16, 8192), 16u) << name(recovery);
    EXPECT_EQ(f.a.qp->rate().window_packets(), 1u) << name(recovery);
  }
}

TEST(Device, ThePeerOfAQueuePairWithTelemetryMayHaveNone) {
  Fabric f;
  QpConfig plain = fast();
  f.connect(with_hpcc(), plain, wire::Psn(1), wire::Psn(2));
  EXPECT_EQ(write_many(f, 4, 32768), 4u);
  EXPECT_EQ(f.a.qp->rate().rate_bps(f.now), 1e10);
}

TEST(Device, TheLinkSpeedIsKept) {
  Fabric f(1, {.link_bps = 1'000'000'000});
  f.connect(fast());
  const Time start = f.now;
  EXPECT_EQ(write_many(f, 100, 10240), 100u);
  const double bits = 100.0 * 10240 * 8;
  EXPECT_GT(static_cast<double>(f.now - start), bits);
  EXPECT_LT(static_cast<double>(f.now - start), bits * 1.15);
}

TEST(Device, QueuePairsTakeTurns) {
  Fabric f;
  f.connect(fast());
  Qp* first = f.a.qp;
  Qp* first_peer = f.b.qp;
  f.connect(fast());
  f.a.memory(1 << 16, 1);
  f.b.memory(1 << 16, 1);
  for (Qp* qp : {first, f.a.qp}) {
    SendWr wr;
    wr.opcode = WrOpcode::write;
    wr.with(f.a.sge(0, 8192));
    wr.remote_address = f.b.mr.address;
    wr.rkey = f.b.mr.key;
    ASSERT_EQ(qp->post_send(wr), PostResult::ok);
  }
  std::vector<wire::Qpn> order;
  f.rule = [&](bool from_a, const wire::Parsed& p) {
    if (from_a) order.push_back(p.dest_qp);
    return Fate::pass;
  };
  f.settle(1 * kMs);
  ASSERT_EQ(order.size(), 16u);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], (i % 2 == 0 ? first_peer : f.b.qp)->qpn());
}

// Two queue pairs with DSCPs of their own, both ways.
TEST(Device, APauseStopsItsDscpsAloneAndWhatItStoppedGoesOnAfterIt) {
  Fabric f;
  QpConfig slow = fast(), quick = fast();
  slow.dscp = 3;
  slow.ack_dscp = 48;
  slow.rto_ns = 0;
  quick.dscp = 5;
  f.connect(slow);
  Qp* const paused = f.a.qp;
  Qp* const answering = f.b.qp;
  f.connect(quick);
  f.a.memory(1 << 16, 1);
  f.b.memory(1 << 16, 1);
  std::map<unsigned, int> left;  // frames of a, by DSCP
  f.rule = [&](bool from_a, const wire::Parsed& p) {
    left[p.tos >> 2] += from_a ? 1 : 0;
    return Fate::pass;
  };
  f.a.device.set_paused(std::uint64_t{1} << 3);
  const auto write = [](testing::Node& from, testing::Node& to, Qp& qp) {
    SendWr wr;
    wr.opcode = WrOpcode::write;
    wr.with(from.sge(0, 8192));
    wr.remote_address = to.mr.address;
    wr.rkey = to.mr.key;
    return qp.post_send(wr);
  };
  ASSERT_EQ(write(f.a, f.b, *paused), PostResult::ok);
  ASSERT_EQ(write(f.b, f.a, *answering), PostResult::ok);
  ASSERT_EQ(write(f.a, f.b, *f.a.qp), PostResult::ok);
  f.settle(1 * kMs);
  EXPECT_EQ(left[3], 0) << "data of the paused class";
  EXPECT_GT(left[48], 0) << "ACKs of the same queue pair";
  EXPECT_EQ(left[5], 8) << "data of another class";
  EXPECT_EQ(f.b.poll().size(), 1u) << "what was written to the paused device";
  EXPECT_EQ(f.a.poll().size(), 1u);
  f.a.device.set_paused(0);
  f.settle(1 * kMs);
  EXPECT_EQ(left[3], 8);
  EXPECT_EQ(f.a.poll().size(), 1u);
}

TEST(Device, FramesForOthersWrongOnesAndStrangersAreCounted) {
  Fabric f;
  f.connect(fast());
  std::vector<testing::Bytes> frames;
  f.record = &frames;
  EXPECT_EQ(write_many(f, 1, 10), 1u);
  struct Nothing : TxSink {
    void send(const TxFrame&) noexcept override {}
  } sink;
  auto& device = f.b.device;
  auto frame = frames.at(0);
  frame[frame.size() - 6] ^= 1;
  device.on_packet(f.now, frame, sink);
  EXPECT_EQ(device.counters().icrc_errors, 1u);
  frame = frames[0];
  device.on_packet(f.now, {frame.data(), 30}, sink);
  EXPECT_EQ(device.counters().not_roce, 1u);
  frame[33] ^= 1;
  device.on_packet(f.now, frame, sink);
  EXPECT_EQ(device.counters().other_address, 1u);
  f.b.device.destroy_qp(*f.b.qp);
  device.on_packet(f.now, frames[0], sink);
  EXPECT_EQ(device.counters().unknown_qp, 1u);
}

TEST(Device, AFailureOfOneHalfIsToldAndEndsTheOther) {
  Fabric f;
  f.connect(fast());
  f.a.memory(4096, 1);
  f.b.memory(4096, 1);
  SendWr wr;
  wr.opcode = WrOpcode::write;
  wr.with(f.a.sge(0, 10));
  wr.remote_address = f.b.mr.address + 5000;
  wr.rkey = f.b.mr.key;
  ASSERT_EQ(f.b.qp->post_recv(RecvWr{}), PostResult::ok);
  ASSERT_EQ(f.a.qp->post_send(wr), PostResult::ok);
  f.settle(10 * kMs);
  EXPECT_EQ(f.a.poll().at(0).status, WcStatus::remote_access_error);
  EXPECT_EQ(f.b.poll().at(0).status, WcStatus::flushed);
  EXPECT_EQ(f.a.qp->state(), QpState::error);
  EXPECT_EQ(f.b.qp->state(), QpState::error);
}

TEST(Device, ACompletionThatFindsNoRoomEndsTheQueuePair) {
  Fabric f;
  f.connect(fast());
  Cq& small = f.a.device.create_cq(1);
  Qp& qp = f.a.device.create_qp(f.a.pd, small, small, fast());
  f.b.create_qp(fast());
  const auto &a = f.a.device.config(), &b = f.b.device.config();
  qp.connect({f.b.qp->qpn(), {a.mac, b.mac, a.address, b.address, 0, 64, 0}, wire::Psn(1), wire::Psn(2)});
  f.b.qp->connect({qp.qpn(), {b.mac, a.mac, b.address, a.address, 0, 64, 0}, wire::Psn(2), wire::Psn(1)});
  for (int i = 0; i < 2; ++i) {
    SendWr wr;
    wr.opcode = WrOpcode::write;
    ASSERT_EQ(qp.post_send(wr), PostResult::ok);
  }
  f.settle(1 * kMs);
  EXPECT_EQ(qp.state(), QpState::error);
  EXPECT_EQ(small.size(), 1u);
  EXPECT_EQ(small.overruns(), 1u);
}

TEST(Device, ElidedPayloadNeedsNoMemory) {
  // As a simulator does it: headers travel, lengths are kept.
  struct Wire : TxSink {
    void send(const TxFrame& f) noexcept override {
      heads.emplace_back(f.head.begin(), f.head.end());
      lengths.push_back(f.bytes());
    }
    std::vector<testing::Bytes> heads;
    std::vector<std::uint32_t> lengths;
  };
  Fabric f(1, {.check_icrc = false});
  f.connect(fast());
  const Mr from = f.a.device.reg_virtual_mr(f.a.pd, 0, 1 << 30, Access::all);
  const Mr to = f.b.device.reg_virtual_mr(f.b.pd, 0, 1 << 30, Access::all);
  SendWr wr;
  wr.opcode = WrOpcode::write;
  wr.with({0, 100'000, from.key});
  wr.rkey = to.key;
  ASSERT_EQ(f.a.qp->post_send(wr), PostResult::ok);
  Wire ab, ba;
  f.a.device.on_timer(1, ab);
  for (Time now = 2; now < 1000 && f.a.cq.size() == 0; ++now) {
    Wire in_b, in_a;
    std::swap(in_b, ab);
    for (std::size_t i = 0; i < in_b.heads.size(); ++i) f.b.device.on_packet(now, in_b.heads[i], in_b.lengths[i], ba);
    std::swap(in_a, ba);
    for (std::size_t i = 0; i < in_a.heads.size(); ++i) f.a.device.on_packet(now, in_a.heads[i], in_a.lengths[i], ab);
    if (f.a.device.next_deadline() <= now) f.a.device.on_timer(now, ab);
  }
  EXPECT_EQ(f.a.cq.size(), 1u);
  EXPECT_EQ(f.b.qp->responder().counters().bytes_placed, 100'000u);
}

}  // namespace
}  // namespace weft::nic
