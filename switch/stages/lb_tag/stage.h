// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// lb_tag: the tags by which leaves tell each other of the congestion of paths (CONGA), or of the phases of flows
// (ConWeave), and the reports by which switches tell those below of their queues (Gemma). A leaf puts tags on when
// packets leave through an uplink, and takes them off when they come in, before any other stage sees them; switches in
// between note the congestion of their links in those of CONGA. What tags and reports look like is in
// switch/stages/lb/tag.h, conweave_tag.h and gemma_report.h, what is known from them in congestion.h, conweave_*.h and
// downlink_table.h.
//
// It fails open: packets without room for a tag leave without one, what is no tag of a known leaf changes nothing.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "switch/pipeline/stage.h"
#include "switch/stages/lb/mark.h"
#include "switch/stages/lb/tag.h"
#include "switch/stages/lb_tag/conweave_burst.h"
#include "switch/stages/lb_tag/counters.h"
#include "switch/stages/lb_tag/gemma.h"
#include "switch/stages/lb_tag/shared.h"

namespace weft::stages {

class LbTagStage : public pipeline::Stage {
 public:
  LbTagStage(const pipeline::StageBuild& build, LbTagShared& shared);

  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  void egress(pipeline::Context& context, pipeline::PortIndex port, pipeline::Batch& batch) override;
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return next_deadline(); }
  void on_timer(pipeline::Context& context, std::uint32_t token) override;
  [[nodiscard]] bool takes_mail() const override { return conweave_ && conweave_->takes_mail(); }
  [[nodiscard]] bool has_mail() const override { return conweave_ && conweave_->has_mail(); }
  void on_mail(pipeline::Context& context) override;
  [[nodiscard]] std::size_t held() const override { return conweave_ ? conweave_->held() : 0; }
  void flush(pipeline::Context& context) override;
  void for_each_charged(const std::function<void(rte_mbuf*)>& use) const override {
    if (conweave_) conweave_->for_each_held(use);
  }
  /// With the same options and ports everything goes on waiting. Otherwise it goes on at once.
  void adopt(pipeline::Context& context, pipeline::Stage& old, const pipeline::Adoption& adoption) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }
  [[nodiscard]] std::vector<std::string_view> tables() const override;
  [[nodiscard]] nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                            std::size_t max) const override;

 private:
  [[nodiscard]] bool from_fabric(const rte_mbuf* m) const noexcept {
    return shared_.path_of(pipeline::meta(m).in_port) != LbTagShared::kNoPath;
  }
  // What becomes of a packet to the UDP port of tags.
  enum class Fate : std::uint8_t { stays, consumed };
  // Packets of a burst whose tags are off.
  struct TakenOff {
    struct Packet {
      LbTagHeader header;  // the tag
      std::uint16_t from;  // the leaf that put on one of kind conweave, LeafMap::kNone for all other
      std::uint16_t at;    // place in the burst
    };
    std::uint16_t size = 0;
    Packet packet[pipeline::Batch::kCapacity];
  };

  [[nodiscard]] TimeNs next_deadline() const noexcept {
    if (gemma_) return gemma_->next_deadline();
    return conweave_ ? conweave_->next_deadline() : kNever;
  }
  [[nodiscard]] Fate receive(TimeNs now, rte_mbuf* m, std::uint16_t at, TakenOff& off) noexcept;
  [[nodiscard]] Fate receive_from_below(TimeNs now, const rte_mbuf* m) noexcept;
  void take_off(TimeNs now, rte_mbuf* m, std::uint16_t at, TakenOff& off) noexcept;
  void go_on(ConweaveLeaf::Burst& burst, pipeline::Batch& batch, const TakenOff& off) noexcept;
  [[nodiscard]] Fate take_report(TimeNs now, const rte_mbuf* m) noexcept;
  void take_answer(TimeNs now, const rte_mbuf* m) noexcept;
  [[nodiscard]] std::uint16_t sender(const rte_mbuf* m, std::uint16_t id) noexcept;
  void learn(TimeNs now, std::uint16_t leaf, const LbTag& tag) noexcept;
  // A port of a leaf for the packets of a burst that leave through it.
  struct Uplink {
    std::uint16_t self = 0;  // the leaf's id
    std::uint8_t path = 0;
    std::uint8_t congestion = 0;
    std::uint32_t mtu = 0;
    std::uint32_t put_on = 0;  // packets that have got their tag
  };
  [[nodiscard]] Uplink uplink_of(pipeline::PortIndex port, std::uint8_t congestion) const noexcept;
  [[nodiscard]] bool put_on(TimeNs now, Uplink& out, rte_mbuf* m) noexcept;
  void count_put_on(const Uplink& out) noexcept {
    if (out.put_on != 0) counters_.add(LbTagCounter::put_on, out.put_on);
  }
  void wrap_forged(pipeline::Context& context, pipeline::PortIndex port, pipeline::Batch& batch) noexcept;
  void pass_on(std::uint8_t congestion, rte_mbuf* m) noexcept;
  void count(LbTagCounter c) noexcept { counters_.add(c); }

  LbTagShared& shared_;
  std::uint16_t worker_;
  LbMark mark_;
  std::optional<ConweaveLeaf> conweave_;  ///< a switch has this, or
  std::optional<GemmaReports> gemma_;     ///< this, or none
  LbTagCounters counters_;
};

/// Registered as `lb_tag`; stands behind `parse`, in front of all that read RoCE headers. Provides `congestion`, which
/// policy conga of `lb` needs.
[[nodiscard]] pipeline::StageType lb_tag_stage_type();

}  // namespace weft::stages
