// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What in-network aggregation costs. First the loops that add a packet of 4096 bytes to a slot, beside the loop that
// one would write for the same bytes. Then the stage inc with eight ranks under it, behind parse and in front of l3:
// AllReduce by size of packet, type and mode, ICRCs checked and made, beside ISA-L's CRC and one vector addition of the
// bytes that arrive. What stands beside each other is measured in turn. Last, two workers of a switch with a group
// each. TSC cycles, the lower quartile. Usage: micro_inc [--hugepages] [CPU]
#include <isa-l/crc.h>
#include <rte_cycles.h>
#include <rte_launch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/bench_support.h"
#include "collectives/engine/arithmetic.h"
#include "collectives/engine/control_message.h"
#include "collectives/stage/stages.h"
#include "nic/rnic/frame.h"
#include "switch/config/config.h"
#include "switch/pipeline/edit_roce.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"
#include "switch/stages/stages.h"
#include "switch/wire/parse.h"

namespace weft::inc {
namespace {

constexpr std::uint32_t kRanks = 8, kSlots = 8;
/// Packets of a burst: half of what a window allows.
constexpr std::uint32_t kDepth = 4;
constexpr int kRounds = 4000;
constexpr std::size_t kPacket = 4096;

using Samples = std::vector<std::uint64_t>;

/// Cycles of two things that are measured in turn, per call.
struct Pair {
  double ours, plain;
};
Pair beside(const std::function<void()>& ours, const std::function<void()>& plain, int calls) {
  Samples a, b;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t t0 = rte_rdtsc_precise();
    for (int i = 0; i < calls; ++i) ours();
    const std::uint64_t t1 = rte_rdtsc_precise();
    for (int i = 0; i < calls; ++i) plain();
    const std::uint64_t t2 = rte_rdtsc_precise();
    a.push_back(t1 - t0);
    b.push_back(t2 - t1);
  }
  return {static_cast<double>(bench::lower_quartile(a)) / calls, static_cast<double>(bench::lower_quartile(b)) / calls};
}

// --- the loops ----------------------------------------------------------------------------------------------------

__attribute__((target("avx2"), noinline)) void add_fp32(float* to, const float* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}
/// Widens, adds and stores, for half of the elements: those are of two bytes, the sums of four.
__attribute__((target("avx2,f16c"), noinline)) void add_fp16(float* to, const _Float16* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += static_cast<float>(from[i]);
}
__attribute__((target("avx2"), noinline)) void add_bf16(float* to, const std::uint16_t* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = std::uint32_t{from[i]} << 16;
    float v;
    std::memcpy(&v, &bits, sizeof v);
    to[i] += v;
  }
}

void loops() {
  // Eight slots of 8 KiB and as many packets stay in the second cache.
  std::vector<float> slots(kSlots * kPacket / 2), packets(kSlots * kPacket / 4, 0.0f);
  std::uint32_t next = 0;
  const auto slot = [&] { return slots.data() + (next++ % kSlots) * (kPacket / 2); };
  const auto packet = [&] { return packets.data() + (next % kSlots) * (kPacket / 4); };
  const auto run = [&](DataType type, const std::function<void()>& plain) {
    const Arithmetic* how = arithmetic(type, Op::sum);
    const auto ours = [&] {
      how->combine(reinterpret_cast<std::byte*>(slot()), reinterpret_cast<const std::byte*>(packet()),
                   kPacket / how->element_bytes);
    };
    const Pair p = beside(ours, plain, 64);
    std::printf("  %-4s sum  %7.1f cycles   plain loop %7.1f   %.2f x its speed   %.2f bytes/cycle\n",
                std::string(to_string(type)).c_str(), p.ours, p.plain, p.plain / p.ours, kPacket / p.ours);
  };
  std::printf("adding a packet of %zu bytes to a slot\n", kPacket);
  run(DataType::fp32, [&] { add_fp32(slot(), packet(), kPacket / 4); });
  run(DataType::fp16, [&] { add_fp16(slot(), reinterpret_cast<const _Float16*>(packet()), kPacket / 2); });
  run(DataType::bf16, [&] { add_bf16(slot(), reinterpret_cast<const std::uint16_t*>(packet()), kPacket / 2); });
}

