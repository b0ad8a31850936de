// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "switch/pipeline/packet.h"

namespace weft::pipeline {

/// What the ports of one switch are good for at the moment: whether each has a link, and whether packets may be spread
/// over it. An operator excludes a port from the path sets to have equal-cost traffic avoid it, while all other traffic
/// goes on using it. Control threads write; any thread reads.
class Links {
 public:
  /// All up, none excluded.
  explicit Links(std::size_t ports) : state_(std::make_unique<std::atomic<std::uint8_t>[]>(ports)) {}

  [[nodiscard]] bool up(PortIndex port) const noexcept { return (state(port) & kDown) == 0; }
  [[nodiscard]] bool excluded(PortIndex port) const noexcept { return (state(port) & kExcluded) != 0; }
  /// Packets may be spread over the port: its link is up, and it is not excluded.
  [[nodiscard]] bool path_up(PortIndex port) const noexcept { return state(port) == 0; }
  /// The same for all ports.
  [[nodiscard]] bool all_paths_up() const noexcept { return paths_down_.load(std::memory_order_relaxed) == 0; }
  /// Grows with every change.
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

  /// False when it was so already.
  bool set_up(PortIndex port, bool up) noexcept { return set(port, kDown, !up); }
  bool set_excluded(PortIndex port, bool excluded) noexcept { return set(port, kExcluded, excluded); }
  /// Something else has changed that decisions about ways out of the switch depend on.
  void note_change() noexcept { generation_.fetch_add(1, std::memory_order_release); }

 private:
  static constexpr std::uint8_t kDown = 1, kExcluded = 2;

  [[nodiscard]] std::uint8_t state(PortIndex port) const noexcept {
    return state_[port].load(std::memory_order_relaxed);
  }
  bool set(PortIndex port, std::uint8_t bit, bool on) noexcept {
    std::atomic<std::uint8_t>& state = state_[port];
    const std::uint8_t before = on ? state.fetch_or(bit, std::memory_order_relaxed)
                                   : state.fetch_and(static_cast<std::uint8_t>(~bit), std::memory_order_relaxed);
    const auto after = static_cast<std::uint8_t>(on ? before | bit : before & ~bit);
    if (after == before) return false;
    if ((before == 0) != (after == 0)) paths_down_.fetch_add(after == 0 ? ~0u : 1u, std::memory_order_relaxed);
    note_change();
    return true;
  }

  std::unique_ptr<std::atomic<std::uint8_t>[]> state_;
  std::atomic<std::uint32_t> paths_down_{0};
  std::atomic<std::uint32_t> generation_{1};
};

}  // namespace weft::pipeline
