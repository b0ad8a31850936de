// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Lossless classes over several workers, stepped by hand in virtual time: what waits between workers is in the packet
// memory, so hosts are paused in time whoever stands still, and PAUSE frames wait behind nothing.
#include <gmock/gmock.h>

#include <deque>
#include <memory>
#include <vector>

#include "tests/switch/pipeline/qos_rig.h"

namespace weft::pipeline {
namespace {

using testing::Each;
using testing::Gt;

constexpr std::uint64_t kMbps = 10'000;
constexpr TimeNs kLinkDelay = 1000;
constexpr TimeNs kLoop = 500;  // of a worker
constexpr TimeNs kStop = 5'000'000;
constexpr unsigned kLossless = 3;
constexpr std::size_t kFrameBytes = 130;

// Frames to port 0 from 16 pairs of addresses, so that their owners are all workers.
std::vector<std::vector<std::uint8_t>> flows(unsigned host) {
  std::vector<std::vector<std::uint8_t>> frames;
  for (unsigned i = 0; i < 16; ++i) {
    frames.push_back(
        wire::FrameBuilder()
            .eth(wire::MacAddress::from_u64(0x020000000100 | host), wire::MacAddress::from_u64(0x020000000000))
            .ip(wire::IpAddress::v4(0x0a000100 + i * 7919), wire::IpAddress::v4(0x0a000002))
            .tos(wire::make_tos(kLossless, wire::Ecn::ect0))
            .udp(50000)
            .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(7), wire::Psn(0))
            .payload(kFrameBytes - 58)
            .build());
  }
  return frames;
}

// The descriptors of a device and the host behind it, which sends at the rate of the link and heeds PFC.
struct Source {
  static constexpr std::size_t kDescriptors = 512;

  PortIndex port = 0;
  std::vector<std::vector<std::uint8_t>> frames{};
  std::uint64_t left = 0;  ///< frames still to send
  TimeNs next = 0;
  TimeNs paused_until = 0;
  std::deque<std::size_t> received{};  ///< frames that the worker has not polled, by number
  std::uint64_t missed = 0;            ///< found no descriptor
  std::uint64_t pauses = 0;
  std::deque<std::pair<TimeNs, std::uint16_t>> on_the_way{};  ///< pauses: when they arrive, and their quanta
};

class Workers : public QosRig {
 public:
  Workers(std::uint16_t workers, std::uint16_t ports, qos::Settings settings)
      : QosRig(options(workers, std::move(settings))), workers_(workers), stopped(workers) {
    keep_frames = false;
    sources.resize(ports);
    for (PortIndex p = 0; p < ports; ++p) {
      sources[p].port = p;
      sources[p].frames = flows(p);
    }
    on_sent = [this](PortIndex port, const SentFrame& f) {
      if (f.parsed.kind != wire::FrameKind::mac_control) {
        ++delivered;
        return;
      }
      const auto& pfc = wire::header_at<wire::PfcHeader>(f.bytes.data() + 14);
      if (!pfc.enabled(kLossless)) return;
      const std::uint16_t quanta = pfc.quanta[kLossless].value();
      sources[port].on_the_way.emplace_back(f.at + kLinkDelay, quanta);
      sources[port].pauses += quanta != 0 ? 1 : 0;
    };
  }

  // Hosts and workers for so long.
  void run(TimeNs duration) {
    for (const TimeNs end = now + duration; now < end; now += kLoop) {
      for (Source& s : sources) send(s);
      for (std::uint16_t w = 0; w < workers_; ++w) {
        if (!stopped[w]) loop(w);
      }
    }
  }
  [[nodiscard]] std::uint64_t missed() const {
    std::uint64_t sum = 0;
    for (const Source& s : sources) sum += s.missed;
    return sum;
  }
  [[nodiscard]] std::uint64_t all_dropped() const {
    std::uint64_t sum = 0;
    for (const auto& p : pipelines) sum += p->totals().all_dropped();
    return sum;
  }
  [[nodiscard]] std::vector<std::uint64_t> pauses_of(const std::vector<PortIndex>& ports) const {
    std::vector<std::uint64_t> pauses;
    for (const PortIndex p : ports) pauses.push_back(sources[p].pauses);
    return pauses;
  }
  void finish() {
    for (int i = 0; i < 400; ++i) {
      run(1'000'000);
      bool done = held() == 0;
      for (const Source& s : sources) done = done && s.left == 0 && s.received.empty();
      if (done) return;
    }
    ADD_FAILURE() << "the hosts never end";
  }

