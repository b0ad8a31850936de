// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who is connected to whom, how fast, and under which addresses: the plan that switches, hosts and links are made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "switch/pipeline/packet.h"
#include "switch/pipeline/wire_framing.h"
#include "switch/wire/addresses.h"

namespace weft::sim {

using pipeline::PortIndex;

/// Rate, propagation delay and framing of both directions of a link.
struct Wire {
  std::uint64_t rate_mbps = 100'000;
  std::uint64_t delay_ns = 1'000;
  pipeline::WireFraming framing{};
};

struct HostPlan {
  std::string name;
  std::uint32_t tor = 0;  ///< index in switches
  PortIndex port = 0;     ///< of that switch
  Wire wire{};
  wire::IpAddress address{};
  wire::MacAddress mac{};
};

/// A port of a switch.
struct PortPlan {
  bool to_host = false;
  std::uint32_t peer = 0;   ///< index in hosts or in switches
  PortIndex peer_port = 0;  ///< of that switch
  Wire wire{};
  wire::MacAddress mac{};
  wire::IpAddress address{};  ///< of this end, whose subnet has 31 bits
  wire::IpAddress peer_address{};
};

struct SwitchPlan {
  std::string name;
  unsigned tier = 0;            ///< 0: has hosts, or may have
  std::vector<PortPlan> ports;  ///< hosts first
  wire::IpPrefix subnet{};      ///< of its hosts, when it has any
  std::uint32_t host_count = 0;
};

/// Rates of the usual topologies.
struct Rates {
  Wire host{};    ///< between a host and its leaf
  Wire fabric{};  ///< between switches
};

class Topology {
 public:
  /// Limits of the addressing plan.
  static constexpr std::uint32_t kMaxTors = 4096;
  static constexpr std::uint32_t kMaxHostsPerTor = 1024;

  /// Every leaf is connected to every spine.
  static Topology leaf_spine(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_per_leaf,
                             const Rates& rates);
  /// k pods of k/2 ToRs and k/2 aggregation switches, and (k/2)^2 cores. `k` is even.
  /// @param hosts_per_tor  k/2 of them use k ports of a ToR; more than that share what its k/2 uplinks have
  static Topology fat_tree(std::uint32_t k, std::uint32_t hosts_per_tor, const Rates& rates);

  std::uint32_t add_switch(std::string name, unsigned tier);
  std::uint32_t add_host(std::string name, std::uint32_t tor, const Wire& wire);
  /// Hosts of both switches have been added before.
  void add_link(std::uint32_t a, std::uint32_t b, const Wire& wire);

  [[nodiscard]] const std::vector<HostPlan>& hosts() const noexcept { return hosts_; }
  [[nodiscard]] const std::vector<SwitchPlan>& switches() const noexcept { return switches_; }

  /// Ports of switch `from` that lie on a shortest way to switch `to`, ascending; empty when there is none.
  [[nodiscard]] std::vector<PortIndex> next_hops(std::uint32_t from, std::uint32_t to) const;
  /// Links on the shortest way between two hosts, those of the hosts included; 0 when there is none.
  [[nodiscard]] std::vector<Wire> path(std::uint32_t from_host, std::uint32_t to_host) const;

 private:
  [[nodiscard]] std::vector<std::uint32_t> distances(std::uint32_t to) const;

  std::vector<HostPlan> hosts_;
  std::vector<SwitchPlan> switches_;
  std::uint32_t links_ = 0;
  mutable std::vector<std::vector<std::uint32_t>> distance_cache_;
};

}  // namespace weft::sim
