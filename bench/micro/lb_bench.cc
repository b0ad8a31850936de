// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What load balancers cost per packet, on bursts of 32 packets of as many different queue pairs out of 16 or 4096, over
// 16 uplinks. At the sender's leaf: the choice of `lb` and the egress half of `lb_tag`, less the choice of `ecmp`. At
// the receiver's leaf: the ingress half of `lb_tag`, or `reorder`, for packets in order. Then the units alone: with
// packets out of order, and tables of flows with up to a million of these. TSC cycles, the lower quartile over many
// bursts. Usage: micro_lb [--hugepages] [CPU]
#include <rte_cycles.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/bench_support.h"
#include "bench/micro/leaf_text.h"
#include "switch/config/config.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/stages/l3/shared.h"
#include "switch/stages/lb/conweave_destination.h"
#include "switch/stages/lb/conweave_tag.h"
#include "switch/stages/lb/flowlets.h"
#include "switch/stages/lb/gemma_source.h"
#include "switch/stages/lb/mark.h"
#include "switch/stages/lb/policy.h"
#include "switch/stages/lb_tag/shared.h"
#include "switch/stages/stages.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

constexpr std::uint16_t kBurst = 32;
constexpr unsigned kUplinks = 16;
constexpr int kRounds = 20'000;
constexpr TimeNs kRoundNs = 1000;  // 32 packets in a microsecond
constexpr TimeNs kRttNs = 4000;

struct Balancer {
  const char* name;
  std::unique_ptr<LbPolicy> (*make)(const pipeline::StageBuild&);
  std::string tag{};  ///< more options of `lb_tag`; empty: the leaf does without
  bool reorders = false;
};

std::string yaml(std::uint32_t qps, const Balancer& balancer) {
  const bench::LeafText leaf(qps, kUplinks, "10.0.1.1", "10.0.2.2", ", mtu_bytes: 4200");
  std::string tag;
  if (!balancer.tag.empty()) {
    tag = "  - lb_tag: { leaf: 1, uplinks: [" + leaf.uplinks +
          "], link_mbps: 100000, leaves: [{ id: 1, prefixes: [10.0.1.0/24] }, { id: 2, prefixes: [10.0.2.0/24] }]" +
          balancer.tag + " }\n";
  }
  return leaf.head + "routes:\n  - { prefix: 10.0.2.0/24, via: [" + leaf.hops + "] }\npipeline:\n  - parse\n" + tag +
         "  - rdma_track:\n      qps:\n" + leaf.pairs +
         (balancer.reorders ? "  - reorder: { uplinks: [" + leaf.uplinks + "] }\n" : "") +
         "  - l3\n  - lb: { policy: " + balancer.name + " }\n";
}

