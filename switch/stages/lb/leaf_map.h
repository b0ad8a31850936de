// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "switch/wire/addresses.h"
#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"

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
    // Mostly blocks of equal size have one leaf each: a load, where a search is a chain of them for each packet.
    const std::uint32_t block = (address - blocks_from_) >> block_bits_;
    if (block >= blocks_.size()) return kNone;
    const std::uint16_t leaf = blocks_[block];
    return leaf != kSearch ? leaf : search_v4(address);
  }

 private:
  // Addresses of one IPv4 prefix.
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::uint16_t leaf = kNone;
  };
  // Of a block in which not all addresses have the same leaf.
  static constexpr std::uint16_t kSearch = 0xfffe;
  static constexpr std::uint32_t kMostBlocks = 4096;

  void make_blocks();
  [[nodiscard]] std::uint16_t leaf_of_all(std::uint32_t first, std::uint32_t last) const noexcept;
  [[nodiscard]] const Range& range_of(std::uint32_t address) const noexcept {
    // The last range that begins at the address or in front of it, without a branch that depends on the address.
    const Range* range = v4_.data();
    for (std::size_t left = v4_.size(); left > 1;) {
      const std::size_t half = left / 2;
      range += range[half].first <= address ? half : 0;
      left -= half;
    }
    return *range;
  }
  [[nodiscard]] std::uint16_t search_v4(std::uint32_t address) const noexcept {
    const Range& range = range_of(address);
    return address <= range.last ? range.leaf : kNone;
  }

  std::vector<Range> v4_;              ///< by first address; the first one is of nobody
  std::vector<std::uint16_t> blocks_;  ///< leaves of blocks; addresses in front and behind have none
  std::uint32_t blocks_from_ = 0;
  std::uint32_t block_bits_ = 0;  ///< binary logarithm of a block's size
  std::vector<Entry> rest_;       ///< IPv6, by first address
};

/// Where a switch stands among leaves, and which of these its packets come from and go to. Immutable.
class LeafView {
 public:
  LeafView() = default;
  /// @param self  the switch's own leaf; LeafMap::kNone when it is none
  LeafView(LeafMap map, std::uint16_t self) : map_(std::move(map)), self_(self) {}

  [[nodiscard]] std::uint16_t self() const noexcept { return self_; }
  /// The leaf of the packet's source address; LeafMap::kNone when none has it.
  /// @param frame  the one that `parsed` belongs to
  [[nodiscard]] std::uint16_t of_source(const std::uint8_t* frame, const wire::Parsed& parsed) const noexcept {
    if (!parsed.has(wire::ParsedFlag::ipv6)) [[likely]]
      return map_.find_v4(static_cast<std::uint32_t>(parsed.address_key >> 32));
    return of_v6(frame + parsed.l3_offset + offsetof(wire::Ipv6Header, source));
  }
  /// The same of its destination address.
  [[nodiscard]] std::uint16_t of_destination(const std::uint8_t* frame, const wire::Parsed& parsed) const noexcept {
    if (!parsed.has(wire::ParsedFlag::ipv6)) [[likely]]
      return map_.find_v4(static_cast<std::uint32_t>(parsed.address_key));
    return of_v6(frame + parsed.l3_offset + offsetof(wire::Ipv6Header, destination));
  }
  /// As of_destination(); LeafMap::kNone also when it is the switch's own leaf.
  [[nodiscard]] std::uint16_t far(const std::uint8_t* frame, const wire::Parsed& parsed) const noexcept {
    const std::uint16_t leaf = of_destination(frame, parsed);
    return leaf == self_ ? LeafMap::kNone : leaf;
  }

 private:
  [[nodiscard]] std::uint16_t of_v6(const std::uint8_t* address) const noexcept;

  LeafMap map_;
  std::uint16_t self_ = LeafMap::kNone;
};

}  // namespace weft::stages
