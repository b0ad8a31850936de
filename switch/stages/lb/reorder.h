// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The reorder buffer at a receiver's ToR: packets of a flow that have overtaken others wait until these have arrived.
// Both ConWeave (Song et al., SIGCOMM 2023, 3.3) and Gemma (III-B-3) pause and resume queues of a switch for it; here
// order is known from PSNs, so that any number of paths may be in use at once. A protocol unit: plain, copyable,
// without clock, and without packets: it hands numbers to a sink.
//
// What it promises, whatever arrives:
// - A packet goes on as soon as all packets with earlier PSNs have gone on, and no later than bound_ns after it came.
// - When it goes on for its time, those that wait in front of it do too: together they are in order.
// - A packet is never dropped. What does not fit goes on at once, behind what waits in front of it.
// - A gap that is given up is left to the receiver, whose NACK tells the sender.
// - A sender that goes back (go-back-N) sends all again from where its receiver has asked, although most of that has
//   gone on: the receiver threw it away. Order begins anew there. Otherwise each change of path among what is sent
//   again would be a gap to the receiver, and the sender, whose newest PSN is always a window ahead, would never end
//   going back. on_nak() and on_ack() tell what such a receiver waits for; a gap that is given up does not change that.
//   A sender shows that it goes back by what it sends again although it had gone on. For others nothing changes.
// - A flow that is not known yet begins with a packet that starts a message; others wait for it, no longer than the
//   bound. The first packet of a flow whose PSNs leap says what comes next.
//
// ACKs, NAKs, CNPs and responses are not for this unit. READ requests pass without waiting, and on_passed() tells of
// the PSNs that they and their responses take.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "switch/base/timer_heap.h"
#include "switch/wire/types.h"

namespace weft::stages {

struct ReorderRules {
  TimeNs bound_ns = 200'000;              ///< a packet waits no longer; ConWeave's default VOQ wait
  std::uint32_t flows = 1024;             ///< numbered from 0 by the caller
  std::uint32_t max_packets = 4096;       ///< that wait, of all flows together
  std::uint32_t max_flow_packets = 512;   ///< that wait, of one flow
  std::uint64_t max_bytes = 1024 * 1024;  ///< that wait, of all flows together
};

/// What has happened since the start.
struct ReorderCounts {
  std::uint64_t held = 0;     ///< packets that had to wait
  std::uint64_t expired = 0;  ///< of these, those that went on for their time, or in front of one that did
  std::uint64_t late = 0;     ///< packets that came when later ones had gone on: overtaken beyond the bound, or resent
  std::uint64_t overflowed = 0;  ///< packets for which there was no room, here or where the sink reserves it
  std::uint64_t leaps = 0;       ///< packets too far from the one that was expected for mere overtaking
  std::uint64_t went_back = 0;   ///< times that a sender began anew where its receiver had asked, and order with it
  std::uint64_t peak_packets = 0;
  std::uint64_t peak_bytes = 0;
};

class ReorderSink {
 public:
  virtual ~ReorderSink() = default;
  /// Takes room for a packet that is about to wait, in what the switch has for all that waits in it. False: there is
  /// none, the packet is delivered at once instead.
  [[nodiscard]] virtual bool reserve(std::uint64_t /*packet*/) noexcept { return true; }
  /// The packet goes on, behind all that were delivered before.
  virtual void deliver(std::uint64_t packet) noexcept = 0;
};

class ReorderBuffer {
 public:
  /// Farther from the expected PSN than this is no overtaking: the sequence is a new one.
  static constexpr std::int32_t kLeap = 1 << 20;

  explicit ReorderBuffer(const ReorderRules& rules);

  /// A packet that may wait.
  /// @param flow    below ReorderRules::flows
  /// @param starts  it is the first or only packet of a message, and so may be the first one of its flow
  /// @param packet  the caller's number for it, which comes back in deliver(), at once or later
  void on_packet(TimeNs now, std::uint32_t flow, wire::Psn psn, bool starts, std::uint32_t bytes, std::uint64_t packet,
                 ReorderSink& sink) noexcept;

  /// A packet of the flow comes soon.
  void prefetch(std::uint32_t flow) const noexcept { __builtin_prefetch(&flows_[flow]); }

  /// A packet has passed that does not wait, and takes `psns` PSNs from `psn` on.
  void on_passed(TimeNs now, std::uint32_t flow, wire::Psn psn, std::uint32_t psns, ReorderSink& sink) noexcept;

  /// The receiver has told the sender that it waits for `wanted` (NAK of a sequence error, RNR NAK).
  void on_nak(std::uint32_t flow, wire::Psn wanted) noexcept;
  /// The receiver has told the sender that it has got everything up to `psn`.
  void on_ack(std::uint32_t flow, wire::Psn psn, ReorderSink& sink) noexcept;
  /// ACKs matter: there has been a NAK.
  [[nodiscard]] bool follows_acks() const noexcept { return follows_acks_; }

