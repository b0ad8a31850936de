// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// nack_filter with two workers: what leaves through the port of one is judged by the other.
#include <deque>

#include "switch/config/config.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using pipeline::Batch;
using pipeline::PortIndex;

constexpr int kPairs = 8;

std::string sender(int pair) {
  return "10.0.1." + std::to_string(2 + pair);
}
Bytes data_of(int pair, std::uint32_t psn) {
  return data(psn, 1)
      .ipv4(sender(pair), "10.0.3.2")
      .bth(Opcode::RC_SEND_MIDDLE, Qpn(34 + static_cast<std::uint32_t>(pair)), Psn(psn))
      .build();
}

/// Parse, rdma_track, nack_filter, and a stage that sends to the other port. Port 0 leads to the receivers and is
/// worker 0's, port 1 is the uplink and worker 1's.
class TwoWorkers {
 public:
  /// @param more  options of nack_filter besides its uplink
  explicit TwoWorkers(const std::string& guard, const std::string& more = "paths: 2, arrival_check: off") {
    register_all(registry_);
    pipeline::StageType across;
    across.name = "across";
    across.provides = {"forward"};
    across.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<Across>(); };
    registry_.add(std::move(across));
    std::string pairs;
    for (int i = 0; i < kPairs; ++i) {
      pairs += "{ a: { address: " + sender(i) + ", qpn: 17 }, b: { address: 10.0.3.2, qpn: " + std::to_string(34 + i) +
               " } }, ";
    }
    pairs_ = pairs;
    more_ = more;
    state_ = std::make_unique<pipeline::SwitchState>(registry_, info(guard), std::vector<std::uint16_t>{0, 1}, 2);
    for (std::uint16_t w = 0; w < 2; ++w) pipelines_[w] = make_pipeline(w, *state_, nullptr);
  }
  /// All workers stand still, as in a reload of the configuration.
  void reload(const std::string& guard) {
    auto state = std::make_unique<pipeline::SwitchState>(registry_, info(guard), std::vector<std::uint16_t>{0, 1}, 2,
                                                         pipeline::SteerMode::ip_pair, state_.get());
    const pipeline::PortMap ports({0, 1});
    std::unique_ptr<pipeline::Pipeline> made[2];
    for (std::uint16_t w = 0; w < 2; ++w) made[w] = make_pipeline(w, *state, pipelines_[w].get());
    state->adopt(*state_, ports);
    for (std::uint16_t w = 0; w < 2; ++w) made[w]->adopt(now_, *pipelines_[w], ports);
    for (std::uint16_t w = 0; w < 2; ++w) pipelines_[w] = std::move(made[w]);
    state_ = std::move(state);
  }

  void arrive(const Bytes& frame) {
    receive(1, frame);
    settle();
  }
  void arrive(int pair, std::initializer_list<std::uint32_t> psns) {
    for (const std::uint32_t psn : psns) {
      receive(1, data_of(pair, psn));
      settle();
    }
  }
  void say(int pair, const FrameBuilder& frame) {
    receive(0, FrameBuilder(frame).ipv4("10.0.3.2", sender(pair)).build());
    settle();
  }
  /// How many packets have left towards the senders since the last call.
  std::size_t upwards() { return std::exchange(devices_[1].sent, 0); }
  std::uint16_t owner(int pair) {
    const Bytes frame = data_of(pair, 0);
    wire::Parsed parsed;
    wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()),
                      parsed);
    return state_->owner_of(parsed);
  }
  void pass(TimeNs ns) {
    now_ += ns;
    settle();
  }
  std::uint64_t count(NackCounter c) {
    std::uint64_t sum = 0;
    for (const auto& p : pipelines_) sum += p->stage(2).counters()[static_cast<std::size_t>(c)].value();
    return sum;
  }
  /// Packets of a queue pair, from PSN 0, until some wait in the queue to the receivers, whose device takes none.
  void congest(int pair) {
    devices_[0].blocked = true;
    for (std::uint32_t psn = 0; psn < 4000 && pipelines_[0]->queue_depth(0) == 0; ++psn) {
      receive(1, data_of(pair, psn));
      settle();
    }
    EXPECT_GT(pipelines_[0]->queue_depth(0), 0u);
  }
  void drain() {
    devices_[0].blocked = false;
    settle();
  }
  /// What a worker takes for the length of the queue to the receivers.
  std::uint32_t depth_as_seen_by(std::uint16_t worker) {
    return pipeline::Context(now_, worker, rng_, *pipelines_[worker], 0).queue_depth(0);
  }
  void set_uplink(bool up) {
    state_->set_link(1, up);
    settle();
  }
  /// A row of `nack_filter_qps`.
  nlohmann::ordered_json row(int pair) {
    nlohmann::ordered_json found;
    for (const auto& p : pipelines_) {
      std::uint64_t cursor = 0;
      for (const auto& row : p->stage(2).rows("nack_filter_qps", cursor, 100)) {
        if (row["source"] == sender(pair)) found = row;
      }
    }
    return found;
  }
  /// Packets that worker 0 sends while nobody reads its mail.
  void send_unread(int pair, std::uint32_t first, std::uint32_t times) {
    for (std::uint32_t psn = first; psn < first + times; ++psn) receive(1, data_of(pair, psn));
    hand_over(0);
    while (pipelines_[0]->serve_port(++now_, 0) != 0) {
    }
  }
  void settle() {
    for (bool busy = true; busy;) {
      busy = step(0);
      if (step(1)) busy = true;
    }
  }

 private:
  class Across : public pipeline::Stage {
   public:
    void ingress(pipeline::Context&, Batch& batch) override {
      for (std::uint16_t i = 0; i < batch.size; ++i) {
        pipeline::meta(batch.packet[i]).out_port = pipeline::meta(batch.packet[i]).in_port ^ 1;
      }
    }
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
  struct Device : pipeline::PortTx {
    pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
      if (blocked) return {};
      for (std::uint16_t i = 0; i < count; ++i) rte_pktmbuf_free(packets[i]);
      sent += count;
      return {.taken = count};
    }
    std::size_t sent = 0;
    bool blocked = false;
  };

  [[nodiscard]] pipeline::SwitchInfo info(const std::string& guard) const {
    config::Diagnostics diagnostics;
    auto config = config::load_config(
        "switches:\n  - name: tor\n    ports: [{ name: h1, type: 'null', queue_packets: 8192 }, { name: s1, type: "
        "'null' }]\n"
        "    pipeline: [parse, rdma_track: { qps: [" +
            pairs_ + "] }, nack_filter: { uplinks: [s1], " + more_ + ", guard_us: " + guard + " }, across]\n",
        "test.yaml", registry_, diagnostics);
    if (!config) throw std::runtime_error(config::format(diagnostics));
    for (pipeline::PortInfo& port : config->switches.at(0).ports) port.mtu_bytes = 4200;
    return config->switches.at(0);
  }
  std::unique_ptr<pipeline::Pipeline> make_pipeline(std::uint16_t worker, pipeline::SwitchState& state,
                                                    const pipeline::Pipeline* previous) {
    pipeline::PipelineHost host;
    host.worker = worker;
    host.pool = pool_.get();
    host.handoff = &rings_[worker];
    host.ports = {&devices_[0], &devices_[1]};
    host.previous = previous;
    return std::make_unique<pipeline::Pipeline>(state, std::move(host));
  }
  void receive(PortIndex port, const Bytes& frame) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    pipelines_[port]->receive(++now_, port, &m, 1);
  }
  bool hand_over(std::uint16_t worker) {
    auto& ring = rings_[1 - worker].waiting;
    std::vector<rte_mbuf*> packets(ring.begin(), ring.end());
    ring.clear();
    for (rte_mbuf*& m : packets) pipelines_[worker]->take_handoff(now_, &m, 1);
    return !packets.empty();
  }
  bool step(std::uint16_t worker) {
    ++now_;
    const bool some = hand_over(worker);
    pipelines_[worker]->run_timers(now_);
    return pipelines_[worker]->serve_port(now_, worker) != 0 || some;
  }

  pipeline::Registry registry_;
  std::string pairs_, more_;
  pipeline::Pool pool_ = pipeline::make_pool("two-nacks", 8192, 512 + 128, 0);
  std::unique_ptr<pipeline::SwitchState> state_;
  Ring rings_[2];
  Device devices_[2];
  std::unique_ptr<pipeline::Pipeline> pipelines_[2];
  Rng rng_{1};
  TimeNs now_ = 1'000'000'000;
};

