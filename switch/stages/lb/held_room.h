// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/context.h"
#include "switch/pipeline/packet.h"

namespace weft::stages {

/// Why packets did not wait, of those that a unit wanted to hold.
struct HeldRoomCounts {
  std::uint64_t port_full = 0;   ///< what came in by their port would have been more than it may
  std::uint64_t group_full = 0;  ///< their priority group in the shared buffer had no room
  std::uint64_t peak_port_bytes = 0;
};

/// Bytes of frames that came in by one port and may wait, from options with `max_kb` and perhaps `max_port_kb`.
[[nodiscard]] inline std::uint64_t most_port_bytes(const config::Value& options) {
  return options[options.has("max_port_kb") ? "max_port_kb" : "max_kb"].unsigned_integer() * 1024;
}

/// Room for the packets that one instance of a stage holds: bounded for each port that they came in by, and taken from
/// the shared buffer of a switch with qos.
class HeldRoom {
 public:
  /// @param ports  of the switch
  /// @param most   bytes of frames that came in by one port and may wait
  HeldRoom(std::size_t ports, std::uint64_t most) : bytes_(ports + 1), most_(most) {}

  /// False when the packet must not wait.
  [[nodiscard]] bool take(pipeline::Context& context, rte_mbuf* m) noexcept {
    std::uint64_t& bytes = bytes_[slot(m)];
    if (bytes + m->pkt_len > most_) {
      ++counts_.port_full;
      return false;
    }
    if (!context.charge(m)) {
      ++counts_.group_full;
      return false;
    }
    bytes += m->pkt_len;
    counts_.peak_port_bytes = std::max(counts_.peak_port_bytes, bytes);
    return true;
  }
  /// A packet for which there was room goes on.
  void give_back(pipeline::Context& context, rte_mbuf* m) noexcept {
    bytes_[slot(m)] -= m->pkt_len;
    context.release(m);
  }

  /// Bytes that wait of those that came in by a port.
  [[nodiscard]] std::uint64_t bytes(pipeline::PortIndex port) const noexcept { return bytes_[port]; }
  [[nodiscard]] const HeldRoomCounts& counts() const noexcept { return counts_; }

 private:
  [[nodiscard]] std::size_t slot(const rte_mbuf* m) const noexcept {
    return std::min<std::size_t>(pipeline::meta(m).in_port, bytes_.size() - 1);
  }

  std::vector<std::uint64_t> bytes_;  ///< by ingress port; the last one for packets that the switch made
  std::uint64_t most_;
  HeldRoomCounts counts_;
};

}  // namespace weft::stages
