// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstdint>

#include "switch/base/counters.h"
#include "switch/base/time.h"
#include "switch/base/time_buckets.h"

namespace weft::pipeline {

/// How long packets of one egress queue were in the switch, from the loop of the worker that received them until a
/// device was offered them. Of one transmitted burst in kSampleEvery. One writer, any reader.
class Residence {
 public:
  static constexpr std::uint32_t kSampleEvery = 16;
  using Buckets = TimeBuckets<3, 36>;

  void add(TimeNs ns) noexcept {
    counts_[Buckets::of(ns)].add(1);
    sum_ns_.add(ns);
  }
  [[nodiscard]] std::uint64_t count(std::size_t bucket) const noexcept { return counts_[bucket].value(); }
  [[nodiscard]] std::uint64_t sum_ns() const noexcept { return sum_ns_.value(); }
  void carry(const Residence& from) noexcept {
    for (std::size_t b = 0; b < counts_.size(); ++b) counts_[b].carry(from.counts_[b]);
    sum_ns_.carry(from.sum_ns_);
  }

 private:
  std::array<Counter, Buckets::kCount> counts_{};
  Counter sum_ns_;
};

}  // namespace weft::pipeline
