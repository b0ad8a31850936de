// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// ConWeave at the receiver's ToR (Song et al., SIGCOMM 2023, 3.3): packets that were rerouted and overtook the TAIL of
// their flow wait in a queue of their own until it has come. A protocol unit: plain, copyable, without clock, and
// without packets: it hands numbers to a sink. What waits is in a ReorderBuffer, a flow of it for each queue; numbers
// of arrival stand there for PSNs, so that nothing has to be known of the transport.
//
// What it promises, whatever arrives:
// - A rerouted packet goes on when the TAIL has come, or when the TAIL should have come extra_ns ago: as long after the
//   last packet of the old path as it was sent after it. Both differences are of one clock each. Where no packet of the
//   old path was seen, wait_ns and extra_ns after the first that waits.
// - No packet waits longer than bound_ns. It is never dropped, and what waits goes on in the order in which it came.
// - When there is no queue, or no room, the flow's packets go on at once for the rest of the epoch, behind what waits.
//
// A packet of an earlier epoch is one that was late, and goes on at once. If nothing waits, and nothing but such come
// for wait_ns, it is the sender's ToR that began anew, and its epoch counts.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "switch/base/timer_heap.h"
#include "switch/stages/lb/conweave.h"
#include "switch/stages/lb/flow_key.h"
#include "switch/stages/lb/reorder.h"

namespace weft::stages {

struct ConweaveDestinationRules {
  TimeNs wait_ns = 200'000;           ///< for a TAIL of which nothing can be said
  TimeNs extra_ns = 16'000;           ///< for a TAIL beyond the time at which it should have come
  TimeNs bound_ns = 400'000;          ///< a packet waits no longer
  TimeNs age_ns = 1'200'000;          ///< a flow that was silent for longer is a new one
  std::uint32_t flows = 1 << 14;      ///< entries, a multiple of kFlowWays
  std::uint32_t queues = 128;         ///< flows of which packets may wait
  std::uint32_t queue_packets = 512;  ///< that may wait, of one flow
  std::uint32_t max_packets = 4096;   ///< that may wait, of all flows together
  std::uint64_t max_bytes = 1 << 20;  ///< that may wait, of all flows together
};

/// What has happened since the start.
struct ConweaveDestinationCounts {
  std::uint64_t held = 0;         ///< packets that had to wait
  std::uint64_t resumed = 0;      ///< of these, those that went on because the TAIL came
  std::uint64_t flushed = 0;      ///< of these, those that went on because time was over
  std::uint64_t given_up = 0;     ///< of these, those that went on for another reason
  std::uint64_t flushes = 0;      ///< queues whose time was over
  std::uint64_t no_queue = 0;     ///< packets that should have waited, with all queues in use
  std::uint64_t overflowed = 0;   ///< packets that should have waited, and for which there was no room
  std::uint64_t stale = 0;        ///< packets of an earlier epoch
  std::uint64_t flows_full = 0;   ///< packets of flows for which there was no entry
  std::uint64_t evicted = 0;      ///< flows that gave their entry to another one before they aged
  std::uint64_t peak_queues = 0;  ///< most queues in use at once
};

class ConweaveSink : public ReorderSink {
 public:
  /// For the ToR that the packet at hand came from; never of kind notify.
  virtual void reply(const ConweaveReply& reply) noexcept = 0;
};

class ConweaveDestination {
 public:
  /// An entry. 56 bytes, in a cache line of its own.
  struct alignas(kMostFlowBytes) Flow {
    FlowKey key{};
    TimeNs last = 0;          ///< when the last packet of this epoch came
    TimeNs old_came = 0;      ///< when the last one of the old path came
    ConweaveTime old_sent{};  ///< when that one was sent
    ConweaveTime tail_sent{};
    std::uint32_t arrivals = 0;  ///< numbers of what waits
    std::uint16_t queue = kNoQueue;
    std::uint8_t epoch = 0;
    bool known = false;
    bool old_seen = false;  ///< a packet of the old path has come
    bool ordered = false;   ///< rerouted packets need not wait any more

    friend bool operator==(const Flow&, const Flow&) = default;
  };
  static_assert(sizeof(Flow) <= kMostFlowBytes);
  static constexpr std::uint16_t kNoQueue = 0xffff;

  explicit ConweaveDestination(const ConweaveDestinationRules& rules);

