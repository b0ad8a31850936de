// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A three-tier fat tree (EPIC appendix L.2) with one network interface for each GPU, and the ways of rings over it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/policy/topology.h"
#include "tools/flow/fair_shares.h"

namespace weft::flow {

/// GPUs are numbered through, leaf by leaf.
using Gpu = std::uint32_t;

struct FabricSpec {
  std::uint32_t pods = 4, leaves = 4, spines = 4;  ///< leaves and spines of each pod
  std::uint32_t gpus_per_leaf = 8;
  std::uint32_t cores_per_spine = 4;  ///< spines of one number in all pods share them
  std::uint32_t link_mbps = 100'000;  ///< of each direction
  double payload_ratio = 1;           ///< payload per byte on a link

  [[nodiscard]] std::uint32_t gpus() const noexcept { return pods * leaves * gpus_per_leaf; }
};

/// Which of several shortest ways a flow takes.
enum class Paths : std::uint8_t {
  balanced,  ///< that with the fewest flows, of all groups that are there, on its fullest link
  ecmp,      ///< by a hash of its ends, its group and the seed
  spray,     ///< all of them at once
};

class Fabric {
 public:
  explicit Fabric(const FabricSpec& spec);

  [[nodiscard]] const FabricSpec& spec() const noexcept { return spec_; }
  /// For policies. Names are "h0", "leaf0", "spine0", "core0".
  [[nodiscard]] inc::policy::Topology topology(const inc::policy::Abilities& abilities) const;
  /// The node of a GPU in topology().
  [[nodiscard]] inc::policy::NodeId node_of(Gpu gpu) const noexcept;
  /// Payload in bytes per nanosecond of a link.
  [[nodiscard]] double link_rate() const noexcept;
  /// Of each direction: up of policy link i is 2 i, down is 2 i + 1.
  [[nodiscard]] std::vector<double> capacities() const;
  /// 0: links of GPUs; 1: leaf to spine; 2: spine to core.
  [[nodiscard]] unsigned tier_of(std::uint32_t direction) const noexcept;
  [[nodiscard]] std::uint32_t leaf_of(Gpu gpu) const noexcept { return gpu / spec_.gpus_per_leaf; }
  [[nodiscard]] std::uint32_t pod_of(Gpu gpu) const noexcept { return leaf_of(gpu) / spec_.leaves; }
  /// Links between two GPUs.
  [[nodiscard]] unsigned hops(Gpu a, Gpu b) const noexcept;

  /// A flow from one GPU to another, as what it takes of links; each link once. Some way must be up.
  /// @param choice  of ecmp: the hash. Others make none of it
  [[nodiscard]] std::vector<Use> way(Gpu from, Gpu to, Paths paths, std::uint64_t choice) const;
  /// Takes a link away from ways that are asked for afterwards, or gives it back. What was taken twice has to be given
  /// back twice.
  void set_link_up(inc::policy::LinkId link, bool up) noexcept { up ? --down_[link] : ++down_[link]; }
  /// Two leaves that nothing connects any more.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::uint32_t>> cut_off() const;
  /// What `balanced` counts: flows of rings, present or not yet begun.
  void count(std::span<const Use> uses, double sign);

 private:
  [[nodiscard]] std::uint32_t gpu_link(Gpu gpu) const noexcept { return gpu; }
  [[nodiscard]] std::uint32_t leaf_link(std::uint32_t leaf, std::uint32_t spine) const noexcept {
    return spec_.gpus() + leaf * spec_.spines + spine;
  }
  [[nodiscard]] std::uint32_t core_link(std::uint32_t pod, std::uint32_t spine, std::uint32_t core) const noexcept {
    return spec_.gpus() + spec_.pods * spec_.leaves * spec_.spines +
           (pod * spec_.spines + spine) * spec_.cores_per_spine + core;
  }
  /// Directions between the leaves of two GPUs, of a way by its number.
  void middle(Gpu from, Gpu to, std::uint32_t way, std::vector<std::uint32_t>& out) const;
  [[nodiscard]] std::uint32_t ways(Gpu from, Gpu to) const noexcept;
  /// Those of which all links are up.
  [[nodiscard]] std::vector<std::uint32_t> ways_up(Gpu from, Gpu to) const;
  [[nodiscard]] bool is_up(std::span<const std::uint32_t> directions) const noexcept;
  [[nodiscard]] std::uint32_t emptiest(Gpu from, Gpu to, std::span<const std::uint32_t> ways) const;

  FabricSpec spec_;
  std::vector<double> counted_;      ///< by direction
  std::vector<std::uint32_t> down_;  ///< by link: how often it was taken away
};

/// Adds uses up, each link once, in the order of links.
[[nodiscard]] std::vector<Use> merged(std::vector<Use> uses);

[[nodiscard]] std::string_view to_string(Paths paths) noexcept;

}  // namespace weft::flow
