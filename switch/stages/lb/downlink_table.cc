// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/downlink_table.h"

#include <algorithm>

namespace weft::stages {

bool DownlinkTable::on_told(std::size_t leaf, std::size_t path, std::uint64_t bytes, TimeNs now) noexcept {
  if (path >= paths_ || leaf >= leaves()) return false;
  std::atomic<Cell>& cell = cells_[leaf * paths_ + path];
  const Cell before = cell.load(std::memory_order_relaxed);
  const std::uint32_t scan = scan_at(now);
  // Rounded up: a queue that is not empty is not told to be.
  const std::uint64_t units = (bytes + kUnitBytes - 1) / kUnitBytes;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint16_t>::max();
  const Cell after{.scan = scan,
                   .newest = static_cast<std::uint16_t>(std::min(units, kMost)),
                   .scanned = before.scan == 0 ? std::uint16_t{0} : counting(before, scan)};
  cell.store(after, std::memory_order_relaxed);
  return true;
}

TimeNs DownlinkTable::age(std::size_t leaf, std::size_t path, TimeNs now) const noexcept {
  const Cell cell = cells_[leaf * paths_ + path].load(std::memory_order_relaxed);
  return cell.scan == 0 ? kNever : age_of(cell, scan_at(now));
}

void DownlinkTable::adopt(const DownlinkTable& old) noexcept {
  if (old.cells_.size() != cells_.size() || old.paths_ != paths_) return;
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i] = old.cells_[i].load();
}

}  // namespace weft::stages
