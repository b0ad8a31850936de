// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Mode-II of EPIC on one switch, "connection translated" (section 4.3, algorithm 1): the switch adds up what comes from
// below, sends results down, and passes the answers of hosts on as if they came from each other. Hosts repair what is
// lost: the switch has no timers and keeps nothing but the slots.
//
// Why that is right, with windows of W messages of M packets and 2 W M slots: a host sends the packet at position p + W
// M when its packet p has been acknowledged, which says that its result has arrived there; so everyone has contributed
// p. Whoever sends p + 2 W M knows that of p + W M, whose contributors had the result of p. The slot of p is then free.
// Answers are cumulative, so they say something of earlier collectives too; that holds because a rank begins a
// collective when it has all that the earlier ones bring it.
//
// What a rank has received it also tells by its answers to later packets, and its own contributions to that are then
// acknowledged: the ACK of a result may be lost for good when a long Reduce to that rank, or a Broadcast, follows.
//
// A host must never wait for an answer that the switch does not owe it yet: it would give up. A packet that it repeats
// while contributions are missing is answered by an RNR NAK, as long as it is the oldest that the host waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/group.h"
#include "collectives/engine/lookup_table.h"
#include "collectives/engine/slots.h"
#include "nic/rnic/packet.h"

namespace weft::inc {

/// Takes the packets that a group sends. What a packet's payload refers to is good during the call.
class Sink {
 public:
  /// @param marked  the packet carries a congestion mark
  virtual void send(EndpointIndex to, const nic::Packet& packet, bool marked) = 0;

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
  };
  Reason reason{};
  EndpointIndex endpoint = 0;            ///< whose packet it was
  ControlMessage heard;                  ///< disagreement: what it said
  std::optional<ControlMessage> others;  ///< disagreement: what was said before

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// Counters of a group. All only grow.
struct GroupCounters {
  std::uint64_t contributions = 0;  ///< packets that were added
  std::uint64_t completed = 0;      ///< slots that became full
  std::uint64_t results = 0;        ///< results that came from the parent
  std::uint64_t duplicates = 0;     ///< packets of what is in a slot already
  std::uint64_t copies = 0;         ///< packets sent because of duplicates
  std::uint64_t rnr_naks = 0;       ///< sent because contributions were missing
  std::uint64_t stale = 0;          ///< packets of positions that are over
  std::uint64_t refused = 0;        ///< packets of collectives that are not known yet
  std::uint64_t filtered = 0;       ///< dropped by the ePSN filter
  std::uint64_t answers = 0;        ///< ACKs and NAKs that were passed on
  std::uint64_t merged = 0;         ///< ACKs of a Broadcast that said nothing new of the slowest receiver

  friend bool operator==(const GroupCounters&, const GroupCounters&) = default;
};

/// What keeps Mode II from running a group, in words; nullopt: nothing.
[[nodiscard]] std::optional<std::string> check_mode_ii(const GroupConfig& group);

class ModeII {
 public:
  /// @param group  checked by check_mode_ii()
  ModeII(const GroupConfig& group, SlotMemory memory);

  /// Takes a packet of the other end of an endpoint, whose ICRC is right.
  void on_packet(EndpointIndex from, const nic::Packet& packet, bool marked, Sink& sink);

  [[nodiscard]] const std::optional<Failure>& failure() const noexcept { return failure_; }
  [[nodiscard]] const GroupCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const LookupTable& table() const noexcept { return table_; }
  [[nodiscard]] const Slots& slots() const noexcept { return slots_; }

  friend bool operator==(const ModeII&, const ModeII&) = default;
  /// Feeds what decides which packets will be sent.
  template <class Hash>
  void hash_state(Hash&& h) const {
    table_.hash_state(h);
    slots_.hash_state(h);
    for (const Progress& p : progress_) {
      h(p.acknowledged);
      h(p.delivered);
      h(p.expected);
      h(p.broadcast);
      h(p.held ? *p.held << 8 | p.held_syndrome : ~std::uint64_t{0});
    }
    h(failure_ ? 1 + static_cast<std::uint64_t>(failure_->reason) : 0);
  }

 private:
  /// How far an endpoint is, in packets of its streams.
  struct Progress {
    std::uint64_t acknowledged = 0;     ///< rx: so many packets were answered for
    std::uint32_t messages = 0;         ///< of them
    std::uint64_t delivered = 0;        ///< tx: the other end has them
    std::uint64_t expected = 0;         ///< rx, with the ePSN filter: the next in order
    std::uint64_t broadcast = 0;        ///< rx: one past the last packet of a Broadcast that was forwarded
    std::optional<std::uint64_t> held;  ///< tx: a NAK of a Broadcast for this packet waits for slower receivers
    std::uint8_t held_syndrome = 0;

    friend bool operator==(const Progress&, const Progress&) = default;
  };

  void on_request(EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink);
  [[nodiscard]] bool acknowledge_again(EndpointIndex from, wire::Psn psn, Sink& sink);
  void acknowledge_results(EndpointIndex to, Sink& sink);
  void no_room(EndpointIndex from, wire::Psn psn, Sink& sink);
  void acknowledge_retired(EndpointIndex from, wire::Psn psn, Sink& sink);
  void retire(std::uint64_t furthest) noexcept;
  [[nodiscard]] bool over(const Invocation& i, std::uint64_t furthest) const noexcept;
  [[nodiscard]] bool settled(const Invocation& i) const noexcept;
  void on_contribution(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  void on_duplicate(EndpointIndex from, const Place& place, const Slot& slot, Sink& sink);
  void on_result(const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  void on_broadcast(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  void on_response(EndpointIndex from, const nic::Packet& p, Sink& sink);
  void on_cnp(EndpointIndex from, const nic::Packet& p, Sink& sink);
  void merge(const Place& place, Sink& sink);

  void replicate(const Place& place, const Slot& slot, Sink& sink);
  void forward(EndpointIndex to, const Place& place, const Slot& slot, bool ack_req, Sink& sink);
  void answer(EndpointIndex to, const Place& place, wire::Syndrome syndrome, std::optional<wire::Psn> sack, Sink& sink);
  void not_ready(EndpointIndex to, const Place& place, Sink& sink);
  void fail(Failure::Reason reason, EndpointIndex from, const Place& place, Sink& sink);
  void refuse(EndpointIndex to, Sink& sink);

  [[nodiscard]] bool filtered(EndpointIndex from, std::uint64_t seq) noexcept;
  [[nodiscard]] std::uint64_t offset_of(EndpointIndex e, const nic::Packet& p) const noexcept;
  [[nodiscard]] EndpointIndex endpoints() const noexcept { return static_cast<EndpointIndex>(group_.endpoints.size()); }

  GroupConfig group_;
  LookupTable table_;
  Slots slots_;
  std::vector<Progress> progress_;
  std::optional<Failure> failure_;
  GroupCounters counters_;
};

}  // namespace weft::inc
