// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What whole pipelines cost per packet and where: bursts of 32 small RoCEv2 packets from one port to another, without a
// device. For every part the lower quartile of cycles over many bursts, which other load on the machine hardly moves.
#include <rte_cycles.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/micro/bench_support.h"
#include "switch/config/config.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/runtime/clock.h"
#include "switch/stages/stages.h"
#include "switch/wire/builder.h"

namespace weft {
namespace {

using pipeline::Pipeline;
using wire::MacAddress;

constexpr std::uint16_t kBurst = 32;
constexpr int kBursts = 100'000;
constexpr int kHosts = 8;
constexpr std::size_t kPsnOffset = 14 + 20 + 8 + 9;  // Ethernet, IPv4, UDP, and into the BTH
constexpr std::uint64_t kRouterMac = 0x0200000000fe;

// Frees at once, as a device would after sending.
class Sink : public pipeline::PortTx {
 public:
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    rte_pktmbuf_free_bulk(packets, count);
    return {.taken = count};
  }
};

std::uint64_t host_mac(int side, int host) {
  return 0x020000000000 | static_cast<std::uint64_t>(side) << 8 | static_cast<std::uint64_t>(host);
}

// One packet of each QP from hosts of `side` to hosts of the other side; run() advances the PSNs.
std::vector<std::vector<std::uint8_t>> traffic(int side, int qps, bool routed) {
  std::vector<std::vector<std::uint8_t>> frames;
  for (int qp = 0; qp < qps; ++qp) {
    const int from = qp % kHosts;
    const int to = qp / kHosts % kHosts;
    frames.push_back(wire::FrameBuilder()
                         .eth(MacAddress::from_u64(host_mac(side, from)),
                              MacAddress::from_u64(routed ? kRouterMac : host_mac(1 - side, to)))
                         .ip(wire::IpAddress::v4(0x0a000000u | static_cast<unsigned>(side << 16 | (from + 2))),
                             wire::IpAddress::v4(0x0a000000u | static_cast<unsigned>((1 - side) << 16 | (to + 2))))
                         .udp(static_cast<std::uint16_t>(49152 + qp % 16384))
                         .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(static_cast<unsigned>(100 + qp)), wire::Psn(0))
                         .payload(8)
                         .build());
  }
  return frames;
}

class Bench {
 public:
  /// @param clock  of the histograms of residence times; without it there are none
  Bench(const pipeline::Registry& registry, const std::string& yaml, const std::function<TimeNs()>* clock = nullptr) {
    config::Diagnostics diagnostics;
    auto info = config::load_switch(yaml, registry, diagnostics);
    if (!info) {
      std::fputs(config::format(diagnostics).c_str(), stderr);
      std::exit(1);
    }
    static int serial = 0;
    pool_ = pipeline::make_pool("bench" + std::to_string(serial++), 4096, 2176, 512);
    for (auto& port : info->ports) {
      if (port.mac.is_zero()) port.mac = MacAddress::from_u64(kRouterMac);
    }
    std::vector<std::uint16_t> owners(info->ports.size(), 0);
    state_ = std::make_unique<pipeline::SwitchState>(registry, std::move(*info), owners, 1);
    pipeline::PipelineHost host;
    host.pool = pool_.get();
    host.clock = clock;
    host.ports.assign(owners.size(), &sink_);
    pipeline_ = std::make_unique<Pipeline>(*state_, std::move(host));
  }

  void run(const char* title, int qps, bool routed) {
    const Traffic frames{traffic(0, qps, routed), traffic(1, qps, routed)};
    TimeNs now = 1'000'000'000;
    for (int i = 0; i < kBursts; ++i) {
      now += 1000;
      const auto before = snapshot();
      const std::uint64_t total = burst(frames, i & 1, now);
      if (i < kBursts / 10) continue;  // tables fill, caches warm up
      record(before, total);
    }
    report(title);
  }

  /// What the histograms of residence times cost: two pipelines in turns, one of which has them. A sample is of as many
  /// bursts as there are for each that goes into them.
  static void residence(const pipeline::Registry& registry, const std::string& yaml, int qps) {
    const Clock clock;
    const std::function<TimeNs()> time = [&clock] { return clock.now(); };
    Bench with(registry, yaml, &time), without(registry, yaml);
    const Traffic frames{traffic(0, qps, false), traffic(1, qps, false)};
    constexpr int kBurstsOfSample = 2 * pipeline::Residence::kSampleEvery;
    const auto sample = [&](Bench& of) {
      std::uint64_t cycles = 0;
      for (int i = 0; i < kBurstsOfSample; ++i) cycles += of.burst(frames, i & 1, clock.now());
      return cycles;
    };
    Cycles cycles[2];
    for (int i = 0; i < kBursts / kBurstsOfSample; ++i) {
      // Whoever comes first in a turn comes second in the next one.
      for (int place = 0; place < 2; ++place) {
        const int which = (i + place) & 1;
        cycles[which].push_back(sample(which == 0 ? without : with));
      }
    }
    double of[2];
    for (int which = 0; which < 2; ++which) {
      of[which] = static_cast<double>(bench::lower_quartile(cycles[which])) / (kBurstsOfSample * kBurst);
    }
    std::printf("residence times, %4d QPs      without %5.2f  with %5.2f  a packet\n", qps, of[0], of[1]);
  }