  std::vector<Source> sources;
  std::uint64_t delivered = 0;

 private:
  static RigOptions options(std::uint16_t workers, qos::Settings settings) {
    RigOptions o = qos_options(std::move(settings), kMbps);
    o.workers = workers;
    o.buffers = 32768;
    o.delay_ns = kLinkDelay;
    return o;
  }

  void send(Source& s) {
    while (!s.on_the_way.empty() && s.on_the_way.front().first <= now) {
      s.paused_until = s.on_the_way.front().first + qos::pause_ns(s.on_the_way.front().second, kMbps);
      s.on_the_way.pop_front();
    }
    // A host that was idle does not send faster to make up for it.
    s.next = std::max(s.next, now - kLoop);
    while (s.left != 0 && std::max(s.next, s.paused_until) <= now) {
      s.next = std::max(s.next, s.paused_until) + (kFrameBytes + 24) * 8000 / kMbps;
      --s.left;
      if (s.received.size() == Source::kDescriptors) {
        ++s.missed;
      } else {
        s.received.push_back(s.left % s.frames.size());
      }
    }
  }

  void loop(std::uint16_t worker) {
    for (Source& s : sources) {
      if (state->owner_of_port(s.port) != worker) continue;
      for (int i = 0; i < 32 && !s.received.empty(); ++i) {
        arrive(s.port, s.frames[s.received.front()]);
        s.received.pop_front();
      }
    }
    step(worker);
  }

  std::uint16_t workers_;

