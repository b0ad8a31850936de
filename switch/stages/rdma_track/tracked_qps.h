// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <string_view>

#include "switch/stages/rdma_track/unit.h"

namespace weft::stages {

/// The queue pairs that a switch tracks, for stages behind the one that does.
class TrackedQps {
 public:
  static constexpr std::string_view kCapability = "qp";
  virtual ~TrackedQps() = default;
  /// The tracker of a worker, once its pipeline has built the stage that tracks. Only that worker may call it.
  [[nodiscard]] virtual QpTracker& tracker(std::uint16_t worker) const noexcept = 0;
};

}  // namespace weft::stages
