// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the workers of a switch share of lb_tag: where leaves are, and what is known of the congestion of paths.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "switch/pipeline/stage.h"
#include "switch/stages/lb/congestion.h"
#include "switch/stages/lb/congestion_view.h"
#include "switch/stages/lb/conweave_edge.h"
#include "switch/stages/lb/leaf_map.h"
#include "switch/stages/lb/path_pauses.h"
#include "switch/stages/lb/tag.h"
#include "switch/stages/lb_tag/options.h"

namespace weft::stages {

class LbTagShared final : public pipeline::StageShared, public CongestionView, public ConweaveEdge {
 public:
  static constexpr std::uint16_t kNoPath = 0xffff;

  explicit LbTagShared(const pipeline::StageBuild& build);

  /// Leaves by their position in the configuration; LeafMap::kNone where no prefix has the address.
  [[nodiscard]] std::uint16_t leaf_of_source(const rte_mbuf* m) const noexcept;
  [[nodiscard]] std::uint16_t leaf_of(const rte_mbuf* m) const noexcept override;
  [[nodiscard]] std::uint8_t path_metric(pipeline::PortIndex port, std::uint16_t leaf,
                                         TimeNs now) const noexcept override;

  [[nodiscard]] ConweaveSource* source(std::uint16_t worker) noexcept override {
    return worker < sources_.size() ? &sources_[worker] : nullptr;
  }
  [[nodiscard]] std::uint16_t far_leaf(const rte_mbuf* m) const noexcept override {
    const std::uint16_t leaf = leaf_of(m);
    return leaf == self_ ? ConweaveEdge::kNone : leaf;
  }
  [[nodiscard]] std::uint16_t path_at(pipeline::PortIndex port) const noexcept override { return path_of(port); }
  [[nodiscard]] bool good(std::uint16_t leaf, std::uint16_t path, TimeNs now) const noexcept override;
  [[nodiscard]] bool fits(std::uint32_t l3_bytes) const noexcept override {
    return l3_bytes + kTagBytes <= least_mtu_.load(std::memory_order_relaxed);
  }
  /// A leaf has answered.
  void on_answer(std::uint16_t leaf, TimeNs now) noexcept { answered_[leaf].store(now, std::memory_order_relaxed); }
  [[nodiscard]] PathPauses& pauses() noexcept { return pauses_; }
  [[nodiscard]] const LbTagOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::string& port_name(std::uint16_t path) const noexcept {
    return info_.ports[options_.uplinks[path]].name;
  }

  /// The switch puts tags on and takes them off.
  [[nodiscard]] bool is_leaf() const noexcept { return self_ != LeafMap::kNone; }
  /// This leaf's own position; LeafMap::kNone where the switch is none.
  [[nodiscard]] std::uint16_t self() const noexcept { return self_; }
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
  /// `conga`: a row for each path and leaf of which something was told, in both directions.
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"conga"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  /// A leaf that has not answered for so long may have lost its ConWeave.
  static constexpr TimeNs kAnswerAge = 100'000'000;

  [[nodiscard]] nlohmann::ordered_json row(std::size_t leaf, std::size_t path, bool to_leaf) const;
  void find_least_mtu() noexcept;

  const pipeline::SwitchInfo& info_;
  LbTagOptions options_;
  std::uint16_t self_ = LeafMap::kNone;
  LeafMap leaves_;
  std::vector<std::uint16_t> path_of_port_;
  std::vector<std::atomic<std::uint32_t>> mtu_;
  CongestionTables congestion_;
  std::atomic<TimeNs> now_{0};
  std::vector<ConweaveSource> sources_;  ///< by worker, which alone uses its own
  PathPauses pauses_;
  std::vector<std::atomic<TimeNs>> answered_;  ///< by leaf; 0: never
  std::atomic<std::uint32_t> least_mtu_{0};    ///< of uplinks
};

}  // namespace weft::stages
