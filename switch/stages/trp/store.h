// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which flows are slowed down: CNP_Store, and CNP_Cache in front of it (section V-B of the long-haul paper). On the
// paper's switch a CNP is written into the cache at once, a register array that a hash of the flow points into, and
// into the store, an exact table, when the control plane has got to it; until then another flow with the same place in
// the cache takes it over, and the first one passes unhindered. A software switch can write into an exact table at
// once: insert_delay_ns is 0 then, and the cache never counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "switch/base/time.h"
#include "switch/stages/trp/law.h"
#include "switch/wire/flow_name.h"

namespace weft::stages {

struct TrpStoreSettings {
  std::uint32_t flows = 1024;  ///< of CNP_Store, at least 1
  std::uint32_t cache = 1024;  ///< places of CNP_Cache, a power of two
  TimeNs insert_delay_ns = 0;  ///< until the control plane has written a flow into CNP_Store
};

struct TrpFlow {
  static constexpr std::uint32_t kNone = 0xffffffff;

  wire::FlowName name{};
  TrpLaw law{};
  bool used = false;       ///< false: the place is free
  TimeNs stored_at = 0;    ///< when it is in CNP_Store
  std::uint32_t held = 0;  ///< packets of it that the unit holds: a list from `first` to `last`
  std::uint32_t first = kNone, last = kNone;
  std::uint64_t left = 0;  ///< packets that have gone on after they were held
  TimeNs told_until = 0;   ///< loop_ecn.notify: until then its source gets no other CNP from here

  // pace: the rate that it came with, and when the next packet may leave.
  TimeNs measured_from = 0, measured_ns = 0;
  std::uint64_t measured_bytes = 0;
  std::uint32_t measured = 0;  ///< packets since its first CNP, while the rate is being measured
  TimeNs next_free = 0;

  std::uint32_t next = kNone;  ///< in its bucket
};

class TrpStore {
 public:
  static constexpr std::uint32_t kNone = TrpFlow::kNone;

  explicit TrpStore(const TrpStoreSettings& settings);

  /// The flow, when the data plane knows it by now: it is in CNP_Store, or in its place of CNP_Cache, or packets of it
  /// are held, which none of its others may overtake. kNone otherwise.
  [[nodiscard]] std::uint32_t find(TimeNs now, const wire::FlowName& name) const noexcept;
  /// The flow of a CNP, which is written into CNP_Cache where CNP_Store does not have it yet. May take the place of one
  /// that holds nothing. kNone when all that were looked at hold packets.
  [[nodiscard]] std::uint32_t find_or_add(TimeNs now, const wire::FlowName& name) noexcept;

  [[nodiscard]] TrpFlow& flow(std::uint32_t index) noexcept { return flows_[index]; }
  [[nodiscard]] const TrpFlow& flow(std::uint32_t index) const noexcept { return flows_[index]; }
  /// All places, free ones too.
  [[nodiscard]] std::span<const TrpFlow> flows() const noexcept { return flows_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// Flows that are slowed down, or recover.
  [[nodiscard]] std::uint32_t active() const noexcept { return active_; }
  /// A flow that was idle begins to be slowed down, or one ends it.
  void begin() noexcept { ++active_; }
  void end() noexcept { --active_; }
  /// Flows that had to leave for others.
  [[nodiscard]] std::uint64_t evicted() const noexcept { return evicted_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;
  void clear() noexcept;

  /// Feeds all that counts to `h(std::uint64_t)`; times as how long ago they were, or how far off.
  template <class Hash>
  void hash_state(Hash&& h, TimeNs now) const {
    for (const TrpFlow& f : flows_) {
      h(f.used ? f.name.addresses ^ f.name.dest_qp : 0);
      f.law.hash_state(h, now);
      h(f.stored_at > now ? f.stored_at - now : 0);
      h(f.held);
      h(f.measured_bytes);
      h(f.measured_ns);
      h(f.next_free > now ? f.next_free - now : 0);
      const bool measures = f.measured != 0 && f.measured_ns == 0;
      h(measures ? f.measured : 0);
      h(measures ? now - f.measured_from : 0);
    }
    for (const std::uint32_t place : cache_) h(place);
  }

 private:
  // Flows that one CNP without room looks at for one that holds nothing.
  static constexpr std::uint32_t kEvictionTries = 32;

  [[nodiscard]] static std::uint64_t hash_of(const wire::FlowName& name) noexcept;
  [[nodiscard]] std::uint32_t bucket_of(const wire::FlowName& name) const noexcept;
  [[nodiscard]] std::uint32_t lookup(const wire::FlowName& name) const noexcept;
  [[nodiscard]] std::uint32_t place() noexcept;
  void unlink(std::uint32_t index) noexcept;

  TrpStoreSettings settings_;
  std::vector<TrpFlow> flows_;
  std::vector<std::uint32_t> buckets_;  // first flow; kNone
  std::vector<std::uint32_t> cache_;    // flow; kNone
  std::uint32_t size_ = 0;
  std::uint32_t active_ = 0;
  std::uint32_t hand_ = 0;  // where the next search for a place begins
  std::uint64_t evicted_ = 0;
};

}  // namespace weft::stages
