// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the benchmarks share: DPDK's start-up, threads on CPUs of their own, and the number that those report that are
// no Google Benchmark programs.
#pragma once

#include <pthread.h>
#include <rte_eal.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace weft::bench {

/// Starts DPDK for a program of this name, with `more` arguments than those that all benchmarks have. Without hugepages
/// it runs anywhere, and every buffer is on a page of its own, so numbers include TLB misses.
/// @return whether it runs; rte_eal_cleanup() ends it
inline bool init_eal(const char* program, bool hugepages, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{program, "--no-pci", "--no-telemetry", "--log-level=error"};
  if (hugepages) {
    arguments.emplace_back("--in-memory");
  } else {
    arguments.insert(arguments.end(), {"--no-huge", "--no-shconf", "-m", "512"});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::vector<char*> pointers;
  for (auto& a : arguments) pointers.push_back(a.data());
  return rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) >= 0;
}

/// init_eal() for `argv` of a benchmark: [--hugepages] [CPU]. Without a CPU it is CPU 1. Ends the program after --help
/// and for anything else.
/// @param two  lcore 1 runs, too, on CPU 0, or on 1 where that is taken; not on a machine with one CPU
/// @return whether it runs; rte_eal_cleanup() ends it
inline bool start_eal(int argc, char** argv, bool two = false) {
  bool hugepages = false;
  std::string cpu = "1";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--hugepages") {
      hugepages = true;
    } else if (!argument.empty() && argument.find_first_not_of("0123456789") == std::string::npos) {
      cpu = argument;
    } else {
      const bool help = argument == "--help";
      std::fprintf(help ? stdout : stderr, "usage: %s [--hugepages] [CPU]\n", argv[0]);
      std::exit(help ? EXIT_SUCCESS : EXIT_FAILURE);
    }
  }
  const bool other = two && std::thread::hardware_concurrency() > 1;
  return init_eal(argv[0], hugepages, {"--lcores=0@" + cpu + (!other ? "" : cpu == "0" ? ",1@1" : ",1@0")});
}

/// The calling thread runs on this CPU from now on.
inline void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/// The CPUs of two threads: [CPU CPU], without them 0 and 1. Ends the program after --help and for anything else.
/// @param names  of the two, for the usage
inline std::array<int, 2> two_cpus(int argc, char** argv, const char* names) {
  std::array<int, 2> cpus{0, 1};
  bool understood = argc == 1 || argc == 3;
  for (int i = 1; understood && i < argc; ++i) {
    const std::string word = argv[i];
    understood = !word.empty() && word.size() < 5 && word.find_first_not_of("0123456789") == std::string::npos;
    if (understood) cpus[static_cast<std::size_t>(i - 1)] = std::stoi(word);
  }
  if (understood) return cpus;
  const bool help = argc == 2 && std::string(argv[1]) == "--help";
  std::fprintf(help ? stdout : stderr, "usage: %s [%s]\n", argv[0], names);
  std::exit(help ? EXIT_SUCCESS : EXIT_FAILURE);
}

/// The lower quartile, which other load on the machine hardly moves. Reorders the samples, of which there is one.
inline std::uint64_t lower_quartile(std::vector<std::uint64_t>& samples) {
  const auto quarter = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 4);
  std::nth_element(samples.begin(), quarter, samples.end());
  return *quarter;
}

}  // namespace weft::bench
