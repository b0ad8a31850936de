// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// rdma_track in pipelines of two workers with `steer: qp`: which worker has a packet, and in which order packets leave.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "switch/base/rng.h"
#include "switch/config/config.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/stages/rdma_track/stage.h"
#include "switch/stages/stages.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using pipeline::Batch;
using pipeline::PortIndex;
using pipeline::SteerMode;
using Bytes = std::vector<std::uint8_t>;

/// Parse, rdma_track, and a stage that notes the worker and sends to the other port. Port 0 is host A's and worker 0's,
/// port 1 is B's and worker 1's.
class TwoPipelines {
 public:
  explicit TwoPipelines(const std::string& options, SteerMode steer = SteerMode::qp) {
    stages::register_all(registry_);
    pipeline::StageType across;
    across.name = "across";
    across.provides = {"forward"};
    across.make = [this](const pipeline::StageBuild& build, pipeline::StageShared*) {
      return std::make_unique<Across>(workers_of, build.worker);
    };
    registry_.add(std::move(across));
    config::Diagnostics diagnostics;
    const std::string text =
        "switches:\n  - name: tor\n    ports: [{ name: a, type: 'null' }, { name: b, type: 'null' }]\n"
        "    pipeline: [parse, rdma_track: " +
        options + ", across]\n";
    auto config = config::load_config(text, "test.yaml", registry_, diagnostics);
    if (!config) throw std::runtime_error(config::format(diagnostics));
    pipeline::SwitchInfo info = config->switches.at(0);
    for (pipeline::PortInfo& port : info.ports) port.mtu_bytes = 4200;
    state_ =
        std::make_unique<pipeline::SwitchState>(registry_, std::move(info), std::vector<std::uint16_t>{0, 1}, 2, steer);
    for (std::uint16_t w = 0; w < 2; ++w) {
      pipeline::PipelineHost host;
      host.worker = w;
      host.pool = pool_.get();
      host.handoff = &rings_[w];
      host.ports = {&devices[0], &devices[1]};
      pipelines_[w] = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
    }
  }
  ~TwoPipelines() {
    settle();
    std::uint64_t came = 0, went = 0;
    for (const auto& p : pipelines_) {
      came += p->totals().rx.value();
      went += p->totals().tx.value();
      EXPECT_EQ(p->held(), 0u);
    }
    EXPECT_EQ(came, went);
    EXPECT_EQ(rte_mempool_in_use_count(pool_.get()), 0u);
  }

