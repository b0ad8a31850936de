// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/context.h"
#include "switch/pipeline/stage.h"

namespace weft::pipeline {

/// The room in the shared buffer of packets that one instance of a stage holds: taken when a packet begins to wait,
/// given back when it goes on, and taken anew when a reload takes the packet along.
class HeldCharge {
 public:
  /// @param charges  false: what is held takes packet buffers alone
  explicit HeldCharge(bool charges) noexcept : charges_(charges) {}

  [[nodiscard]] bool charges() const noexcept { return charges_; }
  /// A packet is to wait. False when its priority group has no room.
  [[nodiscard]] bool take(Context& context, rte_mbuf* m) const noexcept { return !charges_ || context.charge(m); }
  /// A packet that waited goes on with the stages behind.
  void go_on(Context& context, rte_mbuf* m) const noexcept {
    if (charges_) context.release(m);
    context.resume(m);
  }
  /// A packet that waits goes along into the pipeline of a reload. False when it waits no more: its port is gone, and
  /// it was dropped, or its port's new group has no room for it, and it went on.
  [[nodiscard]] bool take_along(Context& context, rte_mbuf* m, const Adoption& adoption) const noexcept {
    if (charges_) context.release(m);
    if (!adoption.ports.rename(m)) {
      context.drop(m, DropReason::port_removed);
      return false;
    }
    if (take(context, m)) return true;
    context.resume(m);
    return false;
  }

 private:
  bool charges_;
};

}  // namespace weft::pipeline
