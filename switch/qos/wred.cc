// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/wred.h"

#include <algorithm>

namespace weft::qos {

Curve::Curve(const CurveSettings& settings) noexcept : min_(settings.min_bytes), max_(settings.max_bytes) {
  if (max_ <= min_) return;
  // Less than 2^64 at the end of the curve, however it is rounded.
  const double most = std::clamp(settings.probability, 0.0, 1.0) * 18446744073709549568.0;
  slope_ = static_cast<std::uint64_t>(most / static_cast<double>(max_ - min_) * (1 - 1e-15));
}

}  // namespace weft::qos
