// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// reorder: at the receiver's ToR, packets of known RC queue pairs that have overtaken others on their way through the
// fabric wait until these have come, or for the bound. What is decided is in switch/stages/lb/reorder.h.
//
// Only requests that come in through an uplink wait. ACKs, NAKs, CNPs, READ and ATOMIC responses never do. READ
// requests do not wait either: how many PSNs their responses take depends on a path MTU that the switch does not know,
// so that what waits goes on and the flow begins anew behind them.
//
// It fails open: packets of queue pairs that are not known pass.
#pragma once

#include <functional>
#include <vector>

#include "switch/base/counter_set.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/lb/held_room.h"
#include "switch/stages/lb/reorder.h"
#include "switch/stages/rdma_track/known.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class ReorderCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/reorder/counters.def"
#undef WEFT_COUNTER
  count_,
};

class ReorderStage : public pipeline::Stage {
 public:
  explicit ReorderStage(const pipeline::StageBuild& build);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return buffer_.next_deadline(); }
  void on_timer(pipeline::Context& context, std::uint32_t token) override;
  [[nodiscard]] std::size_t held() const override { return buffer_.held(); }
  void flush(pipeline::Context& context) override;
  void for_each_charged(const std::function<void(rte_mbuf*)>& use) const override;
  /// With the same options and ports everything goes on waiting. Otherwise it goes on at once, and flows begin anew.
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"reorder"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  // Whose packets have which flow of the buffer: the positions of queue pairs are given to others in time.
  struct Name {
    std::uint64_t address_key = 0;
    std::uint32_t dest_qp = 0;

    friend bool operator==(const Name&, const Name&) = default;
  };
  static_assert(sizeof(Name) == 16, "ReorderBuffer counts it as state of the flow");

  [[nodiscard]] bool may_wait(const pipeline::PacketMeta& pm) const noexcept;
  void hear(const pipeline::PacketMeta& pm, ReorderSink& sink) noexcept;
  void take(TimeNs now, rte_mbuf* m, ReorderSink& sink) noexcept;
  void publish() noexcept;

  ReorderRules rules_;
  KnownPairs known_;
  ReorderBuffer buffer_;
  HeldRoom room_;
  std::vector<Name> names_;
  std::vector<bool> is_uplink_;
  ReorderCounts told_{};  ///< what of the unit's counts has been added to ours
  HeldRoomCounts room_told_{};
  CounterSet<ReorderCounter> counters_;
};

/// Registered as `reorder`; needs `qp`, stands before the stage that forwards.
[[nodiscard]] pipeline::StageType reorder_stage_type();

}  // namespace weft::stages
