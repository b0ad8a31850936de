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
#include <limits>

#include "switch/base/rng.h"
#include "switch/stages/lb/policy.h"
#include "switch/stages/lb/port_loads.h"
#include "switch/wire/hash.h"

namespace weft::stages {
namespace {

using pipeline::Context;
using pipeline::PortIndex;
using tables::NextHopId;

class DrillPolicy : public LbPolicy {
 public:
  explicit DrillPolicy(const pipeline::StageBuild& build)
      : samples_(static_cast<std::uint32_t>(build.options["drill"]["d"].unsigned_integer())),
        remembered_(static_cast<std::uint32_t>(build.options["drill"]["m"].unsigned_integer())),
        loads_(build.info) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    ++burst_;
    loads_.begin_burst();
    look_ahead(context, links, items);
    FastDraws draws(context.rng.next());
    std::uint64_t by_memory = 0;
    Memory* memory = &memories_[0];
    for (LbItem& item : items) {
      if (memory->burst != burst_ || memory->group != item.first_member) memory = &memory_of(links, item);
      const Choice choice = remembered_ > 1 ? shortest_of_many(context, links, item, *memory, draws)
                                            : shortest(context, links, item, *memory, draws);
      item.choice = choice.member;
      if (item.choice == tables::kUnreachable) continue;
      by_memory += choice.remembered ? 1 : 0;
      loads_.bytes(context, choice.port) += item.packet->pkt_len;
    }
    if (by_memory != 0) counters().add(LbCounter::drill_remembered, by_memory);
  }

 private:
  struct Candidate {
    NextHopId member;
    std::uint64_t bytes;
  };
  struct Choice {
    NextHopId member;
    PortIndex port;
    bool remembered;  ///< and not drawn
  };
  struct Memory {
    const NextHopId* group = nullptr;
    std::uint64_t burst = 0;             // in which all of `best` were members of the group
    PortIndex port = pipeline::kNoPort;  // of the first of `best`, where at most one is remembered
    std::uint32_t count = 0;
    std::array<NextHopId, kMaxDrill> best{};
  };

  // A burst of as many packets looks at most of a group's ports anyway: not where the first draw happens to meet each.
  void look_ahead(const Context& context, const LinkView& links, std::span<const LbItem> items) noexcept {
    if (items.size() < items.front().member_count) return;
    for (const NextHopId member : items.front().members()) {
      static_cast<void>(loads_.bytes(context, links.port(member)));
    }
  }

  // With at most one that is remembered, which is then the last choice. Whether a queue is shorter than another is what
  // no branch predictor knows: lengths are compared with the candidates' numbers and ports behind them. The port stands
  // there because the next packet waits for it.
  Choice shortest(Context& context, LinkView& links, const LbItem& item, Memory& memory, FastDraws& draws) noexcept {
    constexpr unsigned kPortBits = 16, kNumberBits = 6;
    static_assert(sizeof(PortIndex) * 8 == kPortBits && kMaxDrill + 1 <= 1 << kNumberBits);
    std::array<NextHopId, kMaxDrill + 1> candidates;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    const auto compare = [&](std::uint32_t number, NextHopId member, PortIndex port) {
      candidates[number] = member;
      const std::uint64_t bytes = loads_.bytes(context, port);
      least = std::min(least, bytes << (kNumberBits + kPortBits) | number << kPortBits | port);
    };
    for (std::uint32_t i = 0; i < samples_; ++i) {
      const NextHopId member = member_by_hash(item.members(), links, static_cast<std::uint32_t>(draws.next() >> 32));
      if (member == tables::kUnreachable) return {member, pipeline::kNoPort, false};
      compare(i, member, links.port(member));
    }
    if (memory.count != 0 && links.up(memory.best[0])) compare(samples_, memory.best[0], memory.port);
    const std::uint32_t best = least >> kPortBits & ((1 << kNumberBits) - 1);
    memory.count = remembered_;
    memory.best[0] = candidates[best];
    memory.port = static_cast<PortIndex>(least);
    return {candidates[best], memory.port, best == samples_};
  }

  Choice shortest_of_many(Context& context, LinkView& links, const LbItem& item, Memory& memory,
                          FastDraws& draws) noexcept {
    std::array<Candidate, 2 * kMaxDrill> candidates{};
    std::uint32_t count = 0;
    const auto add = [&](NextHopId member) {
      const auto known = std::find_if(candidates.begin(), candidates.begin() + count,
                                      [member](const Candidate& c) { return c.member == member; });
      if (known == candidates.begin() + count) {
        candidates[count++] = {member, loads_.bytes(context, links.port(member))};
      }
    };
    for (std::uint32_t i = 0; i < samples_; ++i) {
      const NextHopId member = member_by_hash(item.members(), links, static_cast<std::uint32_t>(draws.next() >> 32));
      if (member == tables::kUnreachable) return {member, pipeline::kNoPort, false};
      add(member);
    }
    const std::uint32_t drawn = count;
    for (std::uint32_t i = 0; i < memory.count; ++i) {
      if (links.up(memory.best[i])) add(memory.best[i]);
    }
    const auto shorter = [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; };
    const auto end = candidates.begin() + count;
    const auto best = std::min_element(candidates.begin(), end, shorter);
    const Choice choice{best->member, links.port(best->member),
                        best - candidates.begin() >= static_cast<std::ptrdiff_t>(drawn)};
    memory.count = std::min(remembered_, count);
    std::partial_sort(candidates.begin(), candidates.begin() + memory.count, end, shorter);
    for (std::uint32_t i = 0; i < memory.count; ++i) memory.best[i] = candidates[i].member;
    return choice;
  }

  [[nodiscard]] Memory& memory_of(const LinkView& links, const LbItem& item) noexcept {
    const auto group = reinterpret_cast<std::uintptr_t>(item.first_member);
    Memory& memory = memories_[wire::detail::spread32(group) % memories_.size()];
    if (memory.group != item.first_member) memory = {.group = item.first_member, .burst = burst_};
    if (memory.burst == burst_) return memory;
    // Routes may have changed since the last burst, with the same group at the same place.
    memory.burst = burst_;
    const auto members = item.members();
    const auto left = std::remove_if(memory.best.begin(), memory.best.begin() + memory.count, [&](NextHopId member) {
      return std::find(members.begin(), members.end(), member) == members.end();
    });
    memory.count = static_cast<std::uint32_t>(left - memory.best.begin());
    if (memory.count != 0) memory.port = links.port(memory.best[0]);
    return memory;
  }

  std::uint32_t samples_;
  std::uint32_t remembered_;
  PortLoads loads_;
  std::uint64_t burst_ = 0;
  std::array<Memory, 64> memories_{};
};

}  // namespace

std::unique_ptr<LbPolicy> make_drill_policy(const pipeline::StageBuild& build) {
  return std::make_unique<DrillPolicy>(build);
}

}  // namespace weft::stages
