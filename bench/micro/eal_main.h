// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// main() of the Google Benchmark programs that need DPDK.
#pragma once

#include <benchmark/benchmark.h>
#include <rte_eal.h>

#include <cstdio>
#include <cstdlib>

#include "bench/micro/bench_support.h"

namespace weft::bench {

/// Runs the benchmarks that `argv` asks for, with DPDK but without hugepages, so that they run anywhere.
/// @return the program's exit status; options that Google Benchmark does not know are an error
inline int eal_main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  if (!init_eal(argv[0], false)) {
    std::fputs("EAL did not start\n", stderr);
    return EXIT_FAILURE;
  }
  benchmark::RunSpecifiedBenchmarks();
  rte_eal_cleanup();
  return EXIT_SUCCESS;
}

}  // namespace weft::bench
