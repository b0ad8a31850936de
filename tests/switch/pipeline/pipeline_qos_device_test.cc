// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Class queues before devices that do not take everything at once.
#include <map>

#include "switch/pipeline/class_tx.h"
#include "tests/switch/pipeline/qos_rig.h"

namespace weft::pipeline {
namespace {

using wire::Ecn;

// A device that takes no more than `room` packets until it is given more.
struct BusyDevice {
  BusyDevice(QosRig& rig, PortIndex port) : take(rig.devices[port]->behaviour) {
    rig.devices[port]->behaviour = [this](rte_mbuf** packets, std::uint16_t count) {
      const auto taken = static_cast<std::uint16_t>(std::min<std::uint32_t>(room, count));
      room -= taken;
      return taken == 0 ? TxResult{} : take(packets, taken);
    };
  }
  std::function<TxResult(rte_mbuf**, std::uint16_t)> take;
  std::uint32_t room = 0;
};

TEST(PipelineQosDevice, PacketsThatABusyDeviceDidNotTakeHeedAPauseThatComesLater) {
  QosRig rig(qos_options(plain_qos(2)));
  BusyDevice device(rig, 1);
  for (std::uint32_t i = 0; i < 10; ++i) {
    rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500, i));
    rig.arrive(0, QosRig::roce(1, 34, Ecn::ect0, 500, i));
  }
  rig.run_until_quiet();
  EXPECT_EQ(rig.depth(1, 3), 0u) << "they have left the queue";
  const TimeNs end = rig.now + 51'200;
  rig.pfc_arrives(1, 0b1000, 1000);
  device.room = 1000;
  rig.run_until_quiet();
  ASSERT_EQ(rig.data(1).size(), 10u);
  for (std::uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(rig.data(1)[i].parsed.tos >> 2, 34);
    EXPECT_EQ(rig.data(1)[i].parsed.psn.value(), i);
  }
  // What comes for other classes meanwhile goes past them; what comes for theirs stays behind them.
  rig.arrive(0, QosRig::roce(1, 34, Ecn::ect0, 500, 10));
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500, 10));
  rig.run_until_quiet();
  EXPECT_EQ(rig.data(1).size(), 11u);
  EXPECT_EQ(rig.pipelines[0]->port_deadline(1), end);
  rig.advance_to(end);
  ASSERT_EQ(rig.data(1).size(), 22u);
  for (std::uint32_t i = 0; i <= 10; ++i) EXPECT_EQ(rig.data(1)[11 + i].parsed.psn.value(), i);
  EXPECT_EQ(rig.imbalance(), "");
}

TEST(PipelineQosDevice, PausesOfEveryClassOneAfterTheOtherMeetABusyDeviceAndNothingIsLostOrReordered) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    qos::Settings s = plain_qos(2);
    for (auto& port : s.ports) {
      port.pfc_enable = 0xff;
      port.watchdog.enabled = false;
    }
    QosRig rig(qos_options(s));
    BusyDevice device(rig, 1);
    std::array<std::uint32_t, 8> sent{};
    for (int i = 0; i < 2000; ++i) {
      const auto tc = static_cast<unsigned>(rng.below(8));
      for (std::uint64_t n = rng.below(40); n != 0; --n) {
        rig.arrive(0, QosRig::roce(1, tc << 3, Ecn::not_ect, 200, sent[tc]++));
      }
      if (rng.below(3) == 0) {
        rig.pfc_arrives(1, static_cast<std::uint8_t>(rng.next()), rng.below(4) == 0 ? 0 : 0xffff);
      }
      device.room += static_cast<std::uint32_t>(rng.below(50));
      (void)rig.step(0);
    }
    rig.pfc_arrives(1, 0xff, 0);
    device.room = 1'000'000;
    rig.run_until_quiet();
    EXPECT_EQ(rig.held(), 0u);
    std::array<std::uint32_t, 8> next{};
    for (const auto& f : rig.data(1)) EXPECT_EQ(f.parsed.psn.value(), next[f.parsed.tos >> 5]++);
    EXPECT_EQ(next, sent);
    EXPECT_EQ(rig.imbalance(), "");
  }
}

