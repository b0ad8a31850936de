// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The flowlet table of LetFlow (Vanini et al., NSDI 2017, 4): which member the packets of a flow take until it pauses.
// A flow is its full 5-tuple: a key without the source address, as in public models, would give flows of different
// senders one entry. A protocol unit: plain, copyable, without clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "switch/stages/lb/flow_key.h"

namespace weft::stages {

struct FlowletRules {
  TimeNs gap_ns = 100'000;        ///< a flow that was silent for longer than this may change its path
  TimeNs age_ns = 2'000'000;      ///< an entry without packets for longer than this is free; at least gap_ns
  std::uint32_t flows = 1 << 14;  ///< entries, a multiple of FlowletTable::kWays
};

/// An entry. Which path `member` and `port` mean is the caller's business.
struct alignas(32) Flowlet {
  FlowKey key{};
  TimeNs last = 0;             ///< when its last packet came
  std::uint32_t flowlets = 0;  ///< since the entry was made; 0: free
  std::uint16_t member = 0;
  std::uint16_t port = 0;

  friend bool operator==(const Flowlet&, const Flowlet&) = default;
};
static_assert(sizeof(Flowlet) == 32);

/// Set-associative: a flow has kWays places. When all are taken by others the one that was silent longest gives way;
/// its flow begins a new flowlet with its next packet.
class FlowletTable {
 public:
  static constexpr std::size_t kWays = kFlowWays;

  enum class Begin : std::uint8_t {
    none,     ///< the packet belongs to the flowlet at hand
    flow,     ///< a flow that was not known, or was silent beyond age_ns
    gap,      ///< a known flow after a gap
    evicted,  ///< as flow, and an entry that had not aged was taken for it
  };
  struct Found {
    Flowlet& entry;
    Begin begin;
  };

  explicit FlowletTable(const FlowletRules& rules) : rules_(rules), entries_(rules.flows) {}

  /// The entry for a packet of this flow at `now`, which becomes the time of its last packet. Unless `begin` is none
  /// the caller sets the path; until then the entry of a known flow has that of the flowlet before.
  Found on_packet(TimeNs now, const FlowKey& key) noexcept { return on_packet(now, key, flow_place(entries_, key)); }
  /// The same with what prefetch() has said.
  Found on_packet(TimeNs now, const FlowKey& key, std::uint32_t place) noexcept;

  /// flow_place() of a flow of which a packet comes soon.
  [[nodiscard]] std::uint32_t prefetch(const FlowKey& key) const noexcept { return prefetch_flow(entries_, key); }

  /// Entries that are in use at `now`. Looks at all of them.
  [[nodiscard]] std::size_t live(TimeNs now) const noexcept;
  [[nodiscard]] bool is_live(const Flowlet& entry, TimeNs now) const noexcept {
    return entry.flowlets != 0 && now - entry.last <= rules_.age_ns;
  }
  [[nodiscard]] const FlowletRules& rules() const noexcept { return rules_; }
  [[nodiscard]] std::vector<Flowlet>& entries() noexcept { return entries_; }
  [[nodiscard]] const std::vector<Flowlet>& entries() const noexcept { return entries_; }

  friend bool operator==(const FlowletTable& a, const FlowletTable& b) noexcept { return a.entries_ == b.entries_; }

 private:
  FlowletRules rules_;
  std::vector<Flowlet> entries_;
};

}  // namespace weft::stages
