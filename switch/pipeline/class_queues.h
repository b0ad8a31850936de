// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The class queues of one port with qos: what stands in the place of the FIFO of egress_queue.h. Packets are charged to
// the switch's shared buffer, classified, queued by class, and taken out as the scheduler says, marked by the curves;
// pauses of the peer hold classes back, and full priority groups ask the peer to pause.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "switch/base/counters.h"
#include "switch/base/rng.h"
#include "switch/pipeline/drop_reason.h"
#include "switch/pipeline/packet.h"
#include "switch/pipeline/refused_packets.h"
#include "switch/qos/block_queue.h"
#include "switch/qos/pfc_receiver.h"
#include "switch/qos/pfc_sender.h"
#include "switch/qos/pfc_watchdog.h"
#include "switch/qos/scheduler.h"
#include "switch/qos/shared_buffer.h"
#include "switch/qos/wred.h"

namespace weft::pipeline {

/// A packet in a class queue. What is asked about it when it leaves stands here, so that a packet that has waited long
/// enough to have left the caches is not touched before the device wants it.
struct QueuedPacket {
  rte_mbuf* packet;
  std::uint32_t length;
  std::uint16_t group;  ///< index in SharedBuffer::groups()
  std::uint8_t ecn;     ///< its ECN field when it came in
};
static_assert(sizeof(QueuedPacket) == 16);

/// Counters of one queue. The port's owner counts.
struct alignas(64) QueueCounters {
  Counter packets, bytes;    ///< that left the queue
  Counter ecn_marked;        ///< packets that this switch marked with CE
  Counter ecn_ce;            ///< packets that already carried CE
  Counter dropped_queue;     ///< beyond the queue's threshold
  Counter dropped_group;     ///< beyond the priority group's threshold
  Counter dropped_headroom;  ///< lossless, and the headroom was full
  Counter dropped_wred, dropped_watchdog;
};

/// What all ports of one worker's pipeline share.
struct QosContext {
  using Blocks = qos::BlockPool<QueuedPacket>;
  qos::SharedBuffer& buffer;
  std::vector<qos::Classifier> classifiers;  ///< by ingress port; the last one for packets that the switch made
  std::unique_ptr<Blocks> blocks;
  qos::GroupSums sums{buffer.group_count()};  ///< empty between two bursts
  qos::SharedBuffer::Credit credit{};         ///< of this worker

  /// What is free of the shared part for this worker.
  [[nodiscard]] std::uint64_t shared_free() const noexcept { return buffer.shared_free() + credit.bytes(); }

  /// Classifies a packet and notes its class in its record.
  /// @return its priority group's index in SharedBuffer::groups()
  std::uint16_t classify(rte_mbuf* m) const noexcept {
    PacketMeta& pm = meta(m);
    const PortIndex in = std::min(pm.in_port, static_cast<PortIndex>(buffer.port_count()));
    const qos::PacketClass place = classifiers[in].classify(pm.parsed);
    pm.queue_class = place.value;
    return static_cast<std::uint16_t>(in * qos::kClasses + place.group());
  }
  /// The same for one that is classified.
  [[nodiscard]] std::uint16_t group_of(const rte_mbuf* m) const noexcept {
    const PortIndex in = std::min(meta(m).in_port, static_cast<PortIndex>(buffer.port_count()));
    return static_cast<std::uint16_t>(in * qos::kClasses + qos::PacketClass{meta(m).queue_class}.group());
  }
  /// A packet that its group refuses keeps the room that it had: see PacketRoute::had_room. What its burst brought
  /// meanwhile may have taken that room: then the group is beyond its limits by so much.
  [[nodiscard]] static bool keeps_room(const rte_mbuf* m, qos::Admission verdict) noexcept {
    const bool refused = verdict == qos::Admission::group_limit || verdict == qos::Admission::headroom_full;
    return refused && meta(m).had_room;
  }
  /// Charges a packet to its group.
  [[nodiscard]] qos::Admission admit_to_group(const rte_mbuf* m, qos::SharedBuffer::Group& group) const noexcept {
    const qos::Admission verdict = buffer.admit_to_group(group, m->pkt_len);
    if (!keeps_room(m, verdict)) return verdict;
    buffer.charge(group, m->pkt_len);
    return qos::Admission::admitted;
  }
};

/// Why a packet is dropped that did not get room.
[[nodiscard]] DropReason reason_of(qos::Admission verdict) noexcept;

class ClassQueues {
 public:
  /// @param port  its index, which the settings of the switch know
  ClassQueues(const qos::Settings& settings, PortIndex port, std::uint32_t max_frame_bytes, QosContext& context);

