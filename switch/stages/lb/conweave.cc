// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `conweave`: ConWeave (Song et al., SIGCOMM 2023) at the sender's ToR. Requests of RC and UC queue pairs to hosts
// behind other leaves take the path that ConweaveSource gives their flow, and a mark that becomes their tag in
// `lb_tag`. All else goes by the hash of its flow: ACKs, NAKs and CNPs, responses, what has no room for a tag.
//
// READ requests and atomics have a place among the requests, so they take their path; the far ToR lets them wait no
// more than READ requests may wait anywhere: not at all.
#include <algorithm>
#include <array>

#include "switch/stages/lb/conweave_edge.h"
#include "switch/stages/lb/mark.h"
#include "switch/stages/lb/member_hash.h"
#include "switch/stages/lb/member_places.h"
#include "switch/stages/lb/policy.h"
#include "switch/wire/opcodes.h"

namespace weft::stages {
namespace {

using tables::kUnreachable;
using tables::NextHopId;

// By opcode: requests of RC and UC queue pairs.
constexpr std::array<bool, 256> kWoven = [] {
  std::array<bool, 256> woven{};
  for (unsigned raw = 0; raw < woven.size(); ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    const wire::Transport transport = wire::transport_of(opcode);
    const bool connected = transport == wire::Transport::rc || transport == wire::Transport::uc;
    woven[raw] = connected && wire::opcode_info(opcode).is_request();
  }
  return woven;
}();

// The members of one packet's group as paths.
class GroupPaths final : public ConweavePaths {
 public:
  /// Of one policy.
  GroupPaths(const ConweaveEdge& edge, const MemberHash& hash, std::size_t ports)
      : edge_(edge), hash_(hash), path_of_port_(edge.paths()), uplinks_(edge.uplinks()), places_(ports) {}
  /// Of one burst.
  void begin(pipeline::Context& context, LinkView& links) noexcept {
    context_ = &context;
    links_ = &links;
    members_ = {};
  }
  /// Of one packet. False when its hash leads to no path of the leaf: it is not for this policy then.
  [[nodiscard]] bool of(const LbItem& item, std::uint16_t leaf) noexcept {
    if (members_.data() != item.first_member || members_.size() != item.member_count) look_at_group(item.members());
    item_ = &item;
    leaf_ = leaf;
    found_path_ = kNone;
    return all_are_paths_ || any() != kNone;
  }

  [[nodiscard]] NextHopId by_hash(const LbItem& item) noexcept {
    return hash_.member(item.members(), *links_, hash_.hash(item.packet));
  }
  [[nodiscard]] NextHopId member(std::uint16_t path) noexcept {
    if (path >= uplinks_.size()) return kUnreachable;
    if (path != found_path_) {
      found_ = places_.find(members_, *links_, uplinks_[path]);
      found_path_ = path;
    }
    return found_;
  }
  [[nodiscard]] bool up(std::uint16_t path) noexcept override { return member(path) != kUnreachable; }
  [[nodiscard]] std::uint16_t draw() noexcept override {
    for (int i = 0; i < 2; ++i) {
      const NextHopId member = members_[context_->rng.below(static_cast<std::uint32_t>(members_.size()))];
      const std::uint16_t path = path_of(member);
      if (path != kNone && links_->up(member) && edge_.good(leaf_, path, context_->now)) return path;
    }
    return kNone;
  }
  [[nodiscard]] std::uint16_t any() noexcept override {
    const NextHopId member = by_hash(*item_);
    return member == kUnreachable ? kNone : path_of(member);
  }

  /// Of the packet's paths those that may be taken now, but the one that it has.
  void list_good(TimeNs now, NextHopId chosen, pipeline::PathReason& reason) noexcept {
    for (const NextHopId member : members_) {
      const std::uint16_t path = path_of(member);
      if (member == chosen || path == kNone || !links_->up(member)) continue;
      if (edge_.good(leaf_, path, now)) reason.add(links_->port(member));
    }
  }

 private:
  [[nodiscard]] std::uint16_t path_of(NextHopId member) const noexcept { return path_of_port_[links_->port(member)]; }
  // Whether any() has a path whatever the hash: few packets need theirs then.
  void look_at_group(std::span<const NextHopId> members) noexcept {
    members_ = members;
    all_are_paths_ = links_->all_up() && std::all_of(members.begin(), members.end(),
                                                     [this](NextHopId member) { return path_of(member) != kNone; });
  }