  void receive(PortIndex port, const Bytes& frame) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    pipelines_[port]->receive(++now_, port, &m, 1);
  }
  /// One loop of one worker, without reception; at most `most` packets from its ring.
  bool step(std::uint16_t worker, std::size_t most = Batch::kCapacity) {
    ++now_;
    std::vector<rte_mbuf*> packets;
    auto& ring = rings_[1 - worker].waiting;
    for (; !ring.empty() && packets.size() < most; ring.pop_front()) packets.push_back(ring.front());
    if (!packets.empty()) {
      pipelines_[worker]->take_handoff(now_, packets.data(), static_cast<std::uint16_t>(packets.size()));
    }
    pipelines_[worker]->run_timers(now_);
    return pipelines_[worker]->serve_port(now_, worker) != 0 || !packets.empty();
  }
  void settle() {
    for (bool busy = true; busy;) {
      busy = step(0);
      if (step(1)) busy = true;
    }
  }
  stages::QpTracker& tracker(std::uint16_t worker) {
    return dynamic_cast<stages::RdmaTrackStage&>(pipelines_[worker]->stage(1)).tracker();
  }
  std::uint64_t count(stages::TrackCounter c) {
    return tracker(0).counters().value(c) + tracker(1).counters().value(c);
  }

  struct Device : pipeline::PortTx {
    pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
      for (std::uint16_t i = 0; i < count; ++i) {
        sent.emplace_back(pipeline::frame(packets[i]), pipeline::frame(packets[i]) + packets[i]->pkt_len);
        rte_pktmbuf_free(packets[i]);
      }
      return {.taken = count};
    }
    std::vector<Bytes> sent;
  };
  Device devices[2];
  /// Destination QP -> workers that had its packets.
  std::map<std::uint32_t, std::set<std::uint16_t>> workers_of;

 private:
  class Across : public pipeline::Stage {
   public:
    Across(std::map<std::uint32_t, std::set<std::uint16_t>>& workers_of, std::uint16_t worker)
        : workers_of_(workers_of), worker_(worker) {}
    void ingress(pipeline::Context&, Batch& batch) override {
      for (std::uint16_t i = 0; i < batch.size; ++i) {
        pipeline::PacketMeta& m = pipeline::meta(batch.packet[i]);
        m.out_port = m.in_port ^ 1;
        workers_of_[m.parsed.dest_qp.value()].insert(worker_);
      }
    }

   private:
    std::map<std::uint32_t, std::set<std::uint16_t>>& workers_of_;
    std::uint16_t worker_;
  };
  struct Ring : pipeline::Handoff {
    std::uint16_t push(std::uint16_t, rte_mbuf* const* packets, std::uint16_t count) noexcept override {
      waiting.insert(waiting.end(), packets, packets + count);
      return count;
    }
    bool push_control(std::uint16_t, rte_mbuf*) noexcept override { return false; }
    void wake(std::uint16_t) noexcept override {}
    std::deque<rte_mbuf*> waiting;
  };

  pipeline::Registry registry_;
  pipeline::Pool pool_ = pipeline::make_pool("two_pipelines", 8192, 2176, 0);
  std::unique_ptr<pipeline::SwitchState> state_;
  Ring rings_[2];  ///< by sending worker
  std::unique_ptr<pipeline::Pipeline> pipelines_[2];
  TimeNs now_ = 1'000'000'000;
};

std::uint32_t a_of(std::uint32_t i) {
  return 0x100 + i;
}
std::uint32_t b_of(std::uint32_t i) {
  return 0x10000 + i;
}

// Connections are made while others are busy; workers run in any order. `connected` says whether CM makes them.
void run_connections(TwoPipelines& w, bool connected, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  constexpr std::uint32_t kConnections = 24, kStart = 7000;
  std::vector<std::uint32_t> psn(kConnections, kStart), psn_back(kConnections, kStart);
  const auto loiter = [&] {
    const auto worker = static_cast<std::uint16_t>(rng.below(2));
    if (rng.below(3) != 0) w.step(worker, 1 + rng.below(8));
  };
  const auto pass = [&](PortIndex port, const Bytes& frame) {
    w.receive(port, frame);
    auto& out = w.devices[1 - port].sent;
    while (std::find(out.begin(), out.end(), frame) == out.end()) loiter();
  };
  for (std::uint32_t ready = 0, round = 0; round < 6000; ++round) {
    loiter();
    if (ready < kConnections && round % 100 == 0) {
      const std::uint32_t i = ready++, id = i + 1;
      if (!connected) continue;
      pass(0, cm(kA, kB, req(id, Qpn(a_of(i)), Psn(kStart))).build());
      pass(1, cm(kB, kA, rep(id + 1000, id, Qpn(b_of(i)), Psn(kStart))).build());
    }
    const auto i = static_cast<std::uint32_t>(rng.below(ready));
    if (rng.below(2) == 0) {
      w.receive(0, write_from_a(Qpn(b_of(i)), psn[i]++).build());
    } else {
      w.receive(1, from_b(Opcode::RC_SEND_ONLY, Qpn(a_of(i)), Psn(psn_back[i]++)).payload(64).build());
    }
  }
  w.settle();
  // Every queue pair's packets leave in the order in which they came.
  for (int port = 0; port < 2; ++port) {
    std::map<std::uint32_t, std::uint32_t> next;
    for (const Bytes& bytes : w.devices[port].sent) {
      const TrackedFrame frame(bytes);
      if (frame.parsed.dest_qp == wire::kGsiQpn) continue;
      const std::uint32_t expected = next.try_emplace(frame.parsed.dest_qp.value(), kStart).first->second++;
      ASSERT_EQ(frame.parsed.psn.value(), expected);
    }
    EXPECT_EQ(next.size(), kConnections);
  }
  EXPECT_EQ(w.count(stages::TrackCounter::out_of_order) + w.count(stages::TrackCounter::retransmitted), 0u);
  EXPECT_EQ(w.count(stages::TrackCounter::untracked), 0u);
  EXPECT_EQ(w.count(stages::TrackCounter::qps_active), 2 * kConnections);
}

