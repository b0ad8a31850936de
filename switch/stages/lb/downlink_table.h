// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Gemma's downlink congestion table: how long the queues behind each path are, as the switch at its end has told. The
// edge scans it at fixed intervals (III-B-1): what was told since the last scan does not count yet. Shared by all
// workers of a switch, without clock. A protocol unit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "switch/base/time.h"

namespace weft::stages {

struct DownlinkRules {
  TimeNs scan_ns = 5'000;  ///< between two scans; 0: what is told counts at once
  TimeNs age_ns = 0;       ///< what was told longer ago counts as 0; 0: it counts until something newer is told
};

class DownlinkTable {
 public:
  static constexpr std::uint64_t kUnitBytes = 256;  ///< queues are kept in such units

  DownlinkTable(const DownlinkRules& rules, std::size_t leaves, std::size_t paths)
      : rules_(rules), leaves_(paths == 0 ? 0 : leaves), paths_(paths), cells_(leaves * paths) {}

  /// A switch at the end of `path` has told how many bytes wait there on their way to `leaf`.
  /// @return false when there is no such path or leaf
  bool on_told(std::size_t leaf, std::size_t path, std::uint64_t bytes, TimeNs now) noexcept;
  /// What counts at `now`; 0 when nothing is known.
  [[nodiscard]] std::uint64_t bytes(std::size_t leaf, std::size_t path, TimeNs now) const noexcept {
    return bytes_in(leaf, path, scan_at(now));
  }
  /// The interval between two scans that a time is in. Never 0. Wraps after hours.
  [[nodiscard]] std::uint32_t scan_at(TimeNs now) const noexcept {
    const auto scan = static_cast<std::uint32_t>(now / tick_ns() + 1);
    return scan == 0 ? 1 : scan;
  }
  /// As bytes(), at a time that is in this interval: who asks for many packets at once divides but once.
  [[nodiscard]] std::uint64_t bytes_in(std::size_t leaf, std::size_t path, std::uint32_t scan) const noexcept {
    if (path >= paths_ || leaf >= leaves()) return 0;
    const Cell cell = cells_[leaf * paths_ + path].load(std::memory_order_relaxed);
    if (cell.scan == 0 || (rules_.age_ns != 0 && age_of(cell, scan) > rules_.age_ns)) return 0;
    return counting(cell, scan) * kUnitBytes;
  }

  /// How long ago something was told, for who looks on; kNever when nothing was. Exact to a scan, or a microsecond.
  [[nodiscard]] TimeNs age(std::size_t leaf, std::size_t path, TimeNs now) const noexcept;
  [[nodiscard]] std::size_t paths() const noexcept { return paths_; }
  [[nodiscard]] std::size_t leaves() const noexcept { return leaves_; }
  /// Takes over what another one of the same size and rules knows. Nobody uses either meanwhile.
  void adopt(const DownlinkTable& old) noexcept;

 private:
  // Stored at once, so that workers see what belongs together.
  struct Cell {
    std::uint32_t scan = 0;     ///< in which `newest` was told, from 1 on; 0: nothing was
    std::uint16_t newest = 0;   ///< in units
    std::uint16_t scanned = 0;  ///< what counts until the next scan
  };
  static_assert(std::atomic<Cell>::is_always_lock_free);

  [[nodiscard]] TimeNs tick_ns() const noexcept { return rules_.scan_ns != 0 ? rules_.scan_ns : kUs; }
  [[nodiscard]] TimeNs age_of(const Cell& cell, std::uint32_t scan) const noexcept {
    return (scan - cell.scan) * tick_ns();
  }
  [[nodiscard]] std::uint16_t counting(const Cell& cell, std::uint32_t scan) const noexcept {
    return rules_.scan_ns == 0 || cell.scan != scan ? cell.newest : cell.scanned;
  }

  DownlinkRules rules_;
  std::size_t leaves_;
  std::size_t paths_;
  std::vector<std::atomic<Cell>> cells_;  ///< by leaf, then path
};

}  // namespace weft::stages
