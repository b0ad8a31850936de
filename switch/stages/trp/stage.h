// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// trp: the Temporary Reaction Point of the long-haul paper (section V), at the edge switch of a data centre. When a
// receiver here sends a CNP to a source in another data centre, the data packets of that flow are slowed down here, at
// once, until the source has slowed down itself. What is decided is in unit.h; the CNP itself goes on. Receivers with
// HPCC or TIMELY send no CNPs: signals.h has what counts instead.
//
// A loop port takes no port of the switch: packets are held as long as they would be in one, and the unit counts what
// it would have to buffer. That takes room of the shared buffer, as the queue of a loop port does.
//
// It fails open: of a CNP whose flow it does not know nothing is slowed down, and a flow that finds no room passes, in
// order.
#pragma once

#include <functional>

#include "switch/base/counter_set.h"
#include "switch/pipeline/held_charge.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/rdma_track/known.h"
#include "switch/stages/trp/options.h"
#include "switch/stages/trp/signals.h"
#include "switch/stages/trp/unit.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class TrpCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/trp/counters.def"
#undef WEFT_COUNTER
  count_,
};

class TrpStage : public pipeline::Stage {
 public:
  explicit TrpStage(const pipeline::StageBuild& build);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return released_.empty() ? unit_.next_deadline() : 0; }
  void on_timer(pipeline::Context& context, std::uint32_t token) override;
  [[nodiscard]] std::size_t held() const override { return unit_.held() + released_.size(); }
  void flush(pipeline::Context& context) override;
  void for_each_charged(const std::function<void(rte_mbuf*)>& use) const override;
  /// With the same options everything goes on. With others, flows begin anew, and what is held goes on at once.
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"trp", "trp_flows"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

  [[nodiscard]] const TrpUnit& unit() const noexcept { return unit_; }
  /// Exchanges the options, on the worker and between bursts. Flows begin anew; what is held goes on, in order, before
  /// the next burst. The old options and unit come back, so that they can be freed elsewhere.
  /// @param room  with room for all that this holds
  void set_options(TrpOptions& options, TrpUnit& unit, TrpSignals& signals, std::vector<TrpPacket>& room) noexcept;
  /// The room of what is held.
  [[nodiscard]] const pipeline::HeldCharge& charge() const noexcept { return charge_; }
  /// A data packet leaves the stage.
  void on_left(TimeNs now, const rte_mbuf* m) noexcept;
  /// loop_ecn: a packet comes back from the loop port, where so many bytes wait.
  void on_passed_loop(pipeline::Context& context, rte_mbuf* m, TrpFlow& flow, std::uint64_t queued) noexcept;

 private:
  [[nodiscard]] TrpVerdict on_roce(pipeline::Context& context, rte_mbuf* m, TrpSink& sink) noexcept;
  void on_answer(pipeline::Context& context, const rte_mbuf* m) noexcept;
  [[nodiscard]] bool to_remote(const rte_mbuf* m) const noexcept;
  [[nodiscard]] bool from_remote(const rte_mbuf* m) const noexcept;
  [[nodiscard]] wire::FlowName name_of(const wire::Parsed& parsed) const noexcept;
  void on_cnp(pipeline::Context& context, const rte_mbuf* m) noexcept;
  [[nodiscard]] bool tell_source(pipeline::Context& context, const rte_mbuf* m) noexcept;
  [[nodiscard]] bool find_flow(const rte_mbuf* answer, wire::FlowName& name) const noexcept;
  void resume_released(pipeline::Context& context) noexcept;
  void publish() noexcept;
  void count(TrpCounter c, std::uint64_t n = 1) noexcept { counters_.add(c, n); }
  [[nodiscard]] std::uint64_t value(TrpCounter c) const noexcept {
    return counters_.all()[static_cast<std::size_t>(c)].value();
  }

  TrpOptions options_;
  TrpUnit unit_;
  TrpSignals signals_;
  KnownPairs known_;
  std::uint16_t worker_;
  const pipeline::HeldCharge charge_;  ///< by TrpOptions::charge when it was made
  TrpCounters told_{};                 ///< what of the unit's counters has been added to ours
  std::uint64_t evicted_told_ = 0;
  std::vector<TrpPacket> released_;  ///< of a unit that was exchanged: goes on before all others
  CounterSet<TrpCounter> counters_;
};

/// Registered as `trp`; needs `qp`, stands before the stage that forwards. Options: see trp_options_schema().
[[nodiscard]] pipeline::StageType trp_stage_type();

}  // namespace weft::stages
