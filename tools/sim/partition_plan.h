// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which devices run together, and for how long parts of a network can run by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "tools/sim/topology.h"
#include "tools/sim/workload.h"

namespace weft::sim {

struct PartitionPlan {
  /// How long all partitions run by themselves at most. It follows from the topology alone: a run ends at a multiple of
  /// it, whatever its partitions are.
  TimeNs window = 0;
  std::uint32_t count = 0;               ///< of partitions
  std::vector<std::uint32_t> of_switch;  ///< the partition of each switch, and of its hosts
};

/// Every switch is a partition with its hosts, if it has any. Links between switches that are shorter than the window
/// join what they connect, and so do transfers that wait for what happens elsewhere than at the host that sends them.
/// @param datagrams  a transfer's end is known to its receiver alone
/// @param most       partitions; 0: as many as there are
[[nodiscard]] PartitionPlan plan_partitions(const Topology& topology, const Plan& plan, bool datagrams,
                                            std::uint32_t most = 0);

}  // namespace weft::sim
