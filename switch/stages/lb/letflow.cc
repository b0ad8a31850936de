// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `letflow`: LetFlow (Vanini et al., NSDI 2017). A flow that was silent for longer than the gap begins a flowlet, which
// takes a member at random, by the weights; its packets keep to that member. Flowlets on slow paths end sooner, so that
// the load settles where there is room, without anybody measuring it. A gap longer than the difference in delay of
// any two paths breaks no order. RNICs send without pauses as long as they may, and then have few flowlets.
#include "switch/stages/lb/flowlet_policy.h"

namespace weft::stages {
namespace {

class LetFlowPolicy final : public FlowletPolicy {
 public:
  using FlowletPolicy::FlowletPolicy;

  void explain(pipeline::Context&, LinkView&, const LbItem&, pipeline::PathReason& reason) noexcept override {
    reason.rule = "path of its flowlet, which was drawn at random";
  }

 private:
  [[nodiscard]] tables::NextHopId pick(pipeline::Context& context, LinkView& links, const LbItem& item,
                                       tables::NextHopId /*before*/) noexcept override {
    return hash().member(item.members(), links, static_cast<std::uint32_t>(context.rng.next() >> 32));
  }
};

}  // namespace

std::unique_ptr<LbPolicy> make_letflow_policy(const pipeline::StageBuild& build) {
  return std::make_unique<LetFlowPolicy>(build);
}

}  // namespace weft::stages