  /// A data packet has come.
  /// @param may_wait  otherwise it goes on at once, behind what waits, and order within the epoch is given up
  /// @param packet    the caller's number for it, which comes back in deliver(), at once or later
  void on_packet(TimeNs now, const FlowKey& key, const ConweaveTag& tag, bool may_wait, std::uint32_t bytes,
                 std::uint64_t packet, ConweaveSink& sink) noexcept;
  /// Most data packets need no more than this: nothing is asked, and neither they nor others of their flow wait. False
  /// where on_packet() has to be called; otherwise the packet goes on at once.
  [[nodiscard]] bool passes(TimeNs now, const FlowKey& key, const ConweaveTag& tag) noexcept {
    if (tag.request || tag.tail || tag.rerouted) return false;
    Flow* const flow = known_flow(entries_, flow_place(entries_, key), key, is_free);
    if (flow == nullptr || flow->queue != kNoQueue || flow->epoch != tag.epoch) return false;
    if (now - flow->last > rules_.age_ns) return false;
    flow->last = now;
    flow->old_seen = true;
    flow->old_came = now;
    flow->old_sent = tag.sent;
    return true;
  }
  /// A data packet of the flow comes soon.
  void prefetch(const FlowKey& key) const noexcept { static_cast<void>(prefetch_flow(entries_, key)); }
  /// All that waits goes on, and all flows are new.
  void flush(ReorderSink& sink) noexcept;

  /// When on_timer() is wanted; kNever when nothing waits.
  [[nodiscard]] TimeNs next_deadline() const noexcept { return timers_.next(); }
  void on_timer(TimeNs now, ReorderSink& sink) noexcept;

  [[nodiscard]] std::uint32_t held() const noexcept { return buffer_.held(); }
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return buffer_.held_bytes(); }
  [[nodiscard]] std::uint32_t queues_used() const noexcept {
    return static_cast<std::uint32_t>(queues_.size() - free_queues_.size());
  }
  /// Calls `use` with the number of each packet that waits.
  template <typename F>
  void for_each(F&& use) const {
    buffer_.for_each(use);
  }
  /// Packets that wait, of a flow.
  [[nodiscard]] std::uint32_t held(const Flow& flow) const noexcept {
    return flow.queue == kNoQueue ? 0 : buffer_.held(flow.queue);
  }
  /// When what waits of a flow goes on at the latest; kNever when nothing does.
  [[nodiscard]] TimeNs flush_at(const Flow& flow) const noexcept {
    return flow.queue == kNoQueue ? kNever : queues_[flow.queue].flush_at;
  }
  [[nodiscard]] const std::vector<Flow>& entries() const noexcept { return entries_; }
  [[nodiscard]] const ConweaveDestinationRules& rules() const noexcept { return rules_; }
  [[nodiscard]] const ConweaveDestinationCounts& counts() const noexcept { return counts_; }
  /// Of the buffer: peak_packets and peak_bytes.
  [[nodiscard]] const ReorderCounts& buffer_counts() const noexcept { return buffer_.counts(); }

 private:
  using Timers = TimerHeap<TimeNs, kNever>;

  struct Queue {
    std::uint32_t flow = 0;  ///< its entry
    TimeNs limit = 0;        ///< of its first packet
    TimeNs flush_at = kNever;
  };

  [[nodiscard]] static bool is_free(const Flow& flow) noexcept { return !flow.known; }
  [[nodiscard]] Flow* find(TimeNs now, const FlowKey& key) noexcept;
  [[nodiscard]] bool enter_epoch(TimeNs now, Flow& flow, std::uint8_t epoch, ReorderSink& sink) noexcept;
  void on_old_path(TimeNs now, Flow& flow, const ConweaveTag& tag, std::uint64_t packet, ConweaveSink& sink) noexcept;
  void on_new_path(TimeNs now, Flow& flow, const ConweaveTag& tag, std::uint32_t bytes, std::uint64_t packet,
                   ConweaveSink& sink) noexcept;
  [[nodiscard]] bool take_queue(TimeNs now, Flow& flow) noexcept;
  [[nodiscard]] TimeNs tail_due(TimeNs now, const Flow& flow) const noexcept;
  void set_flush(Flow& flow, TimeNs at) noexcept;
  void settle(Flow& flow, std::uint64_t& count, ReorderSink& sink) noexcept;

  ConweaveDestinationRules rules_;
  std::vector<Flow> entries_;
  ReorderBuffer buffer_;  ///< its flows are the queues
  std::vector<Queue> queues_;
  std::vector<std::uint16_t> free_queues_;
  Timers timers_;  ///< of queues
  ConweaveDestinationCounts counts_;
};

}  // namespace weft::stages
