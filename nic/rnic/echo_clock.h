// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Round trips to a switch on the way (switch/wire/rtt_echo.h), for senders that go by delay: TIMELY and Swift have a
// second rate by them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nic/rnic/config.h"
#include "switch/wire/types.h"

namespace weft::nic {

/// Which request has asked a switch on the way for an echo. One at a time: no other one asks before the echo is there
/// or so late that it is taken for lost. Each time that is so the next one is waited for twice as long, up to kMostWait
/// times, so that echoes which are late because queues are long are heard in the end; an echo makes it short again.
class EchoClock {
 public:
  static constexpr Time kMostWait = 64;

  /// @param lost_after  nanoseconds, more than 0
  explicit EchoClock(Time lost_after) noexcept : lost_after_(lost_after), wait_(lost_after) {}

  /// A request leaves that was not sent before.
  /// @return true: it asks
  [[nodiscard]] bool asks(Time now, wire::Psn psn) noexcept {
    if (waiting_) {
      if (now - asked_at_ < wait_) return false;
      wait_ = std::min(2 * wait_, kMostWait * lost_after_);
    }
    waiting_ = true;
    psn_ = psn;
    asked_at_ = now;
    return true;
  }
  /// An echo of this PSN comes.
  /// @return the round trip; 0: nobody waits for it
  [[nodiscard]] Time answered(Time now, wire::Psn psn) noexcept {
    if (!waiting_ || psn != psn_) return 0;
    waiting_ = false;
    wait_ = lost_after_;
    return now - asked_at_;
  }

 private:
  Time lost_after_;
  Time wait_;
  Time asked_at_ = 0;
  wire::Psn psn_{};
  bool waiting_ = false;
};

}  // namespace weft::nic
