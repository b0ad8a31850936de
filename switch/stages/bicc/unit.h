// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The near-destination loop of BiCC (Wan et al., INFOCOM 2024), as the long-haul paper tells of it (sections I and II):
// the switch at the edge of the receivers' data centre keeps a virtual output queue (VOQ) for each destination, and
// lets no more bytes be under way from itself to that destination than a round trip inside the data centre carries. No
// DPDK.
//
// Not in that description, and ours:
//   - What is under way is counted by flow from PSNs: an acknowledgement takes away, of the bytes of its flow, the
//   share
//     of the packets that it covers. That is exact when it covers all of them, and when all are of one size. PSNs that
//     nothing was sent with are skipped, so that what is before them counts until what is behind is acknowledged.
//   - A NAK, and a packet that is sent again, say that all of the flow that was under way is lost, or was received: it
//     counts no more.
//   - A queue that hears of nothing for `stale_ns` takes all that is under way for received. Without that a lost
//     acknowledgement, or a receiver that acknowledges rarely, would stop a destination for ever.
//   - What is held is bounded; a destination that finds no room gets all that it has waiting, in order.
//   - Packets whose acknowledgements cannot be told are not counted. They wait for their turn behind others.
//
// A destination's packets go on in the order in which they came.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "switch/base/time.h"
#include "switch/base/timer_heap.h"
#include "switch/wire/flow_name.h"
#include "switch/wire/types.h"

namespace weft::stages {

struct BiccSettings {
  std::uint64_t limit_bytes = 105'000;    ///< that may be under way to a destination; one packet always may
  TimeNs stale_ns = 1'000'000;            ///< see above; not 0
  std::uint64_t buffer_bytes = 64 << 20;  ///< that may be held
  std::uint32_t max_packets = 65'536;     ///< that may be held
  std::uint32_t destinations = 1024;      ///< rounded up to a power of two of at least four
  std::uint32_t flows = 4096;             ///< likewise
};

/// A packet that the unit holds; it knows nothing of it but this number, which is not 0.
using BiccPacket = std::uint64_t;

/// A packet that comes.
struct BiccRequest {
  std::uint64_t destination = 0;  ///< names the receiver, and not 0
  wire::FlowName name{};
  bool acknowledged = true;  ///< false: it does not count, because nobody can tell which acknowledgement is its own
  wire::Psn psn{};
  std::uint32_t bytes = 0;
  BiccPacket packet = 0;
};

/// Where packets go on. Those of one destination come in the order in which they go on.
class BiccSink {
 public:
  virtual ~BiccSink() = default;
  /// A packet that was held goes on.
  virtual void release(BiccPacket packet) noexcept = 0;
  /// A packet is to be held until release(). False when the switch has no room for it.
  [[nodiscard]] virtual bool reserve(BiccPacket /*packet*/) noexcept { return true; }
};

/// What happened to a packet.
enum class BiccVerdict : std::uint8_t {
  pass,     ///< it goes on
  held,     ///< the unit has it now
  flushed,  ///< there was no room: all that waited for its destination has gone to the sink, and it goes on behind that
};

struct BiccCounters {
  std::uint64_t held = 0;         ///< packets
  std::uint64_t flushed = 0;      ///< packets that found no room, and those that waited before them
  std::uint64_t untracked = 0;    ///< packets whose destination or flow found no place in its table
  std::uint64_t written_off = 0;  ///< times that a destination was silent for stale_ns
  std::uint64_t most_bytes = 0;   ///< held at one time
  TimeNs longest_hold_ns = 0;
};

/// A destination and its VOQ.
struct BiccQueue {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::uint64_t destination = 0;  ///< 0: the place is free
  std::uint64_t epoch = 0;        ///< what flows have under way counts while theirs is this one
  std::uint64_t in_flight = 0;    ///< bytes
  std::uint32_t held = 0;         ///< packets: a list from `first` to `last`
  std::uint32_t first = kNone, last = kNone;
  TimeNs heard_at = 0;  ///< when something was acknowledged, or began to wait
  TimeNs seen_at = 0;
};

struct BiccFlow {
  wire::FlowName name{};
  bool used = false;          ///< false: the place is free
  std::uint32_t held = 0;     ///< packets
  std::uint32_t queue = 0;    ///< its destination
  std::uint64_t epoch = 0;    ///< of the queue when it sent
  std::uint64_t bytes = 0;    ///< under way, if `epoch` is the queue's
  wire::Psn acked{}, sent{};  ///< newest ones, if `bytes` is not 0
  TimeNs seen_at = 0;
};

class BiccUnit {
 public:
  static constexpr std::uint32_t kWays = 4;

  explicit BiccUnit(const BiccSettings& settings);
  [[nodiscard]] const BiccSettings& settings() const noexcept { return settings_; }
  /// Other bounds for what is under way, from the next event on. The tables stay as they are.
  void set_limits(std::uint64_t limit_bytes, TimeNs stale_ns) noexcept;

