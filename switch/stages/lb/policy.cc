// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/policy.h"

#include "switch/stages/lb/member_hash.h"

namespace weft::stages {
namespace {

using pipeline::Context;
using tables::EcmpHash;
using tables::NextHopId;

class EcmpPolicy : public LbPolicy {
 public:
  explicit EcmpPolicy(const pipeline::StageBuild& build) : hash_(build) {}

  void choose(Context& /*context*/, LinkView& links, std::span<LbItem> items) noexcept override {
    if (hash_.plain() && links.all_up()) [[likely]] {
      for (LbItem& item : items) {
        item.choice = item.first_member[EcmpHash::member(hash_.hash(item.packet), item.member_count)];
      }
      return;
    }
    for (LbItem& item : items) item.choice = hash_.member(item.members(), links, hash_.hash(item.packet));
  }

  void explain(Context&, LinkView&, const LbItem&, pipeline::PathReason& reason) noexcept override {
    reason.rule = kByHash;
  }
  [[nodiscard]] bool keeps_member() const noexcept override { return hash_.same_for_flow(); }

 private:
  MemberHash hash_;
};

class RandomPolicy : public LbPolicy {
 public:
  explicit RandomPolicy(const pipeline::StageBuild& build) : hash_(build) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }
  void choose(Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    for (LbItem& item : items) {
      item.choice = hash_.member(item.members(), links, static_cast<std::uint32_t>(context.rng.next() >> 32));
    }
  }
  void explain(Context&, LinkView&, const LbItem&, pipeline::PathReason& reason) noexcept override {
    reason.rule = "at random";
  }

 private:
  MemberHash hash_;
};

}  // namespace

NextHopId another_member(std::span<const NextHopId> members, LinkView& links, std::uint32_t hash) noexcept {
  const auto count = static_cast<std::uint32_t>(members.size());
  std::uint32_t up = 0;
  for (const NextHopId member : members) up += links.up(member) ? 1 : 0;
  if (up == 0) return tables::kUnreachable;
  std::uint32_t skip = EcmpHash::member(EcmpHash::second_choice(hash, count), up);
  for (const NextHopId member : members) {
    if (links.up(member) && skip-- == 0) return member;
  }
  return tables::kUnreachable;
}

std::unique_ptr<LbPolicy> make_ecmp_policy(const pipeline::StageBuild& build) {
  return std::make_unique<EcmpPolicy>(build);
}

std::unique_ptr<LbPolicy> make_random_policy(const pipeline::StageBuild& build) {
  return std::make_unique<RandomPolicy>(build);
}

}  // namespace weft::stages
