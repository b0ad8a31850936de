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
  GroupPaths(const ConweaveEdge& edge, pipeline::Context& context, LinkView& links, const LbItem& item,
             std::uint16_t leaf, NextHopId by_hash)
      : edge_(edge), context_(context), links_(links), members_(item.members()), leaf_(leaf), by_hash_(by_hash) {}

  [[nodiscard]] NextHopId member(std::uint16_t path) noexcept {
    if (path == kNone) return kUnreachable;
    for (const NextHopId member : members_) {
      if (path_of(member) == path && links_.up(member)) return member;
    }
    return kUnreachable;
  }
  [[nodiscard]] bool up(std::uint16_t path) noexcept override { return member(path) != kUnreachable; }
  [[nodiscard]] std::uint16_t draw() noexcept override {
    for (int i = 0; i < 2; ++i) {
      const NextHopId member = members_[context_.rng.below(static_cast<std::uint32_t>(members_.size()))];
      const std::uint16_t path = path_of(member);
      if (path != kNone && links_.up(member) && edge_.good(leaf_, path, context_.now)) return path;
    }
    return kNone;
  }
  [[nodiscard]] std::uint16_t any() noexcept override { return by_hash_ == kUnreachable ? kNone : path_of(by_hash_); }

 private:
  [[nodiscard]] std::uint16_t path_of(NextHopId member) const noexcept { return edge_.path_at(links_.port(member)); }

  const ConweaveEdge& edge_;
  pipeline::Context& context_;
  LinkView& links_;
  std::span<const NextHopId> members_;
  std::uint16_t leaf_;
  NextHopId by_hash_;
};

class ConweavePolicy final : public LbPolicy {
 public:
  explicit ConweavePolicy(const pipeline::StageBuild& build)
      : hash_(build),
        edge_(build.capability<ConweaveEdge>()),
        source_(mark_.usable() ? edge_.source(build.worker) : nullptr) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(pipeline::Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
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
    GroupPaths paths(edge_, context, links, item, leaf, item.choice);
    if (paths.any() == ConweavePaths::kNone) return;
    const ConweaveSource::Choice choice = source_->on_packet(context.now, FlowKey::of_qp(parsed), paths);
    item.choice = paths.member(choice.path);
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
};

}  // namespace

std::unique_ptr<LbPolicy> make_conweave_policy(const pipeline::StageBuild& build) {
  return std::make_unique<ConweavePolicy>(build);
}

}  // namespace weft::stages
