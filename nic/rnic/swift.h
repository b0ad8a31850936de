// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Delay control as in Swift (Kumar et al., SIGCOMM 2020): a window that grows by a constant while round trips are
// shorter than a target, and shrinks, at most once per round trip, by how much they are longer. The window becomes a
// rate, that many packets per round trip, and so paces windows below one packet as the paper does, and those above as
// well.
//
// Not Swift's: round trips here are those of the whole way, with the time in the peer, because ACKs of RC carry no
// times (Swift tells fabric and host delay apart); hops are part of base_target, as a sender does not know their
// number; the round trips are sampled one at a time. Nor is a second window by round trips to
// a switch on the way (near_target_ns, echo_clock.h), which RateControl has.
//
//   paper (Algorithm 1)             here
//   cwnd, t_last_decrease           cwnd(), decreased_at_
//   TargetDelay, section 3.5        target_ns()
//   retransmit_cnt                  timeouts_
#pragma once

#include <cstdint>

#include "nic/rnic/config.h"

namespace weft::nic {

/// The rate of one queue pair.
class Swift {
 public:
  /// `mtu`: payload bytes of a full packet.
  Swift(const SwiftParameters& parameters, std::uint64_t line_bps, std::uint32_t mtu) noexcept;

  /// A data packet of so many bytes left; the largest one is what the window counts in.
  void on_sent(Time, std::uint64_t wire_bytes) noexcept;
  /// Payload was acknowledged, so many bytes; rtt: a sample, or 0.
  void on_ack(Time now, std::uint64_t acked_bytes, Time rtt) noexcept;
  /// The peer misses a packet.
  void on_nack(Time now) noexcept;
  /// No answer came in time.
  void on_timeout(Time now) noexcept;

  /// Bits per second: the line's rate until the first sample.
  [[nodiscard]] double rate_bps(Time) const noexcept;
  /// Packets; 0 until the first sample.
  [[nodiscard]] double cwnd() const noexcept { return cwnd_; }
  /// The target of a window of so many packets.
  [[nodiscard]] double target_ns(double cwnd) const noexcept;
  [[nodiscard]] std::uint64_t cuts() const noexcept { return cuts_; }
  [[nodiscard]] std::uint64_t increases() const noexcept { return increases_; }

 private:
  [[nodiscard]] bool may_decrease(Time now) const noexcept { return cuts_ == 0 || now - decreased_at_ >= rtt_; }
  void decrease(Time now, double factor) noexcept;
  void limit() noexcept;
  /// Packets that the line carries in a round trip.
  [[nodiscard]] double line_cwnd() const noexcept;

  SwiftParameters p_;
  double line_;
  double mtu_;
  double packet_bits_;
  double fs_alpha_, fs_beta_;
  double cwnd_ = 0;
  Time rtt_ = 0;  ///< newest sample
  Time decreased_at_ = 0;
  std::uint32_t timeouts_ = 0;
  std::uint64_t cuts_ = 0, increases_ = 0;
};

}  // namespace weft::nic
