// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the workers of a switch share of lb_tag: where leaves are, and what is known of the congestion of paths.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/base/spsc_ring.h"
#include "switch/pipeline/owner_table.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/lb/congestion.h"
#include "switch/stages/lb/congestion_view.h"
#include "switch/stages/lb/conweave_edge.h"
#include "switch/stages/lb/downlink_table.h"
#include "switch/stages/lb/flow_key.h"
#include "switch/stages/lb/gemma_edge.h"
#include "switch/stages/lb/leaf_map.h"
#include "switch/stages/lb/path_pauses.h"
#include "switch/stages/lb/tag.h"
#include "switch/stages/lb_tag/options.h"

namespace weft::stages {

/// A reply of ConWeave that came to another worker than the one that has its flow.
struct ConweaveMail {
  FlowKey flow{};
  ConweaveReply reply{};
};

class LbTagShared final : public pipeline::StageShared, public CongestionView, public ConweaveEdge, public GemmaEdge {
 public:
  static constexpr std::uint16_t kNoPath = ConweaveEdge::kNone;

  explicit LbTagShared(const pipeline::StageBuild& build);

  /// Leaves by their position in the configuration; LeafMap::kNone where no prefix has the address.
  [[nodiscard]] std::uint16_t leaf_of_source(const rte_mbuf* m) const noexcept {
    return leaves_.of_source(pipeline::frame(m), pipeline::meta(m).parsed);
  }
  [[nodiscard]] std::uint16_t leaf_of(const rte_mbuf* m) const noexcept {
    return leaves_.of_destination(pipeline::frame(m), pipeline::meta(m).parsed);
  }
  [[nodiscard]] const LeafView& leaves() const noexcept override { return leaves_; }
  [[nodiscard]] std::uint8_t path_metric(pipeline::PortIndex port, std::uint16_t leaf,
                                         TimeNs now) const noexcept override;

  [[nodiscard]] ConweaveSource* source(std::uint16_t worker) noexcept override {
    return worker < sources_.size() ? &sources_[worker] : nullptr;
  }
  /// The worker whose source() has the flow, seen from one to which the hash of its addresses leads.
  [[nodiscard]] std::uint16_t owner(const FlowKey& flow, std::uint16_t by_hash) const noexcept {
    if (owners_ == nullptr || owners_->empty()) return by_hash;
    return owners_->find(flow.addresses, flow.qp(), by_hash);
  }
  using ConweaveMails = SpscMesh<ConweaveMail, 1024>;
  /// Of no workers where there is one, and without ConWeave.
  [[nodiscard]] ConweaveMails& mails() noexcept { return mails_; }
  [[nodiscard]] std::span<const std::uint16_t> paths() const noexcept override { return path_of_port_; }
  [[nodiscard]] std::span<const pipeline::PortIndex> uplinks() const noexcept override { return options_.uplinks; }
  [[nodiscard]] bool good(std::uint16_t leaf, std::uint16_t path, TimeNs now) const noexcept override;
  [[nodiscard]] std::uint32_t most_l3_bytes() const noexcept override {
    return std::max(least_mtu_.load(std::memory_order_relaxed), kTagBytes) - kTagBytes;
  }
  [[nodiscard]] GemmaView gemma_view() const noexcept override {
    return options_.gemma ? GemmaView(leaves_, downlinks_, path_of_port_, scale_of_port_) : GemmaView();
  }
  [[nodiscard]] DownlinkTable& downlinks() noexcept { return downlinks_; }
  /// What switches below have told of queues on the way to leaves behind them: all leaves behind the first downlink of
  /// LbTagOptions::Gemma, then those behind the second and so on, by one path.
  [[nodiscard]] DownlinkTable& below() noexcept { return below_; }
  /// Which of the downlinks is this port; kNoPath when it is none.
  [[nodiscard]] std::uint16_t downlink_of(pipeline::PortIndex port) const noexcept {
    return port < downlink_of_port_.size() ? downlink_of_port_[port] : kNoPath;
  }
  /// The leaf's position; LeafMap::kNone when there is no such leaf.
  [[nodiscard]] std::uint16_t leaf_with(std::uint16_t id) const noexcept;
  /// What a switch has last told the leaves behind a downlink, for rows().
  void on_tells(std::size_t downlink, std::uint64_t bytes, TimeNs interval) noexcept {
    told_bytes_[downlink].store(bytes, std::memory_order_relaxed);
    interval_.store(interval, std::memory_order_relaxed);
  }
  /// A leaf has answered.
  void on_answer(std::uint16_t leaf, TimeNs now) noexcept { answered_[leaf].store(now, std::memory_order_relaxed); }
  [[nodiscard]] PathPauses& pauses() noexcept { return pauses_; }
  [[nodiscard]] const LbTagOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::string& port_name(std::uint16_t path) const noexcept {
    return info_.ports[options_.uplinks[path]].name;
  }

