// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What pnp knows, shared by all workers of a switch: flows, which the worker that owns their queue pair learns and the
// one that owns their egress port asks for, and pairs of hosts. Nobody waits: a set that another worker uses at this
// moment is as good as empty.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "switch/pipeline/stage.h"
#include "switch/stages/pnp/unit.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// Pairs of hosts that the handshake monitor has found to talk through this switch, in a table of fixed size: sets of
/// four, where the one that was used longest ago leaves.
class InterDcPairs {
 public:
  static constexpr std::uint32_t kWays = 4;

  /// @param entries  rounded up to a power of two of at least kWays
  explicit InterDcPairs(std::uint32_t entries);
  /// @param pair  both addresses in any order, never 0
  /// @return true when another pair had to leave for it
  bool add(TimeNs now, std::uint64_t pair) noexcept;
  /// Whether the pair is there; it counts as used now.
  [[nodiscard]] bool contains(TimeNs now, std::uint64_t pair) noexcept;
  [[nodiscard]] std::uint32_t size() const noexcept;

 private:
  struct Entry {
    std::atomic<std::uint64_t> pair{0};  // 0: free
    std::atomic<TimeNs> used{0};
  };
  [[nodiscard]] Entry* set_of(std::uint64_t pair) const noexcept;

  std::uint32_t mask_;
  std::unique_ptr<Entry[]> entries_;
};

/// The two addresses of a packet as one word that does not depend on who sends: for IPv4 both, lower one first; for
/// IPv6 a hash of them. Never 0 for addresses that hosts have.
[[nodiscard]] std::uint64_t unordered_pair(const wire::Parsed& parsed, const std::uint8_t* l3,
                                           bool& from_lower) noexcept;

class PnpShared : public pipeline::StageShared {
 public:
  PnpShared(const pipeline::StageBuild& build, std::uint32_t max_flows, std::uint32_t max_pairs);

  /// Calls `what(PnpUnit&)`, which may use flows of the set of `name` alone.
  /// @return false when another worker uses that set; nothing was done
  template <typename What>
  [[nodiscard]] bool use(const PnpName& name, What&& what) noexcept {
    return use_set(workers_ == 1 ? 0 : unit_.set_of(name), what);
  }
  /// The same for the set of this index.
  template <typename What>
  [[nodiscard]] bool use_set(std::uint32_t set, What&& what) noexcept {
    if (workers_ == 1) {
      what(unit_);
      return true;
    }
    std::atomic<bool>& busy = busy_[set];
    if (busy.exchange(true, std::memory_order_acquire)) return false;
    what(unit_);
    busy.store(false, std::memory_order_release);
    return true;
  }
  /// The worker that owns a queue pair.
  [[nodiscard]] std::uint16_t owner(const wire::Parsed& parsed) const noexcept;
  [[nodiscard]] InterDcPairs& pairs() noexcept { return pairs_; }
  [[nodiscard]] const PnpUnit& unit() const noexcept { return unit_; }
  [[nodiscard]] std::uint16_t workers() const noexcept { return workers_; }
  /// Bytes of the flows.
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return unit_.memory_bytes(); }

  /// Pairs and flows stay where their tables have the size that they had.
  void adopt(pipeline::StageShared& old, const pipeline::Adoption& adoption) override;

 private:
  std::uint16_t workers_;
  const pipeline::OwnerTable* owners_;
  std::uint32_t max_pairs_;
  PnpUnit unit_;
  std::unique_ptr<std::atomic<bool>[]> busy_;  ///< by set; none where there is one worker
  InterDcPairs pairs_;
};

}  // namespace weft::stages
