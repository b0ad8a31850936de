// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What packet spraying by PSN and NACK validation cost per packet: the choice of `lb: psn` beside that of `ecmp`, the
// same over three tiers, where three of four packets get another source port and ICRC (264 bytes), and the egress half
// of nack_filter for data packets in order on their paths. Bursts of 32 packets of as many different queue pairs out of
// 16 or 4096. TSC cycles, the lower quartile over many bursts. Usage: micro_spray [--hugepages] [CPU]
#include <rte_cycles.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/bench_support.h"
#include "bench/micro/leaf_text.h"
#include "switch/config/config.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/stages/l3/shared.h"
#include "switch/stages/lb/policy.h"
#include "switch/stages/nack_filter/stage.h"
#include "switch/stages/stages.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

constexpr std::uint16_t kBurst = 32;
constexpr unsigned kUplinks = 16;
constexpr int kRounds = 40'000;

std::string yaml(std::uint32_t qps, const std::string& lb) {
  const bench::LeafText leaf(qps, kUplinks, "10.0.3.1", "10.0.3.2");
  return leaf.head + "routes:\n  - { prefix: 10.0.0.0/16, via: [" + leaf.hops +
         "] }\npipeline:\n  - parse\n  - rdma_track:\n      qps:\n" + leaf.pairs + "  - nack_filter: { uplinks: [" +
         leaf.uplinks + "] }\n  - l3\n  - lb: " + lb + "\n";
}

/// A leaf and one packet of each of its queue pairs.
class Leaf {
 public:
  Leaf(std::uint32_t qps, const std::string& lb) : pool_(pipeline::make_pool("spray", 8192, 512, 0)), psn_(qps, 0) {
    if (!pool_) std::abort();
    register_all(registry_);
    config::Diagnostics diagnostics;
    auto info = config::load_switch(yaml(qps, lb), registry_, diagnostics);
    if (!info) std::abort();
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(*info),
                                                     std::vector<std::uint16_t>(kUplinks + 1, 0), 1);
    pipeline::PipelineHost host;
    host.pool = pool_.get();
    host.ports.assign(kUplinks + 1, nullptr);
    pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
    // Several packets of a burst may be of one queue pair.
    for (std::uint32_t i = 0; i < std::max<std::uint32_t>(qps, kBurst * 16); ++i) packets_.push_back(make(i % qps));
  }
  ~Leaf() {
    for (rte_mbuf* m : packets_) rte_pktmbuf_free(m);
  }

  /// The next packets of queue pairs chosen at random, as rdma_track leaves them.
  void fill(pipeline::Batch& batch) {
    batch.size = 0;
    batch.removed = 0;
    auto at = static_cast<std::uint32_t>(rng_.below(packets_.size()));
    constexpr std::uint32_t kStride = 127;
    for (; batch.size < kBurst; at = static_cast<std::uint32_t>((at + kStride) % packets_.size())) {
      pipeline::PacketMeta& pm = pipeline::meta(packets_[at]);
      pm.parsed.psn = wire::Psn(psn_[at % psn_.size()]++);
      pm.in_port = static_cast<pipeline::PortIndex>(1 + pm.parsed.psn.value() % kUplinks);
      batch.push(packets_[at]);
    }
    auto c = context(1, false);
    stage(1).ingress(c, batch);
  }
  pipeline::Context context(std::size_t stage, bool egress) {
    return {1'000'000, 0, rng_, *pipeline_, static_cast<std::uint8_t>(stage), egress};
  }
  pipeline::Stage& stage(std::size_t i) { return pipeline_->stage(i); }
  pipeline::StageBuild lb_build() { return state_->build_of(4, 0); }
  const tables::NextHops& hops() {
    return dynamic_cast<L3Shared*>(state_->shared("l3"))->worker(0).routes().next_hops();
  }

 private:
  rte_mbuf* make(std::uint32_t i) {
    const auto frame = wire::FrameBuilder()
                           .ipv4("10.0.1.2", "10.0.3.2")
                           .udp(static_cast<std::uint16_t>(49152 + i))
                           .bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(1000 + i), wire::Psn(0))
                           .payload(256)
                           .build();
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    if (m == nullptr) std::abort();
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    pipeline::meta(m) = {};
    pipeline::meta(m).in_port = 1;
    wire::parse_frame(frame.data(), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
    pipeline::Batch batch;
    batch.push(m);
    auto c = context(1, false);
    stage(1).ingress(c, batch);
    return m;
  }

  pipeline::Registry registry_;
  pipeline::Pool pool_;
  Rng rng_{1};
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::vector<rte_mbuf*> packets_;
  std::vector<std::uint32_t> psn_;
};

double cycles_per_packet(Leaf& leaf, const std::function<void(pipeline::Batch&)>& work) {
  std::vector<std::uint64_t> samples;
  pipeline::Batch batch;
  for (int round = 0; round < kRounds; ++round) {
    leaf.fill(batch);
    const std::uint64_t begin = rte_rdtsc_precise();
    work(batch);
    samples.push_back(rte_rdtsc_precise() - begin);
  }
  return static_cast<double>(bench::lower_quartile(samples)) / kBurst;
}

double choice(Leaf& leaf, LbPolicy& policy) {
  const tables::NextHops& hops = leaf.hops();
  const auto members = hops.members(tables::NextHops::group_id(0));
  return cycles_per_packet(leaf, [&](pipeline::Batch& batch) {
    std::array<LbItem, kBurst> items;
    for (std::uint16_t i = 0; i < kBurst; ++i) {
      items[i] = {batch.packet[i], members.data(), static_cast<std::uint32_t>(members.size()), 0, i};
    }
    auto context = leaf.context(4, false);
    LinkView links(context, hops);
    policy.choose(context, links, items);
  });
}

double nothing(Leaf& leaf) {
  return cycles_per_packet(leaf, [](pipeline::Batch&) {});
}

void run_two_tiers(std::uint32_t qps) {
  Leaf leaf(qps, "{ policy: psn }");
  const double base = nothing(leaf);
  const double ecmp = choice(leaf, *make_ecmp_policy(leaf.lb_build())) - base;
  const double psn = choice(leaf, *make_psn_policy(leaf.lb_build())) - base;
  const double filter = cycles_per_packet(leaf, [&](pipeline::Batch& batch) {
    auto context = leaf.context(2, true);
    leaf.stage(2).egress(context, 0, batch);
  });
  std::printf("%5u queue pairs: ecmp %5.1f  psn %5.1f  (more than ecmp: %4.1f)  nack_filter %5.1f cycles per packet\n",
              qps, ecmp, psn, psn - ecmp, filter - base);
}

void run_three_tiers(std::uint32_t qps) {
  Leaf leaf(qps, "{ policy: psn, tiers_above: [ { seed: 99, members: 4 } ] }");
  const double base = nothing(leaf);
  const double ecmp = choice(leaf, *make_ecmp_policy(leaf.lb_build())) - base;
  const double psn = choice(leaf, *make_psn_policy(leaf.lb_build())) - base;
  std::printf("%5u queue pairs: three tiers: psn %5.1f  (more than ecmp: %4.1f)\n", qps, psn, psn - ecmp);
}

}  // namespace
}  // namespace weft::stages

int main(int argc, char** argv) {
  if (!weft::bench::start_eal(argc, argv)) return 1;
  for (const std::uint32_t qps : {16u, 4096u}) {
    weft::stages::run_two_tiers(qps);
    weft::stages::run_three_tiers(qps);
  }
  rte_eal_cleanup();
  return 0;
}
