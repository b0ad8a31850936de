// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Mode-III of EPIC on one switch, "connection augmented" (section 4.4, algorithms 2 and 3): every hop answers, and
// repairs what it has lost. What comes from below goes through the aggregation pipe, what goes down through the
// broadcast pipe; the root hands results from the one to the other, as if they came from a parent, when there is room.
//
// A pipe takes the positions [start, start + N) and nothing else; `start` moves when all who get a packet have
// acknowledged it. So a slot is free before it is used again, whatever the ranks' windows are. Whoever is ahead of that
// is told to come back later (RNR NAK), and ranks are told to slow down (CNP). That costs time, so ACKs are held back
// while the sender's window would reach beyond the pipe (Acks::room): then it happens only after losses.
//
// Packets of an endpoint may arrive in any order within the pipe; they leave in order, because go-back-N receivers take
// no other. One NAK is sent for each gap (appendix H.4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/context.h"
#include "nic/rnic/config.h"
#include "nic/rnic/round_trips.h"

namespace weft::inc {

/// Slots between those who send and those who receive.
struct Pipe {
  Slots slots;
  std::uint64_t start = 0;  ///< first position that not everyone has (psnStart)

  [[nodiscard]] bool takes(std::uint64_t position) const noexcept { return position < start + slots.size(); }
  friend bool operator==(const Pipe&, const Pipe&) = default;
  template <class Hash>
  void hash_state(Hash&& h) const {
    h(start);
    slots.hash_state(h);
  }
};

/// What keeps Mode III from running a group, in words; nullopt: nothing.
[[nodiscard]] std::optional<std::string> check_mode_iii(const GroupConfig& group);

class ModeIII : public Context {
 public:
  /// @param group  checked by check_mode_iii()
  /// @param up     Slots::memory_bytes(group), for the aggregation pipe
  /// @param down   Slots::memory_bytes(group, Slots::Room::packets), for the broadcast pipe
  ModeIII(const GroupConfig& group, SlotMemory up, SlotMemory down);

  /// Takes a packet of the other end of an endpoint, whose ICRC is right.
  void on_packet(nic::Time now, EndpointIndex from, const nic::Packet& packet, bool marked, Sink& sink);
  /// When on_timer() must be called; nic::kNever: not before another packet comes.
  [[nodiscard]] nic::Time next_deadline() const noexcept;
  void on_timer(nic::Time now, Sink& sink);

  [[nodiscard]] const Slots& slots() const noexcept { return up_.slots; }
  [[nodiscard]] const Slots& down_slots() const noexcept { return down_.slots; }

  friend bool operator==(const ModeIII&, const ModeIII&) = default;
  /// Feeds what decides which packets will be sent, and when.
  template <class Hash>
  void hash_state(Hash&& h, nic::Time now) const {
    Context::hash_state(h);
    up_.hash_state(h);
    down_.hash_state(h);
    for (const Endpoint& e : endpoints_) {
      h(e.expected);
      for (std::uint64_t s = answered(e).packets; s < e.wanted; ++s) h(e.asked[s % e.asked.size()] ? 1 : 0);
      h(e.wanted);
      h(e.delivered);
      h(e.next);
      h(e.sent);
      h(e.again);
      h(e.missing);
      h(e.behind);
      for (std::uint64_t s = e.delivered; s < e.sent && !e.there.empty(); ++s) h(e.there[s % e.there.size()] ? 1 : 0);
      h(std::uint64_t{e.retries} << 2 | (e.nak_sent ? 2u : 0u) | (e.waits ? 1u : 0u));
      if (adapts(e)) e.round_trips.hash_state(h, e.delivered, now);
      h(e.deadline == nic::kNever ? 0 : 1 + static_cast<std::uint64_t>(e.deadline - now));
    }
  }

