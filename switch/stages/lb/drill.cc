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
#include <bit>
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
        loads_(build.info.ports.size()) {}

  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    ++burst_;
    loads_.begin_burst(context);
    FastDraws draws(context.rng.next());
    std::uint64_t by_memory = 0;
    Memory* memory = &memories_[0];
    const NextHopId* declined = nullptr;  // the group of packets that are no run
    for (std::size_t at = 0; at < items.size(); ++at) {
      LbItem& item = items[at];
      if (item.first_member != declined) {
        if (const std::size_t run = run_of(links, items.subspan(at), at == 0); run != 0) {
          by_memory += choose_run(links, items.subspan(at, run), run == items.size(), draws);
          at += run - 1;
          continue;
        }
        declined = item.first_member;
      }
      if (memory->burst != burst_ || memory->members != item.first_member) memory = &memory_of(links, item);
      const Choice choice =
          remembered_ > 1 ? shortest_of_many(links, item, *memory, draws) : shortest(links, item, *memory, draws);
      item.choice = choice.member;
      if (item.choice == tables::kUnreachable) continue;
      by_memory += choice.remembered ? 1 : 0;
      loads_.bytes(choice.port) += item.packet->pkt_len;
    }
    if (by_memory != 0) counters().add(LbCounter::drill_remembered, by_memory);
  }

  void explain(Context&, LinkView& links, const LbItem& item, pipeline::PathReason& reason) noexcept override {
    reason.rule = "shortest of the queues that were drawn or remembered";
    reason.values = "bytes in all";
    add_paths(links, item, reason, [&](PortIndex port) { return loads_.before(port); });
  }

 private:
  // A queue's length, the number of a candidate and its port, or place in the group, in one number.
  static constexpr unsigned kPortBits = 16, kNumberBits = 6, kBytesShift = kPortBits + kNumberBits;
  static_assert(sizeof(PortIndex) * 8 == kPortBits && kMaxDrill + 1 <= 1 << kNumberBits);
  static constexpr std::uint64_t kNumber = ((std::uint64_t{1} << kNumberBits) - 1) << kPortBits;
  // Stands in the place of a number for the remembered candidate. It is larger than all numbers of candidates that were
  // drawn, so that the minimum prefers a drawn one where their queues are equally long.
  static constexpr std::uint64_t kRemembered = std::uint64_t{1} << (kBytesShift - 1);
  static_assert(kMaxDrill << kPortBits < kRemembered);
  static constexpr std::uint64_t kNothing = std::numeric_limits<std::uint64_t>::max();

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
    std::uint64_t group = 0;             // number of its members, see number_of()
    const NextHopId* members = nullptr;  // where they were in `burst`
    std::uint64_t burst = 0;             // in which all of `best` were members of the group
    PortIndex port = pipeline::kNoPort;  // of the first of `best`, where at most one is remembered
    std::uint32_t count = 0;
    std::array<NextHopId, kMaxDrill> best{};
  };

  // Packets in front that have the same group, if they are as many as it has members, which are all up: these packets
  // look at most of its ports anyway. Their queues are in queues_ then. 0 where choose_run() is not worth it, or where
  // it cannot be used: two members with one port have one queue.
  // @param alone  nothing has been chosen in this burst
  [[nodiscard]] std::size_t run_of(const LinkView& links, std::span<const LbItem> items, bool alone) noexcept {
    const LbItem& first = items.front();
    const std::uint32_t count = first.member_count;
    if (remembered_ > 1 || !links.all_up() || count > queues_.size() || count > items.size()) return 0;
    const auto other = [&](const LbItem& item) {
      return item.first_member != first.first_member || item.member_count != count;
    };
    const auto run = static_cast<std::size_t>(std::find_if(items.begin(), items.end(), other) - items.begin());
    if (run < count) return 0;
    const NextHopId* const members = first.first_member;
    std::uint64_t seen = 0;
    for (std::uint32_t place = 0; place < count; ++place) {
      const PortIndex port = links.port(members[place]);
      seen |= std::uint64_t{1} << port % 64;
      queues_[place] = (alone ? loads_.before(port) : loads_.bytes(port)) << kBytesShift | place;
    }
    return static_cast<std::uint32_t>(std::popcount(seen)) == count ? run : 0;
  }

  // As shortest() for each of the packets. What is known of a member stands in one number, so that a packet waits for
  // the choice of the one before it in registers alone: the queues of its candidates are read before that one is
  // stored, and put right afterwards.
  // @param alone  nothing else is chosen in this burst
  // @return packets that took the member that was remembered
  std::uint64_t choose_run(const LinkView& links, std::span<LbItem> items, bool alone, FastDraws& draws) noexcept {
    const auto members = items.front().members();
    const auto count = static_cast<std::uint32_t>(members.size());
    Memory& memory = memory_of(links, items.front());
    std::uint64_t best = kNothing;
    if (memory.count != 0) best = queues_[std::find(members.begin(), members.end(), memory.best[0]) - members.begin()];
    const std::uint64_t by_memory =
        samples_ == 2 ? choose_each<2>(items, best, draws) : choose_each<0>(items, best, draws);
    if (!alone) {
      for (std::uint32_t place = 0; place < count; ++place) {
        loads_.bytes(links.port(members[place])) = queues_[place] >> kBytesShift;
      }
    }
    memory.count = remembered_;
    memory.best[0] = items.back().choice;
    memory.port = links.port(items.back().choice);
    return by_memory;
  }

  // @param kSamples  samples_, or 0 for any
  template <std::uint32_t kSamples>
  [[gnu::always_inline]] std::uint64_t choose_each(std::span<LbItem> items, std::uint64_t best,
                                                   FastDraws& draws) noexcept {
    const std::uint32_t samples = kSamples != 0 ? kSamples : samples_;
    const NextHopId* const members = items.front().first_member;
    const std::uint32_t count = items.front().member_count;
    const std::uint64_t remembered = remembered_ != 0 ? kRemembered : kNothing;
    std::array<std::uint64_t, kMaxDrill> drawn;  // queues of the next packet's candidates, with their numbers
    const auto draw = [&]() {
#pragma GCC unroll 2
      for (std::uint64_t i = 0; i < samples; ++i) {
        const std::uint32_t place = tables::EcmpHash::member(static_cast<std::uint32_t>(draws.next() >> 32), count);
        drawn[i] = queues_[place] | i << kPortBits;
      }
    };
    draw();
    std::uint64_t by_memory = 0;
    best |= kRemembered;
    const LbItem* const last = &items.back();
    for (LbItem& item : items) {
      std::uint64_t least = best;
#pragma GCC unroll 2
      for (std::uint64_t i = 0; i < samples; ++i) least = std::min(least, drawn[i]);
      by_memory += least / kRemembered & 1;
      const auto place = static_cast<PortIndex>(least);
      const std::uint64_t after = (least & ~kNumber) + (std::uint64_t{item.packet->pkt_len} << kBytesShift);
      if (&item != last) draw();
      queues_[place] = after;
#pragma GCC unroll 2
      for (std::uint64_t i = 0; i < samples; ++i) {
        const bool same = static_cast<PortIndex>(drawn[i]) == place;
        drawn[i] = same ? after | i << kPortBits : drawn[i];
      }
      item.choice = members[place];
      best = after | remembered;
    }
    return by_memory;
  }

  // With at most one that is remembered, which is then the last choice. Whether a queue is shorter than another is what
  // no branch predictor knows: lengths are compared with the candidates' numbers and ports behind them. The port stands
  // there because the next packet waits for it.
  Choice shortest(LinkView& links, const LbItem& item, Memory& memory, FastDraws& draws) noexcept {
    std::array<NextHopId, kMaxDrill + 1> candidates;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    const auto compare = [&](std::uint32_t number, NextHopId member, PortIndex port) {
      candidates[number] = member;
      const std::uint64_t bytes = loads_.bytes(port);
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

  Choice shortest_of_many(LinkView& links, const LbItem& item, Memory& memory, FastDraws& draws) noexcept {
    std::array<Candidate, 2 * kMaxDrill> candidates{};
    std::uint32_t count = 0;
    const auto add = [&](NextHopId member) {
      const auto known = std::find_if(candidates.begin(), candidates.begin() + count,
                                      [member](const Candidate& c) { return c.member == member; });
      if (known == candidates.begin() + count) {
        candidates[count++] = {member, loads_.bytes(links.port(member))};
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

  // Of a group. It comes from the members and not from where they are stored: which groups share a slot is the same in
  // every run.
  [[nodiscard]] static std::uint64_t number_of(std::span<const NextHopId> members) noexcept {
    std::uint64_t number = members.size();
    for (const NextHopId member : members) number = wire::mix64(number ^ member, wire::detail::kMix0);
    return number;
  }

  [[nodiscard]] Memory& memory_of(const LinkView& links, const LbItem& item) noexcept {
    const auto members = item.members();
    const std::uint64_t group = number_of(members);
    Memory& memory = memories_[group % memories_.size()];
    if (memory.group != group) memory = {.group = group, .members = item.first_member, .burst = burst_};
    if (memory.burst == burst_ && memory.members == item.first_member) return memory;
    // Routes may have changed since the last burst: a next hop that had gone may be another one now.
    memory.burst = burst_;
    memory.members = item.first_member;
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
  std::array<std::uint64_t, 64> queues_{};  // of a run, by place in the group: bytes, 0, place
  std::uint64_t burst_ = 0;
  std::array<Memory, 64> memories_{};
};

}  // namespace

std::unique_ptr<LbPolicy> make_drill_policy(const pipeline::StageBuild& build) {
  return std::make_unique<DrillPolicy>(build);
}

}  // namespace weft::stages