  /// A request from afar comes.
  [[nodiscard]] BiccVerdict on_request(TimeNs now, const BiccRequest& request, BiccSink& sink) noexcept;
  /// The receiver has acknowledged a flow up to this PSN.
  void on_ack(TimeNs now, const wire::FlowName& name, wire::Psn psn, BiccSink& sink) noexcept;
  /// The receiver misses a packet, or is not ready: what it has not acknowledged will be sent again.
  void on_nak(TimeNs now, const wire::FlowName& name, BiccSink& sink) noexcept;
  void on_timer(TimeNs now, BiccSink& sink) noexcept;
  /// When on_timer() is wanted; kNever while nothing is held.
  [[nodiscard]] TimeNs next_deadline() const noexcept { return timers_.next(); }
  /// Everything goes on now, in order, and nothing counts as under way.
  void release_all(BiccSink& sink) noexcept;

  [[nodiscard]] std::uint32_t held() const noexcept { return held_; }
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_bytes_; }
  [[nodiscard]] const BiccCounters& counters() const noexcept { return counters_; }
  /// All places, free ones too.
  [[nodiscard]] std::span<const BiccQueue> queues() const noexcept { return queues_; }
  [[nodiscard]] std::span<const BiccFlow> flows() const noexcept { return flows_; }
  /// Bytes of the tables.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return queues_.size() * sizeof(BiccQueue) + flows_.size() * sizeof(BiccFlow) + items_.size() * sizeof(Item);
  }
  /// Calls `use` with every packet that is held.
  template <typename F>
  void for_each(F&& use) const {
    for (const Item& item : items_) {
      if (item.packet != 0) use(item.packet);
    }
  }
  /// Calls gone(BiccPacket) with every packet that is held for which `take` says so; it is held no more. All are shown
  /// to `take` once.
  template <typename Take, typename Gone>
  void remove_if(Take&& take, Gone&& gone) {
    for (std::uint32_t q = 0; q < queues_.size(); ++q) {
      for (std::uint32_t at = queues_[q].first; at != kNone;) {
        const std::uint32_t after = items_[at].after;
        if (take(items_[at].packet)) gone(take_out(items_[at].came, q, at));
        at = after;
      }
      arm(q);
    }
  }

  /// Feeds all that counts to `h(std::uint64_t)`; times as how long ago they were.
  template <class Hash>
  void hash_state(Hash&& h, TimeNs now) const {
    for (const BiccQueue& q : queues_) {
      h(q.destination);
      h(q.in_flight);
      h(q.held != 0 ? now - q.heard_at : 0);
      for (std::uint32_t at = q.first; at != kNone; at = items_[at].after) {
        h(items_[at].packet);
        h(now - items_[at].came);
      }
    }
    for (const BiccFlow& flow : flows_) {
      const bool counts = flow.used && flow.bytes != 0 && queues_[flow.queue].epoch == flow.epoch;
      h(counts ? flow.bytes : 0);
      h(counts ? std::uint64_t{flow.acked.value()} << 32 | flow.sent.value() : 0);
    }
  }

 private:
  static constexpr std::uint32_t kNone = BiccQueue::kNone;

  struct Item {
    BiccPacket packet = 0;
    TimeNs came = 0;
    std::uint32_t flow = kNone;  ///< kNone: not counted
    std::uint32_t bytes = 0;
    wire::Psn psn{};
    std::uint32_t before = kNone, after = kNone;  ///< in its queue
  };

  [[nodiscard]] std::uint32_t queue_of(TimeNs now, std::uint64_t destination) noexcept;
  [[nodiscard]] std::uint32_t flow_set(const wire::FlowName& name) const noexcept;
  [[nodiscard]] std::uint32_t find_flow(const wire::FlowName& name) const noexcept;
  [[nodiscard]] std::uint32_t flow_of(TimeNs now, const wire::FlowName& name) noexcept;
  [[nodiscard]] bool fits(const BiccQueue& queue, std::uint32_t flow, std::uint32_t bytes) const noexcept;
  void send(std::uint32_t queue, std::uint32_t flow, wire::Psn psn, std::uint32_t bytes) noexcept;
  void forget(std::uint32_t flow, std::uint64_t bytes) noexcept;
  void heard(TimeNs now, std::uint32_t queue, BiccSink& sink) noexcept;
  void drain(TimeNs now, std::uint32_t queue, bool all, BiccSink& sink) noexcept;
  [[nodiscard]] BiccPacket take_out(TimeNs now, std::uint32_t queue, std::uint32_t item) noexcept;
  void write_off(std::uint32_t queue) noexcept;
  void arm(std::uint32_t queue) noexcept;

  BiccSettings settings_;
  std::vector<BiccQueue> queues_;
  std::vector<BiccFlow> flows_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> free_;
  TimerHeap<TimeNs, kNever> timers_;  ///< by queue: when it is taken for silent
  std::uint64_t epoch_ = 0;
  std::uint32_t held_ = 0;
  std::uint64_t held_bytes_ = 0;
  BiccCounters counters_{};
};

}  // namespace weft::stages
