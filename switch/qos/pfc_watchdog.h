// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Ends PFC storms and deadlocks: a priority that the peer has kept paused for the detection time while packets waited
// is taken away from the peer until no pause has come for the restoration time.
#pragma once

#include <array>
#include <cstdint>

#include "switch/base/counters.h"
#include "switch/qos/pfc_receiver.h"

namespace weft::qos {

class PfcWatchdog {
 public:
  struct Counters {
    std::array<Counter, kClasses> detected, restored;  ///< by priority
  };

  PfcWatchdog() = default;
  explicit PfcWatchdog(const WatchdogSettings& settings) noexcept : settings_(settings) {}

  /// Looks at the port.
  /// @param waiting  priorities in whose queues packets wait
  /// @return priorities in a storm
  std::uint8_t step(TimeNs now, const PfcReceiver& receiver, std::uint8_t waiting) noexcept {
    // Nothing is paused nor in a storm: the usual case.
    if ((receiver.last_paused() | storm_) == 0) return 0;
    return look(now, receiver, waiting);
  }
  [[nodiscard]] std::uint8_t storm() const noexcept { return storm_; }
  [[nodiscard]] bool drops() const noexcept { return settings_.action == WatchdogSettings::Action::drop; }
  /// When step() may find something new; kNever when nothing is going on.
  [[nodiscard]] TimeNs deadline(const PfcReceiver& receiver, std::uint8_t waiting) const noexcept;
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  void adopt(const PfcWatchdog& old) noexcept;

 private:
  std::uint8_t look(TimeNs now, const PfcReceiver& receiver, std::uint8_t waiting) noexcept;
  // From when on a paused priority has had packets waiting.
  [[nodiscard]] TimeNs stuck_since(const PfcReceiver& receiver, unsigned priority) const noexcept;

  WatchdogSettings settings_{};
  std::uint8_t storm_ = 0;
  std::uint8_t waited_ = 0;  ///< paused with packets waiting at the last look
  std::array<TimeNs, kClasses> waits_since_{};
  Counters counters_;
};

}  // namespace weft::qos
