// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/route_mirror.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <utility>

namespace weft::kernel {

using tables::RouteSource;
using tables::RouteSpec;

namespace {

// Prefixes that a switch never looks up: loopback, multicast, and link-local ones, which have no meaning without a
// link.
bool is_looked_up(const wire::IpPrefix& prefix) {
  const wire::IpAddress& a = prefix.address;
  return !a.is_loopback() && !a.is_multicast() && !(a.is_v6() && a.is_link_local());
}

}  // namespace

RouteMirror::Effect RouteMirror::apply(const RouteMessage& message) {
  if (!is_looked_up(message.prefix) || message.type == RTN_MULTICAST || message.type == RTN_THROW) return Effect::none;
  const Key key{message.prefix.network(), !message.local_table, message.priority};
  return message.removed ? remove(key, message) : add(key, message);
}

RouteMirror::Effect RouteMirror::add(const Key& key, const RouteMessage& message) {
  Route route{message.type, message.protocol, false, message.hops};
  const auto [at, inserted] = routes_.try_emplace(key, route);
  if (inserted) return Effect::changed;
  Route& known = at->second;
  // IPv6 messages hold all next hops of a route that was appended to.
  const bool behind = message.append && !key.prefix.address.is_v6();
  route.several = known.several || behind || (!message.replace && known.hops != route.hops);
  if (behind) route.hops = known.hops;
  const bool same = known.type == route.type && known.protocol == route.protocol && known.hops == route.hops;
  known = std::move(route);
  return same ? Effect::none : Effect::changed;
}

RouteMirror::Effect RouteMirror::remove(const Key& key, const RouteMessage& message) {
  const auto at = routes_.find(key);
  if (at == routes_.end()) return Effect::none;
  Route& known = at->second;
  const bool several = known.several;
  if (!key.prefix.address.is_v6() || message.hops.size() >= known.hops.size()) {
    routes_.erase(at);
    return several ? Effect::unclear : Effect::changed;
  }
  // IPv6: some of the next hops.
  std::erase_if(known.hops, [&](const RouteMessage::Hop& hop) {
    return std::any_of(message.hops.begin(), message.hops.end(), [&](const RouteMessage::Hop& gone) {
      return gone.index == hop.index && gone.gateway == hop.gateway;
    });
  });
  if (known.hops.empty()) routes_.erase(at);
  return several ? Effect::unclear : Effect::changed;
}

RouteSpec RouteMirror::translate(const wire::IpPrefix& prefix, const Route& route, const PortByIndex& ports) {
  RouteSpec spec{prefix, RouteSource::kernel, tables::kUnreachable, {}, route.protocol};
  switch (route.type) {
    case RTN_LOCAL:
    case RTN_ANYCAST:
      spec.source = RouteSource::local;
      spec.special = tables::kLocal;
      return spec;
    case RTN_BROADCAST:
      spec.source = RouteSource::broadcast;
      spec.special = tables::kBroadcast;
      return spec;
    case RTN_BLACKHOLE:
      spec.special = tables::kBlackhole;
      return spec;
    case RTN_PROHIBIT:
      spec.special = tables::kProhibited;
      return spec;
    case RTN_UNICAST:
      break;
    default:
      return spec;
  }
  for (const RouteMessage::Hop& hop : route.hops) {
    const auto port = ports.find(hop.index);
    if (port == ports.end() || hop.dead || spec.hops.size() == kMaxHops) continue;
    spec.hops.push_back({port->second, hop.gateway.value_or(wire::IpAddress{}), !hop.gateway});
    if (!hop.gateway && route.protocol == RTPROT_KERNEL) spec.source = RouteSource::connected;
  }
  if (spec.hops.empty()) spec.special = tables::kLocal;
  return spec;
}

bool has_weights(const RouteMessage& message) noexcept {
  return std::any_of(message.hops.begin(), message.hops.end(),
                     [&](const RouteMessage::Hop& hop) { return hop.weight != message.hops.front().weight; });
}

std::vector<RouteSpec> RouteMirror::specs(const PortByIndex& ports) const {
  std::vector<RouteSpec> specs;
  specs.reserve(routes_.size());
  for (const auto& [key, route] : routes_) {
    if (!specs.empty() && specs.back().prefix == key.prefix) continue;
    specs.push_back(translate(key.prefix, route, ports));
  }
  return specs;
}

}  // namespace weft::kernel
