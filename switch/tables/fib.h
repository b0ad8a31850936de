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

/// A route of one address family.
struct FibRoute {
  wire::IpPrefix prefix{};  ///< host bits are ignored
  std::uint32_t value = 0;  ///< below 2^31
};

/// The small table for IPv4: a trie with strides of 16, 8 and 8 bits, every prefix expanded to the end of its stride.
/// 256 KiB, of which only what traffic reaches is ever cached, and 1 KiB for each /16 and /24 with longer prefixes in
/// it.
class TrieV4 {
 public:
  /// @param routes  IPv4, at most one for each prefix, shortest first
  /// @param none    result where no route matches, below 2^31
  /// Throws std::length_error when it would take more than 64 MiB.
  TrieV4(std::span<const FibRoute> routes, std::uint32_t none);

  /// @param addresses  in host order
  void lookup(std::span<const std::uint32_t> addresses, std::uint32_t* values) const noexcept;

 private:
  void add(const wire::IpPrefix& prefix, std::uint32_t leaf);

  // An entry is a position shifted by eight, and in its lower eight bits which bits of the next byte of the address are
  // added to that position: all for a node, none for a leaf. A leaf's position is an entry that is the leaf itself, at
  // the beginning, where values_ says what it means.
  std::vector<std::uint32_t> entries_;
  std::vector<std::uint32_t> values_;
  std::size_t root_ = 0;
};

/// The small table for IPv6: a trie with strides of eight bits in which a node says how many bytes all its prefixes
/// share before the byte that it resolves. So there are at most as many nodes, of about 1 KiB, as prefixes, and a leaf
/// finds its subnets in two or three steps.
class TrieV6 {
 public:
  using Address = std::array<std::uint8_t, 16>;  ///< in wire order

  /// @param routes  IPv6, at most one for each prefix, shortest first
  TrieV6(std::span<const FibRoute> routes, std::uint32_t none);

  void lookup(std::span<const Address> addresses, std::uint32_t* values) const noexcept;

 private:
  struct Node {
    std::uint64_t pattern = 0;   // eight bytes of the address from `window` on that must match, as they lie in memory
    std::uint64_t mask = 0;
    std::uint32_t mismatch = 0;  // value where they do not
    std::uint8_t window = 0;
    std::uint8_t branch = 0;     // the byte that is resolved
    std::array<std::uint32_t, 256> entries{};
  };
  std::uint32_t build(std::span<const FibRoute*> routes, unsigned depth, std::uint32_t fallback);
  void set_path(Node& node, const Address& address, unsigned depth, unsigned branch) const noexcept;

  std::vector<Node> nodes_;
  std::uint32_t root_ = 0;  // as an entry
};

/// Immutable: an update builds another one. Lookups may run on any number of threads.
class Fib {
 public:
  using Route = FibRoute;

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

  std::unique_ptr<TrieV4> small_v4_;
  std::unique_ptr<TrieV6> small_v6_;
  std::unique_ptr<rte_fib, Deleter> large_v4_;
  std::unique_ptr<rte_fib6, Deleter> large_v6_;
};

}  // namespace weft::tables
