// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What tracking a packet costs, by the number of queue pairs: bursts of 32 requests in order, each for a queue pair
// that is chosen at random; with --mixed, half of them are requests in order, a quarter repeats and a quarter ACKs, so
// that no branch predictor knows what comes next. For every number the lower quartile and the median over many groups
// of bursts; other load on the machine hardly moves the first. Also bytes per queue pair.
#include <x86intrin.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "switch/stages/rdma_track/unit.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBurst = 32;
constexpr std::uint32_t kGroup = 4 * kBurst;  // packets per measurement
constexpr std::uint32_t kPackets = 8'000'000;
constexpr std::uint32_t kHosts = 64;
constexpr std::uint32_t kBase = 4096;  // what the other numbers of queue pairs are compared with
constexpr std::uint32_t kMaxQps = 1 << 22;
constexpr TimeNs kStart = 1'000'000'000;

// Laid out like an rte_mbuf with its PacketMeta, the result of the parser in the same cache line.
struct alignas(64) Packet {
  std::uint8_t buffer[128];
  std::uint32_t handle;
  std::uint32_t unused[3];
  wire::Parsed parsed;
};

struct Access {
  static const wire::Parsed& parsed(const Packet* p) noexcept { return p->parsed; }
  static const std::uint8_t* frame(const Packet* p) noexcept { return p->buffer; }
  static const std::uint8_t* read(const Packet*, std::uint32_t, std::uint32_t, std::uint8_t*) noexcept {
    return nullptr;
  }
  static void set_handle(Packet* p, std::uint32_t handle) noexcept { p->handle = handle; }
};

enum class Kind : std::uint8_t { next, repeat, ack };

// A WRITE in the midst of a message, or an ACK, to one of many queue pairs between two racks of 64 hosts.
void fill(Packet& packet, std::uint32_t qp, std::uint32_t psn, Kind kind) {
  wire::Parsed& p = packet.parsed;
  p = {};
  p.kind = wire::FrameKind::roce;
  p.opcode =
      static_cast<std::uint8_t>(kind == Kind::ack ? wire::Opcode::RC_ACKNOWLEDGE : wire::Opcode::RC_RDMA_WRITE_MIDDLE);
  p.l3_offset = 14;
  p.l4_offset = 34;
  p.l3_length = 1068;
  p.payload_bytes = 1024;
  p.psn = wire::Psn(psn);
  p.dest_qp = wire::Qpn(17 + qp / (kHosts * kHosts));
  p.address_key = std::uint64_t{0x0a000001 + qp % kHosts} << 32 | (0x0a010001 + qp / kHosts % kHosts);
}

struct Result {
  double lower_quartile, median;  // TSC cycles per packet
  double bytes_per_qp;
};

[[gnu::noinline]] void track(stages::QpTracker& tracker, TimeNs now, std::span<Packet* const> burst) {
  tracker.track<Access, Packet>(now, burst);
}

Kind any_kind(std::uint32_t random) {
  const std::uint32_t of_four = random % 4;
  return of_four < 2 ? Kind::next : of_four == 2 ? Kind::repeat : Kind::ack;
}

Result measure(std::uint32_t qps, std::uint32_t capacity, bool mixed) {
  stages::QpTracker tracker({.max_qps = capacity, .pairing = false});
  std::vector<Packet> packets(kGroup);
  std::vector<Packet*> pointers;
  for (auto& p : packets) pointers.push_back(&p);
  const auto group = [&](TimeNs now) {
    for (std::uint32_t i = 0; i < kGroup; i += kBurst) track(tracker, now, std::span(pointers).subspan(i, kBurst));
  };

  // Every round visits every queue pair once, in an order of its own. The first ones teach the tracker.
  std::vector<std::uint32_t> order(std::max(qps, kGroup));
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i % qps;
  std::vector<std::uint64_t> cycles;
  std::mt19937 random(1);
  std::uint32_t sent = 0, at = 0;
  std::vector<std::uint32_t> psn(qps, 0);
  for (std::uint32_t round = 0; sent < kPackets || round < 3; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (at = 0; at + kGroup <= order.size(); at += kGroup, sent += kGroup) {
      for (std::uint32_t i = 0; i < kGroup; ++i) {
        std::uint32_t& next = psn[order[at + i]];
        const Kind kind = mixed && round >= 2 ? any_kind(random()) : Kind::next;
        fill(packets[i], order[at + i], kind == Kind::next ? next++ : next - 1, kind);
      }
      _mm_mfence();
      _mm_lfence();
      const std::uint64_t before = __rdtsc();
      _mm_lfence();
      group(kStart + sent);
      _mm_lfence();
      if (round >= 2) cycles.push_back(__rdtsc() - before);
    }
  }
  if (tracker.table().size() != qps || tracker.counters().value(stages::TrackCounter::out_of_order) != 0) {
    std::fprintf(stderr, "the packets were not tracked in order\n");
    std::exit(1);
  }
  std::sort(cycles.begin(), cycles.end());
  return {static_cast<double>(cycles[cycles.size() / 4]) / kGroup,
          static_cast<double>(cycles[cycles.size() / 2]) / kGroup,
          static_cast<double>(tracker.memory_bytes()) / capacity};
}

double cycles_per_ns() {
  const auto start = Clock::now();
  const std::uint64_t before = __rdtsc();
  while (Clock::now() - start < std::chrono::milliseconds(20)) {
  }
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
  return static_cast<double>(__rdtsc() - before) / elapsed.count();
}

void print(std::uint32_t qps, const Result& r, double cycles_per_ns, double to_base) {
  std::printf("%9u %16.1f %10.1f %10.2f ", qps, r.lower_quartile, r.median, r.lower_quartile / cycles_per_ns);
  if (to_base == 0) {
    std::printf("%9s", "-");
  } else {
    std::printf("%9.2f", to_base);
  }
  std::printf(" %10.1f\n", r.bytes_per_qp);
  std::fflush(stdout);
}

void run(std::span<const std::uint32_t> sizes, bool mixed) {
  const double rate = cycles_per_ns();
  double base = 0;
  std::printf("%9s %16s %10s %10s %9s %10s\n", "qps", "cycles/packet", "median", "ns/packet", "to 4096", "bytes/qp");
  for (const std::uint32_t qps : sizes) {
    const Result r = measure(qps, std::max(qps, kBase), mixed);
    if (qps == kBase) base = r.lower_quartile;
    print(qps, r, rate, base == 0 ? 0 : r.lower_quartile / base);
  }
}

// nullopt when it is no number of queue pairs that the program takes.
std::optional<std::uint32_t> parse_qps(std::string_view text) {
  std::uint32_t qps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), qps);
  if (error != std::errc() || end != text.data() + text.size() || qps == 0 || qps > kMaxQps) return std::nullopt;
  return qps;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  constexpr const char* kUsage =
      "usage: micro_track [--mixed] [QPS...]   (each 1 to %u; without: 16 4096 65536 1048576)\n";
  std::vector<std::uint32_t> sizes;
  bool mixed = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--mixed") {
      mixed = true;
      continue;
    }
    const bool help = std::string_view(argv[i]) == "--help";
    const auto qps = weft::parse_qps(argv[i]);
    if (!qps) {
      if (!help) std::fprintf(stderr, "micro_track: %s is no number of queue pairs\n", argv[i]);
      std::fprintf(help ? stdout : stderr, kUsage, weft::kMaxQps);
      return help ? 0 : 2;
    }
    sizes.push_back(*qps);
  }
  if (sizes.empty()) sizes = {16, weft::kBase, 65536, 1u << 20};
  weft::run(sizes, mixed);
}