TEST(NackFilterWorkers, TheOwnerOfAQueuePairJudgesWhatTheOtherWorkerSends) {
  TwoWorkers tor("200");
  int of_worker[2] = {0, 0};
  for (int pair = 0; pair < kPairs; ++pair) {
    ++of_worker[tor.owner(pair)];
    tor.arrive(pair, {0, 1, 3});
    tor.say(pair, nack(2));
    EXPECT_EQ(tor.upwards(), 0u) << "blocked";
    tor.arrive(pair, {4});
    EXPECT_EQ(tor.upwards(), 1u) << "4 skips 2 on its path";
    tor.arrive(pair, {5, 8, 9});
    tor.say(pair, nack(6));
    EXPECT_EQ(tor.upwards(), 1u) << "8 has skipped 6";
    tor.arrive(pair, {11});
    tor.say(pair, nack(10));
    tor.pass(201 * kUs);
    EXPECT_EQ(tor.upwards(), 1u) << "the guard";
  }
  EXPECT_GT(of_worker[0], 0);
  EXPECT_GT(of_worker[1], 0);
  EXPECT_EQ(tor.count(NackCounter::compensated_packet), static_cast<std::uint64_t>(kPairs));
  EXPECT_EQ(tor.count(NackCounter::compensated_guard), static_cast<std::uint64_t>(kPairs));
}

