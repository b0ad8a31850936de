// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/flows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "switch/wire/hash.h"
#include "switch/wire/headers.h"

namespace weft::stages {

InterDcPairs::InterDcPairs(std::uint32_t entries)
    : mask_(std::bit_ceil(std::max(entries, kWays)) / kWays - 1),
      entries_(std::make_unique<Entry[]>(std::size_t{mask_ + 1} * kWays)) {}

InterDcPairs::Entry* InterDcPairs::set_of(std::uint64_t pair) const noexcept {
  return &entries_[(wire::mix64(pair, 0xd6e8feb86659fd93ull) & mask_) * kWays];
}

bool InterDcPairs::contains(TimeNs now, std::uint64_t pair) noexcept {
  Entry* const set = set_of(pair);
  for (std::uint32_t i = 0; i < kWays; ++i) {
    if (set[i].pair.load(std::memory_order_acquire) != pair) continue;
    set[i].used.store(now, std::memory_order_relaxed);
    return true;
  }
  return false;
}

// Two workers that add at once may choose the same place: one of the pairs is then unknown until its next connection.
bool InterDcPairs::add(TimeNs now, std::uint64_t pair) noexcept {
  if (contains(now, pair)) return false;
  Entry* const set = set_of(pair);
  Entry* oldest = set;
  for (std::uint32_t i = 0; i < kWays; ++i) {
    if (set[i].pair.load(std::memory_order_relaxed) == 0) {
      oldest = &set[i];
      break;
    }
    if (set[i].used.load(std::memory_order_relaxed) < oldest->used.load(std::memory_order_relaxed)) oldest = &set[i];
  }
  const bool full = oldest->pair.load(std::memory_order_relaxed) != 0;
  oldest->used.store(now, std::memory_order_relaxed);
  oldest->pair.store(pair, std::memory_order_release);
  return full;
}

std::uint32_t InterDcPairs::size() const noexcept {
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < (mask_ + 1) * kWays; ++i) used += entries_[i].pair.load(std::memory_order_relaxed) != 0;
  return used;
}

std::uint64_t unordered_pair(const wire::Parsed& parsed, const std::uint8_t* l3, bool& from_lower) noexcept {
  if (!parsed.has(wire::ParsedFlag::ipv6)) {
    const std::uint64_t swapped = std::rotl(parsed.address_key, 32);
    from_lower = parsed.address_key <= swapped;
    return std::min(parsed.address_key, swapped);
  }
  constexpr std::size_t kSource = 8, kBytes = 16;
  from_lower = std::memcmp(l3 + kSource, l3 + kSource + kBytes, kBytes) <= 0;
  const std::uint8_t* lower = l3 + kSource + (from_lower ? 0 : kBytes);
  const std::uint8_t* higher = l3 + kSource + (from_lower ? kBytes : 0);
  return std::max<std::uint64_t>(wire::hash_v6(lower, higher).ordered, 1);
}

PnpShared::PnpShared(const pipeline::StageBuild& build, std::uint32_t max_flows, std::uint32_t max_pairs)
    : workers_(build.workers),
      owners_(build.owners),
      max_pairs_(max_pairs),
      unit_(max_flows),
      busy_(workers_ > 1 ? std::make_unique<std::atomic<bool>[]>(unit_.sets()) : nullptr),
      pairs_(max_pairs) {}

std::uint16_t PnpShared::owner(const wire::Parsed& parsed) const noexcept {
  if (workers_ == 1) return 0;
  return owners_ != nullptr ? owners_->worker_of(parsed, workers_)
                            : pipeline::worker_by_hash(parsed.pair_hash(), workers_);
}

void PnpShared::adopt(StageShared& old_shared, const pipeline::Adoption& /*adoption*/) {
  auto& old = dynamic_cast<PnpShared&>(old_shared);
  if (old.max_pairs_ == max_pairs_) std::swap(pairs_, old.pairs_);
  if (old.unit_.sets() == unit_.sets()) unit_.adopt(old.unit_);
}

}  // namespace weft::stages
