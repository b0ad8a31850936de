// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What single stages cost per packet: bursts of 32 ready packets through ingress(), nothing else. Counters: ns and
// core cycles per packet.
#include <benchmark/benchmark.h>
#include <time.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/eal_main.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/stages/impair/stage.h"
#include "switch/stages/parse/stage.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

using config::Value;
using pipeline::Batch;
using wire::FrameBuilder;
using wire::Opcode;

constexpr std::uint16_t kBurst = 32;

/// Processor time of this thread: what others take from the core does not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Core cycles per second now, from a chain of additions that take one cycle each.
double core_hz() {
  constexpr int kSteps = 200'000;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    std::uint64_t v = 1;
    const double begin = thread_seconds();
    for (int i = 0; i < kSteps; ++i) asm volatile("add $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0" : "+r"(v));
    const double hz = 4.0 * kSteps / (thread_seconds() - begin);
    best = hz > best ? hz : best;
  }
  return best;
}

/// A pipeline of one stage, for the Context that the stage wants.
class Bench {
 public:
  Bench(pipeline::StageType type, Value options) : pool_(pipeline::make_pool(next_name(), 512, 4096 + 128, 0)) {
    if (!pool_) std::abort();
    pipeline::SwitchInfo info;
    info.name = "bench";
    info.ports.resize(1);
    info.ports[0].name = "p1";
    info.pipeline.push_back({type.name, std::move(options), {}});
    registry_.add(std::move(type));
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(info), std::vector<std::uint16_t>{0}, 1);
    pipeline::PipelineHost host;
    host.pool = pool_.get();
    host.ports = {nullptr};
    pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
  }
  ~Bench() {
    for (std::uint16_t i = 0; i < burst_.size; ++i) rte_pktmbuf_free(burst_.packet[i]);
  }

  void add(const FrameBuilder::Bytes& frame) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    pipeline::meta(m) = {};
    wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
    burst_.push(m);
  }

  void run(benchmark::State& state) {
    pipeline::Stage& stage = pipeline_->stage(0);
    pipeline::Context context(1'000'000, 0, rng_, *pipeline_, 0);
    const double begin = thread_seconds();
    for (auto _ : state) {
      stage.ingress(context, burst_);
      if (burst_.removed != 0) std::abort();
      benchmark::ClobberMemory();
    }
    const double packets = static_cast<double>(state.iterations()) * burst_.size;
    const double elapsed = thread_seconds() - begin;
    state.counters["ns_per_packet"] = elapsed / packets * 1e9;
    state.counters["cycles_per_packet"] = elapsed / packets * core_hz();
  }

 private:
  static std::string next_name() {
    static int serial = 0;
    return "bench" + std::to_string(serial++);
  }

  pipeline::Pool pool_;
  pipeline::Registry registry_;
  Rng rng_{1};
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  Batch burst_;
};

FrameBuilder write_packet(std::uint16_t i) {
  FrameBuilder b;
  b.udp(static_cast<std::uint16_t>(50000 + i)).bth(Opcode::RC_RDMA_WRITE_MIDDLE, wire::Qpn(17u + i % 4), wire::Psn(i));
  return b.payload(1024);
}

Value parse_options(const char* check) {
  Value v;
  v.set("icrc_check", Value(check));
  v.set("icrc_sample_every", Value(1024));
  v.set("icrc_bad", Value("forward"));
  return v;
}

template <typename Make>
void run_parse(benchmark::State& state, const char* check, Make&& make) {
  Bench bench(parse_stage_type(), parse_options(check));
  for (std::uint16_t i = 0; i < kBurst; ++i) bench.add(make(i));
  bench.run(state);
}

void parse_roce_v4(benchmark::State& state) {
  run_parse(state, "off", [](std::uint16_t i) { return write_packet(i).build(); });
}
void parse_roce_v4_vlan(benchmark::State& state) {
  run_parse(state, "off", [](std::uint16_t i) { return write_packet(i).vlan(10).build(); });
}
void parse_roce_v6(benchmark::State& state) {
  run_parse(state, "off", [](std::uint16_t i) { return write_packet(i).ipv6("2001:db8::1", "2001:db8::2").build(); });
}
void parse_tcp(benchmark::State& state) {
  run_parse(state, "off", [](std::uint16_t i) { return FrameBuilder().tcp(i, 80).payload(1024).build(); });
}
void parse_roce_v4_icrc_sample(benchmark::State& state) {
  run_parse(state, "sample", [](std::uint16_t i) { return write_packet(i).build(); });
}
void parse_roce_v4_icrc_all(benchmark::State& state) {
  run_parse(state, "all", [](std::uint16_t i) { return write_packet(i).build(); });
}

void run_impair(benchmark::State& state, std::vector<ImpairRule> rules) {
  Value options;
  options.set("rules", Value(Value::List{}));
  options.set("max_held", Value(64));
  pipeline::StageType type = impair_stage_type();
  type.make = [&](const pipeline::StageBuild&, pipeline::StageShared*) {
    return std::make_unique<ImpairStage>(ImpairUnit(rules), 64);
  };
  Bench bench(std::move(type), std::move(options));
  for (std::uint16_t i = 0; i < kBurst; ++i) bench.add(write_packet(i).build());
  bench.run(state);
}

void impair_no_rule(benchmark::State& state) {
  run_impair(state, {});
}
void impair_no_match(benchmark::State& state) {
  ImpairRule rule;
  rule.match.dest_qp(wire::Qpn(99));
  rule.loss = Ratio::from_double(1);
  run_impair(state, {rule});
}
void impair_8_rules_no_match(benchmark::State& state) {
  ImpairRule rule;
  rule.match.dest_qp(wire::Qpn(99));
  rule.loss = Ratio::from_double(1);
  run_impair(state, std::vector<ImpairRule>(8, rule));
}
void impair_loss_0(benchmark::State& state) {
  run_impair(state, {ImpairRule{}});
}
// As good as never hit, but each packet draws.
void impair_loss_1e_15(benchmark::State& state) {
  ImpairRule rule;
  rule.loss = Ratio::from_double(1e-15);
  run_impair(state, {rule});
}

BENCHMARK(parse_roce_v4);
BENCHMARK(parse_roce_v4_vlan);
BENCHMARK(parse_roce_v6);
BENCHMARK(parse_tcp);
BENCHMARK(parse_roce_v4_icrc_sample);
BENCHMARK(parse_roce_v4_icrc_all);
BENCHMARK(impair_no_rule);
BENCHMARK(impair_no_match);
BENCHMARK(impair_8_rules_no_match);
BENCHMARK(impair_loss_0);
BENCHMARK(impair_loss_1e_15);

}  // namespace
}  // namespace weft::stages

int main(int argc, char** argv) {
  return weft::bench::eal_main(argc, argv);
}
