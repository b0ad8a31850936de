// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>
#include <vector>

#include "collectives/policy/policy.h"
#include "switch/base/rng.h"

namespace weft::inc::policy {

/// Units of 1000 bytes, of which a group wants 10 and takes one.
inline MemoryDemand units(std::uint32_t most = 10, std::uint32_t least = 1) {
  return {.unit_bytes = 1000, .least_units = least, .units = most, .message_bytes = 500};
}

inline Request request(const Topology& t, GroupId group, const std::vector<std::string>& hosts) {
  Request r;
  r.group = group;
  for (const std::string& host : hosts) r.hosts.push_back(t.find(host));
  r.types = bit(DataType::fp32);
  r.memory = units();
  return r;
}

inline LinkId link_between(const Topology& t, const std::string& a, const std::string& b) {
  for (const Arc& arc : t.up(t.find(a))) {
    if (arc.to == t.find(b)) return arc.link;
  }
  return kNoLink;
}

inline Request random_request(const Topology& t, GroupId group, Rng& rng) {
  Request r = request(t, group, {});
  std::vector<NodeId> all;
  for (NodeId n = 0; n < t.nodes().size(); ++n) {
    if (!t.node(n).is_switch) all.push_back(n);
  }
  for (std::size_t count = 2 + rng.below(5); count > 0 && !all.empty(); --count) {
    const std::size_t at = rng.below(all.size());
    r.hosts.push_back(all[at]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  }
  r.memory.fixed_bytes = rng.below(500);
  r.memory.unit_bytes_per_endpoint = rng.below(2) * 300;
  r.memory.units = static_cast<std::uint32_t>(1 + rng.below(10));
  r.memory.least_units = static_cast<std::uint32_t>(1 + rng.below(r.memory.units));
  r.rate_mbps = static_cast<std::uint32_t>(rng.below(3) * 10);
  r.prefer = rng.below(2) == 0 ? Prefer::latency : Prefer::bandwidth;
  r.mode = rng.below(2) == 0 ? Mode::ii : Mode::iii;
  r.job = static_cast<std::uint32_t>(rng.below(3));
  r.duty_per_mille = static_cast<std::uint32_t>(1 + rng.below(600));
  r.period_ns = rng.below(3) * 1'000'000;
  return r;
}

}  // namespace weft::inc::policy
