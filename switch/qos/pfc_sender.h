// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which PAUSE or PFC frames a port sends (IEEE 802.1Qbb, 802.3 annex 31B): XOFF when a priority group fills up, again
// before the pause ends, XON when it has drained.
#pragma once

#include <array>
#include <cstdint>

#include "switch/base/counters.h"
#include "switch/qos/settings.h"

namespace weft::qos {

/// A frame to be sent.
struct PauseFrame {
  bool pfc = true;  ///< otherwise PAUSE, whose quanta is quanta[0]
  std::uint8_t class_enable = 0;
  std::array<std::uint16_t, kClasses> quanta{};
};

class PfcSender {
 public:
  struct Counters {
    std::array<Counter, kClasses> xoff, xon;  ///< changes, by priority (with PAUSE: all in 0)
    Counter frames;                           ///< refreshes included
    std::array<Counter, kClasses> paused_ns;  ///< that the peer has been asked to pause, up to the last XON
  };

  PfcSender() = default;
  explicit PfcSender(const PortSettings& settings) noexcept;

  [[nodiscard]] bool enabled() const noexcept { return enabled_ != 0; }
  /// Priorities whose groups are looked at.
  [[nodiscard]] std::uint8_t priorities() const noexcept { return enabled_; }
  /// Priorities that the peer has been told to pause.
  [[nodiscard]] std::uint8_t paused() const noexcept { return paused_; }

  /// True when a frame is due.
  /// @param xoff  priorities whose groups are full
  /// @param xon   priorities whose groups have drained
  [[nodiscard]] bool due(TimeNs now, std::uint8_t xoff, std::uint8_t xon) const noexcept {
    return next(xoff, xon) != paused_ || (paused_ != 0 && now >= refresh_at_);
  }
  /// The frame that is due. It has been sent when this returns.
  [[nodiscard]] PauseFrame take(TimeNs now, std::uint8_t xoff, std::uint8_t xon) noexcept;

  /// When the pause has to be sent again; kNever when nobody pauses.
  [[nodiscard]] TimeNs refresh_at() const noexcept { return paused_ != 0 ? refresh_at_ : kNever; }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  /// A reload: counters go on where those of `old` stand, and so does what the peer was told.
  void adopt(const PfcSender& old) noexcept;

 private:
  [[nodiscard]] std::uint8_t next(std::uint8_t xoff, std::uint8_t xon) const noexcept;

  std::uint8_t enabled_ = 0;
  bool pfc_ = true;
  std::uint16_t quanta_ = 0xffff;
  TimeNs refresh_ns_ = 0;

  std::uint8_t paused_ = 0;
  TimeNs refresh_at_ = 0;
  std::array<TimeNs, kClasses> since_{};
  Counters counters_;
};

/// Nanoseconds of a pause of `quanta` at a speed.
[[nodiscard]] TimeNs pause_ns(std::uint16_t quanta, std::uint64_t speed_mbps) noexcept;

}  // namespace weft::qos
