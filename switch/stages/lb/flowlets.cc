// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flowlets.h"

#include <algorithm>

namespace weft::stages {

FlowletTable::Found FlowletTable::on_packet(TimeNs now, const FlowKey& key, std::uint32_t place) noexcept {
  const auto [entry, known] = find_flow(entries_, place, key, [](const Flowlet& f) { return f.flowlets == 0; });
  if (known) {
    const TimeNs silent = now - entry->last;
    entry->last = now;
    if (silent <= rules_.gap_ns) return {*entry, Begin::none};
    entry->flowlets = silent > rules_.age_ns ? 1 : entry->flowlets + 1;
    return {*entry, silent > rules_.age_ns ? Begin::flow : Begin::gap};
  }
  const bool evicted = is_live(*entry, now);
  *entry = {.key = key, .last = now, .flowlets = 1};
  return {*entry, evicted ? Begin::evicted : Begin::flow};
}

std::size_t FlowletTable::live(TimeNs now) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [&](const Flowlet& entry) { return is_live(entry, now); }));
}

}  // namespace weft::stages
