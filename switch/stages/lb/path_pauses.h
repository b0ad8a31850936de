// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch/base/time.h"

namespace weft::stages {

/// Until when a ToR avoids paths to other ToRs, because these have told of congestion (ConWeave's NOTIFY). Shared by
/// all workers of a switch.
class PathPauses {
 public:
  PathPauses(std::size_t leaves, std::size_t paths) : paths_(paths), until_(leaves * paths) {}

  /// @return false when there is no such path
  bool pause(std::size_t leaf, std::size_t path, TimeNs until) noexcept {
    if (path >= paths_ || leaf * paths_ >= until_.size()) return false;
    until_[leaf * paths_ + path].store(until, std::memory_order_relaxed);
    return true;
  }
  [[nodiscard]] TimeNs until(std::size_t leaf, std::size_t path) const noexcept {
    if (path >= paths_ || leaf * paths_ >= until_.size()) return 0;
    return until_[leaf * paths_ + path].load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool paused(std::size_t leaf, std::size_t path, TimeNs now) const noexcept {
    return until(leaf, path) > now;
  }
  /// Takes over what another one of the same size knows. Nobody uses either meanwhile.
  void adopt(const PathPauses& old) noexcept {
    if (old.until_.size() != until_.size()) return;
    for (std::size_t i = 0; i < until_.size(); ++i) until_[i] = old.until_[i].load();
  }

 private:
  std::size_t paths_;
  std::vector<std::atomic<TimeNs>> until_;  ///< by leaf, then path
};

}  // namespace weft::stages
