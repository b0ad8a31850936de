// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The topology with the addresses that queue pairs need. A host is one network interface: a machine with several is
// several hosts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/manager/group_record.h"
#include "collectives/policy/policy.h"
#include "switch/base/rng.h"

namespace weft::inc::manager {

/// Addresses of a link's ends, by tier.
struct LinkAddresses {
  wire::IpAddress lower{}, upper{};
};

struct Fabric {
  policy::Topology topology;
  std::vector<LinkAddresses> addresses;                    ///< by LinkId
  std::map<wire::IpAddress, policy::NodeId> by_address{};  ///< of hosts; see index()

  /// The host that has an address; kNoNode: none. Without index() it looks at all links.
  [[nodiscard]] policy::NodeId host_of(const wire::IpAddress& address) const;
  /// To be called when all is there.
  void index();
};

/// Numbers of a switch's queue pairs and first PSNs for a group's tree.
class EndpointPlanner {
 public:
  explicit EndpointPlanner(std::uint64_t seed) : random_(seed) {}

  /// Fills in `record.switches` from its members and its decision's tree. A number of a queue pair is one that no
  /// record of `others` has at the switch.
  /// @param others  at least those that have a switch in common with it
  void plan(const Fabric& fabric, const std::vector<const GroupRecord*>& others, GroupRecord& record);

 private:
  [[nodiscard]] std::uint32_t psn() noexcept { return static_cast<std::uint32_t>(random_.next() & 0xffffff); }

  Rng random_;
};

/// The switch's end for each rank, in their order: what a rank connects to.
[[nodiscard]] std::vector<EndpointRecord> rank_endpoints(const GroupRecord& record);

}  // namespace weft::inc::manager
