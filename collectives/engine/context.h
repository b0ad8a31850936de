// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A group on one switch (EPIC's Context): what the modes have in common. It finds the places of packets, makes packets
// of slots, answers, and fails.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/engine/group.h"
#include "collectives/engine/lookup_table.h"
#include "collectives/engine/slots.h"
#include "nic/rnic/packet.h"

namespace weft::inc {

/// Where a packet that several endpoints send goes, and in what the copies differ.
struct Copy {
  EndpointIndex to;
  wire::Psn psn;
  std::uint32_t rkey;            ///< RETH, else 0
  std::uint64_t remote_address;  ///< RETH, else 0
};

/// Takes the packets that a group sends. What a packet's payload refers to is good during the call.
class Sink {
 public:
  /// @param marked  the packet carries a congestion mark
  virtual void send(EndpointIndex to, const nic::Packet& packet, bool marked) = 0;
  /// As send() for each copy of the packet, in this order.
  virtual void replicate(const nic::Packet& packet, std::span<const Copy> copies, bool marked);

 protected:
  ~Sink() = default;
};

/// Why a group has failed. It answers everything by NAKs of a remote operational error from then on.
struct Failure {
  enum class Reason : std::uint8_t {
    disagreement,   ///< ranks began different collectives at the same place
    bad_control,    ///< no control message where one must be, or one that means nothing
    bad_shape,      ///< a packet whose opcode, length or address is not what its place asks for
    irn_broadcast,  ///< the answers of IRN receivers to a Broadcast cannot be merged
    peer_failed,    ///< an endpoint has answered by a fatal NAK
    peer_silent,    ///< Modes I and III: an endpoint answers nothing
  };
  Reason reason{};
  EndpointIndex endpoint = 0;            ///< whose packet it was
  ControlMessage heard;                  ///< disagreement: what it said
  std::optional<ControlMessage> others;  ///< disagreement: what was said before
  EndpointSet others_are;                ///< disagreement: who said that

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// Counters of a group. All only grow.
struct GroupCounters {
  std::uint64_t contributions = 0;    ///< packets that were added
  std::uint64_t completed = 0;        ///< slots that became full
  std::uint64_t completed_bytes = 0;  ///< of vectors in these: at the root of the tree, of each vector once
  std::uint64_t results = 0;          ///< results that came from the parent
  std::uint64_t duplicates = 0;       ///< packets of what is in a slot already
  std::uint64_t copies = 0;           ///< packets sent because of duplicates
  std::uint64_t rnr_naks = 0;         ///< sent because contributions were missing
  std::uint64_t stale = 0;            ///< packets of positions that are over
  std::uint64_t refused = 0;          ///< packets of collectives that are not known yet
  std::uint64_t filtered = 0;         ///< dropped by the ePSN filter
  std::uint64_t answers = 0;          ///< ACKs and NAKs that were passed on
  std::uint64_t merged = 0;           ///< ACKs of a Broadcast that said nothing new of the slowest receiver
  std::uint64_t resent = 0;           ///< packets that a sender of ours sent again
  std::uint64_t timeouts = 0;         ///< of a sender of ours
  std::uint64_t ahead = 0;            ///< packets beyond the slots: of ranks and switches that run ahead
  std::uint64_t naks = 0;             ///< sent because a packet before was missing
  std::uint64_t cnps = 0;             ///< sent to ranks that run ahead
  std::uint64_t turns = 0;            ///< times that the group got memory which it shares, at all switches
  std::uint64_t turns_refused = 0;    ///< times that it did not, at one of them
  std::uint64_t memory_busy = 0;      ///< times that it did not here

  friend bool operator==(const GroupCounters&, const GroupCounters&) = default;
};

class Context {
 public:
  [[nodiscard]] const GroupConfig& group() const noexcept { return group_; }
  [[nodiscard]] const std::optional<Failure>& failure() const noexcept { return failure_; }
  [[nodiscard]] const GroupCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const LookupTable& table() const noexcept { return table_; }

  friend bool operator==(const Context&, const Context&) = default;

 protected:
  explicit Context(const GroupConfig& group);

  template <class Hash>
  void hash_state(Hash&& h) const {
    table_.hash_state(h);
    for (const Answered& a : answered_) h(a.packets);
    h(failure_ ? 1 + static_cast<std::uint64_t>(failure_->reason) : 0);
  }

  /// Packets of an endpoint's rx stream for which an ACK was sent, or that a NAK implied; and messages among them.
  struct Answered {
    std::uint64_t packets = 0;
    std::uint32_t messages = 0;

    friend bool operator==(const Answered&, const Answered&) = default;
  };

  [[nodiscard]] static std::uint64_t rx_of(EndpointIndex e, const Place& place) noexcept {
    return place.invocation->streams[e].rx + place.index;
  }
  [[nodiscard]] static std::uint64_t tx_of(EndpointIndex e, const Place& place) noexcept {
    return place.invocation->streams[e].tx + place.index;
  }
  [[nodiscard]] EndpointIndex endpoints() const noexcept { return static_cast<EndpointIndex>(group_.endpoints.size()); }
  /// Of RETH's address from where the endpoint takes RDMA WRITEs; 0 where there is no RETH.
  [[nodiscard]] std::uint64_t offset_of(EndpointIndex e, const nic::Packet& p) const noexcept;
  /// PSN of the first packet of `e` that is not answered.
  [[nodiscard]] wire::Psn unanswered(EndpointIndex e) const noexcept;

  /// Sends the ACK again that covers all that was answered; nothing before the first packet.
  void acknowledge(EndpointIndex to, Sink& sink) const;
  /// Sends the last ACK again, behind an RNR NAK, where the group has rnr_acks.
  void acknowledge_rnr(EndpointIndex to, Sink& sink) const;
  /// Sends a NAK, or an RNR NAK, for the first packet that is not answered. `sack`: of an IRN NAK, the PSN that came.
  void ask_for(EndpointIndex to, wire::Syndrome syndrome, Sink& sink, std::optional<wire::Psn> sack = {}) const;
  /// Module TranslateHeader: the packet of a full slot as this endpoint's peer expects it.
  [[nodiscard]] nic::Packet translate(EndpointIndex to, const Place& place, const Slots& slots, const Slot& slot,
                                      bool ack_req) const noexcept;
  /// The payload of a slot for which there is none in memory: of a Barrier of a turn. nullptr: it is not known.
  [[nodiscard]] static const std::uint8_t* said_of(const Place& place) noexcept {
    return place.is_control() && is_turn(*place.invocation) ? place.invocation->said.data() : nullptr;
  }
  /// What translate() changes for this endpoint, field by field into `out`: whoever copies fields that have just been
  /// written, several with one load, waits until all stores before them have reached the cache.
  void copy_for(EndpointIndex to, const Place& place, const Slot& slot, Copy& out) const noexcept;
  /// Passes a CNP on to those who send what this endpoint receives.
  void on_cnp(EndpointIndex from, const nic::Packet& p, Sink& sink) const;
  /// Ends the group: all neighbours hear of it.
  void fail(Failure::Reason reason, EndpointIndex from, const Place& place, Sink& sink);
  void refuse(EndpointIndex to, Sink& sink) const;
  void send_ack(EndpointIndex to, Sink& sink) const;

  GroupConfig group_;
  LookupTable table_;
  std::vector<Answered> answered_;  ///< by endpoint
  std::optional<Failure> failure_;
  GroupCounters counters_;
};

}  // namespace weft::inc
