// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <span>
#include <utility>

#include "switch/stages/lb/go_on.h"
#include "switch/stages/lb_tag/conweave.h"

namespace weft::stages {

/// What ConweaveDestination does with the packets of one burst.
class ConweaveLeaf::Burst final : public GoOn, public ConweaveSink {
 public:
  /// @param leaf  nullptr: nothing waits
  Burst(pipeline::Context& context, ConweaveLeaf* leaf)
      : GoOn(context, leaf == nullptr ? nullptr : &leaf->room_), context_(context) {}

  [[nodiscard]] pipeline::Context& context() const noexcept { return context_; }
  [[nodiscard]] bool reserve(std::uint64_t packet) noexcept override { return wait(packet); }
  void deliver(std::uint64_t packet) noexcept override { go_on(packet); }
  void reply(const ConweaveReply& reply) noexcept override {
    if (count_ < replies_.size()) replies_[count_++] = reply;
  }
  /// The replies to the packet of begin().
  [[nodiscard]] std::span<const ConweaveReply> take_replies() noexcept {
    return {replies_.data(), std::exchange(count_, 0)};
  }

 private:
  pipeline::Context& context_;
  std::array<ConweaveReply, 2> replies_{};  ///< rtt and clear
  std::size_t count_ = 0;
};

}  // namespace weft::stages