// --- the stage ----------------------------------------------------------------------------------------------------

class Sink final : public pipeline::PortTx {
 public:
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    for (std::uint16_t i = 0; i < count; ++i) {
      results +=
          pipeline::meta(packets[i]).parsed.opcode == static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE) ? 0 : 1;
    }
    rte_pktmbuf_free_bulk(packets, count);
    return {.taken = count};
  }
  std::uint64_t results = 0;  ///< packets that are no answers
};

/// A group, and what its ranks send.
struct Case {
  const char* name;
  std::uint32_t mtu = 4096;
  std::uint32_t payload = 4096;
  DataType type = DataType::fp32;
  const char* options = "";        ///< of the group
  bool acks = false;               ///< the ranks acknowledge results, once for those of a burst
  std::uint32_t packets = 10'000;  ///< of data in an AllReduce; only the last may be shorter than the MTU
};

/// A switch that runs `groups` groups, each with ports of its own.
std::string yaml(const Case& c, std::uint32_t groups) {
  std::string ports, addresses, neighbours, list;
  for (std::uint32_t g = 0; g < groups; ++g) {
    std::string endpoints;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      const std::string n = std::to_string(r), net = "10." + std::to_string(g) + "." + n + ".";
      const std::string port = "p" + std::to_string(g) + n;
      ports += "  - { name: " + port + ", type: \"null\", mtu_bytes: 4200 }\n";
      addresses += "  - { port: " + port + ", address: " + net + "1/24 }\n";
      neighbours += "  - { port: " + port + ", address: " + net + "2, mac: \"02:aa:00:00:0" + std::to_string(g) + ":0" +
                    n + "\" }\n";
      endpoints += "{ address: " + net + "1, qp: 10" + n + ", peer: " + net + "2, peer_qp: 17, rank: " + n + " }, ";
    }
    list += "{ id: " + std::to_string(g + 1) + ", ranks: 8, mtu: " + std::to_string(c.mtu) +
            ", message_packets: 1, window: 8, " + c.options + " endpoints: [" + endpoints + "] }, ";
  }
  return "name: tor\nports:\n" + ports + "addresses:\n" + addresses + "neighbours:\n" + neighbours +
         "pipeline:\n  - parse\n  - inc: { memory_kb: 8192, groups: [" + list + "] }\n  - l3\n";
}

/// What the workers of a switch share.
struct Switch {
  Switch(const Case& c, std::uint16_t workers)
      : pool(pipeline::make_pool("inc" + std::to_string(serial++), 1024u * workers, 8320, 256, true)) {
    config::Diagnostics diagnostics;
    stages::register_all(registry);
    register_stages(registry);
    auto info = config::load_switch(yaml(c, workers), registry, diagnostics);
    if (!info) {
      std::fputs(config::format(diagnostics).c_str(), stderr);
      std::exit(EXIT_FAILURE);
    }
    std::vector<std::uint16_t> owners;
    for (auto& port : info->ports) {
      port.mac = wire::MacAddress::from_u64(0x0200000000f0 + port.index);
      owners.push_back(static_cast<std::uint16_t>(port.index / kRanks));
    }
    state = std::make_unique<pipeline::SwitchState>(registry, std::move(*info), owners, workers);
  }

  static inline int serial = 0;
  pipeline::Registry registry;
  pipeline::Pool pool;
  std::unique_ptr<pipeline::SwitchState> state;
};

