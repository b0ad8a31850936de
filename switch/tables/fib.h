// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The forwarding information base: longest prefix match of IPv4 and IPv6 destinations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "switch/wire/addresses.h"

struct rte_fib;
struct rte_fib6;

namespace weft::tables {

/// A multibit trie with strides of eight bits, every prefix expanded to the end of its stride. Small while there are
/// few prefixes: a node is 1 KiB, and n prefixes that share their upper bytes need few nodes. A lookup reads one word
/// per byte of the longest prefix around the destination.
class ByteTrie {
 public:
  /// @param none  result where no prefix matches, below 2^31
  explicit ByteTrie(std::uint32_t none) : entries_(kNode, none) {}

  /// Adds a prefix. Prefixes must come in the order of their lengths, shortest first.
  /// @param bytes  address in wire order, at least (length + 7) / 8 bytes, host bits 0
  /// @param value  below 2^31
  void add(const std::uint8_t* bytes, unsigned length, std::uint32_t value);

  /// IPv4 addresses in host order.
  void lookup(std::span<const std::uint32_t> addresses, std::uint32_t* values) const noexcept;
  /// IPv6 addresses in wire order.
  void lookup(std::span<const std::array<std::uint8_t, 16>> addresses, std::uint32_t* values) const noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return entries_.size() * sizeof entries_[0]; }

 private:
  static constexpr std::size_t kNode = 256;
  static constexpr std::uint32_t kChild = 1u << 31;

  /// The entry `offset` of the node that `entry` refers to.
  static constexpr std::uint32_t position(std::uint32_t entry, std::uint32_t offset) noexcept {
    return entry << 8 | offset;
  }

  std::vector<std::uint32_t> entries_;  // a value, or kChild and the number of a node
};

/// Immutable: an update builds another one. Lookups may run on any number of threads.
class Fib {
 public:
  struct Route {
    wire::IpPrefix prefix;  ///< host bits are ignored
    std::uint32_t value;    ///< below 2^31
  };

  /// @param routes  at most one for each prefix
  /// @param none    result where no route matches, below 2^31
  /// @param large_table_routes  an address family with more routes than this gets DPDK's table: DIR24_8 for IPv4
  ///        (64 MiB, one or two memory reads a lookup) or the trie of rte_fib6 (64 MiB, and 1 KiB for each eight bits
  ///        of each prefix behind the 24th). If that memory is not there, the small structure takes its place.
  Fib(std::span<const Route> routes, std::uint32_t none, std::size_t large_table_routes);

  /// @param addresses  IPv4 destinations in host order
  /// @param values     as many results
  void lookup(std::span<const std::uint32_t> addresses, std::span<std::uint32_t> values) const noexcept;
  /// @param addresses  IPv6 destinations in wire order
  void lookup(std::span<const std::array<std::uint8_t, 16>> addresses, std::span<std::uint32_t> values) const noexcept;

  /// True when the address family uses DPDK's table.
  [[nodiscard]] bool large_v4() const noexcept { return large_v4_ != nullptr; }
  [[nodiscard]] bool large_v6() const noexcept { return large_v6_ != nullptr; }

 private:
  struct Deleter {
    void operator()(rte_fib* fib) const noexcept;
    void operator()(rte_fib6* fib) const noexcept;
  };

  ByteTrie small_v4_;
  ByteTrie small_v6_;
  std::unique_ptr<rte_fib, Deleter> large_v4_;
  std::unique_ptr<rte_fib6, Deleter> large_v6_;
};

}  // namespace weft::tables
