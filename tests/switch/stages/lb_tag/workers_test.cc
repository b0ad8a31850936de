// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// ConWeave on a leaf of two workers with `steer: qp`, where a queue pair belongs to one and answers come to the other.
#include <deque>
#include <memory>

#include "switch/pipeline/steer.h"
#include "switch/stages/lb_tag/stage.h"
#include "tests/switch/stages/lb_tag/weaving.h"

namespace weft::stages::testing {
namespace {

using Kind = ConweaveReply::Kind;

class ConweaveOnTwoWorkers : public ::testing::Test {
 protected:
  ConweaveOnTwoWorkers() {
    config::Diagnostics diagnostics;
    auto info = config::load_switch(conga_yaml(weaving(1)), registry_, diagnostics);
    if (!info) throw std::invalid_argument(diagnostics.to_string());
    for (pipeline::PortInfo& port : info->ports) port.mac = leaf_mac(port.index);
    const std::size_t ports = info->ports.size();
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(*info), std::vector<std::uint16_t>(ports), 2,
                                                     pipeline::SteerMode::qp);
    for (std::uint16_t w = 0; w < 2; ++w) {
      pipeline::PipelineHost host;
      host.worker = w;
      host.pool = pool_.get();
      host.handoff = &rings_[w];
      host.ports.assign(ports, &device_);
      pipelines_[w] = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
    }
    const wire::Parsed data = parsed_of(packet(1, 2).build());
    answers_at_ = pipeline::worker_by_hash(data.pair_hash(), 2);
    // As rdma_track does.
    state_->owners().publish(data.address_key, data.dest_qp, 1 - answers_at_);
  }
  ~ConweaveOnTwoWorkers() override {
    settle();
    for (const auto& pipeline : pipelines_) EXPECT_EQ(pipeline->held(), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(pool_.get()), 0u);
  }

  // A packet arrives at a port; what leaves the leaf because of it.
  std::vector<Bytes> arrive(pipeline::PortIndex port, const Bytes& frame) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    pipelines_[0]->receive(++now_, port, &m, 1);
    settle();
    return std::exchange(device_.sent, {});
  }
  ConweaveTag send() {
    const auto sent = arrive(0, packet(1, 2).build());
    EXPECT_EQ(sent.size(), 1u);
    return sent.empty() ? ConweaveTag{} : label_of(sent[0]).tag;
  }
  void answered(const ConweaveReply& reply) {
    EXPECT_TRUE(arrive(1, by_spine(answer_to(packet(1, 2).build(), {2, 0, reply}))).empty());
  }
  std::uint64_t counter(std::uint16_t worker, LbTagCounter counter) const {
    return pipelines_[worker]->stage(1).counters()[static_cast<std::size_t>(counter)].value();
  }
  std::uint16_t flow_at() const { return 1 - answers_at_; }

  std::uint16_t answers_at_ = 0;

 private:
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
  struct Ring : pipeline::Handoff {
    std::uint16_t push(std::uint16_t, rte_mbuf* const* packets, std::uint16_t count) noexcept override {
      waiting.insert(waiting.end(), packets, packets + count);
      return count;
    }
    bool push_control(std::uint16_t, rte_mbuf*) noexcept override { return false; }
    void wake(std::uint16_t) noexcept override {}
    std::deque<rte_mbuf*> waiting;
  };

  bool step(std::uint16_t worker) {
    std::vector<rte_mbuf*> packets;
    auto& ring = rings_[1 - worker].waiting;
    for (; !ring.empty(); ring.pop_front()) packets.push_back(ring.front());
    if (!packets.empty()) {
      pipelines_[worker]->take_handoff(now_, packets.data(), static_cast<std::uint16_t>(packets.size()));
    }
    pipelines_[worker]->run_timers(now_);
    bool busy = !packets.empty();
    for (pipeline::PortIndex port = 0; worker == 0 && port <= kUplinks; ++port) {
      busy = pipelines_[0]->serve_port(now_, port) != 0 || busy;
    }
    return busy;
  }
  void settle() {
    for (bool busy = true; busy;) {
      busy = step(0);
      busy = step(1) || busy;
    }
    step(0);  // mail that worker 1 has left
  }

  const pipeline::Registry& registry_ = weft::testing::all_stages();
  pipeline::Pool pool_ = pipeline::make_pool("conweave_workers", 256, 2048, 0);
  TimeNs now_ = 1'000'000'000;
  Device device_;
  Ring rings_[2];
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipelines_[2];
};

TEST_F(ConweaveOnTwoWorkers, AnAnswerFindsTheWorkerThatHasTheQueuePair) {
  EXPECT_EQ(send().epoch, 1);
  EXPECT_FALSE(send().request);
  answered({Kind::rtt, 1});
  EXPECT_EQ(counter(answers_at_, LbTagCounter::conweave_passed_over), 1u);
  EXPECT_EQ(counter(flow_at(), LbTagCounter::conweave_replies), 1u);
  const ConweaveTag next = send();
  EXPECT_EQ(next.epoch, 2);
  EXPECT_TRUE(next.request);
}

TEST_F(ConweaveOnTwoWorkers, AnAnswerToNoFlowOfThatWorkerChangesNothing) {
  answered({Kind::clear, 9});
  EXPECT_EQ(counter(flow_at(), LbTagCounter::conweave_stray_replies), 1u);
  EXPECT_EQ(counter(answers_at_, LbTagCounter::conweave_stray_replies), 0u);
  EXPECT_EQ(send().epoch, 1);
}

}  // namespace
}  // namespace weft::stages::testing
