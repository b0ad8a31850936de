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

  LeafMap() = default;
  /// @param entries  prefixes without a common address; of two that overlap one wins
  explicit LeafMap(std::span<const Entry> entries);

  /// The leaf whose prefixes hold the address; kNone when none has.
  [[nodiscard]] std::uint16_t find(const wire::IpAddress& address) const noexcept;

 private:
  std::vector<Entry> entries_;  ///< by first address
};

}  // namespace weft::stages
