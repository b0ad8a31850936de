// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Faults on purpose: loss, corruption, duplication, rate, delay, jitter and reordering, by exact rules ("the first
// packet with PSN 5 of QP 17") and by ratios. For labs, and for every test that needs a bad network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/base/counter_set.h"
#include "switch/pipeline/stage.h"
#include "switch/stages/impair/hold_queue.h"
#include "switch/stages/impair/unit.h"

namespace weft::stages {

/// Order of the counters of the `impair` stage, over all rules.
enum class ImpairCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/impair/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// Works in the ingress half only: in the egress half a stage has nowhere to let a held packet go on. Rules for one
/// egress port use `out_ports`, with the stage behind l2, l3 or lb; copies that l2 floods do not pass it then.
///
/// Rules, their counts and rates belong to one worker. All packets of a pair of hosts (or of QPs, see `steer`) meet on
/// one worker, so that rules about a connection are exact; others count what their worker sees.
class ImpairStage : public pipeline::Stage {
 public:
  ImpairStage(ImpairUnit rules, std::size_t max_held);
  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return queue_.next(); }
  void on_timer(pipeline::Context& context, std::uint32_t) override {
    release_due(context);
    context.at(queue_.next());
  }
  [[nodiscard]] std::size_t held() const override { return queue_.size(); }
  /// Lets everything go on at once, in the order in which it would have left.
  void flush(pipeline::Context& context) override;
  /// Held packets leave at their time. With the same options the rules go on, counts included; with others they start
  /// anew, and packets that old rules hold meet no further rule.
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"impair"}; }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

  /// Exchanges the rules, on the worker and between bursts; the old ones come back in `rules`, so that they can be
  /// freed elsewhere. Packets that old rules hold leave at their time and meet no further rule.
  void set_rules(ImpairUnit& rules) noexcept;
  [[nodiscard]] const ImpairUnit& rules() const noexcept { return rules_; }

 private:
  // Packets that one packet may become within one burst.
  static constexpr std::size_t kMaxCopies = 16;
  struct Held {
    rte_mbuf* m;
    ImpairPlace at;
    std::uint32_t generation;  // of the rules to which `at` belongs
  };
  struct Copy {
    rte_mbuf* m;
    ImpairPlace at;
  };
  // What came of one packet while it went through the rules; the packet itself is not in it.
  struct Copies {
    std::array<Copy, kMaxCopies - 1> copy;
    std::size_t size = 0;
  };

  std::size_t carry_out(pipeline::Context& context, rte_mbuf* m, const ImpairStep& first, rte_mbuf** passed) noexcept;
  rte_mbuf* carry_out_one(pipeline::Context& context, rte_mbuf* m, ImpairStep step, Copies& copies) noexcept;
  rte_mbuf* corrupt(pipeline::Context& context, rte_mbuf* m, std::uint32_t bit) noexcept;
  void duplicate(pipeline::Context& context, rte_mbuf* m, ImpairPlace at, Copies& copies) noexcept;
  void hold(pipeline::Context& context, rte_mbuf* m, const ImpairStep& step) noexcept;
  bool stand_in_line(TimeNs now, rte_mbuf* m) noexcept;
  bool release_due(pipeline::Context& context) noexcept;
  void count(ImpairCounter c) noexcept { counters_.add(c); }

  ImpairUnit rules_;
  std::uint32_t generation_ = 0;
  HoldQueue<Held> queue_;
  CounterSet<ImpairCounter> counters_;
};

/// Registered as `impair`. Options: rules, max_held.
[[nodiscard]] pipeline::StageType impair_stage_type();

}  // namespace weft::stages
