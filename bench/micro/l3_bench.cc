// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What routing costs per packet in bursts of 32: the lookup and the hash alone, then the stages l3 and lb inside a
// pipeline that parses before them. Counters of the stages are TSC cycles per packet, the lower quartile over many
// bursts, which other load on the machine hardly moves.
#include <benchmark/benchmark.h>
#include <rte_cycles.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/eal_main.h"
#include "switch/base/rng.h"
#include "switch/config/config.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/stages/stages.h"
#include "switch/tables/ecmp_hash.h"
#include "switch/tables/fib.h"
#include "switch/wire/builder.h"

namespace weft {
namespace {

using wire::IpAddress;
using wire::MacAddress;

constexpr std::uint16_t kBurst = 32;
constexpr std::size_t kAddresses = 4096;
constexpr std::uint64_t kRouterMac = 0x0200000000fe;

// --- the lookup ---------------------------------------------------------------------------------------------------

// As on a leaf: subnets of 10.0.0.0/16 or 2001:db8::/48, one host route in each, and a default route.
std::vector<tables::Fib::Route> leaf_routes(std::uint32_t subnets, bool v6) {
  std::vector<tables::Fib::Route> routes;
  for (std::uint32_t i = 0; i < subnets; ++i) {
    const auto high = static_cast<std::uint8_t>(i >> 8);
    const auto low = static_cast<std::uint8_t>(i);
    const auto address = v6 ? IpAddress::v6({0x20, 1, 0xd, 0xb8, 0, 0, high, low, 0, 0, 0, 0, 0, 0, 0, 1})
                            : IpAddress::v4(0x0a000001 | i << 8);
    routes.push_back({{address, static_cast<std::uint8_t>(v6 ? 64 : 24)}, 10 + i});
    routes.push_back({{address, static_cast<std::uint8_t>(v6 ? 128 : 32)}, 2});
  }
  routes.push_back({{v6 ? IpAddress::v6({}) : IpAddress::v4(0), 0}, 3});
  return routes;
}

template <typename Address>
void fib_lookup(benchmark::State& state) {
  constexpr bool kV6 = sizeof(Address) == 16;
  const auto subnets = static_cast<std::uint32_t>(state.range(0));
  const auto routes = leaf_routes(subnets, kV6);
  const tables::Fib fib(routes, 0, state.range(1) != 0 ? 0 : ~std::size_t{0});
  if (state.range(1) != 0 && !(kV6 ? fib.large_v6() : fib.large_v4())) state.SkipWithError("no memory");
  Rng rng(1);
  std::vector<Address> addresses(kAddresses);
  for (auto& address : addresses) {
    const auto& bytes = routes[2 * rng.below(subnets)].prefix.address.bytes();
    const auto host = static_cast<std::uint8_t>(2 + rng.below(250));
    if constexpr (kV6) {
      address = bytes;
      address[15] = host;
    } else {
      address = std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 | std::uint32_t{bytes[14]} << 8 | host;
    }
  }
  std::array<std::uint32_t, kBurst> values;
  std::size_t next = 0;
  const std::uint64_t begin = rte_rdtsc();
  for (auto _ : state) {
    fib.lookup(std::span<const Address>(addresses.data() + next, kBurst), values);
    benchmark::DoNotOptimize(values);
    next = (next + kBurst) % kAddresses;
  }
  state.counters["cycles_per_packet"] =
      static_cast<double>(rte_rdtsc() - begin) / static_cast<double>(state.iterations() * kBurst);
}
BENCHMARK(fib_lookup<std::uint32_t>)
    ->Name("fib_v4")
    ->ArgNames({"subnets", "large"})
    ->Args({32, 0})
    ->Args({500, 0})
    ->Args({500, 1});
BENCHMARK((fib_lookup<std::array<std::uint8_t, 16>>))
    ->Name("fib_v6")
    ->ArgNames({"subnets", "large"})
    ->Args({32, 0})
    ->Args({500, 0})
    ->Args({500, 1});

void ecmp_hash(benchmark::State& state) {
  const tables::EcmpHash hash(1);
  Rng rng(1);
  std::array<std::uint64_t, kBurst> addresses;
  std::array<std::uint64_t, kBurst> ports;
  for (std::size_t i = 0; i < kBurst; ++i) {
    addresses[i] = rng.next();
    ports[i] = tables::EcmpHash::ports_word(static_cast<std::uint16_t>(rng.next()), 4791, 17);
  }
  std::array<std::uint32_t, kBurst> members;
  const std::uint64_t begin = rte_rdtsc();
  for (auto _ : state) {
    for (std::size_t i = 0; i < kBurst; ++i) members[i] = tables::EcmpHash::member(hash.v4(addresses[i], ports[i]), 8);
    benchmark::DoNotOptimize(members);
  }
  state.counters["cycles_per_packet"] =
      static_cast<double>(rte_rdtsc() - begin) / static_cast<double>(state.iterations() * kBurst);
}
BENCHMARK(ecmp_hash);

// --- the stages ---------------------------------------------------------------------------------------------------

// Frees at once, as a device would after sending.
class Sink : public pipeline::PortTx {
 public:
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    rte_pktmbuf_free_bulk(packets, count);
    return {.taken = count};
  }
};

// Hosts on p0, eight uplinks p1 to p8 with a router behind each.
std::string router_yaml() {
  std::string ports, addresses, neighbours, v4, v6;
  for (int port = 0; port <= 8; ++port) {
    const std::string n = std::to_string(port);
    const std::string hop_v4 = "10.1." + n + ".2";
    const std::string hop_v6 = "\"2001:db8:" + n + "::2\"";
    const std::string mac = "mac: \"02:aa:00:00:00:0" + n + "\"";
    ports += "  - { name: p" + n + ", type: \"null\", mtu_bytes: 4200 }\n";
    addresses += "  - { port: p" + n + ", address: 10.1." + n + ".1/24 }\n";
    addresses += "  - { port: p" + n + ", address: \"2001:db8:" + n + "::1/64\" }\n";
    neighbours += "  - { port: p" + n + ", address: " + hop_v4 + ", " + mac + " }\n";
    neighbours += "  - { port: p" + n + ", address: " + hop_v6 + ", " + mac + " }\n";
    if (port == 0) continue;
    v4 += (port == 1 ? "" : ", ") + hop_v4;
    v6 += (port == 1 ? "" : ", ") + hop_v6;
  }
  return "name: router\nports:\n" + ports + "addresses:\n" + addresses + "neighbours:\n" + neighbours +
         "routes:\n  - { prefix: 20.0.0.0/8, via: [10.1.1.2] }\n  - { prefix: 30.0.0.0/8, via: [" + v4 +
         "] }\n  - { prefix: \"2001:db8:20::/48\", via: [\"2001:db8:1::2\"] }\n  - { prefix: \"2001:db8:30::/48\", "
         "via: [" +
         v6 + "] }\npipeline: [ parse, rdma_track, l3, lb ]\n";
}

// Where packets go.
enum Destination { attached, router, group };

std::vector<std::vector<std::uint8_t>> traffic(Destination where, bool v6, unsigned flows) {
  const char* const v4_to[] = {"10.1.1.2", "20.0.0.9", "30.0.0.9"};
  const char* const v6_to[] = {"2001:db8:1::2", "2001:db8:20::9", "2001:db8:30::9"};
  std::vector<std::vector<std::uint8_t>> frames;
  for (unsigned i = 0; i < 2048; ++i) {
    const unsigned flow = i % flows;
    frames.push_back(wire::FrameBuilder()
                         .eth(MacAddress::from_u64(0x02aa00000000), MacAddress::from_u64(kRouterMac))
                         .ip(*IpAddress::parse(v6 ? "2001:db8:0::2" : "10.1.0.2"),
                             *IpAddress::parse(v6 ? v6_to[where] : v4_to[where]))
                         .udp(static_cast<std::uint16_t>(49152 + flow))
                         .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(100 + flow), wire::Psn(i / flows))
                         .payload(8)
                         .build());
  }
  return frames;
}