/// A leaf, packets of its hosts to those of another leaf, and packets that come from there.
class Leaf {
 public:
  Leaf(std::uint32_t qps, const Balancer& balancer)
      : pool_(pipeline::make_pool("lb", 16384, 512, 0)), psn_(qps, 0), qps_(qps) {
    if (!pool_) std::abort();
    register_all(registry_);
    config::Diagnostics diagnostics;
    auto info = config::load_switch(yaml(qps, balancer), registry_, diagnostics);
    if (!info) {
      std::fputs(diagnostics.to_string().c_str(), stderr);
      std::abort();
    }
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(*info),
                                                     std::vector<std::uint16_t>(kUplinks + 1, 0), 1);
    pipeline::PipelineHost host;
    host.pool = pool_.get();
    host.ports.assign(kUplinks + 1, nullptr);
    pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
  }
  ~Leaf() {
    for (const Sample& sample : samples_) rte_pktmbuf_free(sample.m);
  }
  Leaf(const Leaf&) = delete;
  Leaf& operator=(const Leaf&) = delete;

  /// Makes packets, several of each queue pair where these are few.
  /// @param frame_of  makes the frame of a queue pair
  template <typename F>
  void make_packets(pipeline::PortIndex in_port, F&& frame_of) {
    for (std::uint32_t i = 0; i < std::max<std::uint32_t>(qps_, kBurst * 16); ++i) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
      if (m == nullptr) std::abort();
      samples_.push_back({m, frame_of(i % qps_), in_port});
      restore(samples_.back());
    }
  }
  /// The next packets of queue pairs chosen at random, as they were made.
  void fill(pipeline::Batch& batch) {
    batch.size = 0;
    batch.removed = 0;
    auto at = static_cast<std::uint32_t>(rng_.below(samples_.size()));
    constexpr std::uint32_t kStride = 127;
    for (; batch.size < kBurst; at = static_cast<std::uint32_t>((at + kStride) % samples_.size())) {
      restore(samples_[at]);
      pipeline::meta(samples_[at].m).parsed.psn = wire::Psn(psn_[at % qps_]++ & 0xffffff);
      batch.push(samples_[at].m);
    }
    now_ += kRoundNs;
  }
  pipeline::Context context(std::size_t stage, bool egress = false) {
    return {now_, 0, rng_, *pipeline_, static_cast<std::uint8_t>(stage), egress};
  }
  [[nodiscard]] std::size_t position(std::string_view stage) const { return *state_->position(stage); }
  pipeline::Stage& stage(std::string_view name) { return pipeline_->stage(position(name)); }
  pipeline::StageBuild lb_build() { return state_->build_of(position("lb"), 0); }
  LbTagShared& tags() { return dynamic_cast<LbTagShared&>(*state_->shared("lb_tag")); }
  const tables::NextHops& hops() {
    return dynamic_cast<L3Shared*>(state_->shared("l3"))->worker(0).routes().next_hops();
  }
  [[nodiscard]] TimeNs now() const { return now_; }

 private:
  struct Sample {
    rte_mbuf* m;
    std::vector<std::uint8_t> frame;
    pipeline::PortIndex in_port;
  };
  // Tags lie in front of packets: those that have got one, or have lost theirs, begin elsewhere.
  static void restore(const Sample& sample) {
    rte_pktmbuf_reset(sample.m);
    std::memcpy(rte_pktmbuf_append(sample.m, static_cast<std::uint16_t>(sample.frame.size())), sample.frame.data(),
                sample.frame.size());
    pipeline::PacketMeta& pm = pipeline::meta(sample.m);
    static_cast<pipeline::PacketRoute&>(pm) = {.in_port = sample.in_port};
    wire::parse_frame(pipeline::frame(sample.m), sample.m->data_len, sample.m->pkt_len, pm.parsed);
  }

  pipeline::Registry registry_;
  pipeline::Pool pool_;
  Rng rng_{1};
  TimeNs now_ = 1'000'000'000;
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::vector<Sample> samples_;
  std::vector<std::uint32_t> psn_;
  std::uint32_t qps_;
};

wire::FrameBuilder request(std::uint32_t qp, const char* from, const char* to) {
  return wire::FrameBuilder()
      .ipv4(from, to)
      .udp(static_cast<std::uint16_t>(49152 + qp))
      .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(1000 + qp), wire::Psn(0))
      .payload(256);
}
std::vector<std::uint8_t> to_fabric(std::uint32_t qp) {
  return request(qp, "10.0.1.2", "10.0.2.2").build();
}
std::vector<std::uint8_t> from_fabric(std::uint32_t qp) {
  return request(qp, "10.0.2.2", "10.0.1.2").build();
}
/// As `from_fabric`, with a tag of the other leaf in front.
template <typename Tag>
std::vector<std::uint8_t> tagged(std::uint32_t qp, const Tag& tag) {
  const std::vector<std::uint8_t> plain = from_fabric(qp);
  wire::Parsed parsed;
  const auto size = static_cast<std::uint32_t>(plain.size());
  wire::parse_frame(plain.data(), size, size, parsed);
  std::vector<std::uint8_t> out(kTagBytes + plain.size());
  std::memcpy(out.data() + kTagBytes, plain.data(), plain.size());
  put_tag_on(out.data(), parsed, tag);
  return out;
}

double per_packet(std::vector<std::uint64_t>& samples) {
  return static_cast<double>(bench::lower_quartile(samples)) / kBurst;
}

/// What two readings of the counter cost with nothing in between, per packet.
double reading() {
  std::vector<std::uint64_t> samples;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t begin = rte_rdtsc_precise();
    samples.push_back(rte_rdtsc_precise() - begin);
  }
  return per_packet(samples);
}

/// Of one packet of the leaf's bursts.
/// @param cycles  what is measured takes for a burst
template <typename F>
double of_bursts(Leaf& leaf, F&& cycles) {
  std::vector<std::uint64_t> samples;
  pipeline::Batch batch;
  for (int round = 0; round < kRounds; ++round) {
    leaf.fill(batch);
    samples.push_back(cycles(batch));
  }
  return per_packet(samples) - reading();
}

using Items = std::array<LbItem, kBurst>;

