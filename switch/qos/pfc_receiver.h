// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What PAUSE and PFC frames that come in do to a port. Nothing that a peer sends is trusted: every frame is counted as
// what it is, and no pause lasts longer than kLongestPauseNs unless it is renewed.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "switch/base/counters.h"
#include "switch/qos/settings.h"

namespace weft::qos {

class PfcReceiver {
 public:
  /// More than the longest pause of a port of 100 Mbit/s (65535 quanta: 336 ms).
  static constexpr TimeNs kLongestPauseNs = 400'000'000;

  struct Counters {
    Counter pfc, pause;  ///< frames that were heeded
    Counter malformed;   ///< too short, an unknown opcode, another destination, or no class enabled
    Counter ignored;     ///< frames that only speak of what the port does not heed
    Counter clamped;     ///< pauses longer than kLongestPauseNs
    std::array<Counter, kClasses> xoff, xon;  ///< by priority; xon: quanta 0
    std::array<Counter, kClasses> paused_ns;  ///< by priority, up to the last time that it could send again
  };

  PfcReceiver() = default;
  explicit PfcReceiver(const PortSettings& settings) noexcept;

  /// A MAC control frame without FCS, untagged.
  void on_frame(TimeNs now, std::span<const std::uint8_t> frame) noexcept;

  /// Priorities that may not send now.
  [[nodiscard]] std::uint8_t paused(TimeNs now) noexcept { return now < first_end_ ? paused_ : expire(now); }
  /// As of the last call of paused() or on_frame().
  [[nodiscard]] std::uint8_t last_paused() const noexcept { return paused_; }
  /// When a priority is next set free; kNever when none is paused.
  [[nodiscard]] TimeNs next_end() const noexcept { return first_end_; }
  /// Since when a priority has been paused without a gap. Undefined while it is not.
  [[nodiscard]] TimeNs paused_since(unsigned priority) const noexcept { return since_[priority]; }
  /// When a pause for the priority was last received.
  [[nodiscard]] TimeNs last_xoff(unsigned priority) const noexcept { return last_xoff_[priority]; }

  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  void adopt(const PfcReceiver& old) noexcept;

 private:
  std::uint8_t expire(TimeNs now) noexcept;
  void set(TimeNs now, unsigned priority, std::uint16_t quanta) noexcept;
  void release(TimeNs now, unsigned priority) noexcept;
  void find_first_end() noexcept;
  void on_pfc(TimeNs now, std::span<const std::uint8_t> body) noexcept;

  std::uint8_t heeded_ = 0;  ///< priorities of PFC
  bool flow_control_ = false;
  std::uint64_t speed_mbps_ = 100'000;
  std::uint8_t paused_ = 0;
  TimeNs first_end_ = kNever;
  std::array<TimeNs, kClasses> end_{};
  std::array<TimeNs, kClasses> since_{};
  std::array<TimeNs, kClasses> last_xoff_{};
  Counters counters_;
};

}  // namespace weft::qos
