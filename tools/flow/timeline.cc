// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/timeline.h"

#include <algorithm>

namespace weft::flow {

/// Two intervals become one.
void Timeline::widen() {
  for (std::size_t i = 0; i < kIntervals; ++i) {
    for (std::size_t v = 0; v < values_; ++v) {
      const bool kept = 2 * i + 1 < kIntervals;
      amounts_[i * values_ + v] = kept ? at(2 * i, v) + at(2 * i + 1, v) : 0;
    }
  }
  used_ = (used_ + 1) / 2;
  width_ *= 2;
}

void Timeline::add(TimeNs from, TimeNs to, std::span<const double> amounts) {
  if (from >= to) return;
  while ((to - 1) / width_ >= kIntervals) widen();
  const double all = static_cast<double>(to - from);
  for (std::size_t i = from / width_; i <= (to - 1) / width_; ++i) {
    const TimeNs begin = std::max(from, i * width_), end = std::min(to, (i + 1) * width_);
    for (std::size_t v = 0; v < values_; ++v) {
      amounts_[i * values_ + v] += amounts[v] * (static_cast<double>(end - begin) / all);
    }
  }
  used_ = std::max<std::size_t>(used_, (to - 1) / width_ + 1);
}

}  // namespace weft::flow
