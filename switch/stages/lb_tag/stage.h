// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// lb_tag: the tags by which leaves tell each other of the congestion of paths (CONGA). A leaf puts them on when packets
// leave through an uplink, and takes them off when they come in, before any other stage sees them; switches in between
// note the congestion of their links in them. What tags look like is in switch/stages/lb/tag.h, what is known from them
// in congestion.h.
//
// It fails open: packets without room for a tag leave without one, what is no tag of a known leaf changes nothing.
#pragma once

#include <array>
#include <span>

#include "switch/pipeline/stage.h"
#include "switch/stages/lb/tag.h"
#include "switch/stages/lb_tag/shared.h"

namespace weft::stages {

/// Counters of the stage, in the order in which it shows them.
enum class LbTagCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/lb_tag/counters.def"
#undef WEFT_COUNTER
  count_,
};

class LbTagStage : public pipeline::Stage {
 public:
  LbTagStage(const pipeline::StageBuild& build, LbTagShared& shared) : shared_(shared), worker_(build.worker) {}

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  void egress(pipeline::Context& context, pipeline::PortIndex port, pipeline::Batch& batch) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_; }

 private:
  [[nodiscard]] bool from_fabric(const rte_mbuf* m) const noexcept {
    return shared_.path_of(pipeline::meta(m).in_port) != LbTagShared::kNoPath;
  }
  void receive(TimeNs now, rte_mbuf* m) noexcept;
  void learn(TimeNs now, const rte_mbuf* m, const LbTag& tag) noexcept;
  [[nodiscard]] bool put_on(TimeNs now, pipeline::PortIndex port, std::uint8_t congestion, rte_mbuf* m) noexcept;
  void pass_on(std::uint8_t congestion, rte_mbuf* m) noexcept;
  void count(LbTagCounter c) noexcept { counters_[static_cast<std::size_t>(c)].add(1); }

  LbTagShared& shared_;
  std::uint16_t worker_;
  std::array<Counter, static_cast<std::size_t>(LbTagCounter::count_)> counters_;
};

/// Registered as `lb_tag`; stands behind `parse`, in front of all that read RoCE headers. Provides `congestion`, which
/// policy conga of `lb` needs.
[[nodiscard]] pipeline::StageType lb_tag_stage_type();

}  // namespace weft::stages
