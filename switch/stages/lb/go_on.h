// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The sink of units that hold packets, for the ingress half of a stage.
#pragma once

#include "switch/pipeline/context.h"
#include "switch/pipeline/packet.h"
#include "switch/stages/lb/held_room.h"
#include "switch/stages/lb/reorder.h"

namespace weft::stages {

/// Packets as numbers of protocol units.
[[nodiscard]] inline std::uint64_t number_of(const rte_mbuf* m) noexcept {
  return reinterpret_cast<std::uint64_t>(m);
}
[[nodiscard]] inline rte_mbuf* packet_of(std::uint64_t number) noexcept {
  return reinterpret_cast<rte_mbuf*>(number);
}

/// Lets packets wait and go on. Those that wait take room meanwhile. Resumed packets follow the batch. A packet that is
/// in it and goes on at once stays in its place, as long as nothing was resumed in front of it.
class GoOn {
 public:
  /// @param room  of what waits in the stage; nullptr: nothing does
  GoOn(pipeline::Context& context, HeldRoom* room) : context_(context), room_(room) {}

  /// The packet of the batch that is looked at next.
  void begin(rte_mbuf* m) noexcept {
    current_ = m;
    in_place_ = false;
  }
  /// The packet of begin() is to wait. False when the switch has no room for it.
  [[nodiscard]] bool wait(std::uint64_t packet) noexcept {
    if (room_ == nullptr || !room_->take(context_, packet_of(packet))) return false;
    current_ = nullptr;
    return true;
  }
  void go_on(std::uint64_t packet) noexcept {
    rte_mbuf* m = packet_of(packet);
    const bool waited = m != current_;
    if (!waited && !resuming_) {
      in_place_ = true;
      return;
    }
    if (waited) room_->give_back(context_, m);
    resuming_ = true;
    context_.resume(m);
  }
  /// The packet of begin() has gone on as part of its batch; otherwise it is to be removed from it.
  [[nodiscard]] bool in_place() const noexcept { return in_place_; }

 private:
  pipeline::Context& context_;
  HeldRoom* room_;
  const rte_mbuf* current_ = nullptr;  ///< nullptr when it waits
  bool in_place_ = false;
  bool resuming_ = false;
};

/// What the reorder buffer holds and lets go.
class ReorderGoOn final : public GoOn, public ReorderSink {
 public:
  using GoOn::GoOn;
  [[nodiscard]] bool reserve(std::uint64_t packet) noexcept override { return wait(packet); }
  void deliver(std::uint64_t packet) noexcept override { go_on(packet); }
};

}  // namespace weft::stages