  /// Nothing earlier than what waits is under way (ConWeave's TAIL): all of it goes on.
  void release(std::uint32_t flow, ReorderSink& sink) noexcept;
  /// The same, and the next packet of the flow says anew what comes next.
  void forget(std::uint32_t flow, ReorderSink& sink) noexcept;
  /// forget() for all flows.
  void flush(ReorderSink& sink) noexcept;

  /// When on_timer() is wanted; not before anything waits.
  [[nodiscard]] TimeNs next_deadline() const noexcept { return timers_.next(); }
  void on_timer(TimeNs now, ReorderSink& sink) noexcept;

  /// Calls `use` with the number of each packet that waits.
  template <typename F>
  void for_each(F&& use) const {
    for (const Flow& flow : flows_) {
      for (std::uint32_t at = flow.first; at != kNone; at = items_[at].next) {
        if (!items_[at].passed) use(items_[at].packet);
      }
    }
  }
  [[nodiscard]] std::uint32_t held() const noexcept { return packets_; }
  [[nodiscard]] std::uint32_t held(std::uint32_t flow) const noexcept { return flows_[flow].packets; }
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return bytes_; }
  /// The flow is known: expected() says what comes next.
  [[nodiscard]] bool is_known(std::uint32_t flow) const noexcept { return flows_[flow].known; }
  [[nodiscard]] wire::Psn expected(std::uint32_t flow) const noexcept { return flows_[flow].expected; }
  /// What is known of a receiver that asks and of a sender that goes back; see Flow.
  struct Back {
    wire::Psn wanted{}, gap_end{};
    bool nacked = false, goes_back = false;
  };
  [[nodiscard]] Back back(std::uint32_t flow) const noexcept {
    const Flow& f = flows_[flow];
    return {f.wanted, f.gap_end, f.nacked, f.goes_back};
  }
  [[nodiscard]] const ReorderCounts& counts() const noexcept { return counts_; }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  using Timers = TimerHeap<TimeNs, kNever>;

  struct Flow {
    wire::Psn expected{};
    wire::Psn wanted{};  ///< with `nacked`: what the receiver waits for, before `expected`
    /// The end of the last gap that was given up: from here on all has gone on. With `goes_back` the first packet that
    /// has gone on though the receiver wants an earlier one.
    wire::Psn gap_end{};
    std::uint32_t first = kNone;  ///< what waits, by PSN
    std::uint32_t last = kNone;   ///< with `first`: the end of it
    std::uint32_t packets = 0;    ///< that wait
    bool known = false;
    bool nacked = false;
    bool goes_back = false;  ///< its sender does: `expected` is what the receiver waits for
  };
  // With its timer, 20 bytes, and what the stage knows it by, 16.
  static_assert(sizeof(Flow) + 20 + 16 <= 64, "state of a flow fits a cache line");
  // A packet that waits, or PSNs that have passed.
  struct Item {
    std::uint64_t packet = 0;
    TimeNs until = 0;
    wire::Psn psn{};
    std::uint32_t psns = 1;
    std::uint32_t bytes = 0;
    std::uint32_t next = kNone;
    bool starts = false;
    bool passed = false;
  };

  void arrive(TimeNs now, std::uint32_t flow, const Item& item, ReorderSink& sink) noexcept;
  [[nodiscard]] std::uint32_t* place_of(Flow& flow, wire::Psn psn) noexcept;
  void hold(std::uint32_t number, const Item& item, std::uint32_t* place) noexcept;
  [[nodiscard]] bool has_room(const Flow& flow, const Item& item, ReorderSink& sink) noexcept;
  [[nodiscard]] bool may_begin(const Flow& flow, const Item& item) const noexcept;
  [[nodiscard]] bool begins_anew(Flow& flow, const Item& item) noexcept;
  static void wants(Flow& flow, wire::Psn next) noexcept;
  static void pass(Flow& flow, const Item& item) noexcept;
  void drain(std::uint32_t number, ReorderSink& sink) noexcept;
  void take_first(Flow& flow, ReorderSink& sink) noexcept;
  void expire(TimeNs now, std::uint32_t number, ReorderSink& sink) noexcept;
  static void go_on(const Item& item, ReorderSink& sink) noexcept {
    if (!item.passed) sink.deliver(item.packet);
  }

  ReorderRules rules_;
  std::vector<Flow> flows_;
  std::vector<Item> items_;
  std::uint32_t free_ = kNone;
  Timers timers_;  ///< of flows: not after the first `until` of what waits
  std::uint32_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  bool follows_acks_ = false;
  ReorderCounts counts_;
};

}  // namespace weft::stages
