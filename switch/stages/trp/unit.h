// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// TRP, the Temporary Reaction Point of the long-haul paper (section V): an edge switch slows a flow from another data
// centre down as soon as its receiver sends a CNP, until the sender, far away, has slowed down itself. No DPDK.
//
// The paper's words and ours: CNP_Cache and CNP_Store are in store.h, the throttling algorithm in law.h; "redirecting
// to a pre-filled port" is a pass of LoopPort; the register with the sequence number that was last sent to the correct
// port is TrpFlow::left.
//
// Two ways to slow down. `recirculate` is the paper's: packets go round through a loop port, a FIFO with a rate and a
// delay that all throttled flows share, loop_num times each. `pace` is weft's own: each flow has a token bucket, whose
// rate is the one that the flow came with when its first CNP came, divided by 1 + loop_num, or with `halves` by 2 to
// the power of it. A packet keeps the rate of its arrival, or with `at_departure` leaves by the one that its flow has
// when its turn comes.
//
// Order within a flow. With `aligned` recovery and with `pace` a packet goes on when all that came before it have. In
// the loop that is nearly always so: the port is a FIFO and loop_num does not fall while a flow is throttled; but when
// recovery ends loops early, those that are in their first pass may come back before older ones in a later pass. With
// `none` recovery loops never end early. `direct` recovery lets everything go on at once and reorders: it is for
// receivers that keep packets which come early.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/base/time.h"
#include "switch/base/timer_heap.h"
#include "switch/stages/trp/law.h"
#include "switch/stages/trp/store.h"

namespace weft::stages {

/// How a flow is slowed down.
enum class TrpMode : std::uint8_t { recirculate, pace };
/// How it gets its rate back (appendix X-D).
enum class TrpRecovery : std::uint8_t { aligned, direct, none };

struct TrpSettings {
  TrpRules rules{};
  TrpMode mode = TrpMode::recirculate;
  TrpRecovery recovery = TrpRecovery::aligned;
  TrpStoreSettings store{};
  TimeNs loop_delay_ns = 100;           ///< from the end of a packet on the loop port to its return
  std::uint64_t loop_mbps = 1'600'000;  ///< rate of the loop port
  bool tell_passes = false;             ///< the sink is asked about each pass of the loop port
  TimeNs max_hold_ns = 1'000'000;       ///< a packet that was held for so long goes on when its turn comes; 0: no limit
  std::uint64_t buffer_bytes = 64 << 20;  ///< that may be held
  std::uint32_t max_packets = 65'536;     ///< that may be held
  // pace: over how many packets behind the first CNP, and how long at least, the rate that a flow comes with is
  // measured.
  std::uint32_t measure_packets = 8;
  TimeNs measure_ns = 1'000;
  bool halves = false;        ///< pace: a loop halves the rate, as a CNP does at a sender with DCQCN at first
  bool at_departure = false;  ///< pace: what waits already gets slower and faster with its flow
};

/// A packet that the unit holds; it knows nothing of it but this number, which is not 0.
using TrpPacket = std::uint64_t;

/// Where packets go on. Those of one flow come in the order in which they go on.
class TrpSink {
 public:
  virtual ~TrpSink() = default;
  /// A packet that was held goes on.
  virtual void release(TrpPacket packet) noexcept = 0;
  /// A packet is to be held until release(). False when the switch has no room for it.
  [[nodiscard]] virtual bool reserve(TrpPacket /*packet*/) noexcept { return true; }
  /// A packet comes back from the loop port, where `queued` bytes wait at that moment. With TrpSettings::tell_passes.
  virtual void passed_loop(TrpPacket /*packet*/, TrpFlow& /*flow*/, std::uint64_t /*queued*/) noexcept {}
};

/// What happened to a data packet.
enum class TrpVerdict : std::uint8_t {
  pass,     ///< its flow is not slowed down
  held,     ///< the unit has it now
  flushed,  ///< there was no room: all that was held of its flow has gone to the sink, and it goes on behind that
};

struct TrpCounters {
  std::uint64_t cnps = 0;        ///< that made a flow slower, or kept it slow
  std::uint64_t throttled = 0;   ///< flows that began to be slowed down
  std::uint64_t recovered = 0;   ///< flows that ended it
  std::uint64_t held = 0;        ///< packets
  std::uint64_t loops = 0;       ///< passes of the loop port
  std::uint64_t flushed = 0;     ///< packets that found no room, and those of their flow that left early
  std::uint64_t most_bytes = 0;  ///< held at one time
  TimeNs longest_hold_ns = 0;
};

class TrpUnit {
 public:
  explicit TrpUnit(const TrpSettings& settings);
  [[nodiscard]] const TrpSettings& settings() const noexcept { return settings_; }

  /// A receiver sent a CNP for this flow.
  /// @return false when there is no room for another flow: it stays as it is
  bool on_cnp(TimeNs now, const wire::FlowName& name) noexcept;
  /// A data packet comes. `bytes` are those that it takes on the loop port.
  [[nodiscard]] TrpVerdict on_data(TimeNs now, const wire::FlowName& name, TrpPacket packet, std::uint32_t bytes,
                                   TrpSink& sink) noexcept;
  void on_timer(TimeNs now, TrpSink& sink) noexcept;
  /// When on_timer() is wanted; kNever while nothing is held.
  [[nodiscard]] TimeNs next_deadline() const noexcept;
  /// Everything goes on now, in order, and nothing is slowed down any more.
  void release_all(TrpSink& sink) noexcept;

