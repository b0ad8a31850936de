// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Load balancing: picks the member for packets whose route is an equal-cost group, and sends them on their way.
#pragma once

#include "switch/pipeline/stage.h"
#include "switch/stages/l3/next_hop_choice.h"
#include "switch/stages/lb/policy.h"

namespace weft::stages {

/// Order of the counters of the `lb` stage.
enum class LbCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/lb/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// Packets with another out_port than kGroupPort pass by.
class LbStage : public pipeline::Stage {
 public:
  LbStage(std::unique_ptr<LbPolicy> policy, NextHopChoice& choice) : policy_(std::move(policy)), choice_(choice) {}

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  void adopt(pipeline::Context& /*context*/, pipeline::Stage& old, const pipeline::Adoption& /*adoption*/) override {
    policy_->adopt(*dynamic_cast<LbStage&>(old).policy_);
  }
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_; }

 private:
  void balance(pipeline::Context& context, pipeline::Batch& batch, std::span<GroupedPacket> packets) noexcept;

  std::unique_ptr<LbPolicy> policy_;
  NextHopChoice& choice_;
  std::array<Counter, static_cast<std::size_t>(LbCounter::count_)> counters_;
};

/// Registered as `lb`; needs `group`. Option: policy.
[[nodiscard]] pipeline::StageType lb_stage_type();

}  // namespace weft::stages
