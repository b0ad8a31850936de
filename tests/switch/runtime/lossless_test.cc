// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Lossless classes over several workers, with the threads of a switch: whichever of them stands still, no packet that
// the switch has received is lost. What exactly happens when, tests/switch/pipeline/lossless_workers_test.cc says.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "switch/runtime/worker.h"
#include "tests/switch/pipeline/qos_rig.h"

namespace weft {
namespace {

using pipeline::PortIndex;
using pipeline::QosRig;
using std::chrono::milliseconds;

constexpr std::uint64_t kMbps = 1000;
constexpr unsigned kLossless = 3;
constexpr std::size_t kFrameBytes = 1026;
constexpr std::size_t kPorts = 4;
constexpr milliseconds kStop{5};
constexpr std::chrono::seconds kPatience{60};

// A device with a host behind it, which sends to port 0 at the rate of the link and heeds PFC. It is used by the port's
// owner; counters may be read by any thread. What comes in its second queue, the test says.
class Device : public ports::Port {
 public:
  static constexpr std::uint64_t kDescriptors = 128;

  Device(PortIndex index, rte_mempool* pool) : pool_(pool) {
    for (std::uint32_t i = 0; i < frames_.size(); ++i) {
      frames_[i] =
          wire::FrameBuilder()
              .eth(wire::MacAddress::from_u64(0x020000000100 | index), wire::MacAddress::from_u64(0x020000000000))
              .ip(wire::IpAddress::v4(0x0a000100 + i * 7919), wire::IpAddress::v4(0x0a000002))
              .tos(wire::make_tos(kLossless, wire::Ecn::ect0))
              .udp(50000)
              .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(7), wire::Psn(0))
              .payload(kFrameBytes - 58)
              .build();
    }
  }

  std::uint16_t receive(TimeNs now, std::uint16_t queue, rte_mbuf** packets, std::uint16_t max) noexcept override {
    if (queue == 1) return receive_pauses(packets, max);
    constexpr TimeNs kGap = kFrameBytes * 8000 / kMbps;
    if (!sends.load(std::memory_order_relaxed) || paused_) next_ = now;
    for (; next_ < now; next_ += kGap) {
      if (waiting_ < kDescriptors) {
        ++waiting_;
      } else {
        missed_.add(1);
      }
    }
    std::uint16_t count = 0;
    while (count < max && waiting_ != 0) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool_);
      if (m == nullptr) break;
      const auto& frame = frames_[serial_++ % frames_.size()];
      std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
      packets[count++] = m;
      --waiting_;
    }
    received.add(count);
    return count;
  }

  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    for (std::uint16_t i = 0; i < count; ++i) {
      wire::Parsed parsed;
      wire::parse_frame(pipeline::frame(packets[i]), packets[i]->data_len, packets[i]->pkt_len, parsed);
      if (parsed.kind != wire::FrameKind::mac_control) {
        delivered.add(1);
      } else if (const auto& pfc = wire::header_at<wire::PfcHeader>(pipeline::frame(packets[i]) + 14);
                 pfc.enabled(kLossless)) {
        paused_ = pfc.quanta[kLossless].value() != 0;
        if (paused_) pauses.add(1);
      }
      rte_pktmbuf_free(packets[i]);
    }
    return {.taken = count};
  }

  [[nodiscard]] ports::DeviceStats device_stats() const noexcept override { return {.rx_missed = missed_.value()}; }
  [[nodiscard]] std::string description() const override { return "test"; }

  std::atomic<bool> sends{false};
  Counter received, delivered, pauses;
  std::vector<std::uint16_t> quanta{};  ///< of the PFC frames to come in the second queue
  std::atomic<std::size_t> quanta_ready{0};
  Counter pauses_received;

 private:
  std::uint16_t receive_pauses(rte_mbuf** packets, std::uint16_t max) noexcept {
    std::uint16_t count = 0;
    for (std::size_t at = pauses_received.value(); count < max && at < quanta_ready; ++at) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool_);
      if (m == nullptr) break;
      std::array<std::uint16_t, 8> all{};
      all[kLossless] = quanta[at];
      auto* frame = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, wire::kMinFrameBytes));
      wire::write_pfc({frame, wire::kMinFrameBytes}, wire::MacAddress::from_u64(0x020000000200), 1u << kLossless, all);
      packets[count++] = m;
    }
    pauses_received.add(count);
    return count;
  }

  rte_mempool* pool_;
  std::array<std::vector<std::uint8_t>, 16> frames_{};  ///< of several pairs of addresses, so that each worker has some
  std::uint64_t serial_ = 0;
  std::uint64_t waiting_ = 0;
  TimeNs next_ = 0;
  bool paused_ = false;
  Counter missed_;
};