/// Replies of the far leaf, which come a round trip later.
class Replies {
 public:
  explicit Replies(Leaf& leaf) : leaf_(leaf) {}
  void asked(const Items& items) {
    ConweaveSource* const source = leaf_.tags().source(0);
    for (const LbItem& item : items) {
      const auto tag = mark_.tag(item.packet);
      if (!tag || !(tag->request || tag->tail)) continue;
      const auto kind = tag->tail ? ConweaveReply::Kind::clear : ConweaveReply::Kind::rtt;
      due_.push_back({leaf_.now() + kRttNs, FlowKey::of_qp(pipeline::meta(item.packet).parsed), {kind, tag->epoch}});
    }
    for (; !due_.empty() && due_.front().at <= leaf_.now(); due_.pop_front()) {
      source->on_reply(leaf_.now(), due_.front().flow, due_.front().reply);
    }
    leaf_.tags().on_answer(leaf_.tags().leaf_with(2), leaf_.now());
  }

 private:
  struct Due {
    TimeNs at;
    FlowKey flow;
    ConweaveReply reply;
  };
  Leaf& leaf_;
  LbMark mark_;
  std::deque<Due> due_;
};

/// Packets of the far leaf have come by all of its paths, with metrics that do not change.
void hear_of_paths(Leaf& leaf) {
  const std::uint16_t from = leaf.tags().leaf_with(2);
  for (std::uint8_t path = 0; path < kUplinks; ++path) {
    leaf.tags().congestion().on_arrived(from, path, 1, leaf.now());
  }
}

struct AtSource {
  double choice = 0;
  double tag = 0;
};

AtSource at_source(std::uint32_t qps, const Balancer& balancer) {
  Leaf leaf(qps, balancer);
  leaf.make_packets(0, to_fabric);
  const bool tags = !balancer.tag.empty();
  const bool replies = std::string_view(balancer.name) == "conweave";
  const bool conga = std::string_view(balancer.name) == "conga";
  LbCounters counters;
  const auto policy = balancer.make(leaf.lb_build());
  policy->count_in(counters);
  Replies far(leaf);
  const tables::NextHops& hops = leaf.hops();
  const auto members = hops.members(tables::NextHops::group_id(0));
  std::vector<std::uint64_t> choice, tag;
  pipeline::Batch batch;
  for (int round = 0; round < kRounds; ++round) {
    leaf.fill(batch);
    Items items;
    for (std::uint16_t i = 0; i < kBurst; ++i) {
      items[i] = {batch.packet[i], members.data(), static_cast<std::uint32_t>(members.size()), 0, i};
    }
    auto context = leaf.context(leaf.position("lb"));
    LinkView links(context, hops);
    const std::uint64_t begin = rte_rdtsc_precise();
    policy->choose(context, links, items);
    choice.push_back(rte_rdtsc_precise() - begin);
    if (replies) far.asked(items);
    if (!tags) continue;
    if (conga) hear_of_paths(leaf);
    auto egress = leaf.context(leaf.position("lb_tag"), true);
    pipeline::Stage& stage = leaf.stage("lb_tag");
    const std::uint64_t tag_begin = rte_rdtsc_precise();
    stage.egress(egress, 1, batch);
    tag.push_back(rte_rdtsc_precise() - tag_begin);
  }
  return {per_packet(choice) - reading(), tags ? per_packet(tag) - reading() : 0};
}

/// Of the ingress half of a stage, for packets that `frame_of` makes.
template <typename F>
double at_destination(std::uint32_t qps, const Balancer& balancer, const char* name, F&& frame_of) {
  Leaf leaf(qps, balancer);
  leaf.make_packets(1, frame_of);
  return of_bursts(leaf, [&](pipeline::Batch& batch) {
    if (balancer.reorders) {
      auto track = leaf.context(leaf.position("rdma_track"));
      leaf.stage("rdma_track").ingress(track, batch);
    }
    auto context = leaf.context(leaf.position(name));
    pipeline::Stage& stage = leaf.stage(name);
    const std::uint64_t begin = rte_rdtsc_precise();
    stage.ingress(context, batch);
    const std::uint64_t end = rte_rdtsc_precise();
    if (batch.removed != 0) std::abort();  // in order, nothing waits
    return end - begin;
  });
}

/// Of reading the headers again, which lb_tag does with each packet whose tag it has put on or taken off.
template <typename F>
double parsing(std::uint32_t qps, const Balancer& balancer, F&& frame_of) {
  Leaf leaf(qps, balancer);
  leaf.make_packets(1, frame_of);
  return of_bursts(leaf, [&](pipeline::Batch& batch) {
    const std::uint64_t begin = rte_rdtsc_precise();
    for (std::uint16_t i = 0; i < kBurst; ++i) {
      rte_mbuf* m = batch.packet[i];
      wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
    }
    return rte_rdtsc_precise() - begin;
  });
}

