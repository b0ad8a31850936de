// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What `lb_tag` knows of the congestion of paths, for a policy that chooses among them.
#pragma once

#include <cstdint>
#include <string_view>

#include "switch/base/time.h"
#include "switch/pipeline/packet.h"
#include "switch/stages/lb/leaf_map.h"

namespace weft::stages {

/// Of one switch; all workers may ask.
class CongestionView {
 public:
  static constexpr std::string_view kCapability = "congestion";
  virtual ~CongestionView() = default;

  /// Where leaves are, by the numbers that path_metric() knows. Stays as it is.
  [[nodiscard]] virtual const LeafView& leaves() const noexcept = 0;
  /// Metric of the path that begins at `port` and ends at a leaf: the higher one of the port's link and of what that
  /// leaf has told of the rest. 0 where nothing is known.
  [[nodiscard]] virtual std::uint8_t path_metric(pipeline::PortIndex port, std::uint16_t leaf,
                                                 TimeNs now) const noexcept = 0;
};

}  // namespace weft::stages
