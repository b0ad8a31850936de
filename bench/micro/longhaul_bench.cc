// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the stages of an edge switch between data centres cost per packet: the egress half of pnp for packets without a
// mark, with a mark that is cleared, and with a mark that becomes a CNP; the ingress half of trp while no flow is
// slowed down. Bursts of 32 packets of as many different queue pairs out of 16 or 4096. TSC cycles, the lower quartile
// over many bursts. Buffers for CNPs come from a pool with a cache for each worker, as weft-switch has it, where they
// are those that came back last; and from one without, where they are those that came back longest ago and in no cache
// of the CPU. Usage: micro_longhaul [--hugepages] [CPU]
#include <rte_cycles.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/bench_support.h"
#include "switch/config/config.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/stages/pnp/stage.h"
#include "switch/stages/stages.h"
#include "switch/stages/trp/stage.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

constexpr std::uint16_t kBurst = 32;
constexpr int kRounds = 20'000;
constexpr std::size_t kTrack = 1, kTrp = 2, kPnp = 3;  // positions in the pipeline

// CNPs go nowhere: their way is not measured.
std::string yaml(std::uint32_t qps, double interval_us) {
  std::string pairs;
  for (std::uint32_t i = 0; i < qps; ++i) {
    const std::string n = std::to_string(1000 + i);
    pairs += "      - { a: { address: 10.1.0.2, qpn: " + n + " }, b: { address: 10.2.0.2, qpn: " + n + " } }\n";
  }
  return "name: esw\nports:\n  - { name: in, type: \"null\" }\n  - { name: wan, type: \"null\" }\n"
         "addresses:\n  - { port: in, address: 10.9.1.0/31 }\n  - { port: wan, address: 10.9.2.0/31 }\n"
         "routes:\n  - { prefix: 10.1.0.0/16, blackhole: true }\n  - { prefix: 10.2.0.0/16, via: [10.9.2.1] }\n"
         "pipeline:\n  - parse\n  - rdma_track:\n      qps:\n" +
         pairs + "  - trp: { remote: [10.1.0.0/16] }\n  - pnp: { remote: [10.2.0.0/16], cnp_interval_us: " +
         std::to_string(interval_us) + " }\n  - l3\n";
}

/// An edge switch and a packet of each of its queue pairs.
class Edge {
 public:
  Edge(std::uint32_t qps, double interval_us, wire::Ecn ecn, std::uint32_t pool_cache = 512)
      : pool_(pipeline::make_pool("longhaul", 8192, 512, pool_cache)) {
    if (!pool_) std::abort();
    register_all(registry_);
    config::Diagnostics diagnostics;
    auto info = config::load_switch(yaml(qps, interval_us), registry_, diagnostics);
    if (!info) std::abort();
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(*info), std::vector<std::uint16_t>(2, 0), 1);
    pipeline::PipelineHost host;
    host.pool = pool_.get();
    host.ports.assign(2, nullptr);
    pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
    for (std::uint32_t i = 0; i < std::max<std::uint32_t>(qps, kBurst * 16); ++i)
      packets_.push_back(make(i % qps, ecn));
  }
  ~Edge() {
    for (rte_mbuf* m : packets_) rte_pktmbuf_free(m);
  }

  /// Packets of queue pairs chosen at random, with the marks that they were made with.
  void fill(pipeline::Batch& batch, wire::Ecn ecn) {
    batch.size = 0;
    batch.removed = 0;
    auto at = static_cast<std::uint32_t>(rng_.below(packets_.size()));
    constexpr std::uint32_t kStride = 127;
    for (; batch.size < kBurst; at = static_cast<std::uint32_t>((at + kStride) % packets_.size())) {
      pipeline::PacketMeta& pm = pipeline::meta(packets_[at]);
      pm.parsed.tos = wire::make_tos(3, ecn);
      batch.push(packets_[at]);
    }
  }
  /// What a stage has sent on its way goes there.
  void settle() { pipeline_->run_timers(now_); }
  void pass_time(TimeNs by) { now_ += by; }
  pipeline::Context context(std::size_t stage, bool egress) {
    return {now_, 0, rng_, *pipeline_, static_cast<std::uint8_t>(stage), egress};
  }
  pipeline::Stage& stage(std::size_t i) { return pipeline_->stage(i); }

 private:
  rte_mbuf* packet_of(const std::vector<std::uint8_t>& frame) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    if (m == nullptr) std::abort();
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    pipeline::meta(m) = {};
    pipeline::meta(m).in_port = 0;
    wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
    return m;
  }
  rte_mbuf* make(std::uint32_t i, wire::Ecn ecn) {
    rte_mbuf* m = packet_of(wire::FrameBuilder()
                                .ipv4("10.1.0.2", "10.2.0.2")
                                .dscp(3)
                                .ecn(ecn)
                                .udp(static_cast<std::uint16_t>(49152 + i))
                                .bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(1000 + i), wire::Psn(0))
                                .payload(256)
                                .build());
    pipeline::Batch batch;
    batch.push(m);
    auto c = context(kTrack, false);
    stage(kTrack).ingress(c, batch);
    return m;
  }

  pipeline::Registry registry_;
  pipeline::Pool pool_;
  Rng rng_{1};
  TimeNs now_ = 1'000'000;
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::vector<rte_mbuf*> packets_;
};