void run_stages(std::uint32_t qps) {
  const Balancer ecmp{"ecmp", make_ecmp_policy};
  const Balancer conga{"conga", make_conga_policy, ", clamp: true"};
  const Balancer conweave{"conweave", make_conweave_policy, ", conweave: {}"};
  const Balancer gemma{"gemma", make_gemma_policy, ", gemma: {}", true};
  const double base = at_source(qps, ecmp).choice;
  std::printf("%u queue pairs, cycles per packet; ecmp's choice: %.1f\n", qps, base);
  for (const Balancer& balancer :
       {Balancer{"drill", make_drill_policy}, Balancer{"letflow", make_letflow_policy}, conga, gemma, conweave}) {
    const AtSource cost = at_source(qps, balancer);
    std::printf("  %-9s at the sender's leaf, more than ecmp: %5.1f  (choice %5.1f, egress of lb_tag %5.1f)\n",
                balancer.name, cost.choice + cost.tag - base, cost.choice, cost.tag);
  }
  const auto with_conga = [](std::uint32_t qp) { return tagged(qp, LbTag{.leaf = 2, .path = 3, .congestion = 1}); };
  const auto with_conweave = [](std::uint32_t qp) {
    return tagged(qp, ConweaveLabel{.leaf = 2, .path = 3, .tag = {.epoch = 1}});
  };
  std::printf("  %-9s at the receiver's leaf: %5.1f\n", "conga", at_destination(qps, conga, "lb_tag", with_conga));
  std::printf("  %-9s at the receiver's leaf: %5.1f\n", "conweave",
              at_destination(qps, conweave, "lb_tag", with_conweave));
  std::printf("  of which reading headers again: %5.1f with a tag, %5.1f without\n", parsing(qps, conga, with_conga),
              parsing(qps, conga, from_fabric));
  std::printf("  %-9s at the receiver's leaf: %5.1f\n", "gemma", at_destination(qps, gemma, "reorder", from_fabric));
}

// --- units alone ---------------------------------------------------------------------------------------------------

