// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Several workers of one switch: steering, rings between them, and packets whose egress port another worker owns.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "switch/pipeline/packet_ring.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;

// Flows are hashes here: the upper half belongs to worker 1 of two.
constexpr std::uint32_t kFlowOf0 = 0x10000000;
constexpr std::uint32_t kFlowOf1 = 0xf0000000;

// Notes which worker runs the stage for which packet.
Script note_worker(std::map<std::uint64_t, std::uint16_t>& worker_of) {
  return {.ingress = [&](Context& context, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) worker_of[label_of(batch.packet[i]).id] = context.worker;
  }};
}

TEST(PipelineWorkers, BothDirectionsOfAConnectionMeetOnOneWorker) {
  std::map<std::uint64_t, std::uint16_t> worker_of;
  Rig rig({{"parse", parse_label()}, {"note", note_worker(worker_of)}, {"fwd", forward()}}, {.workers = 2});
  // Ports 0 and 2 belong to worker 0, ports 1 and 3 to worker 1. Each flow comes in at both.
  rig.receive(0, {{1, kFlowOf0, 1}, {2, kFlowOf1, 1}});
  rig.receive(1, {{3, kFlowOf0, 0}, {4, kFlowOf1, 0}});
  rig.run_until_quiet();
  EXPECT_THAT(worker_of, ElementsAre(std::pair(1, 0), std::pair(2, 1), std::pair(3, 0), std::pair(4, 1)));
  EXPECT_THAT(rig.devices[1]->ids(), testing::UnorderedElementsAre(1, 2));
  EXPECT_THAT(rig.devices[0]->ids(), testing::UnorderedElementsAre(3, 4));
  // Each worker gave one packet to the flow's owner and one to the port's owner.
  EXPECT_EQ(rig.pipelines[0]->totals().handed_out.value(), 2u);
  EXPECT_EQ(rig.pipelines[0]->totals().handed_in.value(), 2u);
}

TEST(PipelineWorkers, AHandedPacketGoesOnBehindTheFirstStage) {
  int parsed = 0;
  Script parse = parse_label();
  const Script count_and_parse{.ingress = [&, inner = parse.ingress](Context& context, Batch& batch) {
    parsed += batch.size;
    inner(context, batch);
  }};
  Rig rig({{"parse", count_and_parse}, {"fwd", forward()}}, {.workers = 2});
  rig.receive(0, {{1, kFlowOf1, 0}, {2, kFlowOf1, 0}});
  rig.run_until_quiet();
  EXPECT_EQ(parsed, 2);
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1, 2));
}

TEST(PipelineWorkers, APipelineOfOneStageAdmitsWhatIsHandedOver) {
  Script parse = parse_label();
  const Script all{.ingress = [inner = parse.ingress](Context& context, Batch& batch) {
    inner(context, batch);
    for (std::uint16_t i = 0; i < batch.size; ++i) meta(batch.packet[i]).out_port = label_of(batch.packet[i]).out;
  }};
  Rig rig({{"all", all}}, {.workers = 2});
  rig.receive(0, {{1, kFlowOf1, 0}, {2, kFlowOf1, 1}, {3, kFlowOf0, 1}});
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1));
  EXPECT_THAT(rig.devices[1]->ids(), testing::UnorderedElementsAre(2, 3));
}

TEST(PipelineWorkers, WhatFindsNoRoomInARingWaitsInOrderAndIsHeld) {
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}}, {.workers = 2, .handoff_capacity = 3});
  rig.receive(0, {{1, kFlowOf1, 0}, {2, kFlowOf1, 0}, {3, kFlowOf1, 0}, {4, kFlowOf1, 0}, {5, kFlowOf1, 0}});
  EXPECT_EQ(rig.in_rings(), 3u);
  EXPECT_EQ(rig.pipelines[0]->held(), 2u);
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), 0u) << "the worker must not nap";
  EXPECT_EQ(rig.imbalance(), "");
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(rig.dropped(DropReason::handoff_full), 0u);
}

