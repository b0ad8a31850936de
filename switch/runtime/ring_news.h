// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <cstdint>

#include "switch/base/worker_set.h"

namespace weft {

/// Who has put something into a ring to one worker since that one looked. A worker that gets nothing reads one line,
/// which nobody writes meanwhile, however many others there are.
class RingNews {
 public:
  /// What this thread has put into the ring from worker `from` until now is there for whoever sees the news.
  void tell(std::uint16_t from) noexcept { from_.fetch_or(std::uint64_t{1} << from, std::memory_order_seq_cst); }

  /// The receiving worker: who has told something since the last call.
  [[nodiscard]] WorkerSet take() noexcept {
    if (!any()) [[likely]]
      return {};
    return WorkerSet(from_.exchange(0, std::memory_order_acquire));
  }
  [[nodiscard]] bool any() const noexcept { return from_.load(std::memory_order_relaxed) != 0; }

 private:
  alignas(64) std::atomic<std::uint64_t> from_{0};
};

}  // namespace weft
