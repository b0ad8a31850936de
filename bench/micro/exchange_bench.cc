// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What it costs two workers that each hands half of its packets to the other, by what becomes of the buffers. Nothing
// is done with the packets but to write and read the lines that a worker does: two of the mbuf, one of the packet's
// record, two of the frame. So this is a bound: no code that moves packets between these two CPUs is faster.
#include <sys/mman.h>
#include <x86intrin.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "bench/micro/bench_support.h"
#include "switch/base/spsc_ring.h"

namespace weft {
namespace {

constexpr std::uint32_t kBurst = 32;
constexpr std::size_t kBuffers = 8192;      // of a worker
constexpr std::size_t kBufferBytes = 2432;  // 128 of mbuf, 64 of record, 128 of headroom, 2112 of frame
constexpr std::array<std::size_t, 5> kLines{0, 64, 128, 320, 384};
constexpr std::size_t kMbufLines = 2;
constexpr int kWindowBursts = 8;
constexpr int kWindows = 20'000;
constexpr std::uint64_t kWork = 20;  // multiplications for a packet, so that a burst takes as long as one of a switch

using Buffer = volatile std::uint64_t*;
struct Entry {
  Buffer buffer;
  std::uint64_t length;
};
using Ring = SpscRing<Entry, 4096>;

enum class Fate : std::uint8_t {
  kept,        // nobody hands anything over
  unread,      // the receiver uses the buffer for a packet of its own, without having looked at this one
  read,        // the same after it has read all lines but the frame's second
  given_back,  // it reads the mbuf and gives the buffer back to the worker that it is from
  sent_back,   // it reads the frame's first line alone, and gives the buffer back
  untouched,   // it gives the buffer back without having looked at any of its lines
};

bool goes_back(Fate fate) {
  return fate == Fate::given_back || fate == Fate::sent_back || fate == Fate::untouched;
}

struct Span {
  std::size_t first, end;
};

// The lines that the receiver of a packet reads.
Span lines_read(Fate fate) {
  if (fate == Fate::read) return {0, kLines.size() - 1};
  if (fate == Fate::sent_back) return {kLines.size() - 2, kLines.size() - 1};
  return {0, fate == Fate::given_back ? kMbufLines : 0};
}

Buffer line(Buffer buffer, std::size_t i) {
  return buffer + kLines[i] / sizeof(std::uint64_t);
}

struct Worker {
  Ring to_other, back;
  std::vector<Buffer> free;
  std::vector<std::uint64_t> samples;  // cycles of a window
  std::uint64_t sum = 0;

  void make(Buffer* packets) {
    for (std::uint32_t i = 0; i < kBurst; ++i) {
      packets[i] = free.back();
      free.pop_back();
      for (std::size_t l = 0; l < kLines.size(); ++l)
        __builtin_prefetch(const_cast<std::uint64_t*>(line(packets[i], l)));
    }
    for (std::uint32_t i = 0; i < kBurst; ++i) {
      for (std::size_t l = 0; l < kLines.size(); ++l) {
        for (std::size_t word = 0; word < (l > kMbufLines ? 8 : 2); ++word) line(packets[i], l)[word] = word + sum;
      }
    }
    for (std::uint32_t i = 0; i < kBurst; ++i) {
      for (std::uint64_t k = 0; k < kWork; ++k) sum = sum * 6364136223846793005ULL + *line(packets[i], 2);
    }
  }
  void read(const Entry* entries, std::uint32_t count, Span lines) {
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::size_t l = lines.first; l < lines.end; ++l)
        __builtin_prefetch(const_cast<std::uint64_t*>(line(entries[i].buffer, l)));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      sum += entries[i].length;
      for (std::size_t l = lines.first; l < lines.end; ++l) sum += *line(entries[i].buffer, l);
    }
  }
  void take_back(Worker& other) {
    Entry entries[64];
    while (const std::uint32_t count = other.back.pop(entries, 64)) {
      for (std::uint32_t i = 0; i < count; ++i) free.push_back(entries[i].buffer);
    }
  }
  void make_and_hand(bool half) {
    Buffer packets[kBurst];
    make(packets);
    Entry entries[kBurst];
    const std::uint32_t handed = half ? kBurst / 2 : 0;
    for (std::uint32_t i = 0; i < handed; ++i) entries[i] = {packets[i], 64};
    const std::uint32_t sent = to_other.push(entries, handed);
    for (std::uint32_t i = sent; i < kBurst; ++i) free.push_back(packets[i]);
  }
  // Returns how many came in.
  std::uint32_t burst(Worker& other, Fate fate) {
    if (goes_back(fate)) take_back(other);
    // One that is ahead of the other has handed all buffers over, and waits for those of the other.
    if (free.size() >= kBurst) make_and_hand(fate != Fate::kept);
    Entry entries[64];
    const std::uint32_t came = other.to_other.pop(entries, 64);
    read(entries, came, lines_read(fate));
    const std::uint32_t gone = goes_back(fate) ? back.push(entries, came) : 0;
    for (std::uint32_t i = gone; i < came; ++i) free.push_back(entries[i].buffer);
    return came;
  }
};