TEST(PipelineWorkers, AWorkerThatDoesNotKeepUpGetsItsShareOfTheBuffersAndNoMore) {
  std::vector<DropReason> heard;
  Rig rig({{"parse", parse_label()},
           {"fwd", forward()},
           {"listen", {.drop = [&](Context&, const rte_mbuf*, DropReason reason) { heard.push_back(reason); }}}},
          {.workers = 2, .buffers = 16, .handoff_capacity = 3});
  // Thirteen to the flow's owner: three fit into the ring once eight have gathered, which are half of all buffers.
  std::vector<Label> labels;
  for (std::uint64_t id = 1; id <= 13; ++id) labels.push_back({id, kFlowOf1, 0});
  rig.receive(0, labels);
  EXPECT_EQ(rig.dropped(DropReason::handoff_full), 5u);
  EXPECT_TRUE(heard.empty());  // before admission
  EXPECT_EQ(rig.imbalance(), "");
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  // The same on the way to the port's owner is a drop at admission.
  labels.clear();
  for (std::uint64_t id = 14; id <= 22; ++id) labels.push_back({id, kFlowOf0, 1});
  rig.receive(0, labels);
  EXPECT_EQ(rig.dropped(DropReason::handoff_full), 6u);
  EXPECT_THAT(heard, ElementsAre(DropReason::handoff_full));
}

TEST(PipelineWorkers, WhatAStageSendsForADropOfAnOldWireIsOnItsWayAtOnce) {
  const auto answer = [](Context& context, const rte_mbuf*, DropReason reason) {
    if (reason != DropReason::egress_queue_full) return;
    rte_mbuf* m = context.generate();
    ASSERT_NE(m, nullptr);
    rte_pktmbuf_append(m, 64);
    context.send(m, 1);
  };
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}, {"listen", {.drop = answer}}}, {.workers = 2, .rate_mbps = 1});
  rig.receive(0, {{1, kFlowOf0, 0}, {2, kFlowOf0, 0}, {3, kFlowOf0, 0}, {4, kFlowOf0, 0}});
  ASSERT_EQ(rig.in_rings(), 0u);
  auto short_queue = std::make_unique<EgressQueue>(1, 1, 0);
  rig.pipelines[0]->exchange_wire(rig.now, 0, short_queue);
  EXPECT_EQ(rig.dropped(DropReason::egress_queue_full), 3u);
  EXPECT_EQ(rig.in_rings(), 3u);
  EXPECT_EQ(rig.imbalance(), "");
}

TEST(PipelineWorkers, MtuAndLinkAreCheckedByThePortsOwner) {
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}}, {.workers = 2});
  rig.state->set_link(1, false);
  rig.receive(0, {{1, kFlowOf0, 1}});
  EXPECT_EQ(rig.dropped(DropReason::egress_down), 0u);
  rig.run_until_quiet();
  EXPECT_EQ(rig.pipelines[1]->totals().dropped[static_cast<std::size_t>(DropReason::egress_down)].value(), 1u);
  EXPECT_EQ(rig.pipelines[1]->port_totals(1).dropped.value(), 1u);
}

TEST(PipelineWorkers, MixedHandoffsKeepTheOrderOfEveryFlow) {
  Rig rig({{"parse", parse_label()}, {"other", Script{}}, {"fwd", forward()}}, {.workers = 2});
  std::uint64_t id = 0;
  Rng rng(17);
  for (int burst = 0; burst < 200; ++burst) {
    std::vector<Label> labels;
    for (int i = 0; i < 30; ++i) {
      const auto flow = static_cast<std::uint32_t>(rng.below(8));
      labels.push_back({++id, flow << 29, static_cast<PortIndex>(flow % 4)});
    }
    rig.receive(static_cast<PortIndex>(0), labels);
    for (std::uint16_t w = 0; w < 2; ++w) {
      if (rng.below(2) == 0) rig.step(w);
    }
    ASSERT_EQ(rig.imbalance(), "");
  }
  rig.run_until_quiet();
  EXPECT_EQ(rig.dropped(DropReason::handoff_full), 0u);
  // Every flow leaves through one port: its packets are there in order. Two flows share a port.
  for (PortIndex p = 0; p < 4; ++p) {
    std::map<std::uint32_t, std::uint64_t> last;
    Rng replay(17);
    std::map<std::uint64_t, std::uint32_t> flow_of;
    std::uint64_t n = 0;
    for (int burst = 0; burst < 200; ++burst) {
      for (int i = 0; i < 30; ++i) flow_of[++n] = static_cast<std::uint32_t>(replay.below(8));
      for (int w = 0; w < 2; ++w) replay.below(2);
    }
    for (const std::uint64_t sent : rig.devices[p]->ids()) {
      ASSERT_GT(sent, last[flow_of[sent]]);
      last[flow_of[sent]] = sent;
    }
  }
}

