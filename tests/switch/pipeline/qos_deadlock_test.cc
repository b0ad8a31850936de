// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A deadlock of PFC, built on purpose: three switches in a ring, whose hosts all send two switches on. Once every
// switch has paused the one before it, none can drain.
#include "tests/switch/pipeline/qos_rig.h"

namespace weft::pipeline {
namespace {

constexpr PortIndex kHostPort = 0;
constexpr PortIndex kNext = 1;
constexpr PortIndex kPrevious = 2;
constexpr std::size_t kHops = 4;  ///< byte of the frame that counts the switches that still forward it along the ring
constexpr std::size_t kOut = 5;   ///< byte of the frame that parse_and_forward() reads

struct Ring {
  explicit Ring(bool watchdog) {
    RigOptions o;
    o.ports = 3;
    o.rate_mbps = 10'000;
    o.buffers = 4096;
    o.data_room_bytes = 2048;
    qos::Settings s = QosRig::settings(3, {.speed_mbps = 10'000, .delay_ns = 1000, .mtu_bytes = 1500});
    for (auto& port : s.ports) {
      port.watchdog = {.enabled = watchdog, .detection_ns = 5'000'000, .restoration_ns = 5'000'000};
      for (auto& wred : port.wred) wred.reset();
    }
    s.pool_bytes = qos::own_bytes(s) + 100'000;
    o.qos = s;
    for (std::size_t i = 0; i < 3; ++i) {
      rigs.push_back(std::make_unique<QosRig>(o));
      rigs[i]->keep_frames = false;
      rigs[i]->on_sent = [this, i](PortIndex port, const SentFrame& f) { sent(i, port, f); };
      auto frame = QosRig::roce(kNext, 26, wire::Ecn::not_ect, 1000);
      frame[kHops] = 2;
      hosts.emplace_back(*rigs[i], kHostPort, frame, 10'000);
    }
  }

  void sent(std::size_t from, PortIndex port, const SentFrame& f) {
    const bool pfc = f.parsed.kind == wire::FrameKind::mac_control;
    if (port == kHostPort) {
      if (pfc) {
        hosts[from].on_pfc(now, f.bytes, 10'000, 3);
      } else {
        ++delivered;
      }
      return;
    }
    const std::size_t to = port == kNext ? (from + 1) % 3 : (from + 2) % 3;
    travelling.push_back({now + 1000, to, port == kNext ? kPrevious : kNext, f.bytes});
    auto& bytes = travelling.back().bytes;
    if (pfc) return;
    --bytes[kHops];
    bytes[kOut] = bytes[kHops] == 0 ? kHostPort : kNext;
  }

  void run_until(TimeNs end) {
    while (now < end) {
      TimeNs next = end;
      for (auto& rig : rigs) next = std::min(next, rig->pipelines[0]->next_deadline());
      for (const Host& h : hosts) next = std::min(next, h.next());
      for (const auto& t : travelling) next = std::min(next, t.at);
      now = std::max(now + 1, next);
      for (auto& rig : rigs) rig->now = now;
      for (std::size_t i = 0; i < travelling.size();) {
        if (travelling[i].at > now) {
          ++i;
          continue;
        }
        const Travelling t = travelling[i];
        travelling.erase(travelling.begin() + static_cast<std::ptrdiff_t>(i));
        rigs[t.to]->arrive(t.port, t.bytes);
      }
      for (Host& h : hosts) h.step();
      for (auto& rig : rigs) rig->run_until_quiet();
    }
  }

  [[nodiscard]] std::uint64_t held() const {
    std::uint64_t sum = 0;
    for (const auto& rig : rigs) sum += rig->held();
    return sum;
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) const {
    std::uint64_t sum = 0;
    for (const auto& rig : rigs) sum += rig->dropped(reason);
    return sum;
  }
  // Every ring port's queue is paused by the switch after it.
  void make_deadlock() {
    for (auto& rig : rigs) rig->pfc_arrives(kNext, 0b1000, 0xffff);
    for (Host& h : hosts) h.left = 500;
    run_until(now + 2'000'000);
  }

  struct Travelling {
    TimeNs at;
    std::size_t to;
    PortIndex port;
    std::vector<std::uint8_t> bytes;
  };
  TimeNs now = 1'000'000'000;
  std::vector<std::unique_ptr<QosRig>> rigs;
  std::vector<Host> hosts;
  std::vector<Travelling> travelling;
  std::uint64_t delivered = 0;
};

TEST(QosDeadlock, WithoutTheWatchdogADeadlockLasts) {
  Ring ring(false);
  ring.make_deadlock();
  ring.run_until(ring.now + 20'000'000);
  const std::uint64_t stuck = ring.held();
  const std::uint64_t delivered = ring.delivered;
  EXPECT_GT(stuck, 0u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(ring.rigs[i]->queues(kNext).receiver().last_paused(), 0b1000) << i;
  ring.run_until(ring.now + 100'000'000);
  EXPECT_EQ(ring.held(), stuck);
  EXPECT_EQ(ring.delivered, delivered);
  EXPECT_EQ(ring.dropped(DropReason::headroom_full), 0u);
}

TEST(QosDeadlock, TheWatchdogBreaksADeadlockAndEverythingMovesAgain) {
  Ring ring(true);
  ring.make_deadlock();
  ring.run_until(ring.now + 200'000'000);
  EXPECT_EQ(ring.held(), 0u);
  EXPECT_GT(ring.dropped(DropReason::pfc_watchdog), 0u);
  EXPECT_EQ(ring.delivered + ring.dropped(DropReason::pfc_watchdog), 1500u);
  std::uint64_t detected = 0;
  std::uint64_t restored = 0;
  for (const auto& rig : ring.rigs) {
    detected += rig->queues(kNext).watchdog().counters().detected[3].value();
    restored += rig->queues(kNext).watchdog().counters().restored[3].value();
  }
  EXPECT_GT(detected, 0u);
  EXPECT_EQ(restored, detected);
  // What comes now gets through.
  const std::uint64_t before = ring.delivered;
  for (Host& h : ring.hosts) h.left = 10;
  ring.run_until(ring.now + 10'000'000);
  EXPECT_EQ(ring.delivered, before + 30);
}

}  // namespace
}  // namespace weft::pipeline
