// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/gap_naks.h"

#include <algorithm>
#include <bit>

namespace weft::stages {

GapNaks::GapNaks(std::uint32_t directions)
    : sets_(std::max(std::bit_ceil(directions) / 64, kLeastSlots) / kWays), slots_(std::size_t{sets_} * kWays) {}

GapNaks::Slot* GapNaks::find(std::uint32_t position) noexcept {
  Slot* const set = &slots_[std::size_t{position & (sets_ - 1)} * kWays];
  Slot* const found = std::find_if(set, set + kWays, [&](const Slot& slot) { return slot.owner == position + 1; });
  return found == set + kWays ? nullptr : found;
}

// The slot of the direction, moved to the front of its set. If it has none, it takes that of the direction whose last
// gap is longest ago.
GapNaks::Slot& GapNaks::claim(std::uint32_t position) noexcept {
  Slot* const set = &slots_[std::size_t{position & (sets_ - 1)} * kWays];
  Slot* slot = find(position);
  if (slot == nullptr) {
    slot = set + kWays - 1;
    *slot = {position + 1, 0, {}};
  }
  std::rotate(set, slot, slot + 1);
  return *set;
}

void GapNaks::expect(std::uint32_t position, wire::Psn psn) noexcept {
  Slot& slot = claim(position);
  if (slot.count == kMost) {
    std::copy(slot.psns + 1, slot.psns + kMost, slot.psns);
    --slot.count;
  }
  slot.psns[slot.count++] = packed(psn);
}

bool GapNaks::take(std::uint32_t position, wire::Psn psn) noexcept {
  Slot* const slot = find(position);
  if (slot == nullptr) return false;
  Packed* const end = slot->psns + slot->count;
  Packed* const found = std::find(slot->psns, end, packed(psn));
  if (found == end) return false;
  std::copy(found + 1, end, found);
  if (--slot->count == 0) slot->owner = 0;
  return true;
}

void GapNaks::forget(std::uint32_t position) noexcept {
  if (Slot* const slot = find(position)) *slot = {};
}

void GapNaks::moved(std::uint32_t from, std::uint32_t to) noexcept {
  Slot* const slot = find(from);
  if (slot == nullptr) return;
  Slot list = *slot;
  *slot = {};
  list.owner = to + 1;
  claim(to) = list;
}

}  // namespace weft::stages