FlowKey key_of(std::uint32_t flow) {
  return {0x0a000102'0a000202 + (std::uint64_t{flow} >> 14), std::uint64_t{flow & 0x3fff} << 32 | 4791u << 16 | 17};
}

std::uint32_t number_of(const FlowKey& key) {
  return static_cast<std::uint32_t>((key.addresses - 0x0a000102'0a000202) << 14 | key.ports >> 32);
}

/// Paths on which nothing waits.
class EmptyPaths final : public GemmaPaths, public ConweavePaths {
 public:
  [[nodiscard]] bool up(std::uint16_t path) noexcept override { return path < kUplinks; }
  [[nodiscard]] std::uint64_t score(std::uint16_t) noexcept override { return 0; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return kUplinks; }
  [[nodiscard]] std::uint16_t at(std::uint32_t i) const noexcept override { return static_cast<std::uint16_t>(i); }
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) noexcept override {
    return static_cast<std::uint32_t>(rng_.below(bound));
  }
  [[nodiscard]] std::uint16_t draw() noexcept override { return static_cast<std::uint16_t>(rng_.below(kUplinks)); }
  [[nodiscard]] std::uint16_t any() noexcept override { return 0; }

 private:
  Rng rng_{3};
};

class NoSink final : public ConweaveSink {
 public:
  void deliver(std::uint64_t packet) noexcept override { sum += packet; }
  void reply(const ConweaveReply&) noexcept override {}
  std::uint64_t sum = 0;
};

/// Bursts of packets of flows chosen at random out of so many, a packet each 31 ns.
/// @param packet  what a unit does with a packet of a flow
template <typename F>
double bursts_of(std::uint32_t flows, TimeNs& now, F&& packet) {
  std::vector<std::uint64_t> samples;
  Rng rng(5);
  std::array<FlowKey, kBurst> keys;
  // Every flow has been seen before anything is measured.
  for (std::uint32_t flow = 0; flow < flows; ++flow) packet(now += kRoundNs / kBurst, key_of(flow));
  for (int round = 0; round < kRounds; ++round) {
    for (FlowKey& key : keys) key = key_of(static_cast<std::uint32_t>(rng.below(flows)));
    const std::uint64_t begin = rte_rdtsc_precise();
    for (const FlowKey& key : keys) packet(now += kRoundNs / kBurst, key);
    samples.push_back(rte_rdtsc_precise() - begin);
  }
  return per_packet(samples);
}

constexpr double percent(std::uint64_t part, std::uint64_t all) {
  return 100 * static_cast<double>(part) / static_cast<double>(all);
}

/// Cycles per packet, and of all packets those whose flow had lost its entry to another one.
void run_tables(std::uint32_t flows, std::uint32_t entries) {
  const std::uint64_t packets = flows + std::uint64_t{kBurst} * kRounds;
  std::printf("%8u flows, %8u entries:", flows, entries);
  EmptyPaths paths;
  NoSink sink;
  TimeNs now = 1'000'000'000;
  std::uint64_t evicted = 0;
  FlowletTable flowlets({.flows = entries});
  const double letflow = bursts_of(flows, now, [&](TimeNs at, const FlowKey& key) {
    evicted += flowlets.on_packet(at, key).begin == FlowletTable::Begin::evicted ? 1 : 0;
  });
  std::printf("  letflow %5.1f (%.1f %%)", letflow, percent(evicted, packets));
  GemmaSource gemma({.flows = entries});
  const double choice =
      bursts_of(flows, now, [&](TimeNs at, const FlowKey& key) { sink.sum += gemma.on_packet(at, key, paths); });
  std::printf("  gemma %5.1f (%.1f %%)", choice, percent(gemma.counts().evicted, packets));
  ConweaveSource source({.flows = entries});
  const double near = bursts_of(flows, now, [&](TimeNs at, const FlowKey& key) {
    const ConweaveSource::Choice made = source.on_packet(at, key, paths);
    if (made.tag.request) source.on_reply(at, key, {ConweaveReply::Kind::rtt, made.tag.epoch});
  });
  std::printf("  conweave %5.1f (%.1f %%)", near, percent(source.counts().evicted, packets));
  ConweaveDestination destination({.flows = entries});
  const double far = bursts_of(flows, now, [&](TimeNs at, const FlowKey& key) {
    destination.on_packet(at, key, {.epoch = 1, .sent = ConweaveTime::of(at)}, true, 314, 1, sink);
  });
  std::printf(" and %5.1f (%.1f %%)", far, percent(destination.counts().evicted, packets));
  // Whose flows are those of rdma_track, which has an entry for each.
  ReorderBuffer buffer({.flows = flows});
  std::vector<std::uint32_t> psn(flows);
  const double ordered = bursts_of(flows, now, [&](TimeNs at, const FlowKey& key) {
    const std::uint32_t flow = number_of(key);
    buffer.on_packet(at, flow, wire::Psn(psn[flow]++), true, 314, 1, sink);
  });
  std::printf("  reorder %5.1f\n", ordered);
}

/// A reorder buffer whose packets come in groups of `group`, the first of each last.
void run_disorder(std::uint32_t group) {
  constexpr std::uint32_t kFlows = 16;
  NoSink sink;
  ReorderBuffer buffer({.flows = kFlows});
  std::vector<std::uint64_t> samples;
  std::array<std::uint32_t, kFlows> psn{};
  for (std::uint32_t flow = 0; flow < kFlows; ++flow)
    buffer.on_packet(1, flow, wire::Psn(psn[flow]++), true, 314, 0, sink);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t begin = rte_rdtsc_precise();
    for (std::uint32_t i = 0; i < kBurst; i += group) {
      const std::uint32_t flow = i / group % kFlows;
      for (std::uint32_t k = 1; k <= group; ++k) {
        buffer.on_packet(1, flow, wire::Psn((psn[flow] + k % group) & 0xffffff), true, 314, k, sink);
      }
      psn[flow] += group;
    }
    samples.push_back(rte_rdtsc_precise() - begin);
  }
  if (buffer.held() != 0) std::abort();
  std::printf("reorder buffer alone, %2u of %2u packets wait: %5.1f\n", group - 1, group,
              per_packet(samples) - reading());
}

}  // namespace
}  // namespace weft::stages

int main(int argc, char** argv) {
  if (!weft::bench::start_eal(argc, argv)) return 1;
  for (const std::uint32_t qps : {16u, 4096u}) weft::stages::run_stages(qps);
  for (const std::uint32_t group : {1u, 2u, 8u, 32u}) weft::stages::run_disorder(group);
  std::printf("tables alone, cycles per packet, and packets whose flow had lost its entry to another one:\n");
  for (const std::uint32_t entries : {1u << 14, 1u << 21}) {
    for (const std::uint32_t flows : {16u, 4096u, 1u << 16, 1u << 20}) weft::stages::run_tables(flows, entries);
  }
  rte_eal_cleanup();
  return 0;
}