TEST(RdmaTrackWorkers, ConnectionsUseBothWorkersKeepTheirOrderAndAreNeverSplit) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    TwoPipelines w("{}");
    run_connections(w, true, seed);
    std::set<std::uint16_t> used;
    for (std::uint32_t i = 0; i < 24; ++i) {
      ASSERT_EQ(w.workers_of[b_of(i)].size(), 1u) << i;
      ASSERT_EQ(w.workers_of[b_of(i)], w.workers_of[a_of(i)]) << i;
      used.insert(*w.workers_of[b_of(i)].begin());
    }
    EXPECT_EQ(used.size(), 2u);
    EXPECT_EQ(w.count(stages::TrackCounter::pairs_cm), 24u);
  }
}

TEST(RdmaTrackWorkers, WithoutConnectionsOrWithSteerIpPairOneWorkerHasAPairOfHosts) {
  for (const SteerMode steer : {SteerMode::qp, SteerMode::ip_pair}) {
    TwoPipelines w("{}", steer);
    run_connections(w, steer == SteerMode::ip_pair, 7);
    std::set<std::uint16_t> used;
    for (std::uint32_t i = 0; i < 24; ++i) {
      used.insert(w.workers_of[b_of(i)].begin(), w.workers_of[b_of(i)].end());
      used.insert(w.workers_of[a_of(i)].begin(), w.workers_of[a_of(i)].end());
    }
    EXPECT_EQ(used.size(), 1u);
  }
}

TEST(RdmaTrackWorkers, ConfiguredQueuePairsAreSpreadFromTheStart) {
  std::string qps;
  for (std::uint32_t i = 0; i < 6; ++i) {
    qps += (i == 0 ? "" : ", ") + ("{ a: { address: 10.0.0.1, qpn: " + std::to_string(a_of(i))) +
           " }, b: { address: 10.0.0.2, qpn: " + std::to_string(b_of(i)) + " } }";
  }
  TwoPipelines w("{ qps: [" + qps + "] }");
  for (std::uint32_t i = 0; i < 6; ++i) {
    w.receive(0, write_from_a(Qpn(b_of(i)), 1).build());
    w.receive(1, ack_from_b(Qpn(a_of(i)), 1).build());
    w.settle();
    EXPECT_EQ(w.workers_of[b_of(i)], (std::set<std::uint16_t>{static_cast<std::uint16_t>(i % 2)}));
    EXPECT_EQ(w.workers_of[a_of(i)], w.workers_of[b_of(i)]);
  }
  EXPECT_EQ(w.count(stages::TrackCounter::qps_active), 12u);
  EXPECT_EQ(w.count(stages::TrackCounter::qps_learned_traffic), 0u);
  // A connection of a configured queue pair is its worker's.
  w.receive(0, cm(kA, kB, req(5, Qpn(a_of(0)), Psn(50))).build());
  w.receive(1, cm(kB, kA, rep(6, 5, Qpn(b_of(0)), Psn(50))).build());
  w.receive(0, write_from_a(Qpn(b_of(0)), 50).build());
  w.settle();
  EXPECT_EQ(w.workers_of[b_of(0)], (std::set<std::uint16_t>{0}));
  EXPECT_EQ(w.count(stages::TrackCounter::qps_active), 12u);
}

}  // namespace
}  // namespace weft::testing