  const ConweaveEdge& edge_;
  const MemberHash& hash_;
  std::span<const std::uint16_t> path_of_port_;
  std::span<const pipeline::PortIndex> uplinks_;
  MemberPlaces places_;
  pipeline::Context* context_ = nullptr;
  LinkView* links_ = nullptr;
  std::span<const NextHopId> members_{};
  bool all_are_paths_ = false;
  const LbItem* item_ = nullptr;
  std::uint16_t leaf_ = LeafMap::kNone;
  std::uint16_t found_path_ = kNone;  // the last one that was looked for
  NextHopId found_ = kUnreachable;    // its member
};

class ConweavePolicy final : public LbPolicy {
 public:
  explicit ConweavePolicy(const pipeline::StageBuild& build)
      : hash_(build),
        edge_(build.capability<ConweaveEdge>()),
        leaves_(edge_.leaves()),
        source_(mark_.usable() ? edge_.source(build.worker) : nullptr),
        paths_(edge_, hash_, build.info.ports.size()) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(pipeline::Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    paths_.begin(context, links);
    if (source_ == nullptr) {
      for (LbItem& item : items) item.choice = paths_.by_hash(item);
      return;
    }
    std::array<std::uint32_t, pipeline::Batch::kCapacity> places;
    std::size_t next = 0;
    for (const LbItem& item : items) {
      places[next++] = source_->prefetch(FlowKey::of_qp(pipeline::meta(item.packet).parsed));
    }
    const std::uint32_t most_l3_bytes = edge_.most_l3_bytes();
    next = 0;
    for (LbItem& item : items) {
      const std::uint32_t place = places[next++];
      const std::uint16_t leaf = far_leaf(item.packet, most_l3_bytes);
      const bool woven = leaf != LeafMap::kNone && paths_.of(item, leaf);
      item.choice = woven ? weave(context.now, item.packet, place) : paths_.by_hash(item);
    }
  }

  void explain(pipeline::Context& context, LinkView&, const LbItem& item,
               pipeline::PathReason& reason) noexcept override {
    const std::uint16_t leaf = source_ == nullptr ? LeafMap::kNone : far_leaf(item.packet, edge_.most_l3_bytes());
    if (leaf == LeafMap::kNone || !paths_.of(item, leaf)) {
      reason.rule = kByHash;
      return;
    }
    reason.rule = "path of its epoch; others that may be taken";
    paths_.list_good(context.now, item.choice, reason);
  }

 private:
  // The leaf that a packet for ConWeave goes to; kNone for others. A packet that l3 will drop (TTL), or that has no
  // room for a tag, must not use one up: the far ToR would miss it.
  [[nodiscard]] std::uint16_t far_leaf(const rte_mbuf* m, std::uint32_t most_l3_bytes) const noexcept {
    const wire::Parsed& parsed = pipeline::meta(m).parsed;
    const bool woven = parsed.kind == wire::FrameKind::roce && kWoven[parsed.opcode];
    if (!woven || parsed.has(wire::ParsedFlag::ip_options) || parsed.ttl <= 1 || parsed.l3_length > most_l3_bytes) {
      return LeafMap::kNone;
    }
    return leaves_.far(pipeline::frame(m), parsed);
  }

  [[nodiscard]] NextHopId weave(TimeNs now, rte_mbuf* m, std::uint32_t place) noexcept {
    const FlowKey flow = FlowKey::of_qp(pipeline::meta(m).parsed);
    const ConweaveSource::Choice choice = source_->on_packet(now, flow, place, paths_);
    mark_.set(m, choice.tag);
    counters().add(reason(choice.tag));
    return paths_.member(choice.path);
  }

  // The counter of a tag. `weftctl trace` shows by it why a packet took its path.
  [[nodiscard]] static LbCounter reason(const ConweaveTag& tag) noexcept {
    if (tag.request) return LbCounter::conweave_asked;
    if (tag.tail) return LbCounter::conweave_tails;
    return tag.rerouted ? LbCounter::conweave_rerouted : LbCounter::conweave_kept;
  }

  LbMark mark_;
  MemberHash hash_;
  ConweaveEdge& edge_;
  const LeafView& leaves_;
  ConweaveSource* source_;
  GroupPaths paths_;
};

}  // namespace

std::unique_ptr<LbPolicy> make_conweave_policy(const pipeline::StageBuild& build) {
  return std::make_unique<ConweavePolicy>(build);
}

}  // namespace weft::stages