  /// What the stages of a worker without packets cost it each time round.
  void idle(const char* title) {
    constexpr int kLoops = 1000;
    std::vector<std::uint64_t> samples;
    const TimeNs now = 1'000'000'000;
    TimeNs until = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t begin = rte_rdtsc();
      for (int loop = 0; loop < kLoops; ++loop) {
        pipeline_->run_timers(now);
        until |= pipeline_->stage_deadline();
      }
      samples.push_back(rte_rdtsc() - begin);
    }
    if (until == 0) std::abort();
    std::printf("%-28s  cycles per idle loop %5.1f\n", title,
                static_cast<double>(bench::lower_quartile(samples)) / kLoops);
  }

 private:
  using Cycles = std::vector<std::uint64_t>;
  using Traffic = std::array<std::vector<std::vector<std::uint8_t>>, 2>;  // by side

  // Sends the next burst of a side through; returns the cycles that it took.
  std::uint64_t burst(const Traffic& traffic, int side, TimeNs now) {
    const auto& frames = traffic[static_cast<std::size_t>(side)];
    std::size_t& next = next_[side];
    rte_mbuf* packets[kBurst];
    if (rte_pktmbuf_alloc_bulk(pool_.get(), packets, kBurst) != 0) std::abort();
    for (auto& m : packets) {
      const auto& frame = frames[next % frames.size()];
      char* data = rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size()));
      std::memcpy(data, frame.data(), frame.size());
      const wire::be24 psn(static_cast<std::uint32_t>(next++ / frames.size()));
      std::memcpy(data + kPsnOffset, &psn, sizeof psn);
    }
    const std::uint64_t begin = rte_rdtsc();
    pipeline_->receive(now, static_cast<pipeline::PortIndex>(side), packets, kBurst);
    pipeline_->run_timers(now);
    for (pipeline::PortIndex port = 0; port < 2; ++port) pipeline_->serve_port(now, port);
    return rte_rdtsc() - begin;
  }
  Cycles snapshot() const {
    Cycles c;
    for (std::size_t i = 0; i < pipeline_->stage_count(); ++i) c.push_back(pipeline_->ingress_totals(i).cycles.value());
    c.push_back(pipeline_->admission_totals().cycles.value());
    c.push_back(pipeline_->tx_totals().cycles.value());
    return c;
  }
  void record(const Cycles& before, std::uint64_t total) {
    const Cycles after = snapshot();
    samples_.resize(after.size() + 1);
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i] != before[i]) samples_[i].push_back((after[i] - before[i]) / Pipeline::kMeterEvery);
    }
    samples_.back().push_back(total);
  }
  void report(const char* title) {
    std::printf("%-28s", title);
    double parts = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      auto& s = samples_[i];
      const double cycles = static_cast<double>(bench::lower_quartile(s)) / kBurst;
      const bool last = i + 1 == samples_.size();
      if (!last) parts += cycles;
      if (last) std::printf("  engine %5.1f", cycles - parts);
      const std::string name = last                            ? "total"
                               : i < pipeline_->stage_count()  ? state_->types()[i]->name
                               : i == pipeline_->stage_count() ? "admission"
                                                               : "tx";
      std::printf("  %s %5.1f", name.c_str(), cycles);
    }
    std::printf("\n");
    samples_.clear();
  }

  pipeline::Pool pool_;
  Sink sink_;
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<Pipeline> pipeline_;
  std::size_t next_[2]{};
  std::vector<std::vector<std::uint64_t>> samples_;
};

std::string l2_switch(const std::string& stages) {
  return "{ name: b, ports: [{ name: p0, type: \"null\" }, { name: p1, type: \"null\" }], pipeline: [" + stages + "] }";
}

std::string l3_switch(const std::string& stages) {
  std::string text = "{ name: b, ports: [{ name: p0, type: \"null\" }, { name: p1, type: \"null\" }], addresses: [";
  text += "{ port: p0, address: 10.10.0.1/16 }, { port: p1, address: 10.11.0.1/16 }], neighbours: [";
  std::string hops;
  for (int i = 0; i < 8; ++i) {
    const std::string address = "10." + std::to_string(10 + i % 2) + ".0." + std::to_string(10 + i);
    text += std::string(i == 0 ? "" : ", ") + "{ port: p" + std::to_string(i % 2) + ", address: " + address +
            ", mac: \"02:00:00:00:01:0" + std::to_string(i) + "\" }";
    hops += (i == 0 ? "" : ", ") + address;
  }
  return text + "], routes: [{ prefix: 10.0.0.0/15, via: [" + hops + "] }], pipeline: [" + stages + "] }";
}

int run_all() {
  pipeline::Registry registry;
  stages::register_all(registry);
  std::printf("cycles per packet (TSC), bursts of %d, lower quartile\n", kBurst);
  Bench(registry, l2_switch("parse, l2")).run("parse l2, 16 QPs", 16, false);
  for (const int qps : {16, 1024}) {
    const std::string suffix = ", " + std::to_string(qps) + " QPs";
    if (registry.find("rdma_track") != nullptr) {
      Bench(registry, l2_switch("parse, rdma_track, l2")).run(("parse track l2" + suffix).c_str(), qps, false);
    }
    if (registry.find("l3") != nullptr) {
      Bench(registry, l3_switch("parse, rdma_track, l3, lb")).run(("parse track l3 lb" + suffix).c_str(), qps, true);
    }
  }
  if (registry.find("rdma_track") != nullptr) {
    for (const int qps : {16, 1024}) Bench::residence(registry, l2_switch("parse, rdma_track, l2"), qps);
  }
  Bench(registry, l2_switch("parse, l2")).idle("parse l2");
  Bench(registry, l3_switch("parse, rdma_track, l3, lb")).idle("parse track l3 lb");
  Bench(registry, l3_switch("parse, impair, rdma_track, nack_filter: { uplinks: [p1] }, l3, lb"))
      .idle("the same, impair nack_filter");
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (!weft::bench::start_eal(argc, argv)) return 1;
  const int result = weft::run_all();
  rte_eal_cleanup();
  return result;
}
