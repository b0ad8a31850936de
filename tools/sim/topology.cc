// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/topology.h"

#include <cassert>
#include <deque>

namespace weft::sim {
namespace {

constexpr std::uint32_t kUnknown = ~0u;
// 10.0.0.0/8: twelve bits of the ToR, and eleven of the hosts' subnets of two addresses each.
constexpr std::uint32_t kHostNetwork = 10u << 24;
constexpr unsigned kTorBits = 11;
// 172.16.0.0/12: a subnet of two addresses for each link between switches.
constexpr std::uint32_t kLinkNetwork = 172u << 24 | 16u << 16;

wire::MacAddress switch_mac(std::uint32_t index, std::size_t port) {
  return wire::MacAddress::from_u64(std::uint64_t{0x02} << 40 | std::uint64_t{index} << 16 | port);
}

wire::MacAddress host_mac(std::uint32_t index) {
  return wire::MacAddress::from_u64(std::uint64_t{0x06} << 40 | index);
}

}  // namespace

std::uint32_t Topology::add_switch(std::string name, unsigned tier) {
  switches_.push_back({.name = std::move(name), .tier = tier, .ports = {}});
  return static_cast<std::uint32_t>(switches_.size() - 1);
}

std::uint32_t Topology::add_host(std::string name, std::uint32_t tor, const Wire& wire) {
  SwitchPlan& sw = switches_[tor];
  assert(sw.host_count == sw.ports.size() && sw.host_count < kMaxHostsPerTor && tor < kMaxTors);
  const auto index = static_cast<std::uint32_t>(hosts_.size());
  const auto port = static_cast<PortIndex>(sw.ports.size());
  const std::uint32_t network = kHostNetwork | tor << kTorBits;
  sw.subnet = {wire::IpAddress::v4(network), 32 - kTorBits};
  const std::uint32_t own = network | sw.host_count++ << 1;
  sw.ports.push_back({.to_host = true,
                      .peer = index,
                      .wire = wire,
                      .mac = switch_mac(tor, port),
                      .address = wire::IpAddress::v4(own),
                      .peer_address = wire::IpAddress::v4(own | 1)});
  hosts_.push_back({std::move(name), tor, port, wire, wire::IpAddress::v4(own | 1), host_mac(index)});
  return index;
}

void Topology::add_link(std::uint32_t a, std::uint32_t b, const Wire& wire) {
  const std::uint32_t network = kLinkNetwork | links_++ << 1;
  const auto port_a = static_cast<PortIndex>(switches_[a].ports.size());
  const auto port_b = static_cast<PortIndex>(switches_[b].ports.size());
  const auto low = wire::IpAddress::v4(network);
  const auto high = wire::IpAddress::v4(network | 1);
  switches_[a].ports.push_back({false, b, port_b, wire, switch_mac(a, port_a), low, high});
  switches_[b].ports.push_back({false, a, port_a, wire, switch_mac(b, port_b), high, low});
}

Topology Topology::leaf_spine(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_per_leaf,
                              const Rates& rates) {
  Topology t;
  for (std::uint32_t i = 0; i < leaves; ++i) t.add_switch("leaf" + std::to_string(i), 0);
  for (std::uint32_t i = 0; i < spines; ++i) t.add_switch("spine" + std::to_string(i), 1);
  for (std::uint32_t h = 0; h < leaves * hosts_per_leaf; ++h) {
    t.add_host("host" + std::to_string(h), h / hosts_per_leaf, rates.host);
  }
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (std::uint32_t spine = 0; spine < spines; ++spine) t.add_link(leaf, leaves + spine, rates.fabric);
  }
  return t;
}

Topology Topology::fat_tree(std::uint32_t k, std::uint32_t hosts_per_tor, const Rates& rates) {
  assert(k % 2 == 0);
  const std::uint32_t half = k / 2;
  Topology t;
  for (std::uint32_t i = 0; i < k * half; ++i) t.add_switch("tor" + std::to_string(i), 0);
  for (std::uint32_t i = 0; i < k * half; ++i) t.add_switch("agg" + std::to_string(i), 1);
  for (std::uint32_t i = 0; i < half * half; ++i) t.add_switch("core" + std::to_string(i), 2);
  for (std::uint32_t h = 0; h < k * half * hosts_per_tor; ++h) {
    t.add_host("host" + std::to_string(h), h / hosts_per_tor, rates.host);
  }
  const std::uint32_t first_agg = k * half;
  const std::uint32_t first_core = 2 * k * half;
  for (std::uint32_t pod = 0; pod < k; ++pod) {
    for (std::uint32_t tor = 0; tor < half; ++tor) {
      for (std::uint32_t agg = 0; agg < half; ++agg) {
        t.add_link(pod * half + tor, first_agg + pod * half + agg, rates.fabric);
      }
    }
  }
  for (std::uint32_t pod = 0; pod < k; ++pod) {
    for (std::uint32_t agg = 0; agg < half; ++agg) {
      for (std::uint32_t core = 0; core < half; ++core) {
        t.add_link(first_agg + pod * half + agg, first_core + agg * half + core, rates.fabric);
      }
    }
  }
  return t;
}

std::vector<std::uint32_t> Topology::distances(std::uint32_t to) const {
  std::vector<std::uint32_t> distance(switches_.size(), kUnknown);
  distance[to] = 0;
  std::deque<std::uint32_t> todo{to};
  while (!todo.empty()) {
    const std::uint32_t at = todo.front();
    todo.pop_front();
    for (const PortPlan& port : switches_[at].ports) {
      if (port.to_host || distance[port.peer] != kUnknown) continue;
      distance[port.peer] = distance[at] + 1;
      todo.push_back(port.peer);
    }
  }
  return distance;
}

std::vector<PortIndex> Topology::next_hops(std::uint32_t from, std::uint32_t to) const {
  distance_cache_.resize(switches_.size());
  std::vector<std::uint32_t>& distance = distance_cache_[to];
  if (distance.size() != switches_.size()) distance = distances(to);
  std::vector<PortIndex> hops;
  if (from == to || distance[from] == kUnknown) return hops;
  for (std::size_t p = 0; p < switches_[from].ports.size(); ++p) {
    const PortPlan& port = switches_[from].ports[p];
    if (!port.to_host && distance[port.peer] + 1 == distance[from]) hops.push_back(static_cast<PortIndex>(p));
  }
  return hops;
}

std::vector<Wire> Topology::path(std::uint32_t from_host, std::uint32_t to_host) const {
  const HostPlan& from = hosts_[from_host];
  const HostPlan& to = hosts_[to_host];
  std::vector<Wire> wires{from.wire};
  std::uint32_t at = from.tor;
  while (at != to.tor) {
    const auto hops = next_hops(at, to.tor);
    if (hops.empty()) return {};
    const PortPlan& port = switches_[at].ports[hops.front()];
    wires.push_back(port.wire);
    at = port.peer;
  }
  wires.push_back(to.wire);
  return wires;
}

}  // namespace weft::sim
