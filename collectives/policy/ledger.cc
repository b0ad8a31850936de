// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/ledger.h"

#include <algorithm>

namespace weft::inc::policy {

bool Block::staggered(std::uint64_t job, std::uint64_t period_ns) const noexcept {
  return job != 0 && period_ns != 0 && std::all_of(shares.begin(), shares.end(), [&](const Share& share) {
           return share.staggered && share.job == job && share.period_ns == period_ns;
         });
}

bool Block::meets(const Request& request) const noexcept {
  return request.job != 0 && request.moment != 0 && std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
           return share.job == request.job && share.moment == request.moment;
         });
}

const Block* SwitchUse::find(std::uint32_t number) const noexcept {
  const auto at = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return b.number == number; });
  return at == blocks.end() ? nullptr : &*at;
}

std::uint64_t SwitchUse::local_bytes() const noexcept {
  std::uint64_t out = 0;
  for (const Block& block : blocks) {
    const bool local = std::any_of(block.shares.begin(), block.shares.end(), [](const Share& s) { return s.local; });
    out += local ? block.bytes : 0;
  }
  return out;
}

void Ledger::take(const Request& request, const Decision& decision) {
  for (const TreeEdge& edge : decision.tree.edges) {
    LinkUse& use = links_[edge.link];
    use.reserved_mbps += request.rate_mbps;
    use.best_effort += request.rate_mbps == 0 ? 1 : 0;
    use.groups.push_back(request.group);
  }
  for (const Allocation& a : decision.memory) {
    SwitchUse& use = switches_[a.node];
    ++use.groups;
    if (!a.shared) {
      use.bytes += a.bytes;
      use.next_block = std::max(use.next_block, a.block + 1);
      use.blocks.push_back({a.block, a.bytes, 0, {}});
    }
    const auto block =
        std::find_if(use.blocks.begin(), use.blocks.end(), [&](const Block& b) { return b.number == a.block; });
    block->duty_per_mille += request.duty_per_mille;
    // Of a group that is taken back in parts, a shared block has shrunk meanwhile.
    if (a.bytes > block->bytes) {
      use.bytes += a.bytes - block->bytes;
      block->bytes = a.bytes;
    }
    block->shares.push_back({request.group, a.bytes, request.job, request.duty_per_mille, request.period_ns,
                             decision.offset_ns, decision.staggered, decision.tree.switches.size() == 1,
                             request.moment});
  }
}

void Ledger::give_back(const Request& request, const Decision& decision) {
  for (const TreeEdge& edge : decision.tree.edges) {
    LinkUse& use = links_[edge.link];
    use.reserved_mbps -= request.rate_mbps;
    use.best_effort -= request.rate_mbps == 0 ? 1 : 0;
    std::erase(use.groups, request.group);
  }
  for (const Allocation& a : decision.memory) {
    SwitchUse& use = switches_[a.node];
    --use.groups;
    const auto block =
        std::find_if(use.blocks.begin(), use.blocks.end(), [&](const Block& b) { return b.number == a.block; });
    block->duty_per_mille -= request.duty_per_mille;
    std::erase_if(block->shares, [&](const Share& share) { return share.group == request.group; });
    std::uint64_t needed = 0;
    for (const Share& share : block->shares) needed = std::max(needed, share.bytes);
    use.bytes -= block->bytes - needed;
    block->bytes = needed;
    if (block->shares.empty()) use.blocks.erase(block);
  }
}

}  // namespace weft::inc::policy
