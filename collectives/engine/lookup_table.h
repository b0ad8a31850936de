// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which packet of which collective a PSN names, and where it goes (EPIC, module LookupTable and section 4.3 "Group PSN
// Synchronization").
//
// The invocations of a group follow each other. Together they number a group's packets: a position counts them from
// the first packet of the first invocation, control messages included, and never wraps. Slots are used by position.
// Each endpoint has two streams of packets, rx (the other end sends) and tx (we send), and takes part in an invocation
// with none, one or both of them: a rank that receives a Reduce sends nothing in it. The table therefore keeps, for
// each endpoint and invocation, where the streams stood when it began; so the PSNs of an endpoint's directions may
// drift apart, and stock RNICs need not know.
//
// The table knows an invocation from its first control message on. Until then packets of later ones are refused: their
// positions depend on how many packets this one has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/engine/control_message.h"
#include "collectives/engine/group.h"
#include "nic/rnic/packet.h"
#include "switch/wire/types.h"

namespace weft::inc {

/// What an endpoint does in an invocation, seen from this switch.
struct Role {
  bool sends = false;     ///< its packets are taken
  bool receives = false;  ///< packets go to it
};

/// Where an endpoint's streams stand: packets from the first on, and messages among them.
struct StreamBase {
  std::uint64_t rx = 0, tx = 0;
  std::uint32_t rx_messages = 0, tx_messages = 0;

  friend bool operator==(const StreamBase&, const StreamBase&) = default;
};

/// One collective under way.
struct Invocation {
  ControlMessage message;
  std::uint64_t start = 0;          ///< position of its control message among what is added
  std::uint64_t down = 0;           ///< and among what is sent down the tree: Broadcasts, and results for everyone
  std::uint64_t packets = 0;        ///< control message and data
  EndpointSet announced;            ///< endpoints whose control message has come
  std::vector<StreamBase> streams;  ///< by endpoint, before the control message
  /// Of a Barrier that takes or gives a turn: its payload as this switch sends it. It is kept here because slots may be
  /// another group's at that time.
  std::array<std::uint8_t, kControlPayloadBytes> said{};

  /// One past its last position. A Broadcast is forwarded and not added: it takes no slots, and so no positions.
  [[nodiscard]] std::uint64_t end() const noexcept {
    return start + (message.primitive == Primitive::broadcast ? 0 : packets);
  }
  /// The same of what is sent down. A Reduce is not.
  [[nodiscard]] std::uint64_t down_end() const noexcept {
    return down + (message.primitive == Primitive::reduce ? 0 : packets);
  }
  friend bool operator==(const Invocation&, const Invocation&) = default;
};

/// Every rank sends and receives: results go back to those who contributed, and their answers say so of both.
[[nodiscard]] inline bool everyone_takes_part(const Invocation& i) noexcept {
  return i.message.primitive == Primitive::allreduce || i.message.primitive == Primitive::barrier;
}

/// Whether it is a Barrier that takes or gives a turn.
[[nodiscard]] inline bool is_turn(const Invocation& i) noexcept {
  return i.message.turn != Turn::none;
}

/// A packet of an invocation.
struct Place {
  Invocation* invocation = nullptr;
  std::uint64_t index = 0;  ///< 0: the control message

  [[nodiscard]] std::uint64_t position() const noexcept { return invocation->start + index; }
  [[nodiscard]] std::uint64_t down_position() const noexcept { return invocation->down + index; }
  [[nodiscard]] bool is_control() const noexcept { return index == 0; }
};

/// Why a packet has no place.
enum class Refusal : std::uint8_t {
  none,
  unknown_invocation,  ///< its control message is missing, or one before it
  too_many,            ///< GroupConfig::invocations are under way
  too_old,             ///< of an invocation that is over
  bad_control,         ///< no control message where one must be, or one where none may be
  bad_shape,           ///< opcode or length is not what the place in the message asks for
  disagreement,        ///< ranks name different collectives: the group fails
};

class LookupTable {
 public:
  explicit LookupTable(const GroupConfig& group);

  /// Finds the place of a request from `from`, and opens an invocation where its control message is the first. The
  /// packet's opcode and length are right where a place is found.
  Refusal request(EndpointIndex from, const nic::Packet& packet, Place& out);
  /// The same for a packet of data whose place is known, when it may not be right: nothing changes. False: it has no
  /// place, or request() has to look at it.
  [[nodiscard]] bool data_request(EndpointIndex from, const nic::Packet& packet, Place& out);
  /// Packets that the other end sends before the one with this PSN: exact while it is less than half of all PSNs away
  /// from the end of what is known. nullopt: before the first.
  [[nodiscard]] std::optional<std::uint64_t> rx_sequence(EndpointIndex from, wire::Psn psn) const noexcept;
  /// The place of a packet that we have sent, or will, of an invocation that is known.
  [[nodiscard]] std::optional<Place> response(EndpointIndex from, wire::Psn psn);
  /// The place of a position that is known, among what is added or among what is sent down.
  [[nodiscard]] std::optional<Place> at(std::uint64_t position);
  [[nodiscard]] std::optional<Place> down_at(std::uint64_t position);
  /// The place of packet `sequence` of what the other end sends, or of what we send, of an invocation that is known.
  [[nodiscard]] std::optional<Place> rx_at(EndpointIndex e, std::uint64_t sequence);
  [[nodiscard]] std::optional<Place> tx_at(EndpointIndex e, std::uint64_t sequence);

