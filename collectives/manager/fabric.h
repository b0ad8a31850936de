// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The topology with the addresses that queue pairs need. A host is one network interface: a machine with several is
// several hosts.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
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

/// Numbers of one kind that are free, as ranges: the lowest is found at once, however many are in use.
class FreeNumbers {
 public:
  /// All from `first` to `last` are free.
  FreeNumbers(std::uint32_t first, std::uint32_t last) { ranges_.emplace(first, last); }

  /// The lowest one, which is taken; nullopt: there is none.
  [[nodiscard]] std::optional<std::uint32_t> take();
  /// False: it was not free.
  bool take(std::uint32_t number);
  /// Of a number that was taken.
  void give_back(std::uint32_t number);

 private:
  std::map<std::uint32_t, std::uint32_t> ranges_;  ///< first to last, none next to another
};

/// Numbers of queue pairs at switches and first PSNs for the trees of groups. It knows which numbers are in use.
class EndpointPlanner {
 public:
  explicit EndpointPlanner(std::uint64_t seed) : random_(seed) {}

  /// Fills in `record.switches` from its members and its decision's tree. A number of a queue pair is one that no other
  /// record has at the switch.
  void plan(const Fabric& fabric, GroupRecord& record);
  /// A record that an earlier planner has made has its numbers.
  void adopt(const GroupRecord& record);
  /// The numbers of a record that was planned or adopted are free, but those at `except`.
  void release(const GroupRecord& record, const std::set<policy::NodeId>& except = {});

 private:
  [[nodiscard]] std::uint32_t psn() noexcept { return static_cast<std::uint32_t>(random_.next() & 0xffffff); }
  [[nodiscard]] FreeNumbers& numbers_of(policy::NodeId node);

  Rng random_;
  std::unordered_map<policy::NodeId, FreeNumbers> numbers_;
};

/// The switch's end for each rank, in their order: what a rank connects to.
[[nodiscard]] std::vector<EndpointRecord> rank_endpoints(const GroupRecord& record);

}  // namespace weft::inc::manager