TEST(NackFilterWorkers, WhenNotAllCouldBeToldTheOwnerBeginsAnew) {
  TwoWorkers tor("200");
  int pair = 0;
  while (tor.owner(pair) != 1) ++pair;
  tor.arrive(pair, {0, 1, 3});
  tor.say(pair, nack(2));
  EXPECT_EQ(tor.upwards(), 0u);
  tor.send_unread(pair, 5, NackFilterShared::kCapacity + 10);
  tor.settle();
  EXPECT_EQ(tor.upwards(), 1u) << "what was blocked is sent";
  EXPECT_GT(tor.count(NackCounter::mail_lost), 0u);
}

// 2 has left, but its owner has not read of it yet when the configuration is loaded again.
TEST(NackFilterWorkers, AReloadLosesNothingThatWorkersHaveToldEachOther) {
  for (const std::string guard : {"200", "0"}) {
    for (int pair = 0; pair < kPairs; ++pair) {
      TwoWorkers tor(guard);
      tor.arrive(pair, {0, 1, 3});
      tor.send_unread(pair, 2, 1);
      tor.reload(guard);
      tor.arrive(pair, {4});
      tor.say(pair, nack(2));
      EXPECT_EQ(tor.upwards(), 0u) << "the NACK crossed 2; it is not true that 4 has skipped it";
      tor.say(pair, ack(4));
      EXPECT_EQ(tor.upwards(), 1u);
      tor.arrive(pair, {5, 8});
      tor.say(pair, nack(6));
      EXPECT_EQ(tor.upwards(), 1u) << "8 has skipped 6";
      tor.pass(1000 * kUs);
      EXPECT_EQ(tor.upwards(), 0u);
      EXPECT_EQ(tor.count(NackCounter::nacks_valid), 1u);
      EXPECT_EQ(tor.count(NackCounter::mail_lost), 0u);
    }
  }
}

// Queue pairs of both workers, whose packets come over two paths of which one is late, while the configuration is
// loaded again and again: nobody is told of a loss.
TEST(NackFilterWorkers, ReloadsUnderTrafficBringNoFalseNack) {
  TwoWorkers tor("100000");
  std::uint32_t next = 0;
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t from = next;
    for (int pair = 0; pair < kPairs; ++pair) {
      tor.arrive(pair, {from, from + 1, from + 3, from + 5});
      tor.say(pair, nack(from + 2));
      tor.send_unread(pair, from + 2, 1);
      if ((round + pair) % 3 == 0) tor.reload("100000");
      tor.arrive(pair, {from + 4});
      tor.say(pair, nack(from + 2));
      EXPECT_EQ(tor.upwards(), 0u) << "round " << round << ", pair " << pair;
      tor.say(pair, ack(from + 5));
      EXPECT_EQ(tor.upwards(), 1u);
    }
    next += 6;
  }
  tor.pass(1'000'000 * kUs);
  EXPECT_EQ(tor.upwards(), 0u);
  EXPECT_EQ(tor.count(NackCounter::nacks_blocked), 2u * 50u * kPairs);
  EXPECT_EQ(tor.count(NackCounter::spurious_retransmissions), 0u);
}

