// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which hosts talk through this switch, by the TCP connections that they open: the second source for which flows are
// between data centres (section IV, "Reducing switch memory overhead": an edge switch sees no other traffic). Passive:
// it looks at SYN, SYN-ACK and ACK (RFC 9293 section 3.5) and alters nothing. No DPDK.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "switch/base/time.h"

namespace weft::stages {

/// What counts of a TCP segment.
struct TcpSegment {
  std::uint64_t pair = 0;   ///< the two addresses, whichever sends; never 0
  bool from_lower = false;  ///< the sender is the lower one of the two addresses
  std::uint16_t source_port = 0, destination_port = 0;
  std::uint8_t flags = 0;  ///< as in the header: FIN 1, SYN 2, RST 4, ACK 16
  std::uint32_t sequence = 0, acknowledgement = 0;
};

/// Handshakes that have begun and not ended, in a table of fixed size: sets of four, where the oldest leaves for a new
/// one. A flood of SYNs costs no memory; it can push handshakes out that take long, whose pairs stay unknown then.
class HandshakeMonitor {
 public:
  static constexpr std::uint32_t kWays = 4;

  /// @param entries  rounded up to a power of two of at least kWays
  explicit HandshakeMonitor(std::uint32_t entries);

  /// @return true when this segment ends a handshake: both hosts have answered
  ///         each other's sequence numbers, so that neither address
  ///         is forged
  bool on_segment(TimeNs now, const TcpSegment& segment) noexcept;

  [[nodiscard]] std::uint32_t capacity() const noexcept { return static_cast<std::uint32_t>(entries_.size()); }
  /// Handshakes that were pushed out by others.
  [[nodiscard]] std::uint64_t evicted() const noexcept { return evicted_; }

 private:
  enum class State : std::uint8_t { free, syn, syn_ack };
  struct Entry {
    std::uint64_t pair = 0;
    TimeNs began = 0;
    std::uint32_t client_next = 0, server_next = 0;  ///< sequence numbers that follow the SYNs
    std::uint16_t client_port = 0, server_port = 0;
    bool client_is_lower = false;
    State state = State::free;
  };

  [[nodiscard]] Entry* find(const TcpSegment& segment, bool from_client) noexcept;
  [[nodiscard]] std::uint32_t set_of(std::uint64_t pair) const noexcept;
  void begin(TimeNs now, const TcpSegment& segment) noexcept;

  std::vector<Entry> entries_;
  std::uint64_t evicted_ = 0;
};

}  // namespace weft::stages
