// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flowlets.h"

#include <algorithm>

#include "switch/wire/hash.h"

namespace weft::stages {

FlowletTable::Found FlowletTable::on_packet(TimeNs now, const FlowKey& key) noexcept {
  const std::uint64_t hash = wire::mix64(key.addresses ^ wire::detail::kMix0, key.ports ^ wire::detail::kMix1);
  const std::uint64_t sets = entries_.size() / kWays;
  Flowlet* const set = &entries_[static_cast<std::size_t>((hash >> 32) * sets >> 32) * kWays];
  Flowlet* victim = set;
  for (Flowlet* entry = set; entry != set + kWays; ++entry) {
    if (entry->flowlets != 0 && entry->key == key) {
      const TimeNs silent = now - entry->last;
      entry->last = now;
      if (silent <= rules_.gap_ns) return {*entry, Begin::none};
      entry->flowlets = silent > rules_.age_ns ? 1 : entry->flowlets + 1;
      return {*entry, silent > rules_.age_ns ? Begin::flow : Begin::gap};
    }
    // A free entry is as good as one that has been silent for ever.
    const auto better = [&](const Flowlet& a, const Flowlet& b) {
      if (b.flowlets == 0) return false;
      return a.flowlets == 0 || a.last < b.last;
    };
    if (better(*entry, *victim)) victim = entry;
  }
  const bool evicted = is_live(*victim, now);
  *victim = {.key = key, .last = now, .flowlets = 1};
  return {*victim, evicted ? Begin::evicted : Begin::flow};
}

std::size_t FlowletTable::live(TimeNs now) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [&](const Flowlet& entry) { return is_live(entry, now); }));
}

}  // namespace weft::stages