class Bench {
 public:
  Bench() {
    config::Diagnostics diagnostics;
    stages::register_all(registry_);
    auto info = config::load_switch(router_yaml(), registry_, diagnostics);
    if (!info) {
      std::fputs(config::format(diagnostics).c_str(), stderr);
      std::exit(EXIT_FAILURE);
    }
    static int serial = 0;
    // Larger than a page, as headers would share cache sets without hugepages.
    pool_ = pipeline::make_pool("bench" + std::to_string(serial++), 4096, 8320, 512);
    for (auto& port : info->ports) port.mac = MacAddress::from_u64(kRouterMac + port.index);
    std::vector<std::uint16_t> owners(info->ports.size(), 0);
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(*info), owners, 1);
    pipeline::PipelineHost host;
    host.pool = pool_.get();
    host.ports.assign(owners.size(), &sink_);
    pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
  }

  using Cycles = std::array<std::uint64_t, 4>;  // of each stage

  // What a burst takes. The pipeline meters one burst of several, and counts it for all of them.
  Cycles measure(const std::vector<std::vector<std::uint8_t>>& frames) {
    const Cycles before = cycles();
    for (std::uint32_t i = 0; i < pipeline::Pipeline::kMeterEvery; ++i) run(frames);
    Cycles taken = cycles();
    for (std::size_t i = 0; i < taken.size(); ++i) taken[i] = (taken[i] - before[i]) / pipeline::Pipeline::kMeterEvery;
    return taken;
  }
  [[nodiscard]] std::uint64_t forwarded() const { return pipeline_->totals().tx.value(); }

 private:
  [[nodiscard]] Cycles cycles() const {
    Cycles all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = pipeline_->ingress_totals(i).cycles.value();
    return all;
  }
  void run(const std::vector<std::vector<std::uint8_t>>& frames) {
    rte_mbuf* packets[kBurst];
    if (rte_pktmbuf_alloc_bulk(pool_.get(), packets, kBurst) != 0) std::abort();
    for (auto& m : packets) {
      const auto& frame = frames[next_++ % frames.size()];
      std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    }
    now_ += 1000;
    pipeline_->receive(now_, 0, packets, kBurst);
    for (pipeline::PortIndex port = 0; port < 9; ++port) pipeline_->serve_port(now_, port);
  }

  pipeline::Registry registry_;
  pipeline::Pool pool_;
  Sink sink_;
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::size_t next_ = 0;
  TimeNs now_ = 1'000'000'000;
};