  /// Ports of the switch.
  [[nodiscard]] std::size_t port_count() const noexcept { return info_.ports.size(); }
  /// The switch puts tags on and takes them off.
  [[nodiscard]] bool is_leaf() const noexcept { return self() != LeafMap::kNone; }
  /// This leaf's own position; LeafMap::kNone where the switch is none.
  [[nodiscard]] std::uint16_t self() const noexcept { return leaves_.self(); }
  [[nodiscard]] std::uint16_t id_of(std::uint16_t leaf) const noexcept { return options_.leaves[leaf].id; }
  /// Which of the leaf's paths begins at the port; kNoPath when it is no uplink.
  [[nodiscard]] std::uint16_t path_of(pipeline::PortIndex port) const noexcept {
    return port < path_of_port_.size() ? path_of_port_[port] : kNoPath;
  }
  /// Largest IP packet of the port.
  [[nodiscard]] std::uint32_t mtu(pipeline::PortIndex port) const noexcept {
    return mtu_[port].load(std::memory_order_relaxed);
  }
  [[nodiscard]] CongestionTables& congestion() noexcept { return congestion_; }
  /// For rows(), which has no clock.
  void set_now(TimeNs now) noexcept { now_.store(now, std::memory_order_relaxed); }

  void on_mtu(pipeline::PortIndex port, std::uint32_t mtu_bytes) override;
  /// With other options or ports, what was known is forgotten: other leaves tell again within a round trip.
  void adopt(StageShared& old, const pipeline::Adoption& adoption) override;
  /// `conga`: a row for each path and leaf of which something was told, in both directions. `gemma`: a row for each
  /// queue that this switch was told of, or tells of.
  [[nodiscard]] std::vector<std::string_view> tables() const override {
    if (options_.gemma) return {"gemma"};
    return {"conga"};
  }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  /// A leaf that has not answered for so long may have lost its ConWeave.
  static constexpr TimeNs kAnswerAge = 100'000'000;

  [[nodiscard]] nlohmann::ordered_json row(std::size_t leaf, std::size_t path, bool to_leaf) const;
  [[nodiscard]] nlohmann::ordered_json gemma_rows(std::uint64_t& cursor, std::size_t max) const;
  void find_least_mtu() noexcept;

  const pipeline::SwitchInfo& info_;
  LbTagOptions options_;
  LeafView leaves_;
  std::vector<std::uint16_t> path_of_port_;
  std::vector<std::atomic<std::uint32_t>> mtu_;
  CongestionTables congestion_;
  std::atomic<TimeNs> now_{0};
  std::vector<ConweaveSource> sources_;  ///< by worker, which alone uses its own
  const pipeline::OwnerTable* owners_;
  ConweaveMails mails_;
  PathPauses pauses_;
  std::vector<std::atomic<TimeNs>> answered_;  ///< by leaf; 0: never
  std::atomic<std::uint32_t> least_mtu_{0};    ///< of uplinks
  DownlinkTable downlinks_;
  DownlinkTable below_;
  std::vector<std::uint16_t> downlink_of_port_;
  std::vector<double> scale_of_port_;
  std::vector<std::atomic<std::uint64_t>> told_bytes_;  ///< by downlink
  std::atomic<TimeNs> interval_{0};                     ///< of reports
};

}  // namespace weft::stages
