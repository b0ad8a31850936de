// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What `lb_tag` has for policy gemma: how long queues beyond this switch are, as their switches have told.
#pragma once

#include <cstdint>
#include <string_view>

#include "switch/base/time.h"
#include "switch/pipeline/packet.h"

namespace weft::stages {

/// Of one switch; all workers may ask.
class GemmaEdge {
 public:
  static constexpr std::string_view kCapability = "congestion";
  static constexpr std::uint16_t kNone = 0xffff;
  virtual ~GemmaEdge() = default;

  /// A number for the leaf that the packet goes to; kNone when it is this one, or none is known, or lb_tag has no
  /// option `gemma`.
  [[nodiscard]] virtual std::uint16_t gemma_leaf(const rte_mbuf* m) const noexcept = 0;
  /// Bytes that wait behind the port on their way to the leaf; 0 where nothing is known.
  [[nodiscard]] virtual std::uint64_t beyond(std::uint16_t leaf, pipeline::PortIndex port,
                                             TimeNs now) const noexcept = 0;
  /// Bytes that a link of the usual rate would send in the time that the port's takes for these.
  [[nodiscard]] virtual std::uint64_t scaled(pipeline::PortIndex port, std::uint64_t bytes) const noexcept = 0;
};

}  // namespace weft::stages
