// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A host's end of its link, whatever the host does: the wire that its packets leave by, and counters.
#pragma once

#include "switch/pipeline/egress_queue.h"
#include "tools/sim/event_queue.h"
#include "tools/sim/link.h"
#include "tools/sim/topology.h"

namespace weft::sim {

struct HostCounters {
  std::uint64_t sent = 0, received = 0;  ///< packets
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::uint64_t pauses = 0;  ///< PFC frames that arrived
};

class HostWire : public Receiver {
 public:
  /// What a host is made of.
  struct Parts {
    const HostPlan& plan;
    std::uint32_t device;  ///< its number among all devices
    rte_mempool* pool;
    Link& link;
    EventQueue& events;
    bool values = false;  ///< packets carry the bytes of their payload; otherwise only how many they are
  };
  explicit HostWire(const Parts& parts)
      : Receiver(parts.device),
        events_(parts.events),
        // The link has the delay.
        wire_(1, parts.plan.wire.rate_mbps, 0, parts.plan.wire.framing),
        pool_(parts.pool),
        link_(parts.link),
        values_(parts.values),
        event_(*this, parts.device) {}

  [[nodiscard]] const HostCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] std::uint64_t held() const noexcept { return wire_.held(); }
  /// Something is leaving by its wire, or waits for it.
  [[nodiscard]] bool busy() const noexcept { return event_.at() != kNever; }
  /// Drops what is still on the wire, as shutdown.
  void drop_all() {
    while (rte_mbuf* m = wire_.take_any()) rte_pktmbuf_free(m);
  }
  /// There may be something to send: it leaves as soon as it may.
  void kick(TimeNs now) { events_.schedule(event_, now); }

 protected:
  /// Bytes of a frame that are there where payload is elided. The parser of a switch wants them contiguous.
  static constexpr std::uint16_t kKeptBytes = pipeline::kHeaderBytes;

  /// The time has come that wake_at() named.
  virtual void run(TimeNs now) = 0;
  void wake_at(TimeNs at) { events_.schedule(event_, at); }
  /// A packet for a frame of so many bytes, whose first bytes the caller writes.
  [[nodiscard]] rte_mbuf* make_packet(std::uint32_t bytes) noexcept;
  [[nodiscard]] bool carries_values() const noexcept { return values_; }
  /// Puts a packet on the wire.
  void transmit(rte_mbuf* m) noexcept {
    ++counters_.sent;
    counters_.sent_bytes += m->pkt_len;
    wire_.line_push(m, wire_.transmit(events_.now(), m->pkt_len));
  }
  /// Takes a packet in; the caller frees it.
  void count_received(const rte_mbuf* m) noexcept {
    ++counters_.received;
    counters_.received_bytes += m->pkt_len;
  }
  /// Packets whose last bit has left go over the link.
  void carry_due(TimeNs now);

  EventQueue& events_;
  pipeline::EgressQueue wire_;
  HostCounters counters_;

 private:
  struct RunEvent : Event {
    RunEvent(HostWire& host, std::uint32_t device)
        : Event(EventOrder(EventOrder::Phase::traffic, device, EventOrder::Kind::port)), owner(host) {}
    void fire(TimeNs now) override { owner.run(now); }
    HostWire& owner;
  };
  rte_mempool* pool_;
  Link& link_;
  const bool values_;
  RunEvent event_;
};

}  // namespace weft::sim