  /// Puts packets, at most 64, into their queues. Those that were not admitted stay the caller's.
  /// @param refused  room for `count` packets
  /// @param why      the same
  /// @return how many were refused
  std::uint32_t admit(rte_mbuf* const* packets, std::uint32_t count, Rng& rng, rte_mbuf** refused, DropReason* why);

  /// The same for packets of other workers, which these have classified and charged to their groups; those that are
  /// refused have given that room back.
  std::uint32_t admit_charged(rte_mbuf* const* packets, std::uint32_t count, Rng& rng, rte_mbuf** refused,
                              DropReason* why);

  /// Takes up to `max` packets, at most 64, marked where the curves say so.
  std::uint16_t take(TimeNs now, rte_mbuf** out, std::uint16_t max, Rng& rng);

  /// What take() gave and the device did not take: up to `max` packets that no pause holds back; they stay until
  /// settle_refused(), which is told how many of them are gone and what the others are now.
  std::uint16_t ready_refused(rte_mbuf** out, std::uint16_t max) const noexcept {
    return refused_.ready(blocked_, out, max);
  }
  void settle_refused(rte_mbuf* const* offered, std::uint16_t count, std::uint16_t sent) noexcept {
    refused_.settle(blocked_, offered, count, sent);
    if (by_class_) stopped_ = refused_.queues();
  }
  [[nodiscard]] bool any_refused() const noexcept { return !refused_.empty(); }
  [[nodiscard]] bool refused_sendable() const noexcept {
    rte_mbuf* m = nullptr;
    return !refused_.empty() && refused_.ready(blocked_, &m, 1) != 0;
  }
  /// Whether the device's refusals leave room for another burst.
  [[nodiscard]] bool may_refuse() const noexcept { return refused_.has_room(); }
  void refuse(rte_mbuf* const* packets, std::uint32_t count) noexcept {
    refused_.push(packets, count);
    if (by_class_) stopped_ = refused_.queues();
  }
  /// The device stops queues by itself (ClassTx): what it does not take of one holds back that one alone.
  void set_by_class(bool by_class) noexcept { by_class_ = by_class; }
  [[nodiscard]] bool by_class() const noexcept { return by_class_; }

  /// Takes packets of queues that the watchdog empties; 0 when there are none.
  std::uint16_t take_stormed(rte_mbuf** out, std::uint16_t max);
  /// Any packet, regardless of time; nullptr when there is none.
  rte_mbuf* take_any();

  /// A MAC control frame that came in at the port.
  void on_pause_frame(TimeNs now, std::span<const std::uint8_t> frame) noexcept { receiver_.on_frame(now, frame); }
  /// Brings pauses and the watchdog up to date. Before take() and sendable().
  void look_at_pauses(TimeNs now) noexcept;

  /// Whether a PAUSE or PFC frame is due, and the frame.
  [[nodiscard]] bool pause_due(TimeNs now) const noexcept {
    if (!sender_.enabled()) return false;
    const auto [xoff, xon] = group_states();
    return sender_.due(now, xoff, xon);
  }
  [[nodiscard]] qos::PauseFrame take_pause(TimeNs now) noexcept {
    const auto [xoff, xon] = group_states();
    return sender_.take(now, xoff, xon);
  }

  /// The peer stands still because of this switch, or must. When it may go on depends on what other workers send.
  [[nodiscard]] bool pauses_peer() const noexcept {
    return sender_.enabled() && (sender_.paused() != 0 || group_states().xoff != 0);
  }

  [[nodiscard]] bool empty() const noexcept { return waiting_ == 0; }
  /// Queues with packets that no pause holds back, bit i for queue i.
  [[nodiscard]] std::uint8_t sendable() const noexcept { return waiting_ & ~(blocked_ | stopped_); }
  [[nodiscard]] bool storm() const noexcept { return stormed_ != 0; }
  /// Packets marked with CE in all queues. Any thread.
  [[nodiscard]] std::uint64_t ce_marked() const noexcept { return ce_marked_.value(); }
  /// In the queues. Any thread.
  [[nodiscard]] std::uint32_t size() const noexcept;
  /// The same, for the owner of the port, who knows which queues are empty.
  [[nodiscard]] std::uint32_t depth() const noexcept;
  /// In the queues, and those that the device did not take.
  [[nodiscard]] std::uint32_t held() const noexcept { return size() + refused_.size(); }
  /// When something changes without a packet: a pause ends or must be renewed, a shaper opens, the watchdog acts. 0
  /// when something is due or can be sent.
  [[nodiscard]] TimeNs deadline() const noexcept;

  /// Takes over what `old` holds and knows. `place` is called with every packet before it is classified anew.
  template <typename F>
  void adopt(ClassQueues& old, F&& place) {
    adopt_state(old);
    old.refused_.for_each(place);
    refused_ = old.refused_;
    if (by_class_) stopped_ = refused_.queues();
    for (unsigned q = 0; q < qos::kClasses; ++q) {
      while (!old.queues_[q].empty()) {
        rte_mbuf* m = old.pop(q);
        place(m);
        force(m);
      }
    }
  }

