// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/route_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace weft::tables {

using pipeline::PortIndex;
using pipeline::RouteInfo;
using wire::IpAddress;
using wire::IpPrefix;

namespace {

std::vector<Fib::Route> for_fib(std::span<const Route> routes) {
  std::vector<Fib::Route> entries;
  entries.reserve(routes.size());
  for (const Route& route : routes) entries.push_back({route.prefix, route.next_hop});
  return entries;
}

std::optional<PortIndex> port_of(const Interfaces& interfaces, const RouteInfo::Hop& hop) {
  if (hop.port) return hop.port;
  for (PortIndex port = 0; port < interfaces.size(); ++port) {
    if (interfaces.on_link(port, hop.address)) return port;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(RouteSource source) noexcept {
  constexpr std::array<std::string_view, 5> kNames{"local", "broadcast", "connected", "static", "kernel"};
  return kNames[static_cast<std::size_t>(source)];
}

RouteTable::RouteTable(const Interfaces& interfaces, std::span<const RouteInfo> routes, NeighbourTable& neighbours,
                       std::size_t large_table_routes)
    : next_hops_(interfaces, neighbours),
      routes_(collect(interfaces, routes)),
      fib_(for_fib(routes_), kUnreachable, large_table_routes) {}

RouteTable::RouteTable(const Interfaces& interfaces, std::span<const RouteSpec> routes, NeighbourTable& neighbours,
                       std::size_t large_table_routes)
    : next_hops_(interfaces, neighbours),
      routes_(collect(routes)),
      fib_(for_fib(routes_), kUnreachable, large_table_routes) {}

std::vector<Route> RouteTable::collect(std::span<const RouteSpec> routes) {
  std::vector<Route> ordered;
  ordered.reserve(routes.size());
  std::vector<NextHopId> hops;
  for (const RouteSpec& route : routes) {
    hops.clear();
    for (const RouteSpec::Hop& hop : route.hops) {
      hops.push_back(hop.attached ? next_hops_.add_attached(hop.port) : next_hops_.add_router(hop.port, hop.gateway));
    }
    const NextHopId next_hop = hops.empty() ? route.special : next_hops_.add_group(hops);
    ordered.push_back({route.prefix.network(), route.source, next_hop, route.protocol});
  }
  const auto less = [](const Route& a, const Route& b) { return a.prefix < b.prefix; };
  const auto same = [](const Route& a, const Route& b) { return a.prefix == b.prefix; };
  if (!std::is_sorted(ordered.begin(), ordered.end(), less)) std::stable_sort(ordered.begin(), ordered.end(), less);
  ordered.erase(std::unique(ordered.begin(), ordered.end(), same), ordered.end());
  return ordered;
}

std::vector<Route> RouteTable::collect(const Interfaces& interfaces, std::span<const RouteInfo> routes) {
  std::map<IpPrefix, Route> found;
  const auto add = [&](const IpPrefix& prefix, RouteSource source, NextHopId next_hop) {
    const auto [at, inserted] = found.try_emplace(prefix, Route{prefix, source, next_hop});
    if (!inserted && source < at->second.source) at->second = {prefix, source, next_hop};
  };
  for (PortIndex port = 0; port < interfaces.size(); ++port) {
    for (const IpPrefix& own : interfaces[port].v4) {
      add({own.address, 32}, RouteSource::local, kLocal);
      add(own.network(), RouteSource::connected, next_hops_.add_attached(port));
      if (!has_broadcast(own)) continue;
      add({own.network().address, 32}, RouteSource::broadcast, kBroadcast);
      add({broadcast_address(own), 32}, RouteSource::broadcast, kBroadcast);
    }
    for (const IpPrefix& own : interfaces[port].v6) {
      add({own.address, 128}, RouteSource::local, kLocal);
      add(own.network(), RouteSource::connected, next_hops_.add_attached(port));
      // Both addresses of a /127 belong to hosts (RFC 6164).
      if (own.length < 127) add({own.network().address, 128}, RouteSource::local, kLocal);
    }
  }
  for (const RouteInfo& route : routes) {
    std::vector<NextHopId> hops;
    for (const RouteInfo::Hop& hop : route.via) {
      if (const auto port = port_of(interfaces, hop)) hops.push_back(next_hops_.add_router(*port, hop.address));
    }
    const NextHopId unusable = route.blackhole ? kBlackhole : kUnreachable;
    add(route.prefix.network(), RouteSource::static_, hops.empty() ? unusable : next_hops_.add_group(hops));
  }
  std::vector<Route> ordered;
  ordered.reserve(found.size());
  for (const auto& [prefix, route] : found) ordered.push_back(route);
  return ordered;
}

}  // namespace weft::tables