/// Eight ranks that run one long AllReduce after the other, around the worker that has their group.
class Star {
 public:
  Star(Switch& of, const Case& c, std::uint16_t worker = 0)
      : case_(c),
        pool_(of.pool.get()),
        first_port_(static_cast<pipeline::PortIndex>(worker * kRanks)),
        worker_(worker) {
    const auto& ports = of.state->info().ports;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      nic::Path path;
      path.source_mac = wire::MacAddress::from_u64(0x02aa00000000 + (std::uint64_t{worker} << 8) + r);
      path.destination_mac = ports[first_port_ + r].mac;
      path.source = wire::IpAddress::v4(0x0a000002 + (std::uint32_t{worker} << 16) + (r << 8));
      path.destination = wire::IpAddress::v4(0x0a000001 + (std::uint32_t{worker} << 16) + (r << 8));
      heads_[r].set(path);
    }
    pipeline::PipelineHost host;
    host.worker = worker;
    host.pool = pool_;
    host.ports.assign(ports.size(), nullptr);
    std::fill_n(host.ports.begin() + first_port_, kRanks, &sink_);
    pipeline_ = std::make_unique<pipeline::Pipeline>(*of.state, std::move(host));
    const std::vector<float> values(case_.payload / 4, 1.5f);
    nic::Packet data;
    data.opcode = wire::Opcode::RC_SEND_ONLY;
    data.payload.set(reinterpret_cast<const std::uint8_t*>(values.data()), case_.payload);
    for (std::uint32_t r = 0; r < kRanks; ++r) models_[r] = make(r, data);
  }
  ~Star() {
    for (rte_mbuf* m : models_) rte_pktmbuf_free(m);
  }
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;

  /// The next kDepth packets of every rank. Returns the cycles of the pipeline, parse to transmission.
  std::uint64_t round() {
    rte_mbuf* packets[kRanks][kDepth];
    for (std::uint32_t d = 0; d < kDepth; ++d, ++psn_) {
      for (std::uint32_t r = 0; r < kRanks; ++r) packets[r][d] = index_ == 0 ? control(r) : copy(r);
      sequence_ = static_cast<std::uint16_t>(sequence_ + (index_ == 0 ? 1 : 0));
      index_ = index_ == case_.packets ? 0 : index_ + 1;
    }
    rte_mbuf* acks[kRanks] = {};
    for (std::uint32_t r = 0; case_.acks && r < kRanks; ++r) acks[r] = ack(r);
    now_ += 1000;
    const std::uint64_t begin = rte_rdtsc_precise();
    for (pipeline::PortIndex r = 0; r < kRanks; ++r) {
      pipeline_->receive(now_, static_cast<pipeline::PortIndex>(first_port_ + r), packets[r], kDepth);
    }
    run(acks);
    return rte_rdtsc_precise() - begin;
  }
  [[nodiscard]] std::uint64_t results() const { return sink_.results; }

 private:
  /// Sends what the switch has made, and gives it the answers.
  void run(rte_mbuf** acks) {
    const auto port = [&](std::uint32_t r) { return static_cast<pipeline::PortIndex>(first_port_ + r); };
    for (std::uint32_t r = 0; r < kRanks; ++r) pipeline_->serve_port(now_, port(r));
    if (!case_.acks) return;
    for (std::uint32_t r = 0; r < kRanks; ++r) pipeline_->receive(now_, port(r), &acks[r], 1);
    pipeline_->run_timers(now_);
    for (std::uint32_t r = 0; r < kRanks; ++r) pipeline_->serve_port(now_, port(r));
  }

  /// The control message of a rank, in front of the data.
  rte_mbuf* control(std::uint32_t r) {
    ControlMessage m;
    m.type = case_.type;
    m.sequence = sequence_;
    m.group = worker_ + 1u;
    m.bytes = std::uint64_t{case_.packets} * case_.payload;
    const auto bytes = control_payload(m);
    nic::Packet p;
    p.opcode = wire::Opcode::RC_SEND_ONLY_IMM;
    p.psn = wire::Psn(psn_ & wire::Psn::kMask);
    p.immediate = control_immediate(m);
    p.payload.set(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
    return make(r, p);
  }
  /// Of all results so far: AllReduce has brought as many packets as it has taken.
  rte_mbuf* ack(std::uint32_t r) {
    nic::Packet p;
    p.opcode = wire::Opcode::RC_ACKNOWLEDGE;
    p.psn = wire::Psn((psn_ - 1) & wire::Psn::kMask);
    p.syndrome = wire::Syndrome::ack().raw();
    p.msn = psn_ & 0xffffff;
    return make(r, p);
  }
  rte_mbuf* make(std::uint32_t r, const nic::Packet& p) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_);
    if (m == nullptr) std::abort();
    std::uint8_t head[nic::kMaxHeadBytes];
    const auto frame = nic::make_frame(heads_[r], 2, p, wire::Qpn(100 + r), head);
    const auto bytes = static_cast<std::uint16_t>(frame.bytes());
    auto* at = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, bytes));
    nic::copy_frame(frame, {at, bytes});
    wire::parse_frame(at, bytes, bytes, pipeline::meta(m).parsed);
    return m;
  }
  /// A copy of the rank's packet with the PSN that is due, as a device would have received it.
  rte_mbuf* copy(std::uint32_t r) {
    rte_mbuf* model = models_[r];
    static_cast<void>(pipeline::edit_roce(model, wire::IcrcMode::incremental, [&](wire::RoceEditor& editor) {
      editor.set_psn(wire::Psn(psn_ & wire::Psn::kMask));
    }));
    rte_mbuf* m = rte_pktmbuf_alloc(pool_);
    if (m == nullptr) std::abort();
    std::memcpy(rte_pktmbuf_append(m, model->data_len), pipeline::frame(model), model->data_len);
    return m;
  }
  Case case_;
  rte_mempool* pool_;
  pipeline::PortIndex first_port_;
  std::uint16_t worker_;
  Sink sink_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::array<nic::HeaderTemplate, kRanks> heads_;
  std::array<rte_mbuf*, kRanks> models_{};
  std::uint32_t psn_ = 0, index_ = 0;
  std::uint16_t sequence_ = 0;
  TimeNs now_ = 1'000'000'000;
};

