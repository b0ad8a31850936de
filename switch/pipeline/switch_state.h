// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "switch/pipeline/links.h"
#include "switch/pipeline/owner_table.h"
#include "switch/pipeline/registry.h"
#include "switch/pipeline/stage.h"
#include "switch/pipeline/steer.h"
#include "switch/qos/shared_buffer.h"

namespace weft::pipeline {

/// A port that goes out of the path sets, or comes back.
struct PathChange {
  PortIndex port = 0;
  bool excluded = false;
};

/// What the workers of one switch share: its description, the shared state of its stages, who owns which port, and
/// link states. Built before the workers start and outlives them.
class SwitchState {
 public:
  /// @param info  validated description; MAC addresses of ports are set
  /// @param port_owner  owning worker of each port, by PortIndex
  /// @param previous  the state whose place this one will take by adopt(); stages that need not be replaced are shared
  ///                  with it
  SwitchState(const Registry& registry, SwitchInfo info, std::vector<std::uint16_t> port_owner, std::uint16_t workers,
              Steering steer = {}, const SwitchState* previous = nullptr);

  [[nodiscard]] const SwitchInfo& info() const noexcept { return info_; }
  /// Of the registry that the stages come from.
  [[nodiscard]] const DropReasons& drop_reasons() const noexcept { return drop_reasons_; }
  [[nodiscard]] std::uint16_t workers() const noexcept { return workers_; }
  [[nodiscard]] std::uint16_t owner_of_port(PortIndex port) const noexcept { return port_owner_[port]; }
  /// Every worker sends through the port itself, from an egress queue of its own to a transmit queue of its own;
  /// otherwise the owner alone does. Not with qos, an emulated rate or a delay.
  [[nodiscard]] bool tx_per_worker(PortIndex port) const noexcept { return tx_per_worker_[port]; }
  /// Before the first pipeline is made.
  void set_tx_per_worker(PortIndex port) noexcept { tx_per_worker_[port] = true; }

  /// The worker that handles a packet: the table first, its addresses otherwise.
  [[nodiscard]] std::uint16_t owner_of(const wire::Parsed& parsed) const noexcept {
    return owners_->worker_of(parsed, workers_);
  }
  /// Which worker has which flow. A reload goes on with it.
  [[nodiscard]] OwnerTable& owners() const noexcept { return *owners_; }
  /// The same with SteerMode::qp and several workers; nullptr otherwise.
  [[nodiscard]] OwnerTable* steer_table() const noexcept { return steers_qps_ ? owners_.get() : nullptr; }

  /// Stage types in the order of the pipeline.
  [[nodiscard]] const std::vector<const StageType*>& types() const noexcept { return types_; }
  /// Shared state of the stage at a position of the pipeline; nullptr when it has none.
  [[nodiscard]] StageShared* shared(std::size_t stage) const noexcept { return shared_[stage].get(); }
  /// Shared state by stage name; nullptr when that stage is not in the pipeline or has none.
  [[nodiscard]] StageShared* shared(std::string_view stage) const noexcept;
  /// An interface that the shared state of a stage has published (StageShared::publish()); nullptr when none has. Of
  /// several, the first stage's.
  template <typename T>
  [[nodiscard]] T* capability() const noexcept {
    return static_cast<T*>(find_offered(typeid(T)));
  }

  [[nodiscard]] bool link_up(PortIndex port) const noexcept { return links_.up(port); }
  /// Changes through set_link() and change_paths().
  [[nodiscard]] const Links& links() const noexcept { return links_; }
  /// The packet memory, whose gauges any thread may read at any time; nullptr without SwitchInfo::qos.
  [[nodiscard]] qos::SharedBuffer* buffer() const noexcept { return buffer_.get(); }

