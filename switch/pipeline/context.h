// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a stage may know and do besides looking at its packets.
#pragma once

#include <cstdint>

#include "switch/base/rng.h"
#include "switch/base/time.h"
#include "switch/pipeline/batch.h"
#include "switch/pipeline/drop_reason.h"
#include "switch/pipeline/port_view.h"
#include "switch/pipeline/queued_bytes.h"

namespace weft::pipeline {

class Pipeline;
struct PathReason;

/// Passed to every call of a stage. Every packet that a stage takes out of a batch, allocates or holds must end in
/// exactly one of: drop(), consume(), resume(), send(); the pipeline counts, and conservation is asserted.
class Context {
 public:
  TimeNs now;            ///< time of this burst
  std::uint16_t worker;  ///< worker that runs this instance, 0-based
  Rng& rng;              ///< this worker's random source for this switch

  /// Frees the packet and counts the reason. Inside ingress()/egress() use the form with a batch index.
  void drop(rte_mbuf* m, DropReason reason) noexcept;
  void drop(Batch& batch, std::uint16_t i, DropReason reason) noexcept {
    batch.remove(i);
    drop(batch.packet[i], reason);
  }

  /// The packet was for the switch itself: frees and counts it.
  void consume(rte_mbuf* m) noexcept;
  void consume(Batch& batch, std::uint16_t i) noexcept {
    batch.remove(i);
    consume(batch.packet[i]);
  }
  /// The same for `count` packets, which have left their batch, at once.
  void consume(rte_mbuf** packets, std::uint32_t count) noexcept;

  /// A MAC control frame (PAUSE, PFC) is consumed by the port on which it came in; dropped as mac_control on a switch
  /// without qos.
  void mac_control(rte_mbuf* m) noexcept;
  void mac_control(Batch& batch, std::uint16_t i) noexcept {
    batch.remove(i);
    mac_control(batch.packet[i]);
  }

  /// An empty packet for the switch's own use (counted as generated), its meta zeroed with in_port and out_port
  /// kNoPort; nullptr when the pool is empty. Fill it, then send() it.
  [[nodiscard]] rte_mbuf* generate() noexcept;

  /// The same for `count` packets at once: all of them, or none when the pool has fewer.
  [[nodiscard]] bool generate(rte_mbuf** packets, std::uint32_t count) noexcept;

  /// A packet that another thread allocated from a pool of weft for the switch's own use: from now on as if generate()
  /// had made it, with the contents and out_port that it has.
  void adopt(rte_mbuf* m) noexcept;

  /// A copy (counted as replicated) with its own header bytes (up to kHeaderBytes) and, of a RoCE packet, its own ICRC;
  /// the payload between them is shared by reference. Meta is copied. nullptr when the pool is empty (counted nowhere:
  /// the original is still there). Whoever changes other bytes than headers asks writable() (writable.h).
  [[nodiscard]] rte_mbuf* replicate(rte_mbuf* m) noexcept;
  /// `count` copies at once: all of them, or none when the pool has too few buffers. Each has a PacketMeta of its own:
  /// the caller gives every copy its out_port, next_hop and so on, and its headers by edit_roce() (edit_roce.h).
  [[nodiscard]] bool replicate(rte_mbuf* m, rte_mbuf** copies, std::uint32_t count) noexcept;

  /// Puts a packet into the egress queue of `out`, past all remaining ingress stages.
  void send(rte_mbuf* m, PortIndex out) noexcept;

  /// A packet that this stage held, or has made by generate(), replicate() or adopt(), goes on with the next stage.
  /// Allowed in every call, for any number of packets. In ingress() they follow the batch in the order of the calls;
  /// otherwise they go on when the call has returned. PacketMeta::time is `now` afterwards.
  void resume(rte_mbuf* m) noexcept;
  /// The same for several, in this order.
  void resume(rte_mbuf* const* packets, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) resume(packets[i]);
  }

  /// A packet that is about to wait in this stage takes room of its priority group, as if it stood in a queue: the
  /// limits of the shared buffer hold for it, and its sender is paused in time. Without qos there is always room. The
  /// packet keeps its in_port, length and class until release().
  /// @return false when its group has no room: the packet must not wait
  [[nodiscard]] bool charge(rte_mbuf* m) noexcept;
  /// Gives back the room of a packet that charge() let wait: before it goes on (admission charges it again, whatever
  /// limits its group has by then) or is dropped. A stage that charges packets lists them in Stage::for_each_charged().
  void release(rte_mbuf* m) noexcept;

  /// Stage::on_timer() is called once with `token` at this time, or as soon as the worker can after it. Asking again
  /// moves the timer, forward or back; kNever takes it back, and the same time changes nothing. A time that has passed
  /// means before the next burst. Without effect during a reload: Stage::deadline() is asked when it is over.
  /// @param token  below Stage::timers()
  void at(TimeNs time, std::uint32_t token = 0) noexcept;
  /// The same, for who does not know all that the timer is wanted for: it comes at this time or earlier. One that was
  /// asked for earlier stays; kNever changes nothing.
  void at_latest(TimeNs time, std::uint32_t token = 0) noexcept;

  /// True when the port's link is up.
  [[nodiscard]] bool link_up(PortIndex port) const noexcept;
  /// True when packets may be spread over the port: its link is up, and nobody has excluded it from the path sets.
  [[nodiscard]] bool path_up(PortIndex port) const noexcept;
  /// The same for all ports of the switch: path_up() need not be asked for each.
  [[nodiscard]] bool all_paths_up() const noexcept;
  /// True when the port is excluded from the path sets.
  [[nodiscard]] bool excluded(PortIndex port) const noexcept;
  /// Grows with every change of what the functions above say.
  [[nodiscard]] std::uint32_t link_generation() const noexcept;
  /// Packets that wait in the egress queue of `port`. Of a port that another worker owns, those that it had when that
  /// worker last served it; what is on its way there does not count.
  [[nodiscard]] std::uint32_t queue_depth(PortIndex port) const noexcept;
  /// Bytes in each queue of `port`, bytes sent, CE marks, and how old that is.
  [[nodiscard]] PortView occupancy(PortIndex port) const noexcept;
  /// Bytes in all queues of `port`, as occupancy() has them; see QueuedBytes for how old they may be.
  [[nodiscard]] std::uint64_t queued_bytes(PortIndex port) const noexcept { return queued_bytes().of(port); }
  /// The same for who asks for many ports in this call.
  [[nodiscard]] QueuedBytes queued_bytes() const noexcept;
  /// A trace looks at this packet: no stage decides for another one, so that each is seen to decide for itself.
  [[nodiscard]] bool traced() const noexcept { return reason_ != nullptr; }
  /// Where a stage says why it chose a path for the packet that is traced; nullptr without a trace.
  [[nodiscard]] PathReason* reason() const noexcept { return reason_; }
  void set_traced(PathReason& reason) noexcept { reason_ = &reason; }

  /// @param stage   position of the stage that is called
  /// @param egress  its egress half: its packets have passed admission
  Context(TimeNs now_ns, std::uint16_t worker_id, Rng& source, Pipeline& owner, std::uint8_t stage,
          bool egress = false) noexcept
      : now(now_ns), worker(worker_id), rng(source), pipeline_(owner), stage_(stage), egress_(egress) {}

 private:
  Pipeline& pipeline_;
  std::uint8_t stage_;
  bool egress_;
  PathReason* reason_ = nullptr;
};

}  // namespace weft::pipeline
