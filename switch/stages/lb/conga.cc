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

  void explain(pipeline::Context& context, LinkView& links, const LbItem& item,
               pipeline::PathReason& reason) noexcept override {
    reason.rule = "path of its flowlet, the least congested one when that began";
    reason.values = "metrics now";
    const std::uint16_t leaf = leaves_.of_destination(pipeline::frame(item.packet), pipeline::meta(item.packet).parsed);
    add_paths(links, item, reason, [&](pipeline::PortIndex port) { return metric_of(port, leaf, context.now); });
  }

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
    // How many members have the least metric, and whether `before` is one of them, without a branch for what differs
    // from packet to packet.
    unsigned least = ~0u;
    std::uint32_t equals = 0;
    bool keeps = false;
    for (const NextHopId member : item.members()) {
      if (!links.up(member)) continue;
      const unsigned metric = metric_of(links.port(member), leaf, context.now);
      const bool less = metric < least;
      const bool equal = metric == least;
      equals = less ? 1 : equals + (equal ? 1 : 0);
      keeps = member == before ? less || equal : keeps && !less;
      least = less ? metric : least;
    }
    if (keeps) return before;
    if (equals == 0) return tables::kUnreachable;
    auto drawn = static_cast<std::uint32_t>(context.rng.below(equals));
    for (const NextHopId member : item.members()) {
      const bool takes = links.up(member) && metric_of(links.port(member), leaf, context.now) == least;
      if (takes && drawn-- == 0) return member;
    }
    return tables::kUnreachable;
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
