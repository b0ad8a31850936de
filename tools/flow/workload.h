// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Jobs of traces: sizes and durations, and arrivals that keep a cluster as busy as wanted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "switch/config/schema/schema.h"
#include "tools/flow/experiment.h"

namespace weft::flow {

/// A job as a trace has it.
struct TraceJob {
  double submission_s = 0, duration_s = 0;
  std::uint32_t gpus = 1;
  int line = 0, column = 0;  ///< of the field with the GPUs, from 1
};

/// Reads a trace: a header with the columns submission_time, duration and num_gpu in any order, then lines of numbers.
/// Mistakes have line and column of the field; lines that have one are left out.
/// @param most  jobs that are read
[[nodiscard]] std::vector<TraceJob> read_trace(std::string_view text, const std::string& file, std::size_t most,
                                               config::Diagnostics& diagnostics);

/// Sizes of EPIC's Trace 1 (appendix L.2): 8, 16, 32, 64 and 128 GPUs in 30, 30, 25, 10 and 5 % of the jobs, in an
/// order that the seed decides.
[[nodiscard]] std::vector<std::uint32_t> trace1_sizes(std::size_t jobs, std::uint64_t seed);

/// How traces divide a model over GPUs: as many to a layer as divide the job, 8 at most and a power of two; replicas of
/// 8 sequences.
[[nodiscard]] Division division_of(std::uint32_t gpus);

/// The least that an iteration takes, ns: it computes, and each phase sends the largest of its vectors once, at a rate.
/// 0 when it neither computes for half a nanosecond nor sends anything.
/// @param bytes_per_ns  of a GPU
[[nodiscard]] double least_iteration_ns(const Model& model, const Division& division, double bytes_per_ns);

/// How long an iteration takes when nothing else runs, with rings.
[[nodiscard]] TimeNs iteration_alone(const ClusterOptions& options, const Model& model, const Division& division);

}  // namespace weft::flow
