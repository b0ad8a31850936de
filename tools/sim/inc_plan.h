// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Collectives that the switches add up: which groups there are, over which trees, and what their ranks run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/engine/control_message.h"
#include "switch/config/schema/schema.h"
#include "tools/sim/topology.h"
#include "tools/sim/workload.h"

namespace weft::sim {

/// What the user of a library calls. ReduceScatter and AllGather are sequences of Reduce and Broadcast, one for each
/// rank (EPIC appendix A).
enum class Operation : std::uint8_t { allreduce, reduce, broadcast, barrier, reducescatter, allgather };

struct IncGroup {
  std::vector<std::uint32_t> hosts{};  ///< by rank
  Operation operation = Operation::allreduce;
  std::uint64_t bytes = 0;  ///< of the vector; of ReduceScatter and AllGather the sum of all fragments
  std::uint32_t root = 0;   ///< of Reduce and Broadcast
};

struct IncSpec {
  std::vector<IncGroup> groups;
  std::uint32_t times = 1;  ///< one after the other
  std::uint32_t window = 8, message_packets = 16;
  config::Value options{};                 ///< more of what a group of stage inc takes: mode, slots...
  std::map<std::uint32_t, TimeNs> late{};  ///< hosts that send nothing before this time; receives are posted
};

/// The invocations that make one operation of a group, numbered from `sequence` on.
[[nodiscard]] std::vector<inc::ControlMessage> invocations_of(const IncSpec& spec, std::uint32_t group,
                                                              std::uint16_t sequence);
/// Number of a group in its control messages.
[[nodiscard]] constexpr std::uint32_t inc_group_id(std::uint32_t group) noexcept {
  return group + 1;
}

/// One end of an edge, on a switch.
struct IncEnd {
  wire::IpAddress address{}, peer{};
  std::uint32_t qp = 0, peer_qp = 0;
  std::uint32_t first_rx = 0, first_tx = 0;
  std::string loss_recovery;
  bool is_parent = false;
  std::vector<std::uint32_t> ranks;  ///< behind it; of a host the one that it is
  bool is_host = false;
};

/// A node of a group's tree.
struct IncNode {
  std::uint32_t at = 0;  ///< switch
  std::vector<IncEnd> ends;
};

/// What is known of a rank's queue pair before the switches are made.
struct IncRankQp {
  std::uint32_t qpn = 0, first_psn = 0, expects_psn = 0;
  std::string loss_recovery;
};

/// The tree of a group: the leaves of its hosts, and shortest ways from them to a switch that all of them can reach.
/// Groups get different roots where there are several.
/// @param qps  by rank
[[nodiscard]] std::vector<IncNode> inc_tree(const Topology& topology, const std::vector<std::uint32_t>& hosts,
                                            std::uint32_t group, const std::vector<IncRankQp>& qps);
/// The QP number that a switch has towards a host, or towards a neighbour: of what inc_tree() makes.
[[nodiscard]] const IncEnd& inc_end_of_rank(const std::vector<IncNode>& tree, std::uint32_t rank);

/// The item of stage inc's `groups` for a node.
[[nodiscard]] config::Value inc_group_value(const IncSpec& spec, std::uint32_t group, const IncNode& node,
                                            std::uint32_t mtu);

}  // namespace weft::sim
