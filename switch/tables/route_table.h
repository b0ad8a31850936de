// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Everything that forwarding reads and only configuration changes, as one immutable object.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "switch/pipeline/switch_info.h"
#include "switch/tables/fib.h"
#include "switch/tables/next_hops.h"

namespace weft::tables {

/// Where a route comes from. Of equal prefixes, the first source wins.
enum class RouteSource : std::uint8_t {
  local,      ///< an address of the switch; the subnet-router anycast address (RFC 4291 2.6.1)
  broadcast,  ///< first and last address of a connected IPv4 subnet, which are not forwarded to
  connected,  ///< the subnet of an address of the switch
  static_,    ///< configured
  kernel,     ///< of the kernel's tables, and none of the above
};
/// `static` for static_.
[[nodiscard]] std::string_view to_string(RouteSource source) noexcept;

struct Route {
  wire::IpPrefix prefix{};
  RouteSource source = RouteSource::static_;
  NextHopId next_hop = kUnreachable;
  std::uint8_t protocol = 0;  ///< kernel: who installed it there (RTPROT_BGP and so on); 0: not said
};

/// A route as somebody else has decided on it, the kernel.
struct RouteSpec {
  struct Hop {
    pipeline::PortIndex port = 0;
    wire::IpAddress gateway{};  ///< of either family; meaningless if attached
    bool attached = false;      ///< the destinations themselves are on the link
    friend bool operator==(const Hop&, const Hop&) = default;
  };
  wire::IpPrefix prefix{};
  RouteSource source = RouteSource::kernel;
  NextHopId special = kUnreachable;  ///< what happens without hops: one of the numbers below kFirstHop
  std::vector<Hop> hops{};
  std::uint8_t protocol = 0;  ///< see Route
  friend bool operator==(const RouteSpec&, const RouteSpec&) = default;
};

class RouteTable {
 public:
  /// @param routes  static routes; a next hop without a port that is in no connected subnet is left out
  /// @param neighbours  outlives the table
  /// @param large_table_routes  see Fib
  RouteTable(const Interfaces& interfaces, std::span<const pipeline::RouteInfo> routes, NeighbourTable& neighbours,
             std::size_t large_table_routes);
  /// A table of these routes alone. Of several with one prefix, the first one counts. Throws std::length_error when
  /// they do not fit into memory; see Fib.
  RouteTable(const Interfaces& interfaces, std::span<const RouteSpec> routes, NeighbourTable& neighbours,
             std::size_t large_table_routes);

  [[nodiscard]] const Fib& fib() const noexcept { return fib_; }
  [[nodiscard]] const NextHops& next_hops() const noexcept { return next_hops_; }
  /// Ordered by prefix.
  [[nodiscard]] std::span<const Route> routes() const noexcept { return routes_; }

 private:
  [[nodiscard]] std::vector<Route> collect(const Interfaces& interfaces, std::span<const pipeline::RouteInfo> routes);

  [[nodiscard]] std::vector<Route> collect(std::span<const RouteSpec> routes);

  NextHops next_hops_;
  std::vector<Route> routes_;
  Fib fib_;
};

}  // namespace weft::tables