/// A group that fails answers every packet, too.
void check_results(const Star& star, int rounds) {
  if (star.results() >= static_cast<std::uint64_t>(rounds) * kRanks * kDepth) return;
  std::fprintf(stderr, "results are missing: %llu\n", static_cast<unsigned long long>(star.results()));
  std::exit(EXIT_FAILURE);
}

/// One vector addition as a plain loop makes it, of as many bytes as arrive in a packet.
void add(DataType type, float* slot, const std::byte* packet, std::uint32_t bytes) {
  if (type == DataType::fp16) return add_fp16(slot, reinterpret_cast<const _Float16*>(packet), bytes / 2);
  if (type == DataType::bf16) return add_bf16(slot, reinterpret_cast<const std::uint16_t*>(packet), bytes / 2);
  add_fp32(slot, reinterpret_cast<const float*>(packet), bytes / 4);
}

void stage(const Case& c) {
  Switch of(c, 1);
  Star star(of, c);
  // As many bytes as arrive in a round, so that both find them in the same cache.
  std::vector<float> slot(kDepth * c.payload / 2), values(kRanks * kDepth * c.payload / 4, 1.5f);
  const auto* arrived = reinterpret_cast<const std::byte*>(values.data());
  Samples ours, plain;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(star.round());
    const std::uint64_t begin = rte_rdtsc_precise();
    for (std::uint32_t r = 0; r < kRanks * kDepth; ++r) {
      const std::byte* packet = arrived + r * c.payload;
      const std::uint32_t crc = crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(packet), c.payload);
      asm volatile("" : : "r"(crc));  // it is wanted
      add(c.type, slot.data() + r % kDepth * (c.payload / 2), packet, c.payload);
    }
    plain.push_back(rte_rdtsc_precise() - begin);
  }
  check_results(star, kRounds);
  const double cycles = static_cast<double>(bench::lower_quartile(ours)) / (kRanks * kDepth);
  const double base = static_cast<double>(bench::lower_quartile(plain)) / (kRanks * kDepth);
  const double hz = static_cast<double>(rte_get_tsc_hz());
  std::printf(
      "  %4u bytes, %-22s %7.1f cycles per packet   CRC + add %7.1f   %.2f x their speed   %6.1f Gbit/s  %5.2f Mpps\n",
      c.payload, c.name, cycles, base, base / cycles, hz / cycles * c.payload * 8 / 1e9, hz / cycles / 1e6);
}