 private:
  /// A receiver and a sender of RC, in packets of the endpoint's streams.
  struct Endpoint {
    bool nak_sent = false;        ///< rx: for the packet that is missing
    std::uint64_t expected = 0;   ///< rx: all before has been taken
    std::uint64_t wanted = 0;     ///< rx: one past the last packet that asked for an answer
    std::vector<bool> asked;      ///< rx: by sequence modulo its size: asked for an answer and has none yet
    std::uint64_t delivered = 0;  ///< tx: the other end has all before (lastAcked)
    std::uint64_t next = 0;       ///< tx: will be sent
    std::uint64_t sent = 0;       ///< tx: one past the last that was sent (maxPsnSent)
    std::uint64_t again = 0;      ///< tx: from here to `missing` packets are sent again, but for those in `there`
    std::uint64_t missing = 0;    ///< tx: one past the last that may be missing
    std::uint64_t behind = 0;     ///< tx: the first that was sent after the last repair
    std::vector<bool> there;      ///< tx: by sequence modulo its size: has arrived out of order, an IRN receiver says
    bool waits = false;           ///< an RNR NAK says until `deadline`
    std::uint8_t retries = 0;     ///< timeouts in a row
    nic::Time deadline = nic::kNever;
    nic::RoundTrips round_trips;  ///< tx: with adaptive timeouts

    friend bool operator==(const Endpoint&, const Endpoint&) = default;
  };

  void on_request(nic::Time now, EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink);
  void on_place(nic::Time now, EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  void run_ahead(EndpointIndex from, Sink& sink);
  void gap(EndpointIndex from, std::optional<wire::Psn> taken, Sink& sink);
  [[nodiscard]] bool in_order(EndpointIndex from, wire::Psn psn) const noexcept;
  void on_repeated(EndpointIndex from, std::uint64_t sequence, Sink& sink);
  void advance_expected(EndpointIndex from);
  void acknowledge_room(EndpointIndex to, Sink& sink);
  void admit_all(EndpointIndex from);
  void answer(EndpointIndex to, const Answered& now);
  [[nodiscard]] const Answered& answered(const Endpoint& e) const noexcept { return answered_[&e - endpoints_.data()]; }
  [[nodiscard]] std::uint64_t room_behind(EndpointIndex from) const noexcept;
  void on_response(nic::Time now, EndpointIndex from, const nic::Packet& p, Sink& sink);
  void deliver_until(nic::Time now, Endpoint& e, std::uint64_t sequence) noexcept;
  void repair(EndpointIndex to, std::uint64_t sequence, std::optional<std::uint64_t> arrived) noexcept;
  void resume(nic::Time now, EndpointIndex to, Sink& sink);
  void settle(nic::Time now, Sink& sink);
  void recycle(Pipe& pipe);
  [[nodiscard]] bool passed_on(const Pipe& pipe, const Place& place, const Slot& slot);
  [[nodiscard]] bool bridge(const Place& place, const Slot& slot);
  void retire() noexcept;
  void pump(nic::Time now, EndpointIndex to, Sink& sink);
  [[nodiscard]] bool send_one(nic::Time now, EndpointIndex to, std::uint64_t sequence, Sink& sink);

  [[nodiscard]] Pipe& pipe_from(EndpointIndex e, const Place& place) noexcept;
  [[nodiscard]] Pipe& pipe_to(EndpointIndex e, const Place& place) noexcept;
  [[nodiscard]] std::uint64_t position(const Pipe& pipe, const Place& place) const noexcept {
    return &pipe == &up_ ? place.position() : place.down_position();
  }
  /// Whether timeouts follow what the rank's round trips take.
  [[nodiscard]] bool adapts(const Endpoint& e) const noexcept {
    return group_.adaptive_timeouts && group_.endpoints[&e - endpoints_.data()].rank.has_value();
  }
  [[nodiscard]] nic::Time patience(const Endpoint& e) const noexcept;
  [[nodiscard]] nic::Time first_timeout() const noexcept {
    return static_cast<nic::Time>(std::uint64_t{4096} << group_.timeout);
  }

  Pipe up_, down_;
  std::vector<Endpoint> endpoints_;
};

}  // namespace weft::inc
