// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `gemma`: Gemma at a switch that chooses among uplinks. Requests of RC queue pairs to hosts behind other leaves take
// the path that GemmaSource gives their flow: L1 is what waits in the port's egress queues, all classes together, and
// L2 what the switch behind it has told to `lb_tag`. All else goes by the hash of its flow. The stage
// `reorder` at the receiver's leaf restores the order from PSNs, so that any number of switches may choose on the way.
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "switch/base/counter_news.h"
#include "switch/pipeline/row_scan.h"
#include "switch/stages/lb/gemma_edge.h"
#include "switch/stages/lb/gemma_source.h"
#include "switch/stages/lb/member_hash.h"
#include "switch/stages/lb/member_places.h"
#include "switch/stages/lb/policy.h"
#include "switch/stages/lb/port_loads.h"
#include "switch/stages/rdma_track/known.h"

namespace weft::stages {
namespace {

using nlohmann::ordered_json;
using pipeline::Context;
using tables::kUnreachable;
using tables::NextHopId;

GemmaFirst first_of(std::string_view name) {
  return name == "smooth" ? GemmaFirst::smooth : name == "best" ? GemmaFirst::best : GemmaFirst::any;
}

GemmaRules gemma_rules(const config::Value& options) {
  const config::Value& gemma = options["gemma"];
  return {.alpha = gemma["alpha"].number(),
          .beta = gemma["beta"].number(),
          .reroute_bytes = gemma["reroute_kb"].unsigned_integer() * 1000,
          .gap_bytes = gemma["gap_kb"].unsigned_integer() * 1000,
          .guard_ns = gemma["guard_us"].unsigned_integer() * kUs,
          .new_ns = gemma["new_flow_us"].unsigned_integer() * kUs,
          .first = first_of(gemma["first"].string()),
          .flows = static_cast<std::uint32_t>(gemma["max_flows"].unsigned_integer())};
}

constexpr Follows<LbCounter, GemmaCounts> kFollows[] = {
    {LbCounter::gemma_flows, &GemmaCounts::flows},     {LbCounter::gemma_cut, &GemmaCounts::cut},
    {LbCounter::gemma_smooth, &GemmaCounts::smooth},   {LbCounter::gemma_reroutes, &GemmaCounts::reroutes},
    {LbCounter::gemma_stays, &GemmaCounts::stays},     {LbCounter::gemma_guarded, &GemmaCounts::guarded},
    {LbCounter::flows_evicted, &GemmaCounts::evicted},
};

static_assert(pipeline::kNoPort == GemmaPaths::kNone, "paths are named by their ports");

// The members of one packet's group as paths.
class GemmaGroup final : public GemmaPaths {
 public:
  /// Of one burst.
  GemmaGroup(const GemmaRules& rules, const GemmaView& edge, PortLoads& loads, MemberPlaces& places, Context& context,
             LinkView& links)
      : rules_(rules),
        edge_(edge),
        loads_(loads),
        places_(places),
        context_(context),
        links_(links),
        scan_(edge.on() ? edge.scan_at(context.now) : 0) {}

  void of(std::span<const NextHopId> members, std::uint16_t leaf) noexcept {
    members_ = members;
    leaf_ = leaf;
    found_path_ = kNone;
  }
  [[nodiscard]] NextHopId member(std::uint16_t path) noexcept {
    if (path != found_path_) {
      found_ = places_.find(members_, links_, path);
      found_path_ = path;
    }
    return path == kNone ? kUnreachable : found_;
  }
  [[nodiscard]] bool up(std::uint16_t path) noexcept override { return member(path) != kUnreachable; }
  [[nodiscard]] std::uint64_t score(std::uint16_t path) noexcept override {
    const std::uint64_t local = edge_.scaled(path, loads_.bytes(path));
    return gemma_score(rules_, local, edge_.beyond(leaf_, path, scan_));
  }
  [[nodiscard]] std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(members_.size()); }
  [[nodiscard]] std::uint16_t at(std::uint32_t i) const noexcept override { return links_.port(members_[i]); }
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) noexcept override {
    return static_cast<std::uint32_t>(context_.rng.below(bound));
  }

 private:
  const GemmaRules& rules_;
  const GemmaView& edge_;
  PortLoads& loads_;
  MemberPlaces& places_;
  Context& context_;
  LinkView& links_;
  std::uint32_t scan_;
  std::span<const NextHopId> members_{};
  std::uint16_t leaf_ = LeafMap::kNone;
  std::uint16_t found_path_ = kNone;  // the last one that was looked for
  NextHopId found_ = kUnreachable;    // its member
};