TEST(PipelineWorkers, PacketsHandedOverWhileTheOtherWorkerStopsAreNotLost) {
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}}, {.workers = 2});
  rig.receive(0, {{1, kFlowOf1, 0}, {2, kFlowOf0, 1}});
  rig.pipelines[0]->drop_queued(rig.now);
  rig.pipelines[1]->drop_queued(rig.now);
  EXPECT_EQ(rig.in_rings(), 2u);
  EXPECT_EQ(rig.imbalance(), "");
}  // the rig's destructor delivers them

// --- two real threads ---

// The rings of weft-switch.
struct RealRings : Handoff {
  explicit RealRings(PacketRing& ring) : to_other(ring) {}
  std::uint16_t push(std::uint16_t, rte_mbuf* const* packets, std::uint16_t count) noexcept override {
    return static_cast<std::uint16_t>(to_other.push(packets, count));
  }
  bool push_control(std::uint16_t, rte_mbuf*) noexcept override { return false; }
  void wake(std::uint16_t) noexcept override {}
  PacketRing& to_other;
};

// Checks the order of every flow of its port, and counts.
struct OrderedDevice : PortTx {
  TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    for (std::uint16_t i = 0; i < count; ++i) {
      const Label label = label_of(packets[i]);
      in_order &= label.id > last[label.flow >> 28];
      last[label.flow >> 28] = label.id;
      rte_pktmbuf_free(packets[i]);
    }
    sent += count;
    return {.taken = count};
  }
  std::uint64_t last[16]{};
  bool in_order = true;
  std::uint64_t sent = 0;
};

class TwoThreads {
 public:
  static constexpr std::uint64_t kPackets = 200'000;  // per worker

  explicit TwoThreads(bool tx_per_worker = false) : tx_per_worker_(tx_per_worker) {
    StageType parse;
    parse.name = "parse";
    parse.make = [this](const StageBuild& b, StageShared*) {
      return std::make_unique<ScriptedStage>(parse_, b.worker);
    };
    StageType fwd;
    fwd.name = "fwd";
    fwd.make = [this](const StageBuild& b, StageShared*) {
      return std::make_unique<ScriptedStage>(forward_, b.worker);
    };
    registry_.add(std::move(parse));
    registry_.add(std::move(fwd));
    SwitchInfo info;
    for (PortIndex p = 0; p < 2; ++p) {
      info.ports.push_back({.name = "p" + std::to_string(p), .index = p, .type = "test", .device = {}});
    }
    info.pipeline = {{.name = "parse", .options = {}}, {.name = "fwd", .options = {}}};
    state_ = std::make_unique<SwitchState>(registry_, std::move(info), std::vector<std::uint16_t>{0, 1}, 2);
    for (PortIndex p = 0; tx_per_worker && p < 2; ++p) state_->set_tx_per_worker(p);
    for (std::uint16_t w = 0; w < 2; ++w) {
      PipelineHost host;
      host.worker = w;
      host.pool = pool_.get();
      host.handoff = &handoffs_[w];
      host.ports = {&device(w, 0), &device(w, 1)};
      pipelines_[w] = std::make_unique<Pipeline>(*state_, std::move(host));
    }
  }

  // What a worker sends to a port through.
  OrderedDevice& device(std::uint16_t worker, PortIndex port) { return devices_[tx_per_worker_ ? worker : 0][port]; }
  // What has left from a worker. With one transmit queue per port that is what has left through its port.
  std::uint64_t sent_by(std::uint16_t worker) {
    return tx_per_worker_ ? devices_[worker][0].sent + devices_[worker][1].sent : devices_[0][worker].sent;
  }

