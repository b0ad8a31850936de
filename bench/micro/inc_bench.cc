// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What in-network aggregation costs. First the loops that add a packet of 4096 bytes to a slot, beside the loop that
// one would write for the same bytes. Then the stage inc with eight ranks under it, behind parse and in front of l3:
// AllReduce of FP32 in packets of 4096 and of 64 bytes of payload, ICRCs checked and made, beside ISA-L's CRC and one
// vector addition of the bytes that arrive. What stands beside each other is measured in turn. TSC cycles, the lower
// quartile. Usage: micro_inc [--hugepages] [CPU]
#include <isa-l/crc.h>
#include <rte_cycles.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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
    sent += count;
    rte_pktmbuf_free_bulk(packets, count);
    return {.taken = count};
  }
  std::uint64_t sent = 0;
};

std::string yaml(std::uint32_t mtu, bool reproducible) {
  std::string ports, addresses, neighbours, endpoints;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const std::string n = std::to_string(r);
    ports += "  - { name: p" + n + ", type: \"null\", mtu_bytes: 4200 }\n";
    addresses += "  - { port: p" + n + ", address: 10.0." + n + ".1/24 }\n";
    neighbours += "  - { port: p" + n + ", address: 10.0." + n + ".2, mac: \"02:aa:00:00:00:0" + n + "\" }\n";
    endpoints +=
        "{ address: 10.0." + n + ".1, qp: 10" + n + ", peer: 10.0." + n + ".2, peer_qp: 17, rank: " + n + " }, ";
  }
  return "name: tor\nports:\n" + ports + "addresses:\n" + addresses + "neighbours:\n" + neighbours +
         "pipeline:\n  - parse\n  - inc: { groups: [{ id: 1, ranks: 8, mtu: " + std::to_string(mtu) +
         ", message_packets: 1, window: 8, reproducible: " + (reproducible ? "true" : "false") + ", endpoints: [" +
         endpoints + "] }] }\n  - l3\n";
}

/// Eight ranks that run one long AllReduce after the other.
class Star {
 public:
  Star(std::uint32_t mtu, std::uint32_t payload, bool reproducible)
      : payload_(payload), pool_(pipeline::make_pool("inc" + std::to_string(serial++), 1024, 8320, 256)) {
    config::Diagnostics diagnostics;
    stages::register_all(registry_);
    register_stages(registry_);
    auto info = config::load_switch(yaml(mtu, reproducible), registry_, diagnostics);
    if (!info) {
      std::fputs(config::format(diagnostics).c_str(), stderr);
      std::exit(EXIT_FAILURE);
    }
    for (auto& port : info->ports) port.mac = wire::MacAddress::from_u64(0x0200000000f0 + port.index);
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      nic::Path path;
      path.source_mac = wire::MacAddress::from_u64(0x02aa00000000 + r);
      path.destination_mac = info->ports[r].mac;
      path.source = wire::IpAddress::v4(0x0a000002 + (r << 8));
      path.destination = wire::IpAddress::v4(0x0a000001 + (r << 8));
      heads_[r].set(path);
    }
    std::vector<std::uint16_t> owners(kRanks, 0);
    state_ = std::make_unique<pipeline::SwitchState>(registry_, std::move(*info), owners, 1);
    pipeline::PipelineHost host;
    host.pool = pool_.get();
    host.ports.assign(kRanks, &sink_);
    pipeline_ = std::make_unique<pipeline::Pipeline>(*state_, std::move(host));
    announce();
  }

  /// The next kDepth packets of every rank. Returns the cycles of the pipeline, parse to transmission.
  std::uint64_t round() {
    rte_mbuf* packets[kRanks][kDepth];
    if (index_ + kDepth > kPackets + 1) announce();
    for (std::uint32_t d = 0; d < kDepth; ++d, ++psn_, ++index_) {
      for (std::uint32_t r = 0; r < kRanks; ++r) packets[r][d] = copy(r);
    }
    now_ += 1000;
    const std::uint64_t begin = rte_rdtsc_precise();
    for (pipeline::PortIndex r = 0; r < kRanks; ++r) pipeline_->receive(now_, r, packets[r], kDepth);
    for (pipeline::PortIndex r = 0; r < kRanks; ++r) pipeline_->serve_port(now_, r);
    return rte_rdtsc_precise() - begin;
  }
  [[nodiscard]] std::uint64_t sent() const { return sink_.sent; }

 private:
  static constexpr std::uint32_t kPackets = 10'000;  ///< of one AllReduce

  /// The control message of every rank.
  void announce() {
    ControlMessage m;
    m.type = DataType::fp32;
    m.sequence = sequence_++;
    m.group = 1;
    m.bytes = std::uint64_t{kPackets} * payload_;
    const auto bytes = control_payload(m);
    nic::Packet p;
    p.opcode = wire::Opcode::RC_SEND_ONLY_IMM;
    p.psn = wire::Psn(psn_++ & wire::Psn::kMask);
    p.immediate = control_immediate(m);
    p.payload.set(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
    now_ += 1000;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      rte_mbuf* packet = make(r, p);
      pipeline_->receive(now_, static_cast<pipeline::PortIndex>(r), &packet, 1);
    }
    for (pipeline::PortIndex r = 0; r < kRanks; ++r) pipeline_->serve_port(now_, r);
    index_ = 1;
    std::vector<float> values(payload_ / 4, 1.5f);
    p.opcode = wire::Opcode::RC_SEND_ONLY;
    p.psn = wire::Psn(psn_ & wire::Psn::kMask);
    p.payload.set(reinterpret_cast<const std::uint8_t*>(values.data()), payload_);
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      if (models_[r] != nullptr) rte_pktmbuf_free(models_[r]);
      models_[r] = make(r, p);
    }
  }
  rte_mbuf* make(std::uint32_t r, const nic::Packet& p) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
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
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    if (m == nullptr) std::abort();
    std::memcpy(rte_pktmbuf_append(m, model->data_len), pipeline::frame(model), model->data_len);
    return m;
  }
  static inline int serial = 0;
  std::uint32_t payload_;
  pipeline::Registry registry_;
  pipeline::Pool pool_;
  Sink sink_;
  std::unique_ptr<pipeline::SwitchState> state_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::array<nic::HeaderTemplate, kRanks> heads_;
  std::array<rte_mbuf*, kRanks> models_{};
  std::uint32_t psn_ = 0, index_ = 0;
  std::uint16_t sequence_ = 0;
  TimeNs now_ = 1'000'000'000;
};

