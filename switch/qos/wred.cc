// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/wred.h"

#include <algorithm>
#include <bit>

namespace weft::qos {
namespace {

constexpr unsigned kMostHalvings = 6;

}  // namespace

Curve::Curve(const CurveSettings& settings) noexcept : min_(settings.min_bytes), max_(settings.max_bytes) {
  if (max_ <= min_) return;
  // Less than 2^64 at the end of the curve, however it is rounded.
  const double most = std::clamp(settings.probability, 0.0, 1.0) * 18446744073709549568.0;
  slope_ = static_cast<std::uint64_t>(most / static_cast<double>(max_ - min_) * (1 - 1e-15));
  halvings_ = std::min(static_cast<unsigned>(std::countl_zero((max_ - min_) * slope_)), kMostHalvings);
}

}  // namespace weft::qos
