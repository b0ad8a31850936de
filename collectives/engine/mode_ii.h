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
// A rank's answer to a later packet says that it has the earlier results, too, and its contributions to these are then
// acknowledged: their own ACKs may be lost for good when a long Reduce to that rank, or a Broadcast, follows.
//
// A host must never wait for an answer that the switch does not owe it yet: it would give up. A packet that it repeats
// while contributions are missing is answered by an RNR NAK, as long as it is the oldest that the host waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/context.h"
#include "collectives/engine/group.h"
#include "collectives/engine/lookup_table.h"
#include "collectives/engine/memory_lock.h"
#include "collectives/engine/slots.h"
#include "nic/rnic/packet.h"

namespace weft::inc {

/// What keeps Mode II from running a group, in words; nullopt: nothing.
[[nodiscard]] std::optional<std::string> check_mode_ii(const GroupConfig& group);

class ModeII : public Context {
 public:
  /// @param group  checked by check_mode_ii()
  /// @param lock   of the memory, where other groups have it, too; it outlives this. nullptr: it is the group's own
  ModeII(const GroupConfig& group, SlotMemory memory, MemoryLock* lock = nullptr);

  /// Takes a packet of the other end of an endpoint, whose ICRC is right.
  void on_packet(EndpointIndex from, const nic::Packet& packet, bool marked, Sink& sink);
  /// The same for a packet with one piece of payload whose ICRC is right if wire::payload_crc() of it is `crc`. False:
  /// it is not, and nothing has changed.
  [[nodiscard]] bool on_unchecked(EndpointIndex from, const nic::Packet& packet, std::uint32_t crc, bool marked,
                                  Sink& sink);
  /// Whether on_unchecked() adds packets of the collective that began last while their CRC is computed.
  [[nodiscard]] bool adds_unchecked() const noexcept;

  [[nodiscard]] const Slots& slots() const noexcept { return slots_; }

  friend bool operator==(const ModeII&, const ModeII&) = default;
  /// Feeds what decides which packets will be sent.
  template <class Hash>
  void hash_state(Hash&& h) const {
    Context::hash_state(h);
    slots_.hash_state(h);
    for (const Progress& p : progress_) {
      h(p.delivered);
      h(p.expected);
      h(p.broadcast);
      h(p.asked);
      h(p.spare ? 1 : 0);
      h(p.held ? *p.held << 8 | p.held_syndrome : ~std::uint64_t{0});
    }
    if (lock_ == nullptr) return;
    h(std::uint64_t{begun_turn_} << 32 | std::uint64_t{turn_with_memory_} << 16 | (has_memory_ ? 1 : 0));
  }

 private:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};

  /// How far an endpoint is, in packets of its streams.
  struct Progress {
    std::uint64_t delivered = 0;        ///< tx: the other end has them
    std::uint64_t expected = 0;         ///< rx, with the ePSN filter: the next in order
    std::uint64_t broadcast = 0;        ///< rx: one past the last packet of a Broadcast that was forwarded
    std::uint64_t asked = kNothing;     ///< rx: the last packet for which a NAK was passed on
    bool spare = false;                 ///< its next repeat gets no RNR NAK
    std::optional<std::uint64_t> held;  ///< tx: a NAK of a Broadcast for this packet waits for slower receivers
    std::uint8_t held_syndrome = 0;

    friend bool operator==(const Progress&, const Progress&) = default;
  };

  void on_request(EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink);
  [[nodiscard]] bool acknowledge_again(EndpointIndex from, wire::Psn psn, Sink& sink);
  void acknowledge_results(EndpointIndex to, Sink& sink);
  void no_room(EndpointIndex from, wire::Psn psn, Sink& sink);
  void ask_below(Sink& sink);
  void acknowledge_retired(EndpointIndex from, wire::Psn psn, Sink& sink);
  void retire(std::uint64_t furthest) noexcept;
  [[nodiscard]] bool over(const Invocation& i, std::uint64_t furthest) const noexcept;
  [[nodiscard]] bool settled(const Invocation& i) const noexcept;
  [[nodiscard]] bool may_miss(EndpointIndex e, const Invocation& i) const noexcept;
  [[nodiscard]] bool place_of_contribution(EndpointIndex from, const nic::Packet& p, Place& place);
  void on_contribution(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink,
                       bool added = false);
  void on_duplicate(EndpointIndex from, const Place& place, Slot& slot, Sink& sink);
  [[nodiscard]] bool asks_anew(EndpointIndex from, Slot& slot) const noexcept;
  void on_result(const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  void on_broadcast(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  void on_response(EndpointIndex from, const nic::Packet& p, Sink& sink);
  void on_turn(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  void on_verdict(const nic::Packet& p, const Place& place, bool marked, Sink& sink);
  [[nodiscard]] bool may_begin(const Invocation& i) noexcept;
  [[nodiscard]] bool all_want(Invocation& i);
  void decided(const Invocation& i);
  void give_memory() noexcept;
  void fail(Failure::Reason reason, EndpointIndex from, const Place& place, Sink& sink);
  void spare(EndpointIndex to, std::uint64_t sequence) noexcept;
  void merge(const Place& place, Sink& sink);

  void replicate(const Place& place, const Slot& slot, Sink& sink);
  void forward(EndpointIndex to, const Place& place, const Slot& slot, bool ack_req, Sink& sink);
  void answer(EndpointIndex to, const Place& place, wire::Syndrome syndrome, std::optional<wire::Psn> sack, Sink& sink);
  void not_ready(EndpointIndex to, const Place& place, Sink& sink);

  [[nodiscard]] bool filtered(EndpointIndex from, std::uint64_t seq) noexcept;

  Slots slots_;
  std::vector<Progress> progress_;
  MemoryLock* lock_ = nullptr;
  bool has_memory_ = false;             ///< that is shared
  std::uint16_t begun_turn_ = 0;        ///< sequence number of the last Barrier that took or gave a turn, once it began
  std::uint16_t turn_with_memory_ = 0;  ///< and of the one with which the memory came
};

}  // namespace weft::inc