  // Sends its packets, then goes on until the other one has finished and nothing is left.
  void run(std::uint16_t worker) {
    std::uint64_t made = 0;
    TimeNs now = 1'000'000'000;
    while (true) {
      ++now;
      rte_mbuf* packets[Batch::kCapacity];
      std::uint16_t count = 0;
      // Backpressure, so that nothing is dropped: no more than both rings hold are under way.
      while (count < 16 && made < kPackets && under_way_.load() < PacketRing::kCapacity / 2) {
        rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
        if (m == nullptr) break;
        ++made;
        ++under_way_;
        // Eight flows per worker: half of them owned by either worker, leaving through either port.
        const auto flow = static_cast<std::uint32_t>(made % 8 * 2 + worker);
        const Label label{made, flow << 28, static_cast<PortIndex>(flow / 2 % 2)};
        std::memcpy(rte_pktmbuf_append(m, 64), &label, sizeof label);
        packets[count++] = m;
      }
      const std::uint64_t before = sent_by(worker);
      if (count != 0) pipelines_[worker]->receive(now, worker, packets, count);
      count = static_cast<std::uint16_t>(rings_[1 - worker].pop(packets, Batch::kCapacity));
      if (count != 0) pipelines_[worker]->take_handoff(now, packets, count);
      for (PortIndex p = 0; p < 2; ++p) {
        while (pipelines_[worker]->sends(p) && pipelines_[worker]->serve_port(now, p) != 0) {
        }
      }
      under_way_ -= sent_by(worker) - before;
      if (made == kPackets && !counted_[worker]) {
        counted_[worker] = true;
        ++finished_;
      }
      if (finished_.load() == 2 && under_way_.load() == 0) return;
      if (count == 0 && sent_by(worker) == before) std::this_thread::yield();
    }
  }

  Script parse_ = parse_label();
  Script forward_ = forward();
  Registry registry_;
  Pool pool_ = make_pool("two_threads", 4096, 512, 64);
  std::unique_ptr<SwitchState> state_;
  PacketRing rings_[2];  ///< by sending worker
  RealRings handoffs_[2]{RealRings(rings_[0]), RealRings(rings_[1])};
  bool tx_per_worker_;
  OrderedDevice devices_[2][2];  ///< by worker and port; with one transmit queue per port, those of worker 0 are all
  std::unique_ptr<Pipeline> pipelines_[2];
  std::atomic<std::uint64_t> under_way_{0};
  std::atomic<int> finished_{0};
  bool counted_[2]{};
};

class PipelineWorkersThreads : public testing::TestWithParam<bool> {};

TEST_P(PipelineWorkersThreads, TwoLoseNothingAndKeepTheOrderOfEveryFlow) {
  TwoThreads two(GetParam());
  ASSERT_NE(two.pool_, nullptr);
  std::thread other([&] { two.run(1); });
  two.run(0);
  other.join();
  for (const auto& of_worker : two.devices_) {
    for (const OrderedDevice& device : of_worker) EXPECT_TRUE(device.in_order);
  }
  EXPECT_EQ(two.sent_by(0) + two.sent_by(1), 2 * TwoThreads::kPackets);
  std::uint64_t handed_out = 0;
  std::uint64_t handed_in = 0;
  for (const auto& p : two.pipelines_) {
    EXPECT_EQ(p->held(), 0u);
    handed_out += p->totals().handed_out.value();
    handed_in += p->totals().handed_in.value();
    for (const auto& c : p->totals().dropped) EXPECT_EQ(c.value(), 0u);
  }
  EXPECT_EQ(handed_out, handed_in);
  EXPECT_GT(handed_out, TwoThreads::kPackets / 2);
  EXPECT_EQ(rte_mempool_in_use_count(two.pool_.get()), 0u);
}
INSTANTIATE_TEST_SUITE_P(TransmitQueues, PipelineWorkersThreads, testing::Bool(),
                         [](const auto& param) { return param.param ? "per_worker" : "per_port"; });

}  // namespace
}  // namespace weft::pipeline
