// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the wire layer costs per packet: parsing of bursts of 32, ICRC in full against the CRC library alone, and
// incremental ICRC. Counters: ns and cycles per packet; `vs_isal` is the ratio of two loops run in turns.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>
#include <time.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "switch/wire/builder.h"
#include "switch/wire/emit.h"
#include "switch/wire/icrc.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/parse.h"
#include "switch/wire/roce_editor.h"

namespace weft::wire {
namespace {

constexpr std::size_t kBurst = 32;
/// Distance of frames in memory, as in a pool of packet buffers.
constexpr std::size_t kStride = 10240 + 128;

/// Processor time of this thread, which a busy neighbour does not add to.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static time_point now() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return time_point(std::chrono::seconds(t.tv_sec) + duration(t.tv_nsec));
  }
};

double seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

/// Core cycles per second now, from a chain of additions that take one cycle each.
double core_hz() {
  constexpr int kSteps = 200'000;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    std::uint64_t v = 1;
    const auto begin = Clock::now();
    for (int i = 0; i < kSteps; ++i) asm volatile("add $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0" : "+r"(v));
    const double hz = 4.0 * kSteps / seconds(Clock::now() - begin);
    best = hz > best ? hz : best;
  }
  return best;
}

void report(benchmark::State& state, double packets, double elapsed) {
  state.counters["ns_per_packet"] = elapsed / packets * 1e9;
  state.counters["cycles_per_packet"] = elapsed / packets * core_hz();
}

/// A burst of frames, each in its own place, with different ports, PSNs and QPs.
class Burst {
 public:
  explicit Burst(const std::vector<FrameBuilder::Bytes>& frames) : memory_(new std::uint8_t[kBurst * kStride]) {
    for (std::size_t i = 0; i < kBurst; ++i) {
      const auto& f = frames[i % frames.size()];
      std::memcpy(at(i), f.data(), f.size());
      bytes_[i] = static_cast<std::uint32_t>(f.size());
    }
  }
  [[nodiscard]] std::uint8_t* at(std::size_t i) const { return memory_.get() + i * kStride + 128; }
  [[nodiscard]] std::uint32_t bytes(std::size_t i) const { return bytes_[i]; }

 private:
  std::unique_ptr<std::uint8_t[]> memory_;
  std::array<std::uint32_t, kBurst> bytes_{};
};

FrameBuilder base(std::size_t i, bool tagged, bool v6) {
  FrameBuilder b;
  if (tagged) b.vlan(10, 3);
  if (v6) {
    b.ipv6("2001:db8::1", "2001:db8::2");
  } else {
    b.ipv4(0x0a000001 + static_cast<std::uint32_t>(i), 0x0a000100);
  }
  b.udp(static_cast<std::uint16_t>(49152 + i));
  return b;
}

FrameBuilder::Bytes write_frame(std::size_t i, std::size_t payload, bool tagged, bool v6) {
  const auto n = static_cast<std::uint32_t>(i);
  return base(i, tagged, v6).bth(Opcode::RC_RDMA_WRITE_MIDDLE, Qpn(17 + n), Psn(n)).payload(payload).build();
}

FrameBuilder::Bytes ack_frame(std::size_t i, bool tagged, bool v6) {
  const auto n = static_cast<std::uint32_t>(i);
  return base(i, tagged, v6).bth(Opcode::RC_ACKNOWLEDGE, Qpn(17 + n), Psn(n)).aeth(Syndrome::ack(), n).build();
}

FrameBuilder::Bytes read_frame(std::size_t i, bool tagged, bool v6) {
  const auto n = static_cast<std::uint32_t>(i);
  return base(i, tagged, v6).bth(Opcode::RC_RDMA_READ_REQUEST, Qpn(17 + n), Psn(n)).reth(n, n, 4096).build();
}

enum class Mix : std::uint8_t { small, kib, four_kib, tagged, v6, everything };

Burst make_burst(Mix mix) {
  std::vector<FrameBuilder::Bytes> frames;
  for (std::size_t i = 0; i < kBurst; ++i) {
    const bool odd = i % 2 != 0;
    switch (mix) {
      case Mix::small:
        frames.push_back(odd ? ack_frame(i, false, false) : read_frame(i, false, false));
        break;
      case Mix::kib:
        frames.push_back(write_frame(i, 1032, false, false));
        break;
      case Mix::four_kib:
        frames.push_back(write_frame(i, 4112, false, false));
        break;
      case Mix::tagged:
        frames.push_back(write_frame(i, 1028, true, false));
        break;
      case Mix::v6:
        frames.push_back(write_frame(i, 1012, false, true));
        break;
      case Mix::everything:
        frames.push_back(i % 3 == 0 ? ack_frame(i, odd, i % 5 == 0) : write_frame(i, 1024, odd, i % 5 == 0));
        break;
    }
  }
  return Burst(frames);
}

/// One line of cache per result, as in the private area of a packet buffer.
struct alignas(64) Slot {
  Parsed parsed;
};