// Cycles of a worker for a packet.
double run(Fate fate, const std::array<int, 2>& cpus, char* memory) {
  const auto workers = std::make_unique<Worker[]>(2);
  for (std::size_t i = 0; i < 2 * kBuffers; ++i) {
    workers[i % 2].free.push_back(reinterpret_cast<Buffer>(memory + i * kBufferBytes));
  }
  std::atomic<int> ready{0};
  std::atomic<bool> stop{false};
  const auto loop = [&](int me) {
    bench::pin(cpus[static_cast<std::size_t>(me)]);
    Worker &mine = workers[me], &other = workers[1 - me];
    ++ready;
    while (ready < 2) {
    }
    const std::uint32_t fair = fate == Fate::kept ? 0 : kWindowBursts * kBurst / 2;
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint64_t begin = __rdtsc();
      std::uint32_t came = 0;
      for (int i = 0; i < kWindowBursts; ++i) came += mine.burst(other, fate);
      const std::uint64_t end = __rdtsc();
      // Windows in which the other one did not run say nothing.
      if (came * 10 >= fair * 8 && came * 10 <= fair * 13) mine.samples.push_back(end - begin);
      if (mine.samples.size() >= kWindows) stop = true;
    }
  };
  std::thread first(loop, 0), second(loop, 1);
  first.join();
  second.join();
  double cycles = 0;
  for (int i = 0; i < 2; ++i) {
    cycles += static_cast<double>(bench::lower_quartile(workers[i].samples)) / (2 * kWindowBursts * kBurst);
  }
  return cycles;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const auto cpus = weft::bench::two_cpus(argc, argv, "CPU CPU");
  constexpr std::size_t kBytes = 2 * weft::kBuffers * weft::kBufferBytes;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return EXIT_FAILURE;
  }
  madvise(memory, kBytes, MADV_HUGEPAGE);
  using weft::Fate;
  double kept = 0;
  for (const auto& [fate, title] :
       {std::pair(Fate::kept, "nothing handed over"), std::pair(Fate::unread, "half, not read, the buffers used again"),
        std::pair(Fate::read, "half, read, the buffers used again"),
        std::pair(Fate::given_back, "half, mbufs read, buffers given back"),
        std::pair(Fate::sent_back, "half, one line read, buffers given back"),
        std::pair(Fate::untouched, "half, not read, buffers given back")}) {
    const double cycles = weft::run(fate, cpus, static_cast<char*>(memory));
    if (fate == Fate::kept) kept = cycles;
    std::printf("%-40s %6.1f cycles per packet", title, cycles);
    if (fate != Fate::kept) std::printf(", %.1f for each that is handed over", 2 * (cycles - kept));
    std::printf("\n");
  }
  return 0;
}
