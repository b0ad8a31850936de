// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which queue of a port may send next: strict queues first, the highest number before all others; what they leave is
// shared by deficit weighted round robin. Shapers of queues and of the port hold both back.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "switch/qos/settings.h"
#include "switch/qos/shaper.h"

namespace weft::qos {

class Scheduler {
 public:
  /// May be sent from one queue before asking again. The packet that reaches the limit still goes: the queue has less
  /// in its next turn.
  struct Turn {
    std::uint8_t queue;
    std::int64_t bytes;
  };

  /// @param max_frame_bytes  of the port
  Scheduler(const PortSettings& settings, std::uint32_t max_frame_bytes);

  /// Of the queues in `ready`, those that shapers let send: none when the port's does not.
  [[nodiscard]] std::uint8_t may_send(TimeNs now, std::uint8_t ready) const noexcept {
    return any_shaper_ ? shape(now, ready) : ready;
  }

  /// Chooses from `ready`, bit i for queue i, of which at least one is set.
  [[nodiscard]] Turn next(std::uint8_t ready) noexcept {
    if (const std::uint32_t strict = ready & strict_; strict != 0) {
      const auto queue = static_cast<std::uint8_t>(31 - std::countl_zero(strict));
      return {queue, one_by_one(queue) ? 1 : kNoLimit};
    }
    while ((ready >> current_ & 1) == 0 || deficit_[current_] <= 0) {
      const std::uint32_t above = ready & (~std::uint32_t{1} << current_);
      current_ = static_cast<std::uint8_t>(std::countr_zero(above != 0 ? above : std::uint32_t{ready}));
      deficit_[current_] += quantum_[current_];
    }
    return {current_, one_by_one(current_) ? 1 : deficit_[current_]};
  }

  /// What the queue of the last next() sent.
  /// @param emptied  nothing waits there any more: what is left of its turn is lost
  void sent(TimeNs now, std::uint8_t queue, std::uint64_t bytes, bool emptied) noexcept {
    if ((strict_ >> queue & 1) == 0) {
      deficit_[queue] -= static_cast<std::int64_t>(bytes);
      if (emptied && deficit_[queue] > 0) deficit_[queue] = 0;
    }
    if (any_shaper_) [[unlikely]] {
      shaper_[queue].sent(now, bytes);
      port_.sent(now, bytes);
    }
  }

  /// When shapers let one of `ready` send; kNever with none ready.
  [[nodiscard]] TimeNs opens_at(std::uint8_t ready) const noexcept;

 private:
  static constexpr std::int64_t kNoLimit = INT64_MAX;
  // A shaper is asked again after every packet.
  [[nodiscard]] bool one_by_one(std::uint8_t queue) const noexcept {
    return any_shaper_ && (port_.limited() || (shaped_ >> queue & 1) != 0);
  }
  [[nodiscard]] std::uint8_t shape(TimeNs now, std::uint8_t ready) const noexcept;

  std::uint8_t strict_ = 0;
  std::uint8_t shaped_ = 0;
  bool any_shaper_ = false;
  std::uint8_t current_ = 0;
  std::array<std::int64_t, kClasses> deficit_{};
  std::array<std::int64_t, kClasses> quantum_{};
  std::array<Shaper, kClasses> shaper_{};
  Shaper port_;
};

}  // namespace weft::qos
