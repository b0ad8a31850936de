// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// rdma_track: a table of the queue pairs whose RoCEv2 packets pass the switch. Every direction of a queue pair has an
// entry of its own, named by source address, destination address and destination QPN; a pair of entries belongs to one
// queue pair. Entries come from CM messages (UDP 4791, QP1), from the configuration, or from the packets themselves,
// and go when nothing is seen for some time. What each counter means is said in rdma_track_order.h, how two directions
// are brought together in rdma_track_pairing.h.
//
// NAKs, ACKs and CNPs count in the direction in which they travel: those of an entry's peer are about its own requests,
// and `weftctl show qps` has them too.
//
// The stage changes no packet and drops none. A packet without an entry (table full) is forwarded like all others.
// Entries are told apart by addresses, not by VLAN: hosts with equal addresses in two VLANs share them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "switch/pipeline/stage.h"
#include "switch/stages/rdma_track/tracked_qps.h"
#include "switch/stages/rdma_track/unit.h"

namespace weft::stages {

/// Where later stages of a worker find its tracker. Publishes TrackedQps.
class RdmaTrackShared : public pipeline::StageShared, public TrackedQps {
 public:
  explicit RdmaTrackShared(const pipeline::StageBuild& build);

  [[nodiscard]] QpTracker& tracker(std::uint16_t worker) const noexcept override { return *trackers_[worker]; }
  void set_tracker(std::uint16_t worker, QpTracker* tracker) noexcept { trackers_[worker] = tracker; }

  /// The worker that has a pair of the option `qps`, by its position there.
  [[nodiscard]] std::uint16_t worker_of_configured(std::size_t pair) const noexcept { return configured_[pair]; }
  /// Other pairs are configured. They stay with the worker that sees their packets already.
  void update(const pipeline::StageBuild& build);
  /// nullptr without `steer: qp`.
  [[nodiscard]] QpMailRings* mail() const noexcept { return mail_.get(); }

 private:
  std::vector<QpTracker*> trackers_;
  std::vector<std::uint16_t> configured_;
  std::unique_ptr<QpMailRings> mail_;
};

class RdmaTrackStage : public pipeline::Stage {
 public:
  RdmaTrackStage(const pipeline::StageBuild& build, RdmaTrackShared& shared);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return tracker_.next_deadline(); }
  void on_timer(pipeline::Context& context, std::uint32_t) override;
  [[nodiscard]] bool takes_mail() const override { return tracker_.takes_mail(); }
  [[nodiscard]] bool has_mail() const override { return tracker_.has_mail(); }
  void on_mail(pipeline::Context& context) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return tracker_.counters().all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"qps"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

  [[nodiscard]] QpTracker& tracker() noexcept { return tracker_; }
  /// Takes over new timeouts and configured pairs. Pairs that are no longer configured stay until they age.
  void update(const pipeline::StageBuild& build);

 private:
  void configure_pairs(const pipeline::StageBuild& build, const RdmaTrackShared& shared);

  std::optional<QpSteering> steering_;
  QpTracker tracker_;
  config::Value pairs_{};  ///< the option `qps`
  TimeNs now_ = 0;
};

/// What the stage knows about a packet that has passed it.
[[nodiscard]] inline QpView qp_of(const QpTracker& tracker, const rte_mbuf* m) noexcept {
  const pipeline::PacketMeta& meta = pipeline::meta(m);
  return tracker.view(meta.qp_handle, meta.parsed, pipeline::frame(m) + meta.parsed.l3_offset);
}

/// A row of `qps`. All rows have the same keys; what is not known is null.
[[nodiscard]] nlohmann::ordered_json qp_row(const QpTracker& tracker, std::uint32_t position, TimeNs now);

/// Registered as `rdma_track`. Options: max_qps, idle_timeout_s, closed_timeout_s, pairing, qps.
[[nodiscard]] pipeline::StageType rdma_track_stage_type();

}  // namespace weft::stages
