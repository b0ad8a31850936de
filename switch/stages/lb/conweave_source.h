// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// ConWeave at the sender's ToR (Song et al., SIGCOMM 2023, 3.2): which path a packet of a flow takes, and what its tag
// says. A protocol unit: plain, copyable, without clock; paths are the caller's numbers.
//
// An epoch begins with a packet that asks for a reply (RTT_REQUEST). One that comes within reply_ns says that the path
// is good: the next packet begins the next epoch, on the same path. Otherwise the flow is rerouted, once there is a
// path that is not avoided: one more packet takes the old path, the TAIL, and those behind it take the new one. Then
// nothing happens until the far ToR has told that the TAIL has come (CLEAR). After a pause of the flow there is nothing
// left under way, and an epoch begins on any path.
//
// The paper says nothing of a lost CLEAR. Here the next epoch begins, on the path at hand, when it has not come within
// expiry_ns after the TAIL: the far ToR has given up waiting by then.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "switch/stages/lb/conweave.h"
#include "switch/stages/lb/flow_key.h"

namespace weft::stages {

struct ConweaveSourceRules {
  TimeNs reply_ns = 8'000;        ///< a reply that takes longer says that the path is congested: base RTT and an extra
  TimeNs expiry_ns = 300'000;     ///< a flow that was silent for longer has no packets under way
  std::uint32_t flows = 1 << 14;  ///< entries, a multiple of kFlowWays
};

/// The paths of one packet, as the caller knows them. Numbers are below 0xffff.
class ConweavePaths {
 public:
  static constexpr std::uint16_t kNone = 0xffff;
  virtual ~ConweavePaths() = default;

  /// The path exists, and is up.
  [[nodiscard]] virtual bool up(std::uint16_t path) noexcept = 0;
  /// The first of two paths drawn at random that is up and not avoided; kNone when neither is.
  [[nodiscard]] virtual std::uint16_t draw() noexcept = 0;
  /// Any path that is up; kNone when there is none.
  [[nodiscard]] virtual std::uint16_t any() noexcept = 0;
};

/// An entry. 56 bytes, in a cache line of its own.
struct alignas(kMostFlowBytes) ConweaveFlow {
  enum class State : std::uint8_t {
    free,
    asked,     ///< a reply is awaited
    stable,    ///< it has come in time
    rerouted,  ///< CLEAR is awaited
  };

  FlowKey key{};
  TimeNs last = 0;      ///< when its last packet came
  TimeNs deadline = 0;  ///< asked: of the reply; rerouted: of CLEAR
  ConweaveTime tail_sent{};
  std::uint32_t reroutes = 0;
  std::uint16_t path = ConweavePaths::kNone;
  std::uint8_t epoch = 0;
  State state = State::free;

  friend bool operator==(const ConweaveFlow&, const ConweaveFlow&) = default;
};
static_assert(sizeof(ConweaveFlow) <= kMostFlowBytes);

/// What has happened since the start.
struct ConweaveSourceCounts {
  std::uint64_t epochs = 0;         ///< that began
  std::uint64_t reroutes = 0;       ///< TAILs sent
  std::uint64_t stays = 0;          ///< packets that would have been rerouted, had there been a better path
  std::uint64_t replies = 0;        ///< in time, or CLEAR
  std::uint64_t late_replies = 0;   ///< after their deadline
  std::uint64_t stray_replies = 0;  ///< of no flow, or not of its epoch and phase
  std::uint64_t lost_clears = 0;    ///< epochs that began because no CLEAR came
  std::uint64_t evicted = 0;        ///< flows that gave their entry to another one before they expired
};

class ConweaveSource {
 public:
  struct Choice {
    std::uint16_t path = ConweavePaths::kNone;  ///< kNone: no path is up
    ConweaveTag tag{};
  };

  explicit ConweaveSource(const ConweaveSourceRules& rules) : rules_(rules), entries_(rules.flows) {}

  /// A data packet of the flow is to be sent. Packets of a flow go in the order of these calls.
  [[nodiscard]] Choice on_packet(TimeNs now, const FlowKey& key, ConweavePaths& paths) noexcept {
    return on_packet(now, key, flow_place(entries_, key), paths);
  }
  /// The same with what prefetch() has said. Most packets belong to an epoch that may still be answered, which is found
  /// out here, without calls.
  /// @param paths  ConweavePaths, of a type whose functions are known where this is called
  template <typename Paths>
  [[nodiscard]] Choice on_packet(TimeNs now, const FlowKey& key, std::uint32_t place, Paths& paths) noexcept {
    ConweaveFlow* const flow = known_flow(entries_, place, key, is_free);
    const bool asked = flow != nullptr && flow->state == State::asked && now <= flow->deadline;
    if (!asked || !is_live(*flow, now) || !paths.up(flow->path)) return on_turn(now, key, place, paths);
    flow->last = now;
    return {flow->path, {.epoch = flow->epoch, .sent = ConweaveTime::of(now)}};
  }
  /// flow_place() of a flow of which a packet is to be sent soon.
  [[nodiscard]] std::uint32_t prefetch(const FlowKey& key) const noexcept { return prefetch_flow(entries_, key); }
  /// A reply of kind rtt or clear has come for the flow.
  void on_reply(TimeNs now, const FlowKey& key, const ConweaveReply& reply) noexcept;

  [[nodiscard]] bool is_live(const ConweaveFlow& flow, TimeNs now) const noexcept {
    return flow.state != ConweaveFlow::State::free && now - flow.last <= rules_.expiry_ns;
  }
  [[nodiscard]] const std::vector<ConweaveFlow>& entries() const noexcept { return entries_; }
  [[nodiscard]] const ConweaveSourceRules& rules() const noexcept { return rules_; }
  [[nodiscard]] const ConweaveSourceCounts& counts() const noexcept { return counts_; }

 private:
  using State = ConweaveFlow::State;

  [[nodiscard]] static bool is_free(const ConweaveFlow& flow) noexcept { return flow.state == State::free; }
  [[nodiscard]] ConweaveFlow& entry(TimeNs now, const FlowKey& key, std::uint32_t place) noexcept;
  [[nodiscard]] Choice on_turn(TimeNs now, const FlowKey& key, std::uint32_t place, ConweavePaths& paths) noexcept;
  [[nodiscard]] Choice begin_epoch(TimeNs now, ConweaveFlow& flow) noexcept;
  [[nodiscard]] bool reroute(TimeNs now, ConweaveFlow& flow, ConweavePaths& paths) noexcept;

  ConweaveSourceRules rules_;
  std::vector<ConweaveFlow> entries_;
  ConweaveSourceCounts counts_;
};

}  // namespace weft::stages
