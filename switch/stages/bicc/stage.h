// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// bicc: the near-destination loop of BiCC (Wan et al., INFOCOM 2024), a baseline of the long-haul paper, at the edge
// switch of a data centre. Requests from other data centres wait here, by destination, while so much is under way to it
// as a round trip inside the data centre carries; answers of receivers say what has come. What is decided is in unit.h.
//
// BiCC's near-source loop, CNPs from the edge switch of the sender's data centre, is the stage pnp there.
//
// It fails open: requests whose answers it cannot tell, and those that find no room, go on, in order.
#pragma once

#include <functional>

#include "switch/base/counter_set.h"
#include "switch/pipeline/held_charge.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/bicc/options.h"
#include "switch/stages/bicc/unit.h"
#include "switch/stages/rdma_track/known.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class BiccCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/bicc/counters.def"
#undef WEFT_COUNTER
  count_,
};

class BiccStage : public pipeline::Stage {
 public:
  explicit BiccStage(const pipeline::StageBuild& build);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return releasing_ ? 0 : unit_.next_deadline(); }
  void on_timer(pipeline::Context& context, std::uint32_t token) override;
  [[nodiscard]] std::size_t held() const override { return unit_.held(); }
  void flush(pipeline::Context& context) override;
  void for_each_charged(const std::function<void(rte_mbuf*)>& use) const override;
  /// With the same options everything goes on. With others, counting begins anew, and what is held goes on at once.
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"bicc", "bicc_queues"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

  [[nodiscard]] const BiccUnit& unit() const noexcept { return unit_; }
  /// Whether it works, and its limits, on the worker and between bursts. What is held goes on before the next burst
  /// when it works no more.
  void set_options(bool enabled, std::uint64_t limit_bytes, TimeNs stale_ns) noexcept;
  /// The room of what is held.
  [[nodiscard]] const pipeline::HeldCharge& charge() const noexcept { return charge_; }

 private:
  [[nodiscard]] BiccVerdict on_roce(pipeline::Context& context, const rte_mbuf* m, BiccSink& sink) noexcept;
  [[nodiscard]] BiccVerdict on_request(pipeline::Context& context, const rte_mbuf* m, BiccSink& sink) noexcept;
  void on_answer(pipeline::Context& context, const rte_mbuf* m, BiccSink& sink) noexcept;
  void let_go(BiccSink& sink) noexcept;
  void publish() noexcept;
  void count(BiccCounter c, std::uint64_t n = 1) noexcept { counters_.add(c, n); }
  [[nodiscard]] std::uint64_t value(BiccCounter c) const noexcept {
    return counters_.all()[static_cast<std::size_t>(c)].value();
  }

  BiccOptions options_;
  BiccUnit unit_;
  KnownPairs known_;
  std::uint16_t worker_;
  const pipeline::HeldCharge charge_;  ///< by BiccOptions::charge when it was made
  bool releasing_ = false;             ///< all that is held is to go on
  BiccCounters told_{};                ///< what of the unit's counters has been added to ours
  CounterSet<BiccCounter> counters_;
};

/// Registered as `bicc`; needs `qp`, stands before the stage that forwards. Options: see bicc_options_schema().
[[nodiscard]] pipeline::StageType bicc_stage_type();

}  // namespace weft::stages