 public:
  std::vector<bool> stopped;
};

// What the switch shares is small, so that hosts are paused soon; it is a multiple of what a ring between workers holds
// all the same.
qos::Settings small_pool(std::size_t ports, std::uint16_t workers) {
  qos::Settings s = QosRig::settings(ports, {.speed_mbps = kMbps,
                                             .delay_ns = kLinkDelay,
                                             .mtu_bytes = 1500,
                                             .workers = workers,
                                             .rx_packets = Source::kDescriptors});
  s.pool_bytes = qos::own_bytes(s) + 3'000'000;
  return s;
}

class LosslessWorkers : public testing::TestWithParam<std::uint16_t> {};
INSTANTIATE_TEST_SUITE_P(Workers, LosslessWorkers, testing::Values(2, 4), testing::PrintToStringParamName());

TEST_P(LosslessWorkers, AnIncastLosesNothingWhileTheOwnerOfItsPortStandsStill) {
  constexpr std::uint64_t kFrames = 100'000;
  Workers w(GetParam(), 4, small_pool(4, GetParam()));
  // Ports of workers that go on.
  const std::vector<PortIndex> from = GetParam() == 2 ? std::vector<PortIndex>{1, 3} : std::vector<PortIndex>{1, 2, 3};
  for (const PortIndex p : from) w.sources[p].left = kFrames;
  w.run(100'000);
  const auto before = w.pauses_of(from);
  const std::uint64_t delivered = w.delivered;
  w.stopped[0] = true;
  w.run(kStop);
  // Those whose ports the frames came in at have asked their hosts to stop; nobody else could have.
  EXPECT_THAT(w.pauses_of(from), Each(Gt(0u)));
  EXPECT_EQ(w.delivered, delivered);
  EXPECT_EQ(w.all_dropped(), 0u);
  EXPECT_EQ(w.missed(), 0u);
  // More than the rings hold has been received.
  EXPECT_GT(w.held(), from.size() * 1024);
  w.stopped[0] = false;
  w.finish();
  EXPECT_EQ(w.all_dropped(), 0u);
  EXPECT_EQ(w.missed(), 0u);
  EXPECT_EQ(w.delivered, kFrames * from.size());
}

TEST_P(LosslessWorkers, AnIngressOwnerThatStandsStillLosesOnlyWhatItsDeviceHasNoRoomFor) {
  constexpr std::uint64_t kFrames = 60'000;
  Workers w(GetParam(), 4, small_pool(4, GetParam()));
  for (const PortIndex p : {1, 2, 3}) w.sources[p].left = kFrames;
  w.run(100'000);
  w.stopped[1] = true;
  w.run(kStop);
  w.stopped[1] = false;
  w.finish();
  EXPECT_GT(w.sources[1].missed, 0u);
  EXPECT_EQ(w.sources[2].missed, 0u);
  EXPECT_EQ(w.all_dropped(), 0u);
  EXPECT_EQ(w.delivered + w.missed(), 3 * kFrames);
}

TEST_P(LosslessWorkers, WhatWaitsBetweenWorkersIsInThePacketMemory) {
  Workers w(GetParam(), 4, small_pool(4, GetParam()));
  const qos::SharedBuffer& buffer = *w.state->buffer();
  const auto& group = buffer.group(1, kLossless);
  for (unsigned i = 0; i < 16; ++i) w.arrive(1, flows(1)[i], 10);
  EXPECT_EQ(charged(group), 160 * kFrameBytes) << "in rings to the owners of flows and of port 0";
  EXPECT_EQ(w.in_rings(), 160u);
  w.run_until_quiet();
  w.advance_to(w.now + 10'000'000);
  EXPECT_EQ(charged(group), 0u);
  EXPECT_EQ(w.delivered, 160u);
}

TEST(LosslessWorkersFrames, ABurstForOthersGetsInAsFarAsItsGroupHasRoom) {
  constexpr std::uint64_t kRoom = 100;
  qos::Settings settings = small_pool(4, 2);
  settings.ports[1].group[kLossless] = {.static_th_bytes = kRoom * kFrameBytes};
  Workers w(2, 4, settings);
  const qos::SharedBuffer& buffer = *w.state->buffer();
  const auto& group = buffer.group(1, kLossless);
  // To the owners of flows and to that of port 0, which take nothing yet.
  for (unsigned i = 0; i < 5; ++i) w.arrive(1, flows(1)[i], 30);
  EXPECT_EQ(group.bytes.value(), kRoom * kFrameBytes);
  EXPECT_EQ(w.in_rings(), kRoom);
  EXPECT_EQ(w.dropped(DropReason::buffer_ingress), 150 - kRoom);
  EXPECT_EQ(group.drops.value(), 150 - kRoom);
  EXPECT_EQ(w.imbalance(), "");
  w.advance_to(w.now + 1'000'000);
  EXPECT_EQ(w.delivered, kRoom);
  EXPECT_EQ(group.bytes.value(), 0u);
  EXPECT_EQ(w.imbalance(), "");
}

TEST(LosslessWorkersFrames, WhatARingHoldsIsNotLostThoughItsGroupMayHaveLessByNow) {
  qos::Settings settings = small_pool(4, 2);
  for (qos::PortSettings& port : settings.ports) port.group[kLossless].headroom_bytes = 5 * kFrameBytes;
  settings.pool_bytes = qos::own_bytes(settings) + 3000 * kFrameBytes;
  Workers w(2, 4, settings);
  const qos::SharedBuffer& buffer = *w.state->buffer();
  const auto fill = [&](PortIndex port) {
    for (unsigned i = 0; !buffer.xoff(buffer.group(port, kLossless)); ++i) w.arrive(port, flows(port)[i % 16]);
  };
  // Worker 0 has half of the flows and port 0, and stands still.
  fill(1);
  const std::uint64_t before = buffer.group(1, kLossless).bytes.value();
  fill(3);
  ASSERT_GT(before, buffer.threshold(buffer.group(1, kLossless).limit) + 10 * kFrameBytes) << "shows nothing";
  ASSERT_EQ(w.all_dropped(), 0u);
  w.advance_to(w.now + 10'000'000);
  EXPECT_EQ(w.all_dropped(), 0u);
  EXPECT_EQ(buffer.shared_used(), 0u);
  EXPECT_EQ(w.imbalance(), "");
}

TEST(LosslessWorkersFrames, ABurstOfOthersGetsInAsFarAsItsQueueHasRoom) {
  constexpr std::uint64_t kRoom = 30;
  qos::Settings settings = small_pool(4, 2);
  settings.ports[0].queue[kLossless] = {.static_th_bytes = kRoom * kFrameBytes};
  Workers w(2, 4, settings);
  const auto& group = w.state->buffer()->group(1, kLossless);
  for (unsigned i = 0; i < 16; ++i) w.arrive(1, flows(1)[i], 4);
  EXPECT_EQ(charged(group), 64 * kFrameBytes);
  w.step(0);
  EXPECT_EQ(w.dropped(DropReason::buffer_egress), 64 - kRoom);
  EXPECT_EQ(w.held(), kRoom);
  EXPECT_LE(charged(group), kRoom * kFrameBytes) << "those on the wire are in no queue";
  w.advance_to(w.now + 1'000'000);
  EXPECT_EQ(w.delivered, kRoom);
  EXPECT_EQ(charged(group), 0u);
  EXPECT_EQ(w.imbalance(), "");
}

TEST(LosslessWorkersFrames, PauseFramesGoPastWhatWaitsInTheRing) {
  Workers w(2, 4, small_pool(4, 2));
  // A device with several queues: what arrives at port 0 of worker 0 comes in at worker 1.
  for (int i = 0; i < 40; ++i) w.arrive(1, flows(1)[static_cast<std::size_t>(i) % 16], 50);
  ASSERT_GT(w.in_rings(), 1000u);
  std::vector<std::uint8_t> f(wire::kMinFrameBytes);
  std::array<std::uint16_t, 8> all{};
  all.fill(0xffff);
  wire::write_pfc(f, wire::MacAddress::from_u64(0x020000000200), 1u << kLossless, all);
  rte_mbuf* m = rte_pktmbuf_alloc(w.pool());
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(f.size())), f.data(), f.size());
  w.pipelines[1]->receive(w.now, 0, &m, 1);
  for (int i = 0; i < 100; ++i) w.step(0);
  EXPECT_EQ(w.delivered, 0u) << "port 0 was asked to stop before it had sent anything";
  EXPECT_EQ(w.queues(0).receiver().counters().xoff[kLossless].value(), 1u);
}

TEST(LosslessWorkersFrames, TheOwnerOfAPortIsWokenWhenAnotherWorkerFillsAGroupOfIt) {
  Workers w(2, 4, small_pool(4, 2));
  // Worker 1 polls a queue of port 2, which worker 0 owns, for packets to its own port 1.
  auto frame = flows(2)[0];
  frame[5] = 1;
  const auto arrive = [&] {
    rte_mbuf* m = rte_pktmbuf_alloc(w.pool());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    w.pipelines[1]->receive(w.now, 2, &m, 1);
  };
  const qos::SharedBuffer& buffer = *w.state->buffer();
  while (!buffer.xoff(buffer.group(2, kLossless))) {
    ASSERT_EQ(w.woken(1, 0), 0u);
    arrive();
  }
  EXPECT_GE(w.woken(1, 0), 1u);
  w.step(0);
  w.now += 100'000;
  w.step(0);
  EXPECT_EQ(w.sources[2].pauses, 1u);
}

TEST(LosslessWorkersFrames, WhatAStageHoldsPausesTheSenderWhoeverOwnsItsPort) {
  Holder holder{.from = 2, .worker = 1};
  QosRig w({{"parse", parse_and_forward()}, {"holder", holder.script()}}, [] {
    RigOptions o = qos_options(small_pool(4, 2), kMbps);
    o.workers = 2;
    return o;
  }());
  // Worker 1 polls a queue of port 2, which worker 0 owns.
  auto frame = flows(2)[0];
  frame[5] = 1;
  const qos::SharedBuffer& buffer = *w.state->buffer();
  const auto& group = buffer.group(2, kLossless);
  while (!buffer.xoff(group)) {
    ASSERT_EQ(w.woken(1, 0), 0u);
    rte_mbuf* m = rte_pktmbuf_alloc(w.pool());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    w.pipelines[1]->receive(w.now, 2, &m, 1);
    ASSERT_EQ(charged(group), holder.held.size() * kFrameBytes);
  }
  EXPECT_GE(w.woken(1, 0), 1u);
  w.step(0);
  w.advance_to(w.now + 100'000);
  EXPECT_EQ(w.sent[2].size(), 1u) << "XOFF";
  const std::size_t held = holder.held.size();
  holder.go = true;
  w.pipelines[1]->change_stage(1, [](Stage&) {});
  w.advance_to(w.now + 50'000'000);
  EXPECT_EQ(w.data(1).size(), held);
  EXPECT_EQ(charged(group), 0u);
  EXPECT_EQ(buffer.shared_used(), 0u);
  EXPECT_EQ(w.sent[2].size(), 2u) << "XON";
}

}  // namespace
}  // namespace weft::pipeline
