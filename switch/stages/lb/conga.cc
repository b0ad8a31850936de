// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `conga`: CONGA (Alizadeh et al., SIGCOMM 2014). A flowlet takes the member whose path is least congested, the links
// beyond this switch included as the other leaf has told of them: the stage `lb_tag` knows. Of equals it takes the one
// that the flow had, so that a flow moves only to what is better, otherwise one at random.
//
// All members are compared. (A public model compares four in a row from a random place on.)
#include <vector>

#include "switch/stages/lb/congestion_view.h"
#include "switch/stages/lb/flowlet_policy.h"

namespace weft::stages {
namespace {

using tables::NextHopId;

class CongaPolicy final : public FlowletPolicy {
 public:
  explicit CongaPolicy(const pipeline::StageBuild& build)
      : FlowletPolicy(build),
        congestion_(build.capability<CongestionView>()),
        leaves_(congestion_.leaves()),
        known_(build.info.ports.size()) {}

 private:
  // The metric of a path, asked for once in a burst: nothing leaves meanwhile.
  struct Known {
    std::uint64_t burst = 0;
    std::uint16_t leaf = 0;
    std::uint8_t metric = 0;
  };

  void begin_burst() noexcept override { ++burst_; }
  [[nodiscard]] unsigned metric_of(pipeline::PortIndex port, std::uint16_t leaf, TimeNs now) noexcept {
    Known& known = known_[port];
    if (known.burst != burst_ || known.leaf != leaf) {
      known = {burst_, leaf, congestion_.path_metric(port, leaf, now)};
    }
    return known.metric;
  }
  [[nodiscard]] NextHopId pick(pipeline::Context& context, LinkView& links, const LbItem& item,
                               NextHopId before) noexcept override {
    const std::uint16_t leaf = leaves_.of_destination(pipeline::frame(item.packet), pipeline::meta(item.packet).parsed);
    NextHopId best = tables::kUnreachable;
    unsigned least = ~0u;
    std::uint32_t equals = 0;
    for (const NextHopId member : item.members()) {
      if (!links.up(member)) continue;
      const unsigned metric = metric_of(links.port(member), leaf, context.now);
      if (metric > least) continue;
      equals = metric < least ? 1 : equals + 1;
      least = metric;
      // Each of the equals so far is the choice with the same probability.
      const bool takes = equals == 1 || (best != before && context.rng.below(equals) == 0);
      if (takes || member == before) best = member;
    }
    return best;
  }

  const CongestionView& congestion_;
  const LeafView& leaves_;
  std::vector<Known> known_;  // by port
  std::uint64_t burst_ = 0;
};

}  // namespace

std::unique_ptr<LbPolicy> make_conga_policy(const pipeline::StageBuild& build) {
  return std::make_unique<CongaPolicy>(build);
}

}  // namespace weft::stages
