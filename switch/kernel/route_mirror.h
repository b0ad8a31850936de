// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The kernel's routes as its messages tell them, and what they mean for a switch.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "switch/kernel/messages.h"
#include "switch/tables/route_table.h"

namespace weft::kernel {

/// Which interface is which port.
using PortByIndex = std::map<int, pipeline::PortIndex>;

/// Whether the next hops of a route have different weights, which weft takes as equal.
[[nodiscard]] bool has_weights(const RouteMessage& message) noexcept;

/// The tables local and main, local first, as in the kernel's default rules; of several routes to one prefix the one
/// with the lowest priority number counts.
///
/// The kernel does not tell of every change: routes that go with an interface or an address vanish in silence, and of
/// several routes with one prefix and priority only the first one is kept here. apply() says when only reading all
/// routes again tells the truth.
class RouteMirror {
 public:
  /// Next hops of one group that are used.
  static constexpr std::size_t kMaxHops = 64;

  enum class Effect : std::uint8_t { none, changed, unclear };
  Effect apply(const RouteMessage& message);
  void clear() { routes_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return routes_.size(); }

  /// Ordered by prefix, one for each. A route through interfaces that are no ports leads to the kernel, which knows how
  /// to go on; next hops on ports win over others of the same route.
  [[nodiscard]] std::vector<tables::RouteSpec> specs(const PortByIndex& ports) const;

 private:
  struct Key {
    wire::IpPrefix prefix{};
    bool main_table = false;
    std::uint32_t priority = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Route {
    std::uint8_t type;
    std::uint8_t protocol;
    bool several;  ///< the kernel has more routes with this key
    std::vector<RouteMessage::Hop> hops;
  };
  Effect add(const Key& key, const RouteMessage& message);
  Effect remove(const Key& key, const RouteMessage& message);
  [[nodiscard]] static tables::RouteSpec translate(const wire::IpPrefix& prefix, const Route& route,
                                                   const PortByIndex& ports);

  std::map<Key, Route> routes_;
};

}  // namespace weft::kernel