void stage(std::uint32_t mtu, std::uint32_t payload, bool reproducible) {
  Star star(mtu, payload, reproducible);
  // As many bytes as arrive in a round, so that both find them in the same cache.
  std::vector<float> slot(kDepth * payload / 4), arrived(kRanks * kDepth * payload / 4, 1.5f);
  Samples ours, plain;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(star.round());
    const std::uint64_t begin = rte_rdtsc_precise();
    for (std::uint32_t r = 0; r < kRanks * kDepth; ++r) {
      const float* packet = arrived.data() + r * (payload / 4);
      const std::uint32_t crc = crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(packet), payload);
      asm volatile("" : : "r"(crc));  // it is wanted
      add_fp32(slot.data() + r % kDepth * (payload / 4), packet, payload / 4);
    }
    plain.push_back(rte_rdtsc_precise() - begin);
  }
  if (star.sent() < std::uint64_t{kRounds} * kRanks * kDepth) {
    std::fprintf(stderr, "results are missing: %llu\n", static_cast<unsigned long long>(star.sent()));
    std::exit(EXIT_FAILURE);
  }
  const double cycles = static_cast<double>(bench::lower_quartile(ours)) / (kRanks * kDepth);
  const double base = static_cast<double>(bench::lower_quartile(plain)) / (kRanks * kDepth);
  const double hz = static_cast<double>(rte_get_tsc_hz());
  std::printf(
      "  %4u bytes%s  %7.1f cycles per packet   CRC + add %7.1f   %.2f x their speed   %6.1f Gbit/s  %5.2f Mpps\n",
      payload, reproducible ? ", reproducible" : "", cycles, base, base / cycles, hz / cycles * payload * 8 / 1e9,
      hz / cycles / 1e6);
}

}  // namespace
}  // namespace weft::inc

int main(int argc, char** argv) {
  if (!weft::bench::start_eal(argc, argv)) return EXIT_FAILURE;
  weft::inc::loops();
  std::printf("AllReduce of FP32, eight ranks, per packet that arrives\n");
  weft::inc::stage(4096, 4096, false);
  weft::inc::stage(1024, 1024, false);
  weft::inc::stage(256, 64, false);
  weft::inc::stage(4096, 4096, true);
  rte_eal_cleanup();
  return EXIT_SUCCESS;
}