// --- two workers --------------------------------------------------------------------------------------------------

/// Rounds of a worker, alone or while the other one runs; the packets that it takes, by cycles.
struct Worker {
  Switch& of;
  const Case& c;
  std::uint16_t number;
  std::atomic<int>& ready;
  double cycles = 0;

  static int run(void* argument) {
    auto& w = *static_cast<Worker*>(argument);
    Star star(w.of, w.c, w.number);
    --w.ready;
    while (w.ready.load() > 0) rte_pause();
    Samples samples;
    for (int round = 0; round < kRounds; ++round) samples.push_back(star.round());
    check_results(star, kRounds);
    w.cycles = static_cast<double>(bench::lower_quartile(samples)) / (kRanks * kDepth);
    return 0;
  }
};

/// Each worker of a switch has a group: what two do, as a multiple of one.
void two_workers(const Case& c) {
  const unsigned other = rte_get_next_lcore(-1U, 1, 0);
  if (other == RTE_MAX_LCORE) return static_cast<void>(std::printf("  two workers: there is no second CPU\n"));
  Switch of(c, 2);
  std::atomic<int> ready{1};
  Worker alone{of, c, 0, ready};
  Worker::run(&alone);
  ready = 2;
  Switch again(c, 2);
  Worker first{again, c, 0, ready}, second{again, c, 1, ready};
  rte_eal_remote_launch(Worker::run, &second, other);
  Worker::run(&first);
  rte_eal_wait_lcore(other);
  std::printf(
      "  %4u bytes, two workers with a group each: %.1f and %.1f cycles per packet, one alone %.1f: %.2f x one\n",
      c.payload, first.cycles, second.cycles, alone.cycles, alone.cycles / first.cycles + alone.cycles / second.cycles);
}

}  // namespace
}  // namespace weft::inc

int main(int argc, char** argv) {
  using weft::inc::DataType;
  if (!weft::bench::start_eal(argc, argv, true)) return EXIT_FAILURE;
  weft::inc::loops();
  std::printf("AllReduce, eight ranks, per packet that arrives\n");
  for (const weft::inc::Case& c : std::initializer_list<weft::inc::Case>{
           {.name = "fp32"},
           {.name = "fp32", .mtu = 1024, .payload = 1024},
           {.name = "fp32", .mtu = 256, .payload = 256},
           // As many control messages: the data of an AllReduce is one packet.
           {.name = "fp32, small, ACKs", .mtu = 256, .payload = 64, .acks = true, .packets = 1},
           {.name = "fp16", .type = DataType::fp16},
           {.name = "bf16", .type = DataType::bf16},
           {.name = "fp32, reproducible", .options = "reproducible: true,"},
           {.name = "fp32, with ACKs", .acks = true},
           {.name = "fp32, mode iii", .options = "mode: iii,", .acks = true},
           {.name = "fp32, mode i", .options = "mode: i,", .acks = true}}) {
    weft::inc::stage(c);
  }
  weft::inc::two_workers({.name = "fp32"});
  rte_eal_cleanup();
  return EXIT_SUCCESS;
}
