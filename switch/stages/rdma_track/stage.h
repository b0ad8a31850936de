// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// rdma_track: a table of the queue pairs whose RoCEv2 packets pass the switch. Every direction of a queue pair has an
// entry of its own, named by source address, destination address and destination QPN; a pair of entries belongs to one
// queue pair. Entries come from CM messages (UDP 4791, QP1), from the configuration, or from the packets themselves,
// and go when nothing is seen for some time. What each counter means is said in order.h, how two directions are
// brought together in pairing.h.
//
// NAKs, ACKs and CNPs count in the direction in which they travel: those of an entry's peer are about its own requests,
// and `weftctl show qps` has them too.
//
// The stage changes no packet and drops none. A packet without an entry (table full) is forwarded like all others.
// Entries are told apart by addresses, not by VLAN: hosts with equal addresses in two VLANs share them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "switch/pipeline/stage.h"
#include "switch/stages/rdma_track/agent_book.h"
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

  /// What agents on hosts have told; a command may hold it longer than this lives.
  [[nodiscard]] const std::shared_ptr<AgentBook>& agents() const noexcept { return agents_; }
  /// Other hosts may report. What is gone with those that may not any more: by number of the change, so that each
  /// worker hears of it once.
  struct AgentsChange {
    std::uint64_t number = 0;
    std::vector<AgentAction> gone{};
  };
  const AgentsChange& set_agents(const config::Value& options);
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"qp_agents"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  std::vector<QpTracker*> trackers_;
  std::vector<std::uint16_t> configured_;
  std::unique_ptr<QpMailRings> mail_;
  std::shared_ptr<AgentBook> agents_;
  config::Value agents_option_{};
  AgentsChange agents_change_;
};

/// Whose a queue pair is, by its address and number, as an agent on its host told: one worker's copy.
class QpOwners {
 public:
  struct Owner {
    std::string process, device;
    std::uint32_t pid;
  };
  void set(const AgentQp& qp) {
    owners_[{qp.local, qp.qpn.value()}] = std::make_shared<const Owner>(Owner{qp.process, qp.device, qp.pid});
  }
  void remove(const AgentQp& qp) { owners_.erase({qp.local, qp.qpn.value()}); }
  /// nullptr when no agent has told.
  [[nodiscard]] const Owner* find(const wire::IpAddress& address, wire::Qpn qpn) const {
    const auto at = owners_.find({address, qpn.value()});
    return at == owners_.end() ? nullptr : at->second.get();
  }

 private:
  std::map<std::pair<wire::IpAddress, std::uint32_t>, std::shared_ptr<const Owner>> owners_;
};

class RdmaTrackStage : public pipeline::Stage {
 public:
  RdmaTrackStage(const pipeline::StageBuild& build, RdmaTrackShared& shared);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return news_.empty() ? tracker_.next_deadline() : 0; }
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
  /// News from agents. They wait until the worker says what time it is: in front of its next packets, or at once.
  void take(std::span<const AgentAction> news) { news_.insert(news_.end(), news.begin(), news.end()); }
  /// Those about pairs of hosts that are this worker's change its table.
  void apply_news(TimeNs now);

 private:
  void configure_pairs(const pipeline::StageBuild& build, const RdmaTrackShared& shared);

  std::optional<QpSteering> steering_;
  QpTracker tracker_;
  QpOwners owners_;
  std::vector<AgentAction> news_;
  config::Value pairs_{};  ///< the option `qps`
  TimeNs now_ = 0;
  std::uint64_t agents_change_ = 0;  ///< number of the newest one that it has taken
  const pipeline::OwnerTable* owner_table_;
  std::uint16_t worker_, workers_;
};

/// What the stage knows about a packet that has passed it.
[[nodiscard]] inline QpView qp_of(const QpTracker& tracker, const rte_mbuf* m) noexcept {
  const pipeline::PacketMeta& meta = pipeline::meta(m);
  return tracker.view(meta.qp_handle, meta.parsed, pipeline::frame(m) + meta.parsed.l3_offset);
}

/// A row of `qps`. All rows have the same keys; what is not known is null.
[[nodiscard]] nlohmann::ordered_json qp_row(const QpTracker& tracker, std::uint32_t position, TimeNs now,
                                            const QpOwners& owners = {});

/// The command `agent`, by which agents on hosts tell of their queue pairs.
[[nodiscard]] pipeline::StageCommand agent_command();
/// The option `agents`, what a schema cannot say of it, and what it says.
[[nodiscard]] config::Schema::Key agents_option();
void check_agents(const config::Value& options, config::Diagnostics& diagnostics);
[[nodiscard]] std::vector<AgentHost> agent_hosts(const config::Value& options);
/// The worker that sees the packets between two addresses. Without `owners` that of their hash.
[[nodiscard]] std::uint16_t worker_of(const wire::IpAddress& a, const wire::IpAddress& b, std::uint16_t workers,
                                      const pipeline::OwnerTable* owners = nullptr) noexcept;

/// Registered as `rdma_track`. Options: max_qps, idle_timeout_s, closed_timeout_s, pairing, qps, agents.
[[nodiscard]] pipeline::StageType rdma_track_stage_type();

}  // namespace weft::stages
