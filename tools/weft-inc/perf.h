// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `weft-inc perf`: collectives by size, in the flags and the table of nccl-tests.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/weft-inc/rhythm.h"

namespace weft::inc_tool {

struct PerfOptions {
  std::string collective = "allreduce", backend = "auto", type = "float", op = "sum";
  std::string meet;  ///< ADDRESS:PORT of rank 0
  std::string address, interface, daemon, device, memif;
  std::uint32_t poll_us = 0;  ///< before a rank that waits sleeps
  std::uint32_t rank = 0, ranks = 0, root = 0;
  std::uint64_t min_bytes = 4096, max_bytes = 1 << 20, step_bytes = 0;
  std::uint32_t factor = 0;  ///< 0: 2, unless there is a step
  std::uint32_t iterations = 20, warmups = 5;
  bool check = true;
  bool by_hand = false;  ///< the switch's end is read from the standard input
  bool json = false;     ///< on the standard output, in place of the table
  std::uint32_t mtu = 1024, message_packets = 4, window = 8, mode = 0;
  bool reproducible = false;
  Rhythm rhythm;
  std::uint32_t timeout_s = 30;
  double link_gbps = 0;  ///< of each rank's link; 0: what Linux says of rank 0's, and none where it says nothing
};

/// Runs one rank; rank 0 prints. The exit status: 1 for wrong results, or a group that is not what was asked for.
int run_perf(const PerfOptions& options);

/// What was measured of one size, in one way.
struct PerfTimes {
  std::vector<double> microseconds;  ///< of each iteration, the slowest rank's
  double whole_us = 0;               ///< from the first iteration's begin to the last one's end, the slowest rank's
  std::uint64_t wrong = 0;           ///< elements, at all ranks

  /// What an iteration takes, as nccl-tests has it: of the whole. The mean of `microseconds` is larger: a rank that is
  /// late in one iteration is waited for in the next one, and both count the delay.
  [[nodiscard]] double mean() const;
  /// @param share  0.5: the median; nearest rank
  [[nodiscard]] double quantile(double share) const;
};

struct PerfRow {
  std::uint64_t bytes = 0, count = 0;
  PerfTimes out_of_place, in_place;
  std::uint64_t link_bytes = 0;  ///< busiest_link_bytes()
};

/// Factor between the rate of the algorithm and that of the bus (nccl-tests, doc/PERFORMANCE.md).
[[nodiscard]] double bus_factor(const std::string& collective, std::uint32_t ranks);
/// The sizes in order: the vector of all blocks for ReduceScatter and AllGather.
[[nodiscard]] std::vector<std::uint64_t> perf_sizes(const PerfOptions& options);
[[nodiscard]] std::string table_head();
[[nodiscard]] std::string table_line(const PerfOptions& options, const PerfRow& row);
[[nodiscard]] nlohmann::ordered_json json_row(const PerfOptions& options, const PerfRow& row);

}  // namespace weft::inc_tool
