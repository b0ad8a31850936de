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
#include <vector>

#include "switch/base/rng.h"
#include "switch/pipeline/pipeline.h"
#include "tools/sim/link_capture.h"
#include "tools/sim/partition.h"

namespace weft::sim {

using pipeline::PortIndex;

/// What a link ends at.
class Receiver {
 public:
  /// @param device  its number among all devices
  explicit Receiver(std::uint32_t device) noexcept : device_(device) {}
  virtual ~Receiver() = default;
  /// Takes ownership.
  virtual void receive(TimeNs now, PortIndex port, rte_mbuf* m) = 0;
  /// What a link brings now has been received.
  virtual void received_all() {}

  [[nodiscard]] std::uint32_t device_number() const noexcept { return device_; }
  /// A packet is about to arrive.
  void trace(TimeNs now, std::uint32_t link, std::uint32_t bytes) noexcept {
    trace_ = (trace_ ^ (now + (std::uint64_t{link} << 44) + bytes)) * 0x9e3779b97f4a7c15ull;
    trace_ ^= trace_ >> 29;
  }
  /// A hash of all arrivals.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept { return trace_; }

 private:
  std::uint32_t device_;
  std::uint64_t trace_ = 0x6a09e667f3bcc908ull;
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
  /// @param from  the partition of the sender
  /// @param to    that of the receiver
  Link(Plan plan, Partition& from, Partition& to)
      : plan_(std::move(plan)), from_(from), crosses_(&from != &to), arrival_(*this), to_partition_(to) {}
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
    const Flight::Packet packet{m, from_.events().now() + plan_.delay};
    if (!crosses_) return travel(packet);
    if (sent_.empty()) from_.note_sent(*this);
    sent_.push_back(packet);
  }

  // Between partitions, while they stand still.

  [[nodiscard]] Partition& receiver() const noexcept { return to_partition_; }
  /// When the first packet since hand_over() arrives.
  [[nodiscard]] TimeNs first_sent() const noexcept { return sent_.front().at; }
  /// The receiver may have what has been sent so far.
  /// @return true when it has taken in all that it was given before
  bool hand_over();

  /// By the receiver: what it has been given travels.
  void take_in();

  /// Packets under way. While the partitions of both ends stand still.
  [[nodiscard]] std::size_t held() const noexcept { return flight_.size() + sent_.size() + handed_.size(); }
  /// Drops them, as shutdown.
  void drop_all() noexcept;

  [[nodiscard]] const LinkCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const std::string& name() const noexcept { return plan_.name; }
  /// Everything that arrives is captured.
  void set_capture(LinkCapture& capture) noexcept { capture_ = &capture; }

 private:
  struct Arrival : Event {
    explicit Arrival(Link& link)
        : Event(EventOrder(EventOrder::Phase::traffic, link.plan_.device, EventOrder::Kind::arrival, link.plan_.port)),
          owner(link) {}
    void fire(TimeNs now) override { owner.arrive_due(now); }
    Link& owner;
  };
  void travel(const Flight::Packet& packet) {
    flight_.push(packet);
    if (arrival_.at() == kNever) to_partition_.events().schedule(arrival_, flight_.front().at);
  }
  void arrive_due(TimeNs now) noexcept;
  void arrive(TimeNs now, rte_mbuf* m, TimeNs sent_at) noexcept {
    if (faulty_) [[unlikely]] {
      if (taken_by_fault(now, m, sent_at)) return;
    }
    ++counters_.packets;
    counters_.bytes += m->pkt_len;
    to_->trace(now, plan_.id, m->pkt_len);
    if (capture_ != nullptr) [[unlikely]]
      capture_->packet(now, m);
    to_->receive(now, port_, m);
  }
  bool taken_by_fault(TimeNs now, rte_mbuf* m, TimeNs sent_at) noexcept;

  const Plan plan_;
  // The sender's.
  Partition& from_;
  const bool crosses_;  ///< to another partition
  std::vector<Flight::Packet> sent_;
  // The receiver's, on lines that the sender does not write to.
  alignas(64) Arrival arrival_;
  Partition& to_partition_;
  std::vector<Flight::Packet> handed_;
  Receiver* to_ = nullptr;
  LinkCapture* capture_ = nullptr;
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
