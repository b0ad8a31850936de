// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/device.h"

#include <gtest/gtest.h>

#include "tests/nic/rnic/fabric.h"

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
