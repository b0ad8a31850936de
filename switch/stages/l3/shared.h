// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "switch/pipeline/stage.h"
#include "switch/stages/kernel_punt/kernel_punt.h"
#include "switch/stages/l3/finish.h"
#include "switch/stages/l3/next_hop_choice.h"

namespace weft::stages {

/// Routes, neighbours, and the per-worker parts of routing of one switch; tables `routes` and `neighbours`. All member
/// functions but worker() and choice() are for control threads, any of them. Publishes itself and NextHopChoices, and
/// L3Kernel where there is one.
class L3Shared : public pipeline::StageShared, public NextHopChoices {
 public:
  explicit L3Shared(const pipeline::StageBuild& build);

  void housekeeping(TimeNs now) override;
  /// What was learned on a port is forgotten when its link goes down.
  void on_link(pipeline::PortIndex port, bool up) override;
  /// Next hops follow; with SwitchInfo::kernel not before the kernel's routes are set again.
  void on_mtu(pipeline::PortIndex port, std::uint32_t mtu_bytes) override;
  /// Neighbours stay, but for those of ports that are gone or have left the neighbour's subnet.
  void adopt(pipeline::StageShared& old, const pipeline::Adoption& adoption) override;
  /// The groups of the routes.
  [[nodiscard]] std::vector<pipeline::PathSet> path_sets() const override;
  [[nodiscard]] std::vector<std::string_view> tables() const override;
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

  /// Replaces all static routes. Workers use the new table from their next burst on.
  void set_routes(std::vector<pipeline::RouteInfo> routes);

  /// The route that takes an address, as a row: {address, prefix, source, action, next_hops}. Any thread.
  [[nodiscard]] nlohmann::ordered_json route_of(const wire::IpAddress& address) const;

  // With SwitchInfo::kernel. The control plane's view of the kernel, from its threads.
  /// The way to the kernel and back; nullptr without SwitchInfo::kernel.
  [[nodiscard]] L3Kernel* kernel() noexcept { return kernel_.get(); }
  /// Replaces all addresses of the ports.
  void set_addresses(std::span<const pipeline::InterfaceAddress> addresses);
  /// Replaces all routes. Returns false, and nothing has changed, when they do not fit into memory.
  [[nodiscard]] bool set_routes(std::span<const tables::RouteSpec> routes);
  /// What the kernel knows of a neighbour.
  /// @param permanent  configured, not learned
  void learn(pipeline::PortIndex port, const wire::IpAddress& address,
             const tables::NeighbourTable::Advertisement& said, bool permanent, TimeNs now);
  /// The kernel found that a neighbour is gone, or has forgotten about it.
  enum class Loss : std::uint8_t { unreachable, forgotten };
  void lose(pipeline::PortIndex port, const wire::IpAddress& address, Loss loss, TimeNs now);

  /// What worker `index` finishes packets with. For that worker alone.
  [[nodiscard]] L3Finish& worker(std::uint16_t index) noexcept { return *workers_[index]; }
  [[nodiscard]] NextHopChoice& choice(std::uint16_t worker) noexcept override { return *workers_[worker]; }
  [[nodiscard]] std::vector<NextHopGroup> groups(std::uint64_t first, std::size_t members) const override;

 private:
  [[nodiscard]] std::unique_ptr<const tables::RouteTable> build_table(std::span<const pipeline::RouteInfo> routes);
  [[nodiscard]] nlohmann::ordered_json hop_texts(const tables::NextHops& hops, tables::NextHopId id) const;
  [[nodiscard]] nlohmann::ordered_json route_rows(std::uint64_t& cursor, std::size_t max) const;
  [[nodiscard]] nlohmann::ordered_json neighbour_rows(std::uint64_t& cursor, std::size_t max) const;
  [[nodiscard]] std::string hop_text(const tables::NextHops& hops, tables::NextHopId id) const;

  const pipeline::SwitchInfo& info_;
  std::size_t large_table_routes_;
  tables::NeighbourTimes times_;
  // In this order: deferred actions of the domain end before the neighbour table does, which they refer to.
  tables::Interfaces interfaces_;
  std::unique_ptr<tables::NeighbourTable> neighbours_;
  RcuDomain domain_;
  std::unique_ptr<RcuCell<tables::RouteTable>> routes_;
  std::vector<pipeline::RouteInfo> static_routes_;
  std::unique_ptr<L3Kernel> kernel_;
  std::vector<std::unique_ptr<L3Finish>> workers_;
  mutable std::mutex mutex_;  ///< among control threads
  TimeNs now_ = 0;            ///< of the last housekeeping
};

}  // namespace weft::stages
