// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What `lb_tag` has for policy conweave: the units of the sender's ToR, and what the leaf knows of others.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "switch/pipeline/packet.h"
#include "switch/stages/lb/conweave_source.h"
#include "switch/stages/lb/leaf_map.h"

namespace weft::stages {

/// Of one switch; all workers may ask, each for its own unit.
class ConweaveEdge {
 public:
  static constexpr std::string_view kCapability = "congestion";
  static constexpr std::uint16_t kNone = 0xffff;
  virtual ~ConweaveEdge() = default;

  /// The unit of a worker, which calls it alone; nullptr when lb_tag has no option `conweave`.
  [[nodiscard]] virtual ConweaveSource* source(std::uint16_t worker) noexcept = 0;
  /// Where leaves are, by the numbers that good() knows. Stays as it is.
  [[nodiscard]] virtual const LeafView& leaves() const noexcept = 0;
  /// By port, which of this leaf's paths begins there; kNone when it is no uplink. Stays as it is.
  [[nodiscard]] virtual std::span<const std::uint16_t> paths() const noexcept = 0;
  /// By path, the port where it begins. Stays as it is.
  [[nodiscard]] virtual std::span<const pipeline::PortIndex> uplinks() const noexcept = 0;
  /// The path may be taken now: the leaf has not told that it is congested. False for all paths to a leaf that does not
  /// answer: one without ConWeave would not undo what rerouting does to the order.
  [[nodiscard]] virtual bool good(std::uint16_t leaf, std::uint16_t path, TimeNs now) const noexcept = 0;
  /// Bytes of the longest IP packet that has room for a tag on all uplinks.
  [[nodiscard]] virtual std::uint32_t most_l3_bytes() const noexcept = 0;
};

}  // namespace weft::stages