  [[nodiscard]] Role role(EndpointIndex e, const Invocation& invocation) const noexcept;
  /// The endpoint behind which the root rank of a Reduce or Broadcast is.
  [[nodiscard]] EndpointIndex root_endpoint(const Invocation& i) const noexcept { return group_.way[i.message.root]; }
  /// Endpoints that send, and those that receive. In an AllReduce of a switch with a parent the children do both.
  [[nodiscard]] std::uint32_t senders(const Invocation& invocation) const noexcept;

  [[nodiscard]] wire::Psn rx_psn(EndpointIndex e, const Place& p) const noexcept {
    return group_.endpoints[e].first_rx + low(p.invocation->streams[e].rx + p.index);
  }
  [[nodiscard]] wire::Psn tx_psn(EndpointIndex e, const Place& p) const noexcept {
    return group_.endpoints[e].first_tx + low(p.invocation->streams[e].tx + p.index);
  }
  /// MSN of an ACK to `e` for the packet at this place: its messages that are complete then (IBTA 9.7.7.1).
  [[nodiscard]] std::uint32_t rx_msn(EndpointIndex e, const Place& p) const noexcept {
    return (p.invocation->streams[e].rx_messages + messages(*p.invocation, p.index)) & 0xffffff;
  }

  /// Packets that the other end has sent of invocations that are forgotten.
  [[nodiscard]] std::uint64_t rx_retired(EndpointIndex e) const noexcept {
    return count_ > 0 ? live(0).streams[e].rx : ends_[e].rx;
  }

  /// One past the last known position.
  [[nodiscard]] std::uint64_t known() const noexcept { return end_; }
  /// Forgets the oldest invocation.
  void forget_oldest() noexcept;
  /// Oldest first.
  [[nodiscard]] std::uint32_t live() const noexcept { return count_; }
  [[nodiscard]] Invocation& live(std::uint32_t i) noexcept { return ring_[in_ring(i)]; }
  [[nodiscard]] const Invocation& live(std::uint32_t i) const noexcept { return ring_[in_ring(i)]; }
  /// The control message that was read last, whatever became of it.
  [[nodiscard]] const ControlMessage& heard() const noexcept { return heard_; }
  /// The sequence number that the next invocation must have.
  [[nodiscard]] std::uint16_t next_sequence() const noexcept { return next_sequence_; }
  /// Where the endpoint's streams stand behind all that is known.
  [[nodiscard]] const StreamBase& ends(EndpointIndex e) const noexcept { return ends_[e]; }

  /// Bytes and place in its message of data packet `index`, from 1.
  [[nodiscard]] std::uint32_t data_bytes(const Invocation& i, std::uint64_t index) const noexcept;
  [[nodiscard]] bool ends_message(const Invocation& i, std::uint64_t index) const noexcept;

  friend bool operator==(const LookupTable& a, const LookupTable& b) noexcept;
  template <class Hash>
  void hash_state(Hash&& h) const {
    h(end_);
    h(down_end_);
    h(std::uint64_t{next_sequence_} << 32 | count_);
    for (const StreamBase& s : ends_) {
      h(s.rx);
      h(s.tx);
    }
    for (std::uint32_t i = 0; i < count_; ++i) {
      // Streams and packets follow from the messages, which all are in front.
      const Invocation& one = live(i);
      h(std::uint64_t{control_immediate(one.message)} << 32 | control_flags(one.message) << 16 | one.message.root);
      h(one.message.bytes);
      h(one.start);
      one.announced.hash_state(h);
    }
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t seq) noexcept {
    return static_cast<std::uint32_t>(seq & wire::Psn::kMask);
  }
  /// Where the invocation is that has so many in front of it, or where the next one will be.
  [[nodiscard]] std::size_t in_ring(std::uint32_t i) const noexcept {
    const std::size_t at = std::size_t{head_} + i;
    return at < ring_.size() ? at : at - ring_.size();
  }
  /// rx_at(), of which a copy for each packet costs too much.
  [[nodiscard]] bool rx_place(EndpointIndex e, std::uint64_t sequence, Place& out);
  /// Messages that are complete with packet `index`.
  [[nodiscard]] std::uint32_t messages(const Invocation& i, std::uint64_t index) const noexcept;
  [[nodiscard]] bool shape_fits(const Invocation& i, std::uint64_t index, const nic::Packet& p) const noexcept;
  Refusal control(EndpointIndex from, const nic::Packet& p, Place& out);
  Refusal open(EndpointIndex from, const ControlMessage& message, Place& out);

  GroupConfig group_;
  std::vector<Invocation> ring_;
  std::uint32_t head_ = 0, count_ = 0;
  std::vector<StreamBase> ends_;
  std::uint64_t end_ = 0, down_end_ = 0;
  std::uint16_t next_sequence_ = 0;
  ControlMessage heard_;
};

}  // namespace weft::inc
