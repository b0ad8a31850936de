// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Gemma at the sender's side (a robust and path-aware load balancing algorithm for RDMA, III-B of its paper): which
// path the packets of a flow take, by scores of paths. A protocol unit: plain, copyable, without clock.
//
// A new flow takes a path at random. A flow stays on its path as long as that is smooth: its score is at most
// reroute_bytes. From a congested one it moves to the path with the lowest score of those that are smooth, or better by
// more than gap_bytes; where there is none it stays.
//
// The paper says no numbers, and nothing of when a flow is new, of ties or of moving often. Those of ours: new_ns,
// guard_ns, and a draw among equals, without which all flows of a switch would move to one path.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "switch/stages/lb/flow_key.h"

namespace weft::stages {

/// Which path a new flow takes. The paper: any.
enum class GemmaFirst : std::uint8_t {
  any,     ///< of those that are up
  smooth,  ///< any of those whose score is at most reroute_bytes, or of all when none is
  best     ///< one with the lowest score
};

struct GemmaRules {
  double alpha = 1;                       ///< weight of the local queue
  double beta = 1;                        ///< weight of what is beyond
  std::uint64_t reroute_bytes = 100'000;  ///< S_reroute; 100 KB: where marking begins in the baselines' fabric
  std::uint64_t gap_bytes = 26'000;       ///< a quarter of the bandwidth-delay product there
  /// Between two reroutes of a flow; 0: none. Many round trips: where queues or pauses make paths differ by that much,
  /// a shorter one would have a flow under way on several at once.
  TimeNs guard_ns = 100'000;
  TimeNs new_ns = 2'000'000;           ///< a flow that was silent for longer is a new one
  GemmaFirst first = GemmaFirst::any;  ///< the path that it takes then, or when its own is gone
  std::uint32_t flows = 1 << 14;       ///< entries, a multiple of kFlowWays
};

/// Pathscore, of bytes that wait.
/// @param local   in the egress queue to the path
/// @param beyond  in the queues behind it, as they were told
[[nodiscard]] constexpr std::uint64_t gemma_score(const GemmaRules& rules, std::uint64_t local,
                                                  std::uint64_t beyond) noexcept {
  // The defaults, without conversions.
  if (rules.alpha == 1 && rules.beta == 1) return local + beyond;
  return static_cast<std::uint64_t>(rules.alpha * static_cast<double>(local) +
                                    rules.beta * static_cast<double>(beyond));
}

/// What a packet can choose from.
class GemmaPaths {
 public:
  static constexpr std::uint16_t kNone = 0xffff;
  virtual ~GemmaPaths() = default;

  /// The path exists, and is up.
  [[nodiscard]] virtual bool up(std::uint16_t path) noexcept = 0;
  /// gemma_score() of a path that is up.
  [[nodiscard]] virtual std::uint64_t score(std::uint16_t path) noexcept = 0;
  /// Paths, and which they are; some may be down.
  [[nodiscard]] virtual std::uint32_t size() const noexcept = 0;
  [[nodiscard]] virtual std::uint16_t at(std::uint32_t i) const noexcept = 0;
  /// A number below `bound`, at random.
  [[nodiscard]] virtual std::uint32_t below(std::uint32_t bound) noexcept = 0;
};

/// An entry. 48 bytes, in a cache line of its own.
struct alignas(kMostFlowBytes) GemmaFlow {
  FlowKey key{};
  TimeNs last = 0;         ///< when its last packet came
  TimeNs rerouted_at = 0;  ///< with reroutes above 0
  std::uint32_t reroutes = 0;
  std::uint16_t path = GemmaPaths::kNone;  ///< kNone: the entry is free
  std::uint64_t score = 0;                 ///< of the path when the last packet came, for who looks on

  friend bool operator==(const GemmaFlow&, const GemmaFlow&) = default;
};
static_assert(sizeof(GemmaFlow) <= kMostFlowBytes);

/// What has happened since the start.
struct GemmaCounts {
  std::uint64_t flows = 0;     ///< that began
  std::uint64_t cut = 0;       ///< flows whose path was gone, and that took another one at random
  std::uint64_t smooth = 0;    ///< packets that stayed on a smooth path
  std::uint64_t reroutes = 0;  ///< moves to a better path
  std::uint64_t stays = 0;     ///< packets on a congested path without a better one
  std::uint64_t guarded = 0;   ///< packets on a congested path whose flow had been rerouted within guard_ns
  std::uint64_t evicted = 0;   ///< flows that gave their entry to another one before they were silent for new_ns
};

class GemmaSource {
 public:
  explicit GemmaSource(const GemmaRules& rules) : rules_(rules), entries_(rules.flows) {}

  /// The path of a packet of the flow; kNone when none is up.
  [[nodiscard]] std::uint16_t on_packet(TimeNs now, const FlowKey& key, GemmaPaths& paths) noexcept {
    return on_packet(now, key, flow_place(entries_, key), paths);
  }
  /// The same with what prefetch() has said. Most packets stay on a smooth path, which is found out here, without
  /// calls.
  /// @param paths  GemmaPaths, of a type whose functions are known where this is called
  template <typename Paths>
  [[nodiscard]] std::uint16_t on_packet(TimeNs now, const FlowKey& key, std::uint32_t place, Paths& paths) noexcept {
    GemmaFlow* const flow = known_flow(entries_, place, key, is_free);
    const bool live = flow != nullptr && is_live(*flow, now) && paths.up(flow->path);
    if (!live) return on_turn(now, key, place, paths);
    const std::uint64_t score = paths.score(flow->path);
    if (score > rules_.reroute_bytes) return on_turn(now, key, place, paths);
    flow->last = now;
    flow->score = score;
    ++counts_.smooth;
    return flow->path;
  }
  /// flow_place() of a flow of which a packet comes soon.
  [[nodiscard]] std::uint32_t prefetch(const FlowKey& key) const noexcept { return prefetch_flow(entries_, key); }
  /// Takes over what another one knows that fits. Of equal sizes, the other one gets what this one knew.
  void adopt(GemmaSource& old) noexcept;

  [[nodiscard]] bool is_live(const GemmaFlow& flow, TimeNs now) const noexcept {
    return flow.path != GemmaPaths::kNone && now - flow.last <= rules_.new_ns;
  }
  [[nodiscard]] const GemmaRules& rules() const noexcept { return rules_; }
  [[nodiscard]] const GemmaCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const std::vector<GemmaFlow>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::vector<GemmaFlow>& entries() noexcept { return entries_; }

 private:
  [[nodiscard]] static bool is_free(const GemmaFlow& flow) noexcept { return flow.path == GemmaPaths::kNone; }
  [[nodiscard]] GemmaFlow& entry(TimeNs now, const FlowKey& key, std::uint32_t place) noexcept;
  [[nodiscard]] std::uint16_t on_turn(TimeNs now, const FlowKey& key, std::uint32_t place, GemmaPaths& paths) noexcept;
  [[nodiscard]] std::uint16_t draw(GemmaPaths& paths) const noexcept;
  void reroute(TimeNs now, GemmaFlow& flow, GemmaPaths& paths) noexcept;

  GemmaRules rules_;
  std::vector<GemmaFlow> entries_;
  GemmaCounts counts_;
};

}  // namespace weft::stages
