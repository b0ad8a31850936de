// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/leaf_map.h"

#include <algorithm>
#include <array>

namespace weft::stages {

LeafMap::LeafMap(std::span<const Entry> entries) : v4_(1) {
  for (const Entry& entry : entries) {
    const wire::IpPrefix prefix = entry.prefix.network();
    if (prefix.address.is_v6()) {
      rest_.push_back({prefix, entry.leaf});
      continue;
    }
    const std::uint32_t first = prefix.address.v4_value();
    const std::uint32_t hosts =
        prefix.length == 0 ? ~0u : static_cast<std::uint32_t>((1ull << (32 - prefix.length)) - 1);
    v4_.push_back({first, first + hosts, entry.leaf});
  }
  std::stable_sort(v4_.begin(), v4_.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  std::sort(rest_.begin(), rest_.end(),
            [](const Entry& a, const Entry& b) { return a.prefix.address.bytes() < b.prefix.address.bytes(); });
  make_blocks();
}

// As few as have one leaf each, or as small ones as kMostBlocks of them allow.
void LeafMap::make_blocks() {
  if (v4_.size() == 1) return;
  const std::uint32_t first = v4_[1].first;
  const std::uint32_t last =
      std::max_element(v4_.begin(), v4_.end(), [](const Range& a, const Range& b) { return a.last < b.last; })->last;
  for (std::uint32_t bits = 31; bits < 32; --bits) {
    const std::uint32_t from = first >> bits << bits;
    const std::uint32_t count = ((last - from) >> bits) + 1;
    if (count > kMostBlocks) return;
    blocks_.resize(count);
    blocks_from_ = from;
    block_bits_ = bits;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t begin = from + (i << bits);
      blocks_[i] = leaf_of_all(begin, begin + ((std::uint32_t{1} << bits) - 1));
    }
    if (std::find(blocks_.begin(), blocks_.end(), kSearch) == blocks_.end()) return;
  }
}

// The leaf of all addresses from `first` to `last`; kSearch where there is not one of all.
std::uint16_t LeafMap::leaf_of_all(std::uint32_t first, std::uint32_t last) const noexcept {
  const Range& range = range_of(first);
  if (&range != &range_of(last)) return kSearch;
  if (first > range.last) return kNone;
  return last <= range.last ? range.leaf : kSearch;
}

std::uint16_t LeafMap::find(const wire::IpAddress& address) const noexcept {
  if (!address.is_v6()) return find_v4(address.v4_value());
  const auto behind =
      std::upper_bound(rest_.begin(), rest_.end(), address,
                       [](const wire::IpAddress& a, const Entry& b) { return a.bytes() < b.prefix.address.bytes(); });
  if (behind == rest_.begin()) return kNone;
  const Entry& entry = *(behind - 1);
  return entry.prefix.contains(address) ? entry.leaf : kNone;
}

std::uint16_t LeafView::of_v6(const std::uint8_t* address) const noexcept {
  std::array<std::uint8_t, 16> bytes;
  std::copy_n(address, bytes.size(), bytes.begin());
  return map_.find(wire::IpAddress::v6(bytes));
}

}  // namespace weft::stages
