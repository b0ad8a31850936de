// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/pfc_watchdog.h"

#include <algorithm>

namespace weft::qos {

TimeNs PfcWatchdog::stuck_since(const PfcReceiver& receiver, unsigned priority) const noexcept {
  return std::max(receiver.paused_since(priority), waits_since_[priority]);
}

std::uint8_t PfcWatchdog::look(TimeNs now, const PfcReceiver& receiver, std::uint8_t waiting) noexcept {
  if (!settings_.enabled) return 0;
  const std::uint8_t stuck = receiver.last_paused() & waiting;
  for (unsigned i = 0; i < kClasses; ++i) {
    const auto bit = static_cast<std::uint8_t>(1u << i);
    if ((storm_ & bit) != 0) {
      if (now - receiver.last_xoff(i) < settings_.restoration_ns) continue;
      storm_ &= static_cast<std::uint8_t>(~bit);
      counters_.restored[i].add(1);
    } else if ((stuck & bit) != 0) {
      if ((waited_ & bit) == 0) waits_since_[i] = now;
      if (now - stuck_since(receiver, i) < settings_.detection_ns) continue;
      storm_ |= bit;
      counters_.detected[i].add(1);
    }
  }
  waited_ = stuck;
  return storm_;
}

TimeNs PfcWatchdog::deadline(const PfcReceiver& receiver, std::uint8_t waiting) const noexcept {
  if (!settings_.enabled) return kNever;
  TimeNs next = kNever;
  const std::uint8_t stuck = receiver.last_paused() & waiting & ~storm_;
  for (unsigned i = 0; i < kClasses; ++i) {
    if ((storm_ >> i & 1) != 0) next = std::min(next, receiver.last_xoff(i) + settings_.restoration_ns);
    if ((stuck >> i & 1) == 0) continue;
    next = (waited_ >> i & 1) == 0 ? 0 : std::min(next, stuck_since(receiver, i) + settings_.detection_ns);
  }
  return next;
}

void PfcWatchdog::adopt(const PfcWatchdog& old) noexcept {
  for (unsigned i = 0; i < kClasses; ++i) {
    counters_.detected[i].carry(old.counters_.detected[i]);
    counters_.restored[i].carry(old.counters_.restored[i]);
  }
  storm_ = settings_.enabled ? old.storm_ : 0;
  waited_ = old.waited_;
  waits_since_ = old.waits_since_;
}

}  // namespace weft::qos
