// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `adaptive`: every packet to the member whose egress queue holds the fewest packets at this moment, ties at random.
// Packets of the same burst that have been given a port already count as waiting there: they will be before the next
// one is. With several workers, the queues of another worker's ports are as long as that worker has told, a turn ago.
#include <algorithm>
#include <array>

#include "switch/stages/lb/policy.h"

namespace weft::stages {
namespace {

using pipeline::Context;
using tables::NextHopId;

class AdaptivePolicy : public LbPolicy {
 public:
  [[nodiscard]] bool keeps_member() const noexcept override { return false; }

  void choose(Context& context, LinkView& links, std::span<LbItem> items) noexcept override {
    std::size_t done = 0;
    // Groups may share ports, so what one item adds is looked up by port among all that came before it.
    for (LbItem& item : items) {
      item.choice = least_loaded(context, links, item, items.first(done));
      ++done;
    }
  }

  void explain(Context& context, LinkView& links, const LbItem& item, pipeline::PathReason& reason) noexcept override {
    reason.rule = "shortest egress queue";
    reason.values = "packets";
    add_paths(links, item, reason, [&](pipeline::PortIndex port) { return context.queue_depth(port); });
  }

 private:
  // What items before this one were given, by member; a burst is small, and mostly of one group.
  struct Load {
    std::uint32_t packets;
    NextHopId member;
  };

  NextHopId least_loaded(Context& context, LinkView& links, const LbItem& item,
                         std::span<const LbItem> before) noexcept {
    if (item.first_member != group_ || before.empty()) load_group(context, links, item, before);
    std::uint32_t best = ~0u;
    std::uint32_t equal = 0;
    std::uint32_t chosen = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (load_[i].packets > best) continue;
      equal = load_[i].packets == best ? equal + 1 : 1;
      best = load_[i].packets;
      // The k-th of equals replaces the one that was chosen with probability 1/k: each is as likely as the others.
      if (equal == 1 || context.rng.below(equal) == 0) chosen = i;
    }
    if (count_ == 0) return tables::kUnreachable;
    ++load_[chosen].packets;
    return load_[chosen].member;
  }

  void load_group(Context& context, LinkView& links, const LbItem& item, std::span<const LbItem> before) noexcept {
    group_ = item.first_member;
    count_ = 0;
    for (const NextHopId member : item.members()) {
      if (count_ == load_.size() || !links.up(member)) continue;
      const pipeline::PortIndex port = links.port(member);
      const auto sent = std::count_if(before.begin(), before.end(), [&](const LbItem& other) {
        return other.choice != tables::kUnreachable && links.port(other.choice) == port;
      });
      load_[count_++] = {context.queue_depth(port) + static_cast<std::uint32_t>(sent), member};
    }
  }

  const NextHopId* group_ = nullptr;
  std::uint32_t count_ = 0;
  std::array<Load, 256> load_{};
};

}  // namespace

std::unique_ptr<LbPolicy> make_adaptive_policy() {
  return std::make_unique<AdaptivePolicy>();
}

}  // namespace weft::stages