template <auto kParse, Mix kMix>
void parse_burst(benchmark::State& state) {
  const Burst burst = make_burst(kMix);
  auto slots = std::make_unique<std::array<Slot, kBurst>>();
  const auto begin = Clock::now();
  for (auto _ : state) {
    for (std::size_t i = 0; i < kBurst; ++i) {
      const std::uint32_t bytes = burst.bytes(i);
      kParse(burst.at(i), bytes, bytes, (*slots)[i].parsed);
    }
    benchmark::DoNotOptimize(slots->data());
    benchmark::ClobberMemory();
  }
  report(state, static_cast<double>(state.iterations()) * kBurst, seconds(Clock::now() - begin));
  if ((*slots)[0].parsed.kind != FrameKind::roce) state.SkipWithError("the frames are not valid RoCEv2");
}
BENCHMARK(parse_burst<parse_frame, Mix::small>)->Name("parse/ack_and_read_62_to_74_bytes");
BENCHMARK(parse_burst<parse_frame, Mix::kib>)->Name("parse/write_1090_bytes");
BENCHMARK(parse_burst<parse_frame, Mix::four_kib>)->Name("parse/write_4170_bytes");
BENCHMARK(parse_burst<parse_frame, Mix::tagged>)->Name("parse/tagged_1090_bytes");
BENCHMARK(parse_burst<parse_frame, Mix::v6>)->Name("parse/ipv6_1090_bytes");
BENCHMARK(parse_burst<parse_frame, Mix::everything>)->Name("parse/everything_mixed");
BENCHMARK(parse_burst<parse_frame_slow, Mix::kib>)->Name("parse/slow_path_write_1090_bytes");

/// Full ICRC and the bare CRC of as many bytes in turns, so that a busy neighbour slows both.
void icrc_in_full(benchmark::State& state) {
  const auto frame_bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t overhead = write_frame(0, 1024, false, false).size() - 1024;
  const auto frame = write_frame(0, frame_bytes - overhead, false, false);
  Parsed p;
  parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()), p);
  const RoceLayout layout = roce_layout(frame.data(), p);
  const std::size_t covered = layout.icrc - layout.l3;
  constexpr int kCalls = 4096;
  Clock::duration ours{}, bare{};
  for (auto _ : state) {
    const auto t0 = Clock::now();
    for (int i = 0; i < kCalls; ++i) benchmark::DoNotOptimize(icrc_full(frame.data(), layout));
    const auto t1 = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      benchmark::DoNotOptimize(crc32_gzip_refl(0, frame.data() + layout.l3, covered));
    }
    const auto t2 = Clock::now();
    asm volatile("vzeroupper");  // The bare call leaves the upper halves of vectors in use, which slows the next loop.
    ours += t1 - t0;
    bare += t2 - t1;
    state.SetIterationTime(seconds(t1 - t0));
  }
  report(state, static_cast<double>(state.iterations()) * kCalls, seconds(ours));
  state.counters["isal_ns"] = seconds(bare) / static_cast<double>(state.iterations()) / kCalls * 1e9;
  state.counters["vs_isal"] = seconds(ours) / seconds(bare);
}
BENCHMARK(icrc_in_full)->UseManualTime()->Arg(62)->Arg(78)->Arg(256)->Arg(578)->Arg(1090)->Arg(4170)->Arg(9018);

void icrc_incremental(benchmark::State& state) {
  std::array<FieldEdit, 4> edits{};
  for (std::uint32_t i = 0; i < edits.size(); ++i) edits[i] = {0x01020304 * (i + 1), 4100 - 4 * i};
  const auto count = static_cast<std::size_t>(state.range(0));
  std::uint32_t icrc = 0;
  const auto begin = Clock::now();
  for (auto _ : state) {
    benchmark::DoNotOptimize(edits);
    icrc ^= icrc_update(0x12345678, std::span(edits).first(count));
  }
  benchmark::DoNotOptimize(icrc);
  report(state, static_cast<double>(state.iterations()), seconds(Clock::now() - begin));
}
BENCHMARK(icrc_incremental)->Arg(1)->Arg(2)->Arg(4);

/// Whole edits of a 4 KiB packet: destination QP and PSN, or the UDP source port.
template <bool kSourcePort, IcrcMode kMode>
void edit_packet(benchmark::State& state) {
  auto frame = write_frame(0, 4112, false, false);
  Parsed p;
  parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()), p);
  std::uint32_t n = 0;
  const auto begin = Clock::now();
  for (auto _ : state) {
    ++n;
    RoceEditor editor(frame.data(), p);
    if constexpr (kSourcePort) {
      editor.set_source_port(static_cast<std::uint16_t>(n));
    } else {
      editor.set_dest_qp(Qpn(n));
      editor.set_psn(Psn(n));
    }
    editor.finish(kMode);
    benchmark::ClobberMemory();
  }
  report(state, static_cast<double>(state.iterations()), seconds(Clock::now() - begin));
}
BENCHMARK(edit_packet<true, IcrcMode::incremental>)->Name("edit_source_port/incremental");
BENCHMARK(edit_packet<false, IcrcMode::incremental>)->Name("edit_qp_and_psn/incremental");
BENCHMARK(edit_packet<false, IcrcMode::full>)->Name("edit_qp_and_psn/full");

void emit_cnp(benchmark::State& state) {
  std::array<std::uint8_t, kMaxEmittedBytes> out;
  RoceAddressing to;
  const auto begin = Clock::now();
  for (auto _ : state) {
    write_cnp(out, to, Qpn(17));
    benchmark::DoNotOptimize(out);
  }
  report(state, static_cast<double>(state.iterations()), seconds(Clock::now() - begin));
}
BENCHMARK(emit_cnp);

}  // namespace
}  // namespace weft::wire

BENCHMARK_MAIN();
