// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "switch/tables/page_memory.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// The NAKs that requests which passed out of order will make their in-order responders send, and that have not passed
/// yet. A responder sends one for each PSN that it waits for when another comes first (IBTA 9.7.5.2).
///
/// Few directions have any at a time, so they lie in a table of their own: with room for one direction in 64, and for
/// kMost NAKs of each. What finds no room takes the place of what has been there longest.
class GapNaks {
 public:
  static constexpr std::uint32_t kMost = 9;  ///< of one direction; the oldest make room

  /// @param directions  as many as the table of queue pairs holds
  explicit GapNaks(std::uint32_t directions);

  /// A NAK that asks for `psn` will come for the requests of the direction at a position of that table.
  void expect(std::uint32_t position, wire::Psn psn) noexcept;
  /// One has come. True when it was expected; it is not any more.
  [[nodiscard]] bool take(std::uint32_t position, wire::Psn psn) noexcept;
  /// No NAK is expected any more.
  void forget(std::uint32_t position) noexcept;
  /// A direction has another position now.
  void moved(std::uint32_t from, std::uint32_t to) noexcept;
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return slots_.bytes(); }

 private:
  static constexpr std::uint32_t kWays = 4;  ///< slots in which a direction may lie; the newest is the first
  static constexpr std::uint32_t kLeastSlots = 64;

  struct Packed {
    std::uint8_t bytes[3];
    friend bool operator==(const Packed&, const Packed&) noexcept = default;
  };
  [[nodiscard]] static Packed packed(wire::Psn psn) noexcept {
    const std::uint32_t v = psn.value();
    return {{static_cast<std::uint8_t>(v >> 16), static_cast<std::uint8_t>(v >> 8), static_cast<std::uint8_t>(v)}};
  }
  struct Slot {
    std::uint32_t owner;  ///< position + 1; 0: free
    std::uint8_t count;
    Packed psns[kMost];  ///< in the order in which they were expected
  };
  static_assert(sizeof(Slot) == 32);

  [[nodiscard]] Slot* find(std::uint32_t position) noexcept;
  [[nodiscard]] Slot& claim(std::uint32_t position) noexcept;

  std::uint32_t sets_;
  tables::PageArray<Slot> slots_;
};

}  // namespace weft::stages
