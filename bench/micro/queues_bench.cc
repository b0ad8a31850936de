// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What class queues cost over a port's FIFO: bursts of 32 packets of eight classes in random order go in, as many come
// out, over a standing backlog that keeps every queue between Kmin and Kmax. Cycles per packet from reception to the
// device with a stage that only sets the port; the lower quartile, which other load on the machine hardly moves.
#include <rte_cycles.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/micro/bench_support.h"
#include "switch/pipeline/class_queues.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/qos/defaults.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft {
namespace {

using pipeline::Pipeline;

constexpr std::uint16_t kBurst = 32;
constexpr int kBursts = 60'000;

class Sink : public pipeline::PortTx {
 public:
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    rte_pktmbuf_free_bulk(packets, count);
    return {.taken = count};
  }
};

class Forward : public pipeline::Stage {
 public:
  void ingress(pipeline::Context& /*context*/, pipeline::Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) pipeline::meta(batch.packet[i]).out_port = 1;
  }
};

pipeline::Registry registry() {
  pipeline::Registry r;
  pipeline::StageType type;
  type.name = "forward";
  type.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<Forward>(); };
  r.add(std::move(type));
  return r;
}

struct Case {
  const char* title;
  std::size_t frame_bytes;
  std::uint32_t backlog;  ///< packets per queue
  bool qos;
  bool marks = true;
};

qos::Settings settings(const Case& c) {
  qos::Settings s;
  const qos::PortFacts facts{.mtu_bytes = 9000};
  s.ports.assign(2, qos::default_port(facts));
  s.pool_bytes = qos::default_pool_bytes(s);
  const std::uint64_t depth = c.backlog * c.frame_bytes;
  for (auto& port : s.ports) {
    for (unsigned i = 0; i < qos::kClasses; ++i) {
      port.scheduler[i] = {.weight = 15};
      qos::WredSettings wred;
      wred.mark = {depth / 2, 2 * depth, 0.2};
      port.wred[i].reset();
      if (c.marks) port.wred[i] = wred;
    }
  }
  return s;
}

void run(const Case& c) {
  const std::uint32_t buffers = c.backlog * qos::kClasses + 4096;
  static int serial = 0;
  const pipeline::Pool pool = pipeline::make_pool("queues" + std::to_string(serial++), buffers, 4736, 512);
  if (!pool) std::abort();
  const pipeline::Registry types = registry();
  pipeline::SwitchInfo info;
  for (std::uint16_t p = 0; p < 2; ++p) {
    info.ports.push_back(
        {.name = "p" + std::to_string(p), .index = p, .type = "null", .device = {}, .mtu_bytes = 9000});
    info.ports.back().queue_packets = buffers;
  }
  info.pipeline.push_back({.name = "forward", .options = {}});
  if (c.qos) info.qos = settings(c);
  pipeline::SwitchState state(types, std::move(info), {0, 0}, 1);
  Sink sink;
  pipeline::PipelineHost host;
  host.pool = pool.get();
  host.ports = {&sink, &sink};
  Pipeline p(state, std::move(host));

  std::vector<std::vector<std::uint8_t>> frames;
  for (unsigned tc = 0; tc < qos::kClasses; ++tc) {
    frames.push_back(wire::FrameBuilder()
                         .eth(wire::MacAddress::from_u64(0x020000000001), wire::MacAddress::from_u64(0x020000000002))
                         .ip(wire::IpAddress::v4(0x0a000001), wire::IpAddress::v4(0x0a000002))
                         .tos(static_cast<std::uint8_t>(tc << 5 | 2))
                         .udp(50000)
                         .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(5), wire::Psn(1))
                         .payload(c.frame_bytes - 58)
                         .build());
  }
  Rng rng(1);
  TimeNs now = 1'000'000;
  const auto receive = [&](std::uint64_t* cycles, std::uint16_t count = kBurst) {
    rte_mbuf* packets[pipeline::Batch::kCapacity];
    if (rte_pktmbuf_alloc_bulk(pool.get(), packets, count) != 0) std::abort();
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto& f = frames[i % qos::kClasses];
      std::memcpy(rte_pktmbuf_append(packets[i], static_cast<std::uint16_t>(f.size())), f.data(),
                  std::min<std::size_t>(f.size(), 96));
      const auto length = static_cast<std::uint32_t>(f.size());
      wire::parse_frame(pipeline::frame(packets[i]), length, length, pipeline::meta(packets[i]).parsed);
    }
    for (std::uint32_t i = count - 1u; i > 0; --i) std::swap(packets[i], packets[rng.below(i + 1)]);
    const std::uint64_t begin = rte_rdtsc();
    p.receive(now, 0, packets, count);
    *cycles = rte_rdtsc() - begin;
  };
  std::vector<std::uint64_t> in, out;
  // More than a device is offered at once does not pass by an empty queue; from then on nothing does.
  receive(&in.emplace_back(), pipeline::Batch::kCapacity);
  for (std::uint32_t i = 2; i < c.backlog * qos::kClasses / kBurst; ++i) receive(&in.emplace_back());
  in.clear();
  for (int i = 0; i < kBursts; ++i) {
    now += 1000;
    receive(&in.emplace_back());
    const std::uint64_t begin = rte_rdtsc();
    if (p.serve_port(now, 1) != kBurst) std::abort();
    out.push_back(rte_rdtsc() - begin);
  }
  const double a = static_cast<double>(bench::lower_quartile(in)) / kBurst;
  const double b = static_cast<double>(bench::lower_quartile(out)) / kBurst;
  std::printf("%-34s in %6.1f  out %6.1f  sum %6.1f", c.title, a, b, a + b);
  if (c.qos) {
    std::uint64_t marked = 0;
    std::uint64_t packets = 0;
    for (unsigned q = 0; q < qos::kClasses; ++q) {
      marked += p.class_queues(1)->counters(q).ecn_marked.value();
      packets += p.class_queues(1)->counters(q).packets.value();
    }
    std::printf("  marked %.1f %%", 100.0 * static_cast<double>(marked) / static_cast<double>(packets));
  }
  std::printf("\n");
  p.drop_queued(now);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (!weft::bench::start_eal(argc, argv)) return 1;
  std::printf("cycles per packet (TSC), bursts of %d, eight backlogged queues, lower quartile\n", weft::kBurst);
  for (const weft::Case& c : {weft::Case{"FIFO, 74 B", 74, 100, false},
                              {"class queues, 74 B", 74, 100, true},
                              {"class queues, 74 B, no marks", 74, 100, true, false},
                              {"FIFO, 4170 B", 4170, 60, false},
                              {"class queues, 4170 B", 4170, 60, true},
                              {"class queues, 4170 B, no marks", 4170, 60, true, false}}) {
    weft::run(c);
  }
  rte_eal_cleanup();
  return 0;
}
