// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `drill`: DRILL(d, m) (Ghorbani et al., SIGCOMM 2017, 3.2.2). Every packet by itself: d members drawn at random, and
// the m that had the shortest queues when the group was last looked at, are compared, and the packet takes the shortest
// queue of these. A queue is as long as its bytes of all classes; packets of the same burst that have been given a port
// count as waiting there. Of equals one that was drawn wins, so that idle ports are used evenly.
//
// The memory belongs to a group of next hops, as the paper's does to an engine's set of ports. (A public model keeps it
// by destination address; what it remembers is a port of this switch all the same.) It is a hint: groups whose slots
// collide forget what they remembered, which costs a little balance.
#include <algorithm>
#include <array>

#include "switch/stages/lb/policy.h"
#include "switch/stages/lb/port_loads.h"
#include "switch/wire/hash.h"

namespace weft::stages {
namespace {

using pipeline::Context;
using tables::NextHopId;

class DrillPolicy : public LbPolicy {
 public:
  explicit DrillPolicy(const pipeline::StageBuild& build)
      : samples_(static_cast<std::uint32_t>(build.options["drill"]["d"].unsigned_integer())),
        remembered_(static_cast<std::uint32_t>(build.options["drill"]["m"].unsigned_integer())),
        loads_(build.info.ports.size()) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    loads_.begin_burst();
    for (LbItem& item : items) {
      item.choice = shortest(context, links, item);
      if (item.choice != tables::kUnreachable) loads_.add(context, links.port(item.choice), item.packet->pkt_len);
    }
  }

 private:
  struct Candidate {
    NextHopId member;
    std::uint64_t bytes;
  };
  struct Memory {
    const NextHopId* group = nullptr;
    std::uint32_t count = 0;
    std::array<NextHopId, kMaxDrill> best{};
  };

  NextHopId shortest(Context& context, LinkView& links, const LbItem& item) noexcept {
    std::array<Candidate, 2 * kMaxDrill> candidates;
    std::uint32_t count = 0;
    const auto add = [&](NextHopId member) {
      const auto known = std::find_if(candidates.begin(), candidates.begin() + count,
                                      [member](const Candidate& c) { return c.member == member; });
      if (known == candidates.begin() + count) {
        candidates[count++] = {member, loads_.bytes(context, links.port(member))};
      }
    };
    for (std::uint32_t i = 0; i < samples_; ++i) {
      const auto drawn = static_cast<std::uint32_t>(context.rng.next() >> 32);
      const NextHopId member = member_by_hash(item.members(), links, drawn);
      if (member == tables::kUnreachable) return member;
      add(member);
    }
    const std::uint32_t drawn = count;
    Memory& memory = memory_of(item.first_member);
    for (std::uint32_t i = 0; i < memory.count; ++i) {
      const NextHopId member = memory.best[i];
      // Routes may have changed since, with the same group at the same place.
      const auto members = item.members();
      if (std::find(members.begin(), members.end(), member) != members.end() && links.up(member)) add(member);
    }
    const auto shorter = [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; };
    const auto end = candidates.begin() + count;
    const auto best = std::min_element(candidates.begin(), end, shorter);
    const NextHopId choice = best->member;
    if (best - candidates.begin() >= static_cast<std::ptrdiff_t>(drawn)) counters().add(LbCounter::drill_remembered);
    memory.count = std::min(remembered_, count);
    std::partial_sort(candidates.begin(), candidates.begin() + memory.count, end, shorter);
    for (std::uint32_t i = 0; i < memory.count; ++i) memory.best[i] = candidates[i].member;
    return choice;
  }

  [[nodiscard]] Memory& memory_of(const NextHopId* group) noexcept {
    Memory& memory = memories_[wire::detail::spread32(reinterpret_cast<std::uintptr_t>(group)) % memories_.size()];
    if (memory.group != group) memory = {.group = group, .count = 0, .best = {}};
    return memory;
  }

  std::uint32_t samples_;
  std::uint32_t remembered_;
  PortLoads loads_;
  std::array<Memory, 64> memories_{};
};

}  // namespace

std::unique_ptr<LbPolicy> make_drill_policy(const pipeline::StageBuild& build) {
  return std::make_unique<DrillPolicy>(build);
}

}  // namespace weft::stages
