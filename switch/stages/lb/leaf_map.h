// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "switch/wire/addresses.h"

namespace weft::stages {

/// Behind which leaf an address lies. Immutable.
class LeafMap {
 public:
  static constexpr std::uint16_t kNone = 0xffff;

  struct Entry {
    wire::IpPrefix prefix{};
    std::uint16_t leaf = kNone;
  };

  LeafMap() : LeafMap(std::span<const Entry>()) {}
  /// @param entries  prefixes without a common address; of two that overlap one wins
  explicit LeafMap(std::span<const Entry> entries);

  /// The leaf whose prefixes hold the address; kNone when none has.
  [[nodiscard]] std::uint16_t find(const wire::IpAddress& address) const noexcept;
  /// The same for an IPv4 address in host order.
  [[nodiscard]] std::uint16_t find_v4(std::uint32_t address) const noexcept {
    // The last range that begins at the address or in front of it, without a branch that depends on the address.
    const Range* range = v4_.data();
    for (std::size_t left = v4_.size(); left > 1;) {
      const std::size_t half = left / 2;
      range += range[half].first <= address ? half : 0;
      left -= half;
    }
    return address <= range->last ? range->leaf : kNone;
  }

 private:
  // Addresses of one IPv4 prefix.
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::uint16_t leaf = kNone;
  };

  std::vector<Range> v4_;    ///< by first address; the first one is of nobody
  std::vector<Entry> rest_;  ///< IPv6, by first address
};

}  // namespace weft::stages
