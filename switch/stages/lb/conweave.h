// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the two ToRs of ConWeave (Song et al., "Network Load Balancing with In-network Reordering Support for RDMA",
// SIGCOMM 2023) tell each other: with data, and in packets of their own. Plain values.
//
// A flow has epochs. In each it takes one path (phase 0), and may be rerouted once: the last packet on the old path is
// the TAIL, those behind it (phase 1) take another path, and no reroute follows before the far ToR has seen the TAIL.
#pragma once

#include <cstdint>

#include "switch/base/time.h"

namespace weft::stages {

/// A time of the ToR that sends, without its upper bits. Only differences of two times of the same ToR mean anything:
/// clocks of different ToRs are never compared.
class ConweaveTime {
 public:
  static constexpr TimeNs kTickNs = 32;
  static constexpr unsigned kBits = 24;  ///< differences are below half of 2^24 ticks, 268 ms
  static constexpr std::uint32_t kMask = (1u << kBits) - 1;

  ConweaveTime() = default;
  [[nodiscard]] static ConweaveTime of(TimeNs now) noexcept {
    return from_ticks(static_cast<std::uint32_t>(now / kTickNs));
  }
  /// @param ticks  bits above kBits are ignored
  [[nodiscard]] static ConweaveTime from_ticks(std::uint32_t ticks) noexcept {
    ConweaveTime time;
    time.ticks_ = ticks & kMask;
    return time;
  }
  [[nodiscard]] std::uint32_t ticks() const noexcept { return ticks_; }
  /// From `earlier` to this; 0 when this is the earlier one.
  [[nodiscard]] TimeNs since(ConweaveTime earlier) const noexcept {
    const std::uint32_t ticks = (ticks_ - earlier.ticks_) & kMask;
    return ticks > kMask / 2 ? 0 : ticks * kTickNs;
  }

  friend bool operator==(ConweaveTime, ConweaveTime) = default;

 private:
  std::uint32_t ticks_ = 0;
};

/// With every data packet.
struct ConweaveTag {
  std::uint8_t epoch = 0;
  bool rerouted = false;     ///< phase 1
  bool tail = false;         ///< the last one on the old path, in phase 0: RTT_REPLY CLEAR is due
  bool request = false;      ///< RTT_REQUEST: the first one of an epoch, RTT_REPLY is due
  ConweaveTime sent{};       ///< when it was given its path
  ConweaveTime tail_sent{};  ///< in phase 1: `sent` of the TAIL

  friend bool operator==(const ConweaveTag&, const ConweaveTag&) = default;
};

/// From the far ToR back.
struct ConweaveReply {
  enum class Kind : std::uint8_t {
    rtt,     ///< to a packet with `request`
    clear,   ///< to a TAIL: all that took the old path has come, or is lost
    notify,  ///< packets of a path come with CE marks
  };
  Kind kind = Kind::rtt;
  std::uint8_t epoch = 0;  ///< of the packet that is answered

  friend bool operator==(const ConweaveReply&, const ConweaveReply&) = default;
};

/// `epoch` is later than `than`. Epochs wrap.
[[nodiscard]] constexpr bool later_epoch(std::uint8_t epoch, std::uint8_t than) noexcept {
  return static_cast<std::int8_t>(static_cast<std::uint8_t>(epoch - than)) > 0;
}

}  // namespace weft::stages