// A device that stops classes by itself, as hardware with PFC does.
class ClassDevice : public PortTx, public ClassTx {
 public:
  explicit ClassDevice(std::function<TxResult(rte_mbuf**, std::uint16_t)> sink) : sink_(std::move(sink)) {}
  bool by_class() const noexcept override { return true; }
  TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    std::vector<rte_mbuf*> left;
    TxResult result;
    for (std::uint16_t i = 0; i < count; ++i) {
      if ((stopped >> (meta(packets[i]).queue_class & 7) & 1) != 0) {
        left.push_back(packets[i]);
        continue;
      }
      sink_(packets + i, 1);
      ++result.taken;
    }
    std::copy(left.begin(), left.end(), packets + result.taken);
    most_left = std::max(most_left, left.size());
    return result;
  }
  std::uint8_t stopped = 0;  ///< queues
  std::size_t most_left = 0;

 private:
  std::function<TxResult(rte_mbuf**, std::uint16_t)> sink_;
};

TEST(PipelineQosDevice, AClassThatTheDeviceStopsItselfHoldsBackNoOther) {
  QosRig rig(qos_options(plain_qos(2)));
  ClassDevice device(rig.devices[1]->behaviour);
  PipelineHost host;
  host.pool = rig.pool();
  host.ports = {rig.devices[0].get(), &device};
  Pipeline p(*rig.state, std::move(host));
  std::uint32_t arrived = 0;
  const auto arrive = [&](unsigned dscp, std::uint16_t count) {
    for (std::uint16_t i = 0; i < count; ++i) {
      const auto f = QosRig::roce(1, dscp, Ecn::ect0, 200, arrived++);
      rte_mbuf* m = rte_pktmbuf_alloc(rig.pool());
      std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(f.size())), f.data(), f.size());
      p.receive(rig.now, 0, &m, 1);
    }
  };
  device.stopped = 1 << 3;
  for (int round = 0; round < 50; ++round) {
    arrive(26, 10);
    arrive(34, 10);
    for (int i = 0; i < 4; ++i) (void)p.serve_port(rig.now, 1);
  }
  EXPECT_EQ(rig.data(1).size(), 500u) << "all of class 4";
  EXPECT_LE(device.most_left, EgressQueue::kBurst) << "the rest of class 3 stays in its queue, where it is accounted";
  device.stopped = 0;
  while (p.serve_port(rig.now, 1) != 0) {
  }
  ASSERT_EQ(rig.data(1).size(), 1000u);
  std::map<unsigned, std::uint32_t> last;
  for (const auto& f : rig.data(1)) {
    auto& before = last[f.parsed.tos >> 2];
    EXPECT_TRUE(before == 0 || f.parsed.psn.value() > before);
    before = f.parsed.psn.value();
  }
  EXPECT_EQ(p.held(), 0u);
}

TEST(PipelineQosDevice, TheWatchdogDropsWhatABusyDeviceDidNotTakeOfAStormedClass) {
  QosRig rig(qos_options(plain_qos(2)));
  BusyDevice device(rig, 1);
  rig.arrive(0, QosRig::roce(1, 26, Ecn::ect0, 500), 5);
  rig.run_until_quiet();
  for (const TimeNs begin = rig.now; rig.now <= begin + 201'000'000; rig.now += 1'000'000) {
    rig.pfc_arrives(1, 0b1000, 0xffff);
    rig.run_until_quiet();
  }
  device.room = 1000;
  rig.run_until_quiet();
  EXPECT_EQ(rig.dropped(DropReason::pfc_watchdog), 5u);
  EXPECT_EQ(rig.data(1).size(), 0u);
  EXPECT_EQ(rig.imbalance(), "");
}

}  // namespace
}  // namespace weft::pipeline