class GemmaPolicy final : public LbPolicy {
 public:
  explicit GemmaPolicy(const pipeline::StageBuild& build)
      : hash_(build),
        edge_(build.capability<GemmaEdge>().gemma_view()),
        source_(gemma_rules(build.options)),
        loads_(build.info.ports.size()),
        places_(build.info.ports.size()),
        info_(build.info) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    now_ = context.now;
    loads_.begin_burst(context);
    GemmaGroup group(source_.rules(), edge_, loads_, places_, context, links);
    std::array<std::uint32_t, pipeline::Batch::kCapacity> places;
    std::size_t next = 0;
    for (const LbItem& item : items) {
      places[next++] = source_.prefetch(FlowKey::of(pipeline::meta(item.packet).parsed));
    }
    next = 0;
    for (LbItem& item : items) {
      item.choice = choose_one(group, links, item, places[next++]);
      if (item.choice != kUnreachable) loads_.bytes(links.port(item.choice)) += item.packet->pkt_len;
    }
    add_news(counters(), kFollows, source_.counts(), told_);
  }

  void explain(Context& context, LinkView& links, const LbItem& item, pipeline::PathReason& reason) noexcept override {
    const std::uint16_t leaf = far_leaf(item);
    if (leaf == LeafMap::kNone) {
      reason.rule = kByHash;
      return;
    }
    reason.rule = "path of its flow";
    reason.values = "scores in bytes";
    loads_.begin_burst(context);  // the packet itself waits nowhere yet
    GemmaGroup group(source_.rules(), edge_, loads_, places_, context, links);
    group.of(item.members(), leaf);
    add_paths(links, item, reason, [&](pipeline::PortIndex port) { return group.score(port); });
  }

  void adopt(LbPolicy& old, const pipeline::PortMap& ports) noexcept override {
    auto* before = dynamic_cast<GemmaPolicy*>(&old);
    if (before == nullptr) return;
    now_ = before->now_;
    source_.adopt(before->source_);
    if (ports.identity()) return;
    // A flow whose port is gone has no path: it begins anew.
    for (GemmaFlow& flow : source_.entries()) {
      if (flow.path != GemmaPaths::kNone) flow.path = ports(flow.path);
    }
  }

  /// `gemma_flows`
  [[nodiscard]] std::vector<std::string_view> tables() const override { return {"gemma_flows"}; }
  [[nodiscard]] ordered_json rows(std::uint64_t& cursor, std::size_t max) const override {
    const auto& entries = source_.entries();
    return pipeline::scan_rows(cursor, max, entries.size(), [&](std::uint64_t at) -> ordered_json {
      const GemmaFlow& flow = entries[at];
      if (!source_.is_live(flow, now_)) return {};
      return {{"flow", flow.key.to_string()},
              {"port", flow.path < info_.ports.size() ? ordered_json(info_.ports[flow.path].name) : nullptr},
              {"score_bytes", flow.score},
              {"reroutes", flow.reroutes},
              {"silent_us", (now_ - flow.last) / kUs}};
    });
  }

 private:
  // The leaf that a packet for Gemma goes to; kNone for others.
  [[nodiscard]] std::uint16_t far_leaf(const LbItem& item) const noexcept {
    const wire::Parsed& parsed = pipeline::meta(item.packet).parsed;
    if (parsed.kind != wire::FrameKind::roce || !kRcRequests[parsed.opcode] || !edge_.on()) return LeafMap::kNone;
    return edge_.far_leaf(item.packet);
  }
  [[nodiscard]] NextHopId choose_one(GemmaGroup& group, LinkView& links, const LbItem& item,
                                     std::uint32_t place) noexcept {
    const std::uint16_t leaf = far_leaf(item);
    if (leaf == LeafMap::kNone) return hash_.member(item.members(), links, hash_.hash(item.packet));
    group.of(item.members(), leaf);
    const FlowKey key = FlowKey::of(pipeline::meta(item.packet).parsed);
    return group.member(source_.on_packet(now_, key, place, group));
  }

  MemberHash hash_;
  GemmaView edge_;
  GemmaSource source_;
  GemmaCounts told_{};
  PortLoads loads_;
  MemberPlaces places_;
  const pipeline::SwitchInfo& info_;
  TimeNs now_ = 0;
};

}  // namespace

std::unique_ptr<LbPolicy> make_gemma_policy(const pipeline::StageBuild& build) {
  return std::make_unique<GemmaPolicy>(build);
}

config::Schema gemma_options() {
  using config::Schema;
  using config::Value;
  using Key = Schema::Key;
  const auto us = [](const char* name, std::int64_t by_default, const char* text) {
    return Key::with_default(name, Schema::integer(0, 60'000'000), Value(by_default), text);
  };
  const auto kb = [](const char* name, std::int64_t by_default, const char* text) {
    return Key::with_default(name, Schema::integer(0, 1 << 20), Value(by_default), text);
  };
  return Schema::map({
      Key::with_default("alpha", Schema::number(0, 1000), Value(1.0), "Weight of the local egress queue in a score."),
      Key::with_default("beta", Schema::number(0, 1000), Value(1.0), "Weight of the queue beyond."),
      kb("reroute_kb", 100, "S_reroute: a path whose score is above is congested. KB, of 1000 bytes."),
      kb("gap_kb", 26, "From such a path a flow also moves to one that is congested, but better by more than this."),
      us("guard_us", 100, "A flow moves no sooner than this after it has moved. 0: at any packet."),
      us("new_flow_us", 2000, "A flow that was silent for longer is a new one."),
      Key::with_default("first", Schema::one_of({"any", "smooth", "best"}), Value("any"),
                        "The path of a new flow: any; any that is not congested, if there is one; the best one."),
      Key::with_default("max_flows", Schema::integer(kFlowWays, 1 << 24), Value(1 << 14),
                        "Flows that one worker keeps, 64 bytes each, a multiple of 4. With more, the one that was "
                        "silent longest gives way."),
  });
}

}  // namespace weft::stages