  /// What a worker that sends through a port tells the other workers when it has served it. On a line of its own, which
  /// they fetch only when they ask.
  struct alignas(64) ToldPort {
    std::atomic<std::uint32_t> packets{0};  ///< in its queues. Who sees a change also sees what the worker did before
    qos::Gauge bytes;                       ///< in its FIFO; with qos each queue has a gauge in buffer()
    std::atomic<std::uint64_t> tx_bytes{0}, ce_marked{0};  ///< as in PortView
    std::atomic<TimeNs> at{0};                             ///< when
  };
  [[nodiscard]] const ToldPort& told(PortIndex port, std::uint16_t worker) const noexcept {
    return told_[static_cast<std::size_t>(port) * workers_ + worker];
  }
  [[nodiscard]] ToldPort& tell(PortIndex port, std::uint16_t worker) noexcept {
    return told_[static_cast<std::size_t>(port) * workers_ + worker];
  }

  /// Links::generation().
  [[nodiscard]] std::uint32_t link_generation() const noexcept { return links_.generation(); }
  /// Control thread. Tells the stages when the state changed.
  void set_link(PortIndex port, bool up);
  /// Largest IP packet that leaves through a port; PortInfo::mtu_bytes until set_mtu(). Any thread.
  [[nodiscard]] std::uint32_t mtu_bytes(PortIndex port) const noexcept {
    return mtu_bytes_[port].load(std::memory_order_relaxed);
  }
  /// Has the workers tell their stages of the links (Stage::on_links()), though none has changed: the switch begins to
  /// forward, or its tables are new. Control thread.
  void announce_links() noexcept { links_.note_change(); }
  /// The device of a port has another MTU now. Workers follow from their next burst on. Control thread.
  void set_mtu(PortIndex port, std::uint32_t mtu_bytes);
  /// Excludes ports from the path sets, or includes them again; see Links. Control thread.
  /// @return empty; or why nothing has changed: a port is in no path set, or one would be left without a path
  [[nodiscard]] std::string change_paths(std::span<const PathChange> changes);

  /// Where the stage at a position stands in the previous state, which keeps it; nullopt for one that was made anew.
  [[nodiscard]] std::optional<std::size_t> kept(std::size_t stage) const noexcept { return kept_[stage]; }
  /// What stage instances at a position are made from.
  [[nodiscard]] StageBuild build_of(std::size_t stage, std::uint16_t worker) const;
  /// Position of a stage; nullopt when it is not in the pipeline.
  [[nodiscard]] std::optional<std::size_t> position(std::string_view stage) const noexcept;

  /// Other options hold for the stage at a position from now on: every instance has been told, and what was decided by
  /// the old ones is forgotten. Control thread, while nobody else reads info().
  void set_options(std::size_t stage, config::Value options);

  /// Takes the place of `old`, the previous state of the constructor: links, and what shared state has learned. Control
  /// thread, while all workers stand still.
  void adopt(SwitchState& old, const PortMap& ports);

  /// Runs the housekeeping of all shared state. Control thread, about once a second.
  void housekeeping(TimeNs now);

 private:
  [[nodiscard]] void* find_offered(std::type_index type) const noexcept;
  [[nodiscard]] std::vector<PathSet> path_sets() const;
  [[nodiscard]] std::string why_not(const PathSet& set, std::span<const PathChange> changes) const;

  const DropReasons& drop_reasons_;
  SwitchInfo info_;
  Links links_;
  std::uint16_t workers_;
  std::vector<std::uint16_t> port_owner_;
  std::vector<bool> tx_per_worker_;
  std::shared_ptr<OwnerTable> owners_;
  bool steers_qps_;
  std::vector<const StageType*> types_;
  std::vector<std::shared_ptr<StageShared>> shared_;
  std::vector<std::optional<std::size_t>> kept_;
  std::unique_ptr<qos::SharedBuffer> buffer_;
  std::unique_ptr<ToldPort[]> told_;                         ///< by port, then by worker
  std::unique_ptr<std::atomic<std::uint32_t>[]> mtu_bytes_;  ///< by PortIndex
};

}  // namespace weft::pipeline