class Switch {
 public:
  explicit Switch(std::uint16_t workers) : rings_(workers) {
    pipeline::StageType type;
    type.name = "forward";
    type.make = [this](const pipeline::StageBuild& b, pipeline::StageShared*) {
      return std::make_unique<pipeline::ScriptedStage>(script_, b.worker);
    };
    registry_.add(std::move(type));
    pipeline::SwitchInfo info;
    std::vector<std::uint16_t> owners;
    for (PortIndex p = 0; p < kPorts; ++p) {
      info.ports.push_back({.name = "p" + std::to_string(p), .index = p, .type = "test", .device = {}});
      info.ports.back().mtu_bytes = 1500;
      owners.push_back(static_cast<std::uint16_t>(p % workers));
      devices.push_back(std::make_unique<Device>(p, pool_.get()));
    }
    info.pipeline.push_back({.name = "forward", .options = {}});
    qos::Settings settings = QosRig::settings(
        kPorts, {.speed_mbps = kMbps, .mtu_bytes = 1500, .workers = workers, .rx_packets = Device::kDescriptors});
    settings.pool_bytes = qos::own_bytes(settings) + 500'000;
    // The threads may be kept from their CPUs for as long as the machine likes.
    for (auto& port : settings.ports) port.watchdog.enabled = false;
    info.qos = std::move(settings);
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(info), owners, workers);
    for (std::uint16_t w = 0; w < workers; ++w) {
      this->workers.push_back(std::make_unique<Worker>(w, clock_, config::IdleMode::adaptive, 32, rings_));
    }
    for (std::uint16_t w = 0; w < workers; ++w) {
      pipeline::PipelineHost host;
      host.worker = w;
      host.pool = pool_.get();
      host.handoff = this->workers[w].get();
      for (auto& device : devices) host.ports.push_back(device.get());
      pipelines.push_back(std::make_unique<pipeline::Pipeline>(*state_, std::move(host)));
      Polling polling;
      polling.add(*pipelines[w]);
      for (PortIndex p = 0; p < kPorts; ++p) {
        if (owners[p] != w) continue;
        polling.serve(*pipelines[w], p);
        polling.poll(*pipelines[w], *devices[p], p, 0, true);
      }
      if (w == 1) polling.poll(*pipelines[1], *devices[0], 0, 1, true);
      this->workers[w]->set_polling(std::move(polling));
    }
    for (auto& worker : this->workers) threads_.emplace_back([&worker] { worker->run(); });
  }
  ~Switch() {
    for (auto& worker : workers) worker->stop();
    for (auto& thread : threads_) thread.join();
  }
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  template <typename F>
  static bool await(F&& f) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!f()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  void stand_still(std::size_t worker) {
    workers[worker]->call([] { std::this_thread::sleep_for(kStop); });
  }
  // The hosts stop, and everything leaves.
  void finish() {
    for (auto& device : devices) device->sends = false;
    EXPECT_TRUE(await([&] { return received() == devices[0]->delivered.value(); }))
        << received() << " received, " << devices[0]->delivered.value() << " delivered";
  }
  [[nodiscard]] std::uint64_t received() const {
    std::uint64_t sum = 0;
    for (const auto& device : devices) sum += device->received.value();
    return sum;
  }
  [[nodiscard]] std::uint64_t dropped() const {
    std::uint64_t sum = 0;
    for (const auto& p : pipelines) sum += p->totals().all_dropped();
    return sum;
  }
  [[nodiscard]] std::uint64_t ended() const {
    std::uint64_t sum = 0;
    for (const auto& p : pipelines) sum += p->totals().ended();
    return sum;
  }

 private:
  pipeline::Pool pool_ = pipeline::make_pool("lossless", 16384, 2048, 0);
  pipeline::Script script_ = pipeline::parse_and_forward();
  pipeline::Registry registry_;
  Clock clock_;
  HandoffRings rings_;
  std::unique_ptr<pipeline::SwitchState> state_;

 public:
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::unique_ptr<pipeline::Pipeline>> pipelines;

 private:
  std::vector<std::thread> threads_;
};