void routing(benchmark::State& state, Destination where, bool v6, unsigned flows) {
  Bench bench;
  const auto frames = traffic(where, v6, flows);
  std::array<std::vector<std::uint64_t>, 4> samples;
  std::vector<std::uint64_t> both;
  for (auto _ : state) {
    const auto cycles = bench.measure(frames);
    for (std::size_t i = 0; i < cycles.size(); ++i) samples[i].push_back(cycles[i]);
    both.push_back(cycles[2] + cycles[3]);
    state.SetIterationTime(static_cast<double>(cycles[2] + cycles[3]) / static_cast<double>(rte_get_tsc_hz()));
  }
  const auto bursts = static_cast<std::uint64_t>(state.iterations()) * pipeline::Pipeline::kMeterEvery;
  if (bench.forwarded() != bursts * kBurst) state.SkipWithError("packets were lost");
  const auto quartile = [](std::vector<std::uint64_t>& v) {
    const auto at = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 4);
    std::nth_element(v.begin(), at, v.end());
    return static_cast<double>(*at) / kBurst;
  };
  const char* const names[] = {"parse", "rdma_track", "l3", "lb"};
  for (std::size_t i = 0; i < samples.size(); ++i) state.counters[names[i]] = quartile(samples[i]);
  state.counters["l3+lb"] = quartile(both);
}

constexpr int kBursts = 10'000;
BENCHMARK_CAPTURE(routing, v4_attached, attached, false, 64u)->UseManualTime()->Iterations(kBursts);
BENCHMARK_CAPTURE(routing, v4_router, router, false, 64u)->UseManualTime()->Iterations(kBursts);
BENCHMARK_CAPTURE(routing, v4_ecmp8_1_flow, group, false, 1u)->UseManualTime()->Iterations(kBursts);
BENCHMARK_CAPTURE(routing, v4_ecmp8_1024_flows, group, false, 1024u)->UseManualTime()->Iterations(kBursts);
BENCHMARK_CAPTURE(routing, v6_attached, attached, true, 64u)->UseManualTime()->Iterations(kBursts);
BENCHMARK_CAPTURE(routing, v6_router, router, true, 64u)->UseManualTime()->Iterations(kBursts);
BENCHMARK_CAPTURE(routing, v6_ecmp8_1024_flows, group, true, 1024u)->UseManualTime()->Iterations(kBursts);

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::bench::eal_main(argc, argv);
}
