// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What handing packets to another worker costs the one that hands them over: bursts of 32 into a ring that the other
// thread empties, with other work in between. Cycles of the sender per packet; the lower quartile, which other load on
// the machine hardly moves.
#include <unistd.h>
#include <x86intrin.h>

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
constexpr int kBursts = 100'000;
constexpr std::uint64_t kOtherWork = 2500;  // cycles between two bursts of the sender
using Ring = SpscRing<void*, 1024>;

void run(const char* title, std::uint32_t at_once, int sender_cpu, int receiver_cpu) {
  const auto ring = std::make_unique<Ring>();
  std::atomic<bool> stop{false};
  // The thread inherits the CPU and the priority of this one. With real-time priority whoever spins on a CPU never lets
  // the other one have it, so this one leaves at once, and sleeps while it waits.
  bench::pin(receiver_cpu);
  std::atomic<bool> runs{false};
  std::thread receiver([&] {
    runs = true;
    void* items[64];
    while (!stop.load(std::memory_order_relaxed)) static_cast<void>(ring->pop(items, 64));
  });
  bench::pin(sender_cpu);
  while (!runs) usleep(100);
  void* items[kBurst]{};
  std::vector<std::uint64_t> samples;
  samples.reserve(kBursts);
  std::uint64_t refused = 0;
  for (int i = 0; i < kBursts; ++i) {
    const std::uint64_t begin = __rdtsc();
    std::uint32_t taken = 0;
    for (std::uint32_t at = 0; at < kBurst; at += at_once) taken += ring->push(items + at, at_once);
    const std::uint64_t end = __rdtsc();
    if (taken == kBurst) samples.push_back(end - begin);
    refused += kBurst - taken;
    while (__rdtsc() - end < kOtherWork) {
    }
  }
  stop = true;
  receiver.join();
  std::printf("%-24s %6.1f cycles per packet, %llu refused\n", title,
              static_cast<double>(bench::lower_quartile(samples)) / kBurst, static_cast<unsigned long long>(refused));
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const auto cpus = weft::bench::two_cpus(argc, argv, "CPU_OF_SENDER CPU_OF_RECEIVER");
  weft::run("one packet at a time", 1, cpus[0], cpus[1]);
  weft::run("a burst at a time", weft::kBurst, cpus[0], cpus[1]);
  return 0;
}
