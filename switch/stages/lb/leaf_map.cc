// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/leaf_map.h"

#include <algorithm>

namespace weft::stages {
namespace {

// IPv4 addresses first: by their bytes alone they would stand among those of IPv6.
bool before(const wire::IpAddress& a, const wire::IpAddress& b) noexcept {
  if (a.is_v6() != b.is_v6()) return b.is_v6();
  return a.bytes() < b.bytes();
}

}  // namespace

LeafMap::LeafMap(std::span<const Entry> entries) : entries_(entries.begin(), entries.end()) {
  for (Entry& entry : entries_) entry.prefix = entry.prefix.network();
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return before(a.prefix.address, b.prefix.address); });
}

std::uint16_t LeafMap::find(const wire::IpAddress& address) const noexcept {
  const auto behind =
      std::upper_bound(entries_.begin(), entries_.end(), address,
                       [](const wire::IpAddress& a, const Entry& b) { return before(a, b.prefix.address); });
  if (behind == entries_.begin()) return kNone;
  const Entry& entry = *(behind - 1);
  return entry.prefix.contains(address) ? entry.leaf : kNone;
}

}  // namespace weft::stages
