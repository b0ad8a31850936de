// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `conweave`: ConWeave (Song et al., SIGCOMM 2023) at the sender's ToR. Requests of RC and UC queue pairs to hosts
// behind other leaves take the path that ConweaveSource gives their flow, and a mark that becomes their tag in
// `lb_tag`. All else goes by the hash of its flow: ACKs, NAKs and CNPs, responses, what has no room for a tag.
//
// READ requests and atomics have a place among the requests, so they take their path; the far ToR lets them wait no
// more than READ requests may wait anywhere: not at all.
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

bool is_balanced(const wire::Parsed& parsed) noexcept {
  if (parsed.kind != wire::FrameKind::roce || parsed.has(wire::ParsedFlag::ip_options)) return false;
  const wire::Transport transport = wire::transport_of(parsed.opcode);
  const bool connected = transport == wire::Transport::rc || transport == wire::Transport::uc;
  return connected && wire::opcode_info(parsed.opcode).is_request();
}

// The members of one packet's group as paths.
class GroupPaths final : public ConweavePaths {
 public:
  /// Of one policy.
  GroupPaths(const ConweaveEdge& edge, std::size_t ports)
      : edge_(edge), path_of_port_(edge.paths()), uplinks_(edge.uplinks()), places_(ports) {}
  /// Of one packet.
  void of(pipeline::Context& context, LinkView& links, const LbItem& item, std::uint16_t leaf) noexcept {
    context_ = &context;
    links_ = &links;
    members_ = item.members();
    leaf_ = leaf;
    by_hash_ = path_of(item.choice);
  }

  [[nodiscard]] NextHopId member(std::uint16_t path) noexcept {
    return path < uplinks_.size() ? places_.find(members_, *links_, uplinks_[path]) : kUnreachable;
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
  [[nodiscard]] std::uint16_t any() noexcept override { return by_hash_; }

 private:
  [[nodiscard]] std::uint16_t path_of(NextHopId member) const noexcept { return path_of_port_[links_->port(member)]; }

  const ConweaveEdge& edge_;
  std::span<const std::uint16_t> path_of_port_;
  std::span<const pipeline::PortIndex> uplinks_;
  MemberPlaces places_;
  pipeline::Context* context_ = nullptr;
  LinkView* links_ = nullptr;
  std::span<const NextHopId> members_{};
  std::uint16_t leaf_ = ConweaveEdge::kNone;
  std::uint16_t by_hash_ = kNone;
};

class ConweavePolicy final : public LbPolicy {
 public:
  explicit ConweavePolicy(const pipeline::StageBuild& build)
      : hash_(build),
        edge_(build.capability<ConweaveEdge>()),
        source_(mark_.usable() ? edge_.source(build.worker) : nullptr),
        paths_(edge_, build.info.ports.size()) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(pipeline::Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    if (source_ != nullptr) {
      for (const LbItem& item : items) source_->prefetch(FlowKey::of_qp(pipeline::meta(item.packet).parsed));
    }
    for (LbItem& item : items) {
      item.choice = hash_.member(item.members(), links, hash_.hash(item.packet));
      if (item.choice != kUnreachable && source_ != nullptr) weave(context, links, item);
    }
  }

 private:
  void weave(pipeline::Context& context, LinkView& links, LbItem& item) noexcept {
    const wire::Parsed& parsed = pipeline::meta(item.packet).parsed;
    // A packet that l3 will drop (TTL), or that has no room for a tag, must not use one up: the far ToR would miss it.
    if (!is_balanced(parsed) || parsed.ttl <= 1 || !edge_.fits(parsed.l3_length)) return;
    const std::uint16_t leaf = edge_.far_leaf(item.packet);
    if (leaf == ConweaveEdge::kNone) return;
    paths_.of(context, links, item, leaf);
    if (paths_.any() == ConweavePaths::kNone) return;
    const ConweaveSource::Choice choice = source_->on_packet(context.now, FlowKey::of_qp(parsed), paths_);
    item.choice = paths_.member(choice.path);
    mark_.set(item.packet, choice.tag);
    counters().add(reason(choice.tag));
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
  ConweaveSource* source_;
  GroupPaths paths_;
};

}  // namespace

std::unique_ptr<LbPolicy> make_conweave_policy(const pipeline::StageBuild& build) {
  return std::make_unique<ConweavePolicy>(build);
}

}  // namespace weft::stages