  /// False: no flow is slowed down, so that data packets need not be shown.
  [[nodiscard]] bool busy() const noexcept { return store_.active() != 0; }
  [[nodiscard]] std::uint32_t held() const noexcept { return held_; }
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_bytes_; }
  [[nodiscard]] const TrpCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const TrpStore& store() const noexcept { return store_; }
  /// Calls `use` with every packet that is held.
  template <typename F>
  void for_each(F&& use) const {
    for (const Item& item : items_) {
      if (item.packet != 0) use(item.packet);
    }
  }
  /// Calls gone(TrpPacket) with every packet that is held for which `take` says so; it is held no more. All are shown
  /// to `take` once.
  template <typename Take, typename Gone>
  void remove_if(Take&& take, Gone&& gone) {
    struct Sink final : TrpSink {
      explicit Sink(Gone& what) : gone(what) {}
      void release(TrpPacket packet) noexcept override { gone(packet); }
      Gone& gone;
    } sink(gone);
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (items_[i].packet == 0 || !take(items_[i].packet)) continue;
      release(items_[i].came, i, sink);
      // In the loop its item comes back empty.
      if (settings_.mode == TrpMode::pace) free_.push_back(i);
    }
  }

  /// Feeds all that counts to `h(std::uint64_t)`; times as how long ago they were, or how far off.
  template <class Hash>
  void hash_state(Hash&& h, TimeNs now) const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Item {
    TrpPacket packet = 0;  // 0: free, or gone early from the loop
    TimeNs came = 0;
    TimeNs due = 0;  // recirculate: when it comes back; pace: when it may leave
    std::uint32_t flow = kNone;
    std::uint32_t bytes = 0;
    std::uint32_t loops = 0;                      // left to go, with the one that it is in
    bool counted = false;                         // code: in levels_
    std::uint32_t before = kNone, after = kNone;  // of its flow, in order of arrival
  };

  [[nodiscard]] TrpVerdict hold(TimeNs now, std::uint32_t flow, TrpPacket packet, std::uint32_t bytes,
                                TrpSink& sink) noexcept;
  void enter_loop(TimeNs now, std::uint32_t item) noexcept;
  void came_back(TimeNs now, std::uint32_t item, TrpSink& sink) noexcept;
  [[nodiscard]] bool loops_by_code() const noexcept {
    return settings_.rules.rule == TrpRule::code && settings_.mode == TrpMode::recirculate;
  }
  [[nodiscard]] std::uint32_t& level_of(const Item& item) noexcept;
  void uncount(Item& item) noexcept;
  void end_loops_early(Item& item) noexcept;
  void run_loop(TimeNs now, TrpSink& sink) noexcept;
  void run_pace(TimeNs now, TrpSink& sink) noexcept;
  [[nodiscard]] TimeNs pace_due(TimeNs now, TrpFlow& flow, std::uint32_t bytes) noexcept;
  [[nodiscard]] TimeNs pace_gap(const TrpFlow& flow, std::uint32_t bytes) const noexcept;
  [[nodiscard]] TimeNs latest(TimeNs came) const noexcept {
    return settings_.max_hold_ns == 0 ? kNever : came + settings_.max_hold_ns;
  }
  [[nodiscard]] TimeNs first_due(const TrpFlow& flow) const noexcept;
  void measure(TimeNs now, TrpFlow& flow, std::uint32_t bytes) noexcept;
  void release(TimeNs now, std::uint32_t item, TrpSink& sink) noexcept;
  void flush(TimeNs now, std::uint32_t flow, TrpSink& sink) noexcept;
  void end(std::uint32_t flow) noexcept;
  [[nodiscard]] bool recovered(const TrpFlow& flow) const noexcept;

  TrpSettings settings_;
  TrpStore store_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> free_;
  // The loop port: items in the order in which they come back, in a ring.
  std::vector<std::uint32_t> loop_;
  std::uint64_t loop_head_ = 0, loop_tail_ = 0;
  TimeNs loop_free_ = 0;              // when the port has sent all that waits
  std::uint64_t loop_remainder_ = 0;  // of loop_free_, in 1/loop_mbps ns
  // TrpRule::code: packets in the loop by flow and by the loops that are left behind the one that they are in. Those
  // with more than the last level are counted there.
  static constexpr std::uint32_t kMostLevels = 4096;
  std::uint32_t levels_of_flow_ = 0;
  std::vector<std::uint32_t> levels_;
  TimerHeap<TimeNs, kNever> paced_;  // by flow: when its first packet may leave
  std::uint32_t held_ = 0;
  std::uint64_t held_bytes_ = 0;
  TrpCounters counters_{};
};

template <class Hash>
void TrpUnit::hash_state(Hash&& h, TimeNs now) const {
  const auto ahead = [&](TimeNs at) { return at > now ? at - now : 0; };
  store_.hash_state(h, now);
  h(loop_tail_ - loop_head_);
  h(ahead(loop_free_));
  for (std::uint64_t i = loop_head_; i != loop_tail_; ++i) {
    const Item& item = items_[loop_[i % loop_.size()]];
    h(item.packet);
    h(std::uint64_t{item.flow} << 32 | item.loops);
    h(ahead(item.due));
    h(now - item.came);
  }
  if (settings_.mode == TrpMode::recirculate) return;
  for (const TrpFlow& flow : store_.flows()) {
    for (std::uint32_t at = flow.first; at != kNone; at = items_[at].after) {
      h(items_[at].packet);
      h(ahead(items_[at].due));
      h(now - items_[at].came);
    }
  }
}

}  // namespace weft::stages
