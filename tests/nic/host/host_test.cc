// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/host.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

#include "switch/wire/emit.h"

namespace weft::nic {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// What is sent arrives, as on a segment where everybody hears everybody.
class MemoryPort : public Port {
 public:
  MemoryPort() {
    info_.mac = wire::MacAddress::from_u64(0x020000000001);
    info_.mtu = 1500;
  }
  std::span<const std::span<const std::uint8_t>> receive() noexcept override {
    arrived_ = std::move(under_way_);
    under_way_.clear();
    spans_.assign(arrived_.begin(), arrived_.end());
    return spans_;
  }
  void send(const TxFrame& frame) noexcept override {
    under_way_.emplace_back(frame.bytes());
    copy_frame(frame, under_way_.back());
    ++sent;
  }
  bool flush() noexcept override { return !busy; }
  void wait(std::int64_t ns) noexcept override { waits.push_back(ns); }
  bool link_up() noexcept override { return true; }
  PortCounters counters() noexcept override { return {}; }
  void inject(Bytes frame) { under_way_.push_back(std::move(frame)); }

  bool busy = false;
  unsigned sent = 0;
  std::vector<std::int64_t> waits;

 private:
  std::deque<Bytes> under_way_, arrived_;
  std::vector<std::span<const std::uint8_t>> spans_;
};

struct End {
  explicit End(Device& d) : device(d), pd(d.alloc_pd()), cq(d.create_cq(64)), qp(d.create_qp(pd, cq, cq, {})) {
    memory.resize(20'000);
    mr = d.reg_mr(pd, memory.data(), memory.size(), Access::all);
  }
  Device& device;
  Pd pd;
  Cq& cq;
  Qp& qp;
  Bytes memory;
  Mr mr{};
};

void connect(End& a, End& b) {
  const auto path = [](const End& from, const End& to) {
    return Path{from.device.config().mac,
                to.device.config().mac,
                from.device.config().address,
                to.device.config().address,
                0,
                64,
                0};
  };
  a.qp.connect({b.qp.qpn(), path(a, b), wire::Psn(1), wire::Psn(2)});
  b.qp.connect({a.qp.qpn(), path(b, a), wire::Psn(2), wire::Psn(1)});
}

class HostTest : public ::testing::Test {
 protected:
  HostTest() {
    auto p = std::make_unique<MemoryPort>();
    port = p.get();
    host.open(std::move(p));
  }
  MemoryPort* port = nullptr;
  Host host;
};

TEST_F(HostTest, EveryRnicGetsTheFramesForItsAddress) {
  constexpr std::size_t kRnics = 16;
  for (std::size_t i = 0; i < kRnics; ++i) {
    auto v6 = wire::IpAddress::parse("fd00::1")->bytes();
    v6[15] = static_cast<std::uint8_t>(i);
    host.add_device(
        i % 2 == 0 ? wire::IpAddress::v4(0x0a000001 + static_cast<std::uint32_t>(i)) : wire::IpAddress::v6(v6), i + 1);
  }
  std::vector<std::unique_ptr<End>> ends;
  for (const auto& d : host.devices()) ends.push_back(std::make_unique<End>(*d));
  for (std::size_t i = 0; i < kRnics; ++i) {
    // IPv4 with IPv4, IPv6 with IPv6.
    if (i % 4 < 2) connect(*ends[i], *ends[i + 2]);
  }
  for (std::size_t i = 0; i < kRnics; ++i) {
    if (i % 4 >= 2) continue;
    std::memset(ends[i]->memory.data(), static_cast<int>(i + 1), ends[i]->memory.size());
    SendWr wr;
    wr.opcode = WrOpcode::write;
    wr.with({ends[i]->mr.address, 20'000, ends[i]->mr.key});
    wr.remote_address = ends[i + 2]->mr.address;
    wr.rkey = ends[i + 2]->mr.key;
    ASSERT_EQ(ends[i]->qp.post_send(wr), PostResult::ok);
  }
  std::size_t done = 0;
  EXPECT_TRUE(host.run_until(
      [&] {
        Wc wc;
        for (const auto& e : ends) {
          while (e->cq.poll({&wc, 1}) == 1) {
            EXPECT_EQ(wc.status, WcStatus::success);
            ++done;
          }
        }
        return done == kRnics / 2;
      },
      std::chrono::seconds(20)));
  for (std::size_t i = 0; i < kRnics; ++i) {
    if (i % 4 < 2) {
      EXPECT_EQ(ends[i]->memory, ends[i + 2]->memory) << i;
    }
  }
  EXPECT_EQ(host.unclaimed(), 0u);
}

TEST_F(HostTest, FramesThatAreForNoRnicAreCounted) {
  host.add_device(wire::IpAddress::v4(1), 1);
  host.add_device(wire::IpAddress::v4(2), 2);
  port->inject(Bytes(80));
  port->inject(Bytes(10));
  host.run_once(std::chrono::nanoseconds(0));
  EXPECT_EQ(host.unclaimed(), 2u);
}

TEST_F(HostTest, ASingleRnicJudgesEveryFrame) {
  host.add_device(wire::IpAddress::v4(1), 1);
  port->inject(Bytes(80));
  host.run_once(std::chrono::nanoseconds(0));
  EXPECT_EQ(host.devices()[0]->counters().not_roce, 1u);
  EXPECT_EQ(host.unclaimed(), 0u);
}

TEST_F(HostTest, WithNothingToDoItWaitsForAsLongAsItMay) {
  host.add_device(wire::IpAddress::v4(1), 1);
  host.run_once(std::chrono::milliseconds(7));
  EXPECT_EQ(port->waits, std::vector<std::int64_t>{7'000'000});
}

TEST_F(HostTest, ItWaitsNoLongerThanUntilTheNextTimerIsDue) {
  End a(host.add_device(wire::IpAddress::v4(1), 1)), b(host.add_device(wire::IpAddress::v4(2), 2));
  connect(a, b);
  SendWr wr;
  wr.with({a.mr.address, 10, a.mr.key});
  ASSERT_EQ(a.qp.post_send(wr), PostResult::ok);
  host.run_once(std::chrono::seconds(10));  // sends
  static_cast<void>(port->receive());       // what was sent is lost
  host.run_once(std::chrono::seconds(10));
  ASSERT_FALSE(port->waits.empty());
  EXPECT_GT(port->waits.back(), 0);
  EXPECT_LE(port->waits.back(), QpConfig{}.rto_ns);
}

TEST_F(HostTest, WhatWaitsForRoomIsNotDueBeforeThereIsSome) {
  End a(host.add_device(wire::IpAddress::v4(1), 1)), b(host.add_device(wire::IpAddress::v4(2), 2));
  connect(a, b);
  SendWr wr;
  wr.with({a.mr.address, 20'000, a.mr.key});
  ASSERT_EQ(a.qp.post_send(wr), PostResult::ok);
  port->busy = true;
  host.run_once(std::chrono::milliseconds(3));
  EXPECT_EQ(port->waits, std::vector<std::int64_t>{3'000'000});
}

Bytes pfc(std::uint8_t classes, std::uint16_t quanta) {
  Bytes frame(60);
  std::array<std::uint16_t, 8> all;
  all.fill(quanta);
  wire::write_pfc(frame, wire::MacAddress::from_u64(0x020000000009), classes, all);
  return frame;
}

TEST_F(HostTest, PfcHoldsBackWhatItNamesUntilItIsTakenBack) {
  End a(host.add_device(wire::IpAddress::v4(1), 1)), b(host.add_device(wire::IpAddress::v4(2), 2));
  connect(a, b);
  SendWr wr;
  wr.with({a.mr.address, 10, a.mr.key});
  // The queue pairs send with DSCP 0, which is priority 0.
  port->inject(pfc(0b0000'0001, 0xffff));
  host.run_once(std::chrono::nanoseconds(0));
  ASSERT_EQ(a.qp.post_send(wr), PostResult::ok);
  for (int i = 0; i < 3; ++i) host.run_once(std::chrono::nanoseconds(0));
  EXPECT_EQ(port->sent, 0u);
  End late(host.add_device(wire::IpAddress::v4(3), 3));
  End later(host.add_device(wire::IpAddress::v4(4), 4));
  connect(late, later);
  ASSERT_EQ(late.qp.post_send(wr), PostResult::ok);
  host.run_once(std::chrono::nanoseconds(0));
  EXPECT_EQ(port->sent, 0u) << "an RNIC that comes later is held back as well";
  port->inject(pfc(0b0000'0001, 0));
  host.run_once(std::chrono::nanoseconds(0));
  host.run_once(std::chrono::nanoseconds(0));
  EXPECT_GE(port->sent, 1u);
  EXPECT_EQ(host.pauses().counters().pfc.value(), 2u);
  EXPECT_EQ(host.unclaimed(), 0u);
}

TEST_F(HostTest, PfcOfAnotherPriorityHoldsNothingBack) {
  End a(host.add_device(wire::IpAddress::v4(1), 1)), b(host.add_device(wire::IpAddress::v4(2), 2));
  connect(a, b);
  SendWr wr;
  wr.with({a.mr.address, 10, a.mr.key});
  port->inject(pfc(0b0000'1000, 0xffff));
  host.run_once(std::chrono::nanoseconds(0));
  ASSERT_EQ(a.qp.post_send(wr), PostResult::ok);
  host.run_once(std::chrono::nanoseconds(0));
  EXPECT_GE(port->sent, 1u);
}

TEST_F(HostTest, APauseEndsByItselfAndIsWaitedForAsATimerIs) {
  End a(host.add_device(wire::IpAddress::v4(1), 1)), b(host.add_device(wire::IpAddress::v4(2), 2));
  connect(a, b);
  SendWr wr;
  wr.with({a.mr.address, 10, a.mr.key});
  // 65535 quanta of 512 bits at 100 Mbit/s are 336 ms; 4000 are 20 ms.
  port->inject(pfc(0b0000'0001, 4000));
  host.run_once(std::chrono::nanoseconds(0));
  const Time paused = monotonic_now();
  ASSERT_EQ(a.qp.post_send(wr), PostResult::ok);
  host.run_once(std::chrono::seconds(10));
  ASSERT_FALSE(port->waits.empty());
  EXPECT_LE(port->waits.back(), 20'480'000);
  EXPECT_TRUE(host.run_until([&] { return port->sent > 0; }, std::chrono::seconds(10)));
  EXPECT_GE(monotonic_now() - paused, 15'000'000);
}

TEST_F(HostTest, RunUntilEndsWithTheTimeOrTheCondition) {
  host.add_device(wire::IpAddress::v4(1), 1);
  EXPECT_FALSE(host.run_until([] { return false; }, std::chrono::milliseconds(1)));
  EXPECT_TRUE(host.run_until([] { return true; }, std::chrono::nanoseconds(0)));
}

}  // namespace
}  // namespace weft::nic
