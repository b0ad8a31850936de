// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// PAUSE and PFC frames that reach an RNIC in software. A card heeds them itself; here the host has to.
#pragma once

#include <cstdint>
#include <span>

#include "nic/rnic/config.h"
#include "switch/qos/pfc_receiver.h"

namespace weft::nic {

/// Which DSCPs the other end of a port has paused. Priorities are those that RDMA adapters give to DSCPs by default
/// (qos::ClassMap::defaults()).
///
/// A pause is counted in bit times of the link (IEEE 802.1Q 36.2), and a port in software has no link speed of its own.
/// It is taken for 100 Mbit/s, so that the longest pause lasts 336 ms. A peer that counts at a higher speed ends the
/// pause itself (XON), or renews it earlier: counting slower than the peer never makes an RNIC send too early.
class Pauses {
 public:
  Pauses() noexcept;

  /// True for frames that on_frame() takes.
  [[nodiscard]] static bool is_pause(std::span<const std::uint8_t> frame) noexcept;
  void on_frame(Time now, std::span<const std::uint8_t> frame) noexcept;

  /// Bit i: DSCP i may not be sent.
  [[nodiscard]] std::uint64_t paused_dscps(Time now) noexcept;
  /// When paused_dscps() changes by itself; kNever while nothing is paused.
  [[nodiscard]] Time next_end() const noexcept;
  [[nodiscard]] const qos::PfcReceiver::Counters& counters() const noexcept { return receiver_.counters(); }

 private:
  qos::PfcReceiver receiver_;
};

}  // namespace weft::nic