class Lossless : public testing::TestWithParam<std::uint16_t> {};
INSTANTIATE_TEST_SUITE_P(Workers, Lossless, testing::Values(2, 4), testing::PrintToStringParamName());

TEST_P(Lossless, AnIncastLosesNothingWhileTheOwnerOfItsPortStandsStill) {
  Switch s(GetParam());
  // Ports of other workers than that of port 0.
  const std::vector<PortIndex> from = GetParam() == 2 ? std::vector<PortIndex>{1, 3} : std::vector<PortIndex>{1, 2, 3};
  for (const PortIndex p : from) s.devices[p]->sends = true;
  ASSERT_TRUE(Switch::await([&] { return s.devices[0]->delivered.value() > 500; }));
  // On a busy machine a worker may not run in any of these rounds, and then it has no reason to pause its host.
  int rounds = 0;
  EXPECT_TRUE(Switch::await([&] {
    s.stand_still(0);
    const bool all =
        std::all_of(from.begin(), from.end(), [&](PortIndex p) { return s.devices[p]->pauses.value() > 0; });
    return ++rounds >= 20 && all;
  })) << "a port's host was never paused";
  s.finish();
  EXPECT_EQ(s.dropped(), 0u);
}

TEST_P(Lossless, AnIngressOwnerThatStandsStillLosesOnlyWhatItsDeviceHasNoRoomFor) {
  Switch s(GetParam());
  for (const PortIndex p : {1, 2, 3}) s.devices[p]->sends = true;
  ASSERT_TRUE(Switch::await([&] { return s.devices[1]->received.value() > 500; }));
  // Until the worker stood still while the host was not paused, for longer than the descriptors last.
  ASSERT_TRUE(Switch::await([&] {
    s.stand_still(1);
    return s.devices[1]->device_stats().rx_missed != 0;
  }));
  s.finish();
  EXPECT_EQ(s.dropped(), 0u);
}

// The device of port 0 has a second queue, which another worker polls: there come more PFC frames than the ring to the
// owner of the port has room for, and only the last one says what `last` says.
void send_pauses_past_an_owner_that_stands_still(Switch& s, std::uint16_t first, std::uint16_t last) {
  Device& device = *s.devices[0];
  device.quanta.assign(3 * ControlRing::kCapacity, first);
  device.quanta.back() = last;
  std::atomic<bool> go_on{false};
  std::thread holds([&] {
    s.workers[0]->call([&] {
      while (!go_on) std::this_thread::sleep_for(milliseconds(1));
    });
  });
  device.quanta_ready = device.quanta.size();
  EXPECT_TRUE(Switch::await([&] { return device.pauses_received.value() == device.quanta.size(); }));
  // Until the worker has done with them.
  s.workers[1]->call([] {});
  go_on = true;
  holds.join();
}

TEST_P(Lossless, TheLastPauseOfAPeerReachesAnOwnerThatStoodStill) {
  Switch s(GetParam());
  send_pauses_past_an_owner_that_stands_still(s, 0, 0xffff);
  EXPECT_TRUE(Switch::await([&] { return s.ended() == s.devices[0]->quanta.size(); }));
  EXPECT_EQ(s.pipelines[0]->class_queues(0)->receiver().counters().xoff[kLossless].value(), 1u);
  EXPECT_EQ(s.dropped(), 0u);
}

TEST_P(Lossless, ThatAPeerMayBeSentToAgainReachesAnOwnerThatStoodStill) {
  Switch s(GetParam());
  send_pauses_past_an_owner_that_stands_still(s, 0xffff, 0);
  EXPECT_TRUE(Switch::await([&] { return s.ended() == s.devices[0]->quanta.size(); }));
  const auto& receiver = s.pipelines[0]->class_queues(0)->receiver();
  EXPECT_EQ(receiver.counters().xon[kLossless].value(), 1u);
  s.workers[0]->call([&] { EXPECT_EQ(receiver.last_paused(), 0); });
  EXPECT_EQ(s.dropped(), 0u);
}

}  // namespace
}  // namespace weft
