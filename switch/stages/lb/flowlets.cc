// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flowlets.h"

#include <algorithm>

namespace weft::stages {

FlowletTable::Found FlowletTable::on_packet(TimeNs now, const FlowKey& key) noexcept {
  const auto set = flow_set(entries_, key);
  Flowlet* victim = set.data();
  for (Flowlet& entry : set) {
    if (entry.flowlets != 0 && entry.key == key) {
      const TimeNs silent = now - entry.last;
      entry.last = now;
      if (silent <= rules_.gap_ns) return {entry, Begin::none};
      entry.flowlets = silent > rules_.age_ns ? 1 : entry.flowlets + 1;
      return {entry, silent > rules_.age_ns ? Begin::flow : Begin::gap};
    }
    // A free entry is as good as one that has been silent for ever.
    const auto better = [&](const Flowlet& a, const Flowlet& b) {
      if (b.flowlets == 0) return false;
      return a.flowlets == 0 || a.last < b.last;
    };
    if (better(entry, *victim)) victim = &entry;
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