  // Any thread.
  [[nodiscard]] const QueueCounters& counters(unsigned queue) const noexcept { return counters_[queue]; }
  [[nodiscard]] const qos::PfcSender& sender() const noexcept { return sender_; }
  [[nodiscard]] const qos::PfcReceiver& receiver() const noexcept { return receiver_; }
  [[nodiscard]] const qos::PfcWatchdog& watchdog() const noexcept { return watchdog_; }

 private:
  struct GroupStates {
    std::uint8_t xoff, xon;  ///< by priority
  };
  template <bool kShared>
  std::uint32_t admit_all(rte_mbuf* const* packets, std::uint32_t count, Rng& rng, rte_mbuf** refused, DropReason* why);
  bool admit_burst(rte_mbuf* const* packets, std::uint32_t count);
  bool admit_shared(rte_mbuf* const* packets, std::uint32_t count);
  bool queue_charged(rte_mbuf* const* packets, std::uint32_t count);
  template <typename F>
  void push_burst(rte_mbuf* const* packets, std::uint32_t count, F&& group_of);
  struct QueueSums;
  struct Burst;
  std::uint64_t take_run(qos::Scheduler::Turn turn, rte_mbuf** out, std::uint32_t first, std::uint32_t end,
                         Burst& burst);
  template <bool kMarking>
  std::uint64_t move_run(qos::Scheduler::Turn turn, std::uint64_t depth, rte_mbuf** out, std::uint32_t first,
                         std::uint32_t end, Burst& burst);
  void mark(rte_mbuf* const* packets, const Burst& burst, Rng& rng) noexcept;
  // What is asked about packets on their way in only where something is to be done about it.
  bool refuse_on_arrival(rte_mbuf* m, unsigned queue, Rng& rng, DropReason& why) noexcept;
  void count_drop(unsigned queue, DropReason why) noexcept;
  rte_mbuf* pop(unsigned queue);
  void force(rte_mbuf* m);
  void adopt_state(const ClassQueues& old) noexcept;
  [[nodiscard]] GroupStates group_states() const noexcept;
  [[nodiscard]] std::uint8_t queues_of(std::uint8_t priorities) const noexcept;
  [[nodiscard]] std::uint8_t waiting_priorities() const noexcept;

  QosContext& context_;
  PortIndex port_;
  qos::SharedBuffer::Queue* state_;  ///< eight, of this port
  std::uint8_t waiting_ = 0;         ///< queues that hold packets
  std::uint8_t blocked_ = 0;         ///< queues that the peer has paused
  std::uint8_t stormed_ = 0;         ///< queues whose packets the watchdog drops
  std::uint8_t stopped_ = 0;         ///< queues of which the device does not take what it was offered
  bool by_class_ = false;
  std::uint8_t on_arrival_ = 0;  ///< queues for which refuse_on_arrival() is asked
  std::uint8_t wred_on_arrival_ = 0;
  std::array<qos::BlockQueue<QueuedPacket>, qos::kClasses> queues_{};
  qos::Scheduler scheduler_;
  std::array<qos::Wred, qos::kClasses> wred_{};
  std::array<std::uint8_t, qos::kClasses> tc_to_queue_{};
  std::array<std::uint8_t, qos::kClasses> tc_to_group_{};
  qos::PfcSender sender_;
  qos::PfcReceiver receiver_;
  qos::PfcWatchdog watchdog_;
  std::array<QueueCounters, qos::kClasses> counters_;
  Counter ce_marked_;  ///< of all queues
  RefusedPackets refused_;
  std::array<std::uint64_t, 64> sums_{};  ///< of a burst by PacketClass, packets << 40 | bytes; zero between bursts
};

/// Packets for other workers that are not charged to their groups yet: a burst of them is charged at once.
struct UnchargedHandoffs {
  static constexpr std::uint32_t kMost = qos::GroupSums::kMostPackets;

  std::uint32_t size = 0;
  rte_mbuf* packet[kMost];
  std::uint16_t worker[kMost];
};

/// What one worker's pipeline has of its switch's qos.
struct PipelineQos {
  QosContext context;
  std::vector<std::unique_ptr<ClassQueues>> ports;  ///< by PortIndex; nullptr where another worker owns the port
  UnchargedHandoffs handoffs{};                     ///< empty between two bursts
};

/// Sets CE in a packet whose record says that it is ECN-capable IP. The IPv4 checksum stays right; ICRC does not cover
/// the field (IBTA annex A17.3.3), and DSCP is left alone.
void mark_ce(rte_mbuf* m) noexcept;

}  // namespace weft::pipeline
