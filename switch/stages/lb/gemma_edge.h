// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What `lb_tag` has for policy gemma: how long queues beyond this switch are, as their switches have told.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "switch/pipeline/packet.h"
#include "switch/stages/lb/downlink_table.h"
#include "switch/stages/lb/leaf_map.h"

namespace weft::stages {

/// What the policy asks with every packet.
class GemmaView {
 public:
  GemmaView() = default;
  /// @param leaves         by the numbers that `downlinks` knows
  /// @param path_of_port   any number that is no path where the port is no uplink
  /// @param scale_of_port  see scaled()
  GemmaView(const LeafView& leaves, const DownlinkTable& downlinks, std::span<const std::uint16_t> path_of_port,
            std::span<const double> scale_of_port)
      : leaves_(&leaves), downlinks_(&downlinks), path_of_port_(path_of_port), scale_of_port_(scale_of_port) {}

  /// False when lb_tag has no option `gemma`: nothing else may be asked then.
  [[nodiscard]] bool on() const noexcept { return leaves_ != nullptr; }
  /// A number for the leaf that the packet goes to; LeafMap::kNone when it is this switch's own, or none is known.
  [[nodiscard]] std::uint16_t far_leaf(const rte_mbuf* m) const noexcept {
    return leaves_->far(pipeline::frame(m), pipeline::meta(m).parsed);
  }
  /// For beyond(): the same for all packets of a burst.
  [[nodiscard]] std::uint32_t scan_at(TimeNs now) const noexcept { return downlinks_->scan_at(now); }
  /// Bytes that wait behind the port on their way to the leaf; 0 where nothing is known.
  [[nodiscard]] std::uint64_t beyond(std::uint16_t leaf, pipeline::PortIndex port, std::uint32_t scan) const noexcept {
    return downlinks_->bytes_in(leaf, path_of_port_[port], scan);
  }
  /// Bytes that a link of the usual rate would send in the time that the port's takes for these.
  [[nodiscard]] std::uint64_t scaled(pipeline::PortIndex port, std::uint64_t bytes) const noexcept {
    const double scale = scale_of_port_[port];
    // Mostly: without conversions.
    if (scale == 1) [[likely]]
      return bytes;
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * scale);
  }

 private:
  const LeafView* leaves_ = nullptr;
  const DownlinkTable* downlinks_ = nullptr;
  std::span<const std::uint16_t> path_of_port_{};
  std::span<const double> scale_of_port_{};
};

/// Of one switch; all workers may ask.
class GemmaEdge {
 public:
  static constexpr std::string_view kCapability = "congestion";
  virtual ~GemmaEdge() = default;

  /// Stays as it is, but for what the table of downlinks holds.
  [[nodiscard]] virtual GemmaView gemma_view() const noexcept = 0;
};

}  // namespace weft::stages