/// Cycles of a burst, over kBurst.
template <typename Work>
double cycles(Edge& edge, wire::Ecn ecn, TimeNs between, Work&& work) {
  std::vector<std::uint64_t> samples;
  pipeline::Batch batch;
  for (int round = 0; round < kRounds; ++round) {
    edge.fill(batch, ecn);
    const std::uint64_t begin = rte_rdtsc_precise();
    work(batch);
    samples.push_back(rte_rdtsc_precise() - begin);
    edge.settle();
    edge.pass_time(between);
  }
  return static_cast<double>(bench::lower_quartile(samples)) / kBurst;
}

double pnp(std::uint32_t qps, double interval_us, wire::Ecn ecn, std::uint32_t pool_cache = 512) {
  Edge edge(qps, interval_us, ecn, pool_cache);
  const double base = cycles(edge, ecn, 1000, [](pipeline::Batch&) {});
  return cycles(edge, ecn, 1000,
                [&](pipeline::Batch& batch) {
                  auto context = edge.context(kPnp, true);
                  edge.stage(kPnp).egress(context, 1, batch);
                }) -
         base;
}

double trp(std::uint32_t qps) {
  Edge edge(qps, 5, wire::Ecn::ect0);
  const double base = cycles(edge, wire::Ecn::ect0, 0, [](pipeline::Batch&) {});
  return cycles(edge, wire::Ecn::ect0, 0,
                [&](pipeline::Batch& batch) {
                  auto context = edge.context(kTrp, false);
                  edge.stage(kTrp).ingress(context, batch);
                  if (batch.removed != 0) std::abort();
                }) -
         base;
}

}  // namespace
}  // namespace weft::stages

int main(int argc, char** argv) {
  using weft::stages::pnp;
  using weft::stages::trp;
  using weft::wire::Ecn;
  if (!weft::bench::start_eal(argc, argv)) return 1;
  for (const std::uint32_t qps : {16u, 4096u}) {
    std::printf(
        "%5u queue pairs: pnp no mark %5.1f  cleared %5.1f  with a CNP %6.1f, cold %6.1f  trp idle %5.1f cycles per "
        "packet\n",
        qps, pnp(qps, 5, Ecn::ect0), pnp(qps, 1e6, Ecn::ce), pnp(qps, 0, Ecn::ce), pnp(qps, 0, Ecn::ce, 0), trp(qps));
  }
  rte_eal_cleanup();
  return 0;
}
