// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Load balancing: picks the member for packets whose route is an equal-cost group, and sends them on their way.
#pragma once

#include "switch/pipeline/stage.h"
#include "switch/stages/l3/next_hop_choice.h"
#include "switch/stages/lb/policy.h"

namespace weft::stages {

/// Packets with another out_port than kGroupPort pass by.
class LbStage : public pipeline::Stage {
 public:
  LbStage(std::unique_ptr<LbPolicy> policy, NextHopChoice& choice) : policy_(std::move(policy)), choice_(choice) {
    policy_->count_in(counters_);
  }

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  void adopt(pipeline::Context& /*context*/, pipeline::Stage& old, const pipeline::Adoption& adoption) override {
    policy_->adopt(*dynamic_cast<LbStage&>(old).policy_, adoption.ports);
  }
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override { return policy_->tables(); }
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view /*table*/, std::uint64_t& cursor,
                                            std::size_t max) const override {
    return policy_->rows(cursor, max);
  }

 private:
  void balance(pipeline::Context& context, pipeline::Batch& batch, std::span<GroupedPacket> packets) noexcept;

  std::unique_ptr<LbPolicy> policy_;
  NextHopChoice& choice_;
  LbCounters counters_;
};

/// Registered as `lb`; needs `group`. Options: policy, and those of the policies.
[[nodiscard]] pipeline::StageType lb_stage_type();

}  // namespace weft::stages
