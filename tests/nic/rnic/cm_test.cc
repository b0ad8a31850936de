// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/cm.h"

#include <gtest/gtest.h>

#include <cstring>

#include "switch/wire/builder.h"
#include "switch/wire/cm.h"
#include "tests/nic/rnic/fabric.h"

namespace weft::nic {
namespace {

using testing::Bytes;
using testing::Fabric;
using testing::Fate;
using testing::Faults;
using Kind = CmEvent::Kind;

/// Two nodes of which b listens, accepts and keeps all events.
struct Pair {
  explicit Pair(std::uint64_t seed = 1) : f(seed) { f.b.device.cm().listen(4711); }

  CmId connect(std::uint16_t port = 4711) {
    QpConfig c;
    c.path_mtu = 2048;
    f.a.create_qp(c);
    const std::uint8_t hello[] = {1, 2, 3};
    const auto& b = f.b.device.config();
    return f.a.device.cm().connect(f.now, *f.a.qp, {b.address, b.mac, port}, hello);
  }
  void work() {
    while (const auto e = f.b.device.cm().poll_event()) {
      b_events.push_back(*e);
      if (e->kind != Kind::connect_request || !accepting) continue;
      QpConfig c;
      EXPECT_TRUE(f.b.device.cm().negotiate(e->id, c));
      EXPECT_EQ(c.path_mtu, 2048u);
      f.b.create_qp(c);
      const std::uint8_t welcome[] = {9, 8};
      EXPECT_TRUE(f.b.device.cm().accept(f.now, e->id, *f.b.qp, welcome));
    }
    while (const auto e = f.a.device.cm().poll_event()) a_events.push_back(*e);
  }
  bool run(std::size_t a, std::size_t b) {
    return f.run(
        [&] {
          work();
          return a_events.size() >= a && b_events.size() >= b;
        },
        60'000 * kMs);
  }

  Fabric f;
  bool accepting = true;
  std::vector<CmEvent> a_events, b_events;
};

TEST(Cm, ConnectsAndDisconnectsWithPrivateDataBothWays) {
  Pair p;
  const CmId id = p.connect();
  ASSERT_TRUE(p.run(1, 2));
  EXPECT_EQ(p.b_events[0].kind, Kind::connect_request);
  EXPECT_EQ(p.b_events[0].port, 4711);
  EXPECT_EQ(p.b_events[0].private_data[2], 3);
  EXPECT_EQ(p.b_events[1].kind, Kind::established);
  EXPECT_EQ(p.a_events[0].kind, Kind::established);
  EXPECT_EQ(p.a_events[0].private_data[0], 9);
  EXPECT_EQ(p.f.a.qp->peer().qpn, p.f.b.qp->qpn());
  EXPECT_EQ(p.f.a.qp->peer().send_psn, p.f.b.qp->peer().receive_psn);
  p.f.a.device.cm().disconnect(p.f.now, id);
  ASSERT_TRUE(p.run(2, 3));
  EXPECT_EQ(p.b_events[2].kind, Kind::disconnected);
  EXPECT_EQ(p.a_events[1].kind, Kind::disconnected);
  EXPECT_EQ(p.f.b.qp->state(), QpState::error);
}

TEST(Cm, ConnectsThroughLossDuplicationAndReordering) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair p(seed);
    p.f.faults = Faults{.loss = 0.3, .duplicate = 0.3, .reorder = 0.3};
    const CmId id = p.connect();
    ASSERT_TRUE(p.run(1, 1));
    ASSERT_EQ(p.a_events[0].kind, Kind::established);
    p.f.a.device.cm().disconnect(p.f.now, id);
    ASSERT_TRUE(p.run(2, 1));
    p.f.run(
        [&] {
          p.work();
          return false;
        },
        20'000 * kMs);
    std::size_t requests = 0, ends = 0;
    for (const auto& e : p.b_events) {
      requests += e.kind == Kind::connect_request ? 1 : 0;
      ends += e.kind == Kind::disconnected ? 1 : 0;
    }
    EXPECT_EQ(p.a_events.size(), 2u);
    EXPECT_GE(requests, 1u);
    EXPECT_GE(ends, 1u);
  }
}

TEST(Cm, APortWithoutListenerIsRejected) {
  Pair p;
  p.connect(1);
  ASSERT_TRUE(p.run(1, 0));
  EXPECT_EQ(p.a_events[0].kind, Kind::rejected);
  EXPECT_EQ(p.a_events[0].reason, wire::CmRejectReason::invalid_service_id);
}

TEST(Cm, TheConsumerCanReject) {
  Pair p;
  p.accepting = false;
  p.connect();
  ASSERT_TRUE(p.run(0, 1));
  p.f.b.device.cm().reject(p.f.now, p.b_events[0].id);
  ASSERT_TRUE(p.run(1, 1));
  EXPECT_EQ(p.a_events[0].reason, wire::CmRejectReason::consumer_defined);
}

TEST(Cm, WithoutAnAnswerItGivesUp) {
  Pair p;
  p.f.rule = [](bool, const wire::Parsed&) { return Fate::lose; };
  p.connect();
  ASSERT_TRUE(p.run(1, 0));
  EXPECT_EQ(p.a_events[0].kind, Kind::unreachable);
  EXPECT_EQ(p.f.a.device.cm().counters().retried, 15u);
}

TEST(Cm, AConsumerThatThinksKeepsTheOtherSideWaiting) {
  Pair p;
  p.accepting = false;
  p.connect();
  // Far longer than all retries would take without MRA.
  p.f.run(
      [&] {
        p.work();
        return false;
      },
      5'000 * kMs);
  ASSERT_EQ(p.b_events.size(), 1u);
  EXPECT_TRUE(p.a_events.empty());
}

TEST(Cm, TrafficEstablishesWhenTheRtuIsLost) {
  Pair p;
  bool rtu_lost = false;
  int from_a = 0;
  p.f.rule = [&](bool a, const wire::Parsed&) {
    if (!a || ++from_a != 2) return Fate::pass;
    rtu_lost = true;
    return Fate::lose;
  };
  p.connect();
  ASSERT_TRUE(p.run(1, 1));
  EXPECT_TRUE(rtu_lost);
  p.f.a.memory(64, 1);
  SendWr wr;
  wr.with(p.f.a.sge(0, 8));
  ASSERT_EQ(p.f.a.qp->post_send(wr), PostResult::ok);
  ASSERT_TRUE(p.f.run(
      [&] {
        p.work();
        return p.b_events.size() == 2;
      },
      1 * kMs));
  EXPECT_EQ(p.b_events[1].kind, Kind::established);
}

TEST(Cm, DatagramsThatBreakARuleAreCountedAndNothingElse) {
  struct NoAnswer : TxSink {
    void send(const TxFrame&) noexcept override { ADD_FAILURE() << "an answer to a broken datagram"; }
  } nowhere;
  Pair p;
  p.accepting = false;
  const DeviceConfig& from = p.f.a.device.config();
  const DeviceConfig& to = p.f.b.device.config();
  wire::CmReq req;
  req.path_mtu = 5;
  req.service_id = wire::CmaServiceId{wire::CmaServiceId::kTcp, 4711}.encode();
  const auto built = wire::build_cm({1, req});
  const auto send = [&](const Bytes& mad) {
    const auto frame = wire::FrameBuilder().eth(from.mac, to.mac).ip(from.address, to.address).mad(mad).build();
    p.f.b.device.on_packet(p.f.now, frame, nowhere);
  };
  const Bytes good(built.begin(), built.end());
  send(Bytes(good.begin(), good.end() - 1));
  Bytes longer = good, other_version = good;
  longer.push_back(0);
  send(longer);
  ++other_version[0];
  send(other_version);
  send({});
  p.work();
  EXPECT_TRUE(p.b_events.empty());
  const auto& counters = p.f.b.device.cm().counters();
  EXPECT_EQ(counters.received, 4u);
  EXPECT_EQ(counters.malformed, 4u);
  send(good);
  p.work();
  EXPECT_EQ(p.b_events.size(), 1u) << "the same datagram, whole";
  EXPECT_EQ(counters.malformed, 4u);
}

}  // namespace
}  // namespace weft::nic