TEST(NackFilterWorkers, AfterAReloadTheOwnerStillLearnsThatNotAllCouldBeTold) {
  TwoWorkers tor("200");
  int pair = 0;
  while (tor.owner(pair) != 1) ++pair;
  tor.arrive(pair, {0, 1, 3});
  tor.say(pair, nack(2));
  EXPECT_EQ(tor.upwards(), 0u);
  tor.send_unread(pair, 5, NackFilterShared::kCapacity + 10);
  tor.reload("200");
  tor.settle();
  EXPECT_EQ(tor.upwards(), 1u) << "what was blocked is sent";
  EXPECT_EQ(tor.count(NackCounter::mail_lost), 10u);
  tor.reload("200");
  tor.settle();
  EXPECT_EQ(tor.count(NackCounter::mail_lost), 10u) << "once";
}

TEST(NackFilterWorkers, WithOtherOptionsMailFromBeforeIsNotRead) {
  TwoWorkers tor("200");
  int pair = 0;
  while (tor.owner(pair) != 1) ++pair;
  tor.arrive(pair, {0, 1});
  tor.send_unread(pair, 2, 1);
  tor.reload("300");
  tor.settle();
  EXPECT_EQ(tor.count(NackCounter::qps_active), 0u);
}

// The owner has learned a path MTU of 256 bytes; the worker that tells it of the READ has not.
TEST(NackFilterWorkers, TheOwnerKnowsHowManyPsnsAReadTakes) {
  TwoWorkers tor("0");
  for (int pair = 0; pair < kPairs; ++pair) {
    tor.arrive(pair, {0, 1});
    tor.arrive(data(2, 1)
                   .ipv4(sender(pair), "10.0.3.2")
                   .bth(Opcode::RC_RDMA_READ_REQUEST, Qpn(34 + static_cast<std::uint32_t>(pair)), Psn(2))
                   .reth(0, 1, 2560)
                   .payload(0)
                   .build());
    tor.arrive(pair, {12, 13});
    EXPECT_EQ(tor.row(pair)["lost_psns"], 0) << pair;
    tor.arrive(pair, {16});
    EXPECT_EQ(tor.row(pair)["lost_psns"], 1) << "14";
  }
}

TEST(NackFilterWorkers, AWorkerSeesHowLongTheQueuesOfTheOthersPortsAre) {
  TwoWorkers tor("0");
  EXPECT_EQ(tor.depth_as_seen_by(1), 0u);
  tor.congest(0);
  EXPECT_EQ(tor.depth_as_seen_by(1), tor.depth_as_seen_by(0));
  tor.drain();
  EXPECT_EQ(tor.depth_as_seen_by(1), 0u);
}

TEST(NackFilterWorkers, WhatWaitsAtTheOthersPortIsNotLostWhenAnUplinkGoesDown) {
  TwoWorkers tor("0", "weights: { s1: 2 }");
  for (int pair = 1; pair < kPairs; ++pair) {
    tor.arrive(pair, {0, 1, 3});
    tor.say(pair, nack(2));
  }
  EXPECT_EQ(tor.count(NackCounter::nacks_blocked), static_cast<unsigned>(kPairs - 1));
  tor.congest(0);
  tor.set_uplink(false);
  tor.pass(1000 * kUs);
  EXPECT_EQ(tor.count(NackCounter::compensated_path_down), 0u) << "the packets may be among those that wait";
  tor.drain();
  tor.pass(1000 * kUs);
  EXPECT_EQ(tor.count(NackCounter::compensated_path_down), static_cast<unsigned>(kPairs - 1));
}

}  // namespace
}  // namespace weft::stages::testing
