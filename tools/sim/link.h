// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// One direction of a link: what has left the wire of the sending port (pipeline::EgressQueue) travels for the
// propagation delay and arrives at the other end, unless a fault takes it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <string>

#include "switch/base/rng.h"
#include "switch/pipeline/pipeline.h"
#include "tools/sim/event_queue.h"
#include "tools/sim/observer.h"

namespace weft::sim {

using pipeline::PortIndex;

/// What a link ends at.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// Takes ownership.
  virtual void receive(TimeNs now, PortIndex port, rte_mbuf* m) = 0;
};

struct LinkCounters {
  std::uint64_t packets = 0, bytes = 0;  ///< that arrived
  std::uint64_t lost = 0;                ///< by the loss ratio
  std::uint64_t cut = 0;                 ///< on the wire while the link was down
};

/// Packets between two places, in the order in which they come to the second one. As large as it ever had to be.
class Flight {
 public:
  struct Packet {
    rte_mbuf* packet;
    TimeNs at;  ///< when it arrives
  };
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return tail_ - head_; }
  /// Undefined when it is empty, as pop().
  [[nodiscard]] const Packet& front() const noexcept { return items_[head_ & mask_]; }
  void push(const Packet& packet) {
    if (size() > mask_ || items_ == nullptr) [[unlikely]]
      grow();
    items_[tail_++ & mask_] = packet;
  }
  void pop() noexcept { ++head_; }
  /// Fetches what the receiver of the first packet will read of it.
  void prefetch() const noexcept;

 private:
  void grow();

  std::unique_ptr<Packet[]> items_;
  std::uint32_t mask_ = 0, head_ = 0, tail_ = 0;
};

class Link final : public pipeline::PortTx {
 public:
  /// What a link is made of.
  struct Plan {
    std::string name;          ///< FROM/TO
    std::uint32_t id = 0;      ///< its number among all links
    TimeNs delay = 0;          ///< propagation
    std::uint32_t device = 0;  ///< number of the sender among all devices
    PortIndex port = 0;        ///< of the sender
  };
  Link(Plan plan, EventQueue& events, Observer& observer)
      : plan_(std::move(plan)), events_(events), observer_(observer), arrival_(*this) {}
  ~Link() override;

  void connect(Receiver& to, PortIndex port) noexcept {
    to_ = &to;
    port_ = port;
  }
  /// @param ratio  of packets, 0 to 1
  void set_loss(double ratio, std::uint64_t seed) noexcept {
    loss_ = Ratio::from_double(ratio);
    rng_ = Rng(seed);
    faulty_ = faulty_ || !loss_.zero();
  }
  /// What is on the wire while the link is down is lost, also if the link is up again when it would have arrived.
  void set_up(TimeNs now, bool up) noexcept {
    if (up && !up_) up_since_ = now;
    up_ = up;
    faulty_ = true;
  }
  [[nodiscard]] bool up() const noexcept { return up_; }

  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override {
    for (std::uint16_t i = 0; i < count; ++i) carry(packets[i]);
    return {.taken = count};
  }
  /// The last bit of a packet has left the sender.
  void carry(rte_mbuf* m) noexcept {
    flight_.push({m, events_.now() + plan_.delay});
    if (arrival_.at() == kNever) events_.schedule(arrival_, flight_.front().at);
  }
  /// Packets under way.
  [[nodiscard]] std::uint32_t held() const noexcept { return flight_.size(); }
  /// Drops them, as shutdown.
  void drop_all() noexcept;

  [[nodiscard]] const LinkCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const std::string& name() const noexcept { return plan_.name; }
  [[nodiscard]] std::uint32_t id() const noexcept { return plan_.id; }

 private:
  struct Arrival : Event {
    explicit Arrival(Link& link)
        : Event(EventOrder(EventOrder::Phase::traffic, link.plan_.device, EventOrder::Kind::arrival, link.plan_.port)),
          owner(link) {}
    void fire(TimeNs now) override { owner.arrive_due(now); }
    Link& owner;
  };
  void arrive_due(TimeNs now) noexcept;
  void arrive(TimeNs now, rte_mbuf* m, TimeNs sent_at) noexcept {
    if (faulty_) [[unlikely]] {
      if (taken_by_fault(m, sent_at)) return;
    }
    ++counters_.packets;
    counters_.bytes += m->pkt_len;
    observer_.on_arrival(now, plan_.id, m);
    to_->receive(now, port_, m);
  }
  bool taken_by_fault(rte_mbuf* m, TimeNs sent_at) noexcept;

  const Plan plan_;
  EventQueue& events_;
  Observer& observer_;
  Arrival arrival_;
  Receiver* to_ = nullptr;
  PortIndex port_ = 0;
  bool up_ = true;
  bool faulty_ = false;
  TimeNs up_since_ = 0;
  Ratio loss_{};
  Rng rng_{1};
  Flight flight_;
  LinkCounters counters_;
};

}  // namespace weft::sim
