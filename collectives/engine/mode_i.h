// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Mode-I of EPIC on one switch, "connection terminated" (section 4.2): each endpoint is a whole RC queue pair, the
// production RNIC's requester and responder. Messages are taken whole into an endpoint's receive buffers; when those of
// all senders are there they are added up, in the order of the endpoints, and the sum is sent as a message of our own.
// So sums are reproducible, every hop repairs what it loses, and whoever is ahead of the others finds no receive
// buffer: RNR NAKs hold it back for as long as it takes.
//
// RDMA WRITEs are taken into the same buffers. What is sent for them are WRITEs to the same offset in the memory of
// each receiver, whose address and key are its endpoint's (EPIC footnote 5).
//
// Two rings of W messages hold what is sent and not acknowledged: one towards the parent, one towards the children.
// Those that go down wait for nothing that goes up, so the tree cannot lock itself up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/context.h"
#include "collectives/engine/landings.h"
#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"

namespace weft::inc {

/// What keeps Mode I from running a group, in words; nullopt: nothing.
[[nodiscard]] std::optional<std::string> check_mode_i(const GroupConfig& group);

class ModeI : public Context {
 public:
  /// Bytes of the buffers of a group: W messages per endpoint, and 2 W that are sent.
  [[nodiscard]] static std::size_t memory_bytes(const GroupConfig& group) noexcept;

  /// @param group   checked by check_mode_i()
  /// @param memory  of memory_bytes(); empty: payload is elided, and sums are not made
  ModeI(const GroupConfig& group, SlotMemory memory);
  /// Memory of its own is copied; a region is shared.
  ModeI(const ModeI& o);
  ModeI& operator=(const ModeI& o);
  ~ModeI() = default;

  /// Takes a packet of the other end of an endpoint, whose ICRC is right.
  void on_packet(nic::Time now, EndpointIndex from, const nic::Packet& packet, bool marked, Sink& sink);
  /// When on_timer() must be called; nic::kNever: not before another packet comes.
  [[nodiscard]] nic::Time next_deadline() const noexcept;
  void on_timer(nic::Time now, Sink& sink);

  /// A collective of which an endpoint's message is there and cannot be used yet.
  struct Waiting {
    const Invocation* invocation = nullptr;
    std::uint64_t index = 0;  ///< of the message's first packet in it
    EndpointSet missing;      ///< who has not sent its message, or else who has not acknowledged earlier results
    bool for_result = false;  ///< all messages are there, and results that were not acknowledged hold them back
  };
  /// The oldest of them.
  [[nodiscard]] std::optional<Waiting> waiting() const;

  friend bool operator==(const ModeI& a, const ModeI& b);
  /// Feeds what decides which packets will be sent, and when.
  template <class Hash>
  void hash_state(Hash&& h, nic::Time now) const {
    Context::hash_state(h);
    for (const Endpoint& e : endpoints_) {
      e.requester.hash_state(h, now);
      e.responder.hash_state(h, now);
      for (const std::uint64_t v : {e.received, e.consumed, e.rx_packets, e.posted, e.delivered}) h(v);
      h((e.marked ? 1u : 0u) | (e.elided ? 2u : 0u));
      hash_bytes(buffer(e, e.received), e.elided ? 0 : e.responder.message_bytes(), h);
      for (std::uint64_t n = e.consumed; n < e.received; ++n) {
        const Message& m = e.messages[n % e.messages.size()];
        h(std::uint64_t{m.bytes} << 32 | m.immediate);
        h((m.with_immediate ? 1u : 0u) | (m.solicited ? 2u : 0u) | (m.marked ? 4u : 0u) | (m.values ? 8u : 0u) |
          (m.placed ? 16u : 0u) | (m.written ? 32u : 0u));
        if (m.written) h(m.offset);
        hash_bytes(buffer(e, n), m.values ? m.bytes : 0, h);
      }
      e.landings.hash_state(h);
      for (const Sent& s : e.sending) h(std::uint64_t{s.cell} << 32 | s.packets);
    }
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      cells_[c].pending.hash_state(h);
      if (cells_[c].pending.size() == 0) continue;
      h(std::uint64_t{cells_[c].bytes} << 1 | (cells_[c].marked ? 1u : 0u));
      hash_bytes(cell(c), cells_[c].values ? cells_[c].bytes : 0, h);
    }
  }

 private:
  /// A message that has come and was not used yet.
  struct Message {
    std::uint32_t bytes = 0;
    std::uint32_t immediate = 0;
    bool with_immediate = false;
    bool solicited = false;
    bool marked = false;       ///< CE of any packet
    bool values = false;       ///< the bytes are known
    bool placed = false;       ///< it is what its place in the endpoint's stream asks for
    bool written = false;      ///< by RDMA WRITE
    std::uint64_t offset = 0;  ///< of a WRITE

    friend bool operator==(const Message&, const Message&) = default;
  };
  /// A message that goes to an endpoint.
  struct Sent {
    std::uint32_t cell = 0, packets = 0;

    friend bool operator==(const Sent&, const Sent&) = default;
  };
  struct Cell {
    EndpointSet pending;  ///< who has not acknowledged it
    std::uint32_t bytes = 0;
    bool marked = false;
    bool values = false;

    friend bool operator==(const Cell&, const Cell&) = default;
  };
  struct Endpoint {
    nic::Requester requester;
    nic::Responder responder;
    std::uint64_t received = 0, consumed = 0;  ///< messages; number n is in buffer n mod W
    std::uint64_t rx_packets = 0;              ///< of those that were used
    std::uint64_t posted = 0, delivered = 0;   ///< packets that we send, and those that are acknowledged
    bool marked = false;                       ///< CE of the message under way
    bool elided = false;                       ///< data comes without values; control messages have theirs
    std::vector<Message> messages{};           ///< W, by number
    Landings landings{0};                      ///< of WRITEs under way
    std::vector<Sent> sending{};               ///< oldest first

    friend bool operator==(const Endpoint&, const Endpoint&) = default;
  };
  enum class Found : std::uint8_t { placed, waits, failed };

  void post_receive(EndpointIndex e);
  void settle(nic::Time now, Sink& sink);
  void complete(Sink& sink);
  void received(EndpointIndex e, const nic::Wc& wc);
  [[nodiscard]] bool take_landing(EndpointIndex e, const nic::Packet& write);
  void respond(nic::Time now, EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink);
  void note_answers(EndpointIndex from);
  [[nodiscard]] bool advance(Sink& sink);
  [[nodiscard]] Found find_place(EndpointIndex e, Sink& sink);
  [[nodiscard]] std::optional<Place> head(EndpointIndex e);
  [[nodiscard]] bool sends_here(EndpointIndex e, const Invocation& i, bool down) const noexcept;
  [[nodiscard]] bool gets(EndpointIndex e, const Invocation& i, bool down) const noexcept;
  [[nodiscard]] std::optional<std::uint32_t> free_cell(const Invocation& i, bool down) const noexcept;
  [[nodiscard]] bool forward(EndpointIndex from, Sink& sink);
  void fill(std::uint32_t cell, const Place& place, bool down);
  void add_up(std::uint32_t cell, const Place& place);
  void send(EndpointIndex to, std::uint32_t cell, const Message& like);
  void transmit(nic::Time now, Sink& sink);
  [[nodiscard]] bool carries_mark(const Endpoint& e, EndpointIndex to, wire::Psn psn) const noexcept;
  void retire() noexcept;
  void find_missing(Waiting& w, bool down) const;

  [[nodiscard]] std::uint32_t message_packets(const Message& m) const noexcept {
    return nic::packets_of(m.bytes, group_.mtu);
  }
  [[nodiscard]] std::uint8_t* base() const noexcept;
  [[nodiscard]] std::size_t index_of(const Endpoint& e) const noexcept {
    return static_cast<std::size_t>(&e - endpoints_.data());
  }
  /// Where message number n of an endpoint is put, and where a cell is: offsets in the memory.
  [[nodiscard]] std::size_t buffer_at(std::size_t e, std::uint64_t n) const noexcept {
    return (e * group_.window + n % group_.window) * stride_;
  }
  [[nodiscard]] std::size_t cell_at(std::size_t c) const noexcept {
    return (endpoints_.size() * group_.window + c) * stride_;
  }
  [[nodiscard]] const std::uint8_t* buffer(const Endpoint& e, std::uint64_t n) const noexcept {
    return base() + buffer_at(index_of(e), n);
  }
  [[nodiscard]] const std::uint8_t* cell(std::size_t c) const noexcept { return base() + cell_at(c); }
  void use_memory(const ModeI& from, ModeI& to);
  template <class Hash>
  static void hash_bytes(const std::uint8_t* from, std::size_t bytes, Hash&& h) {
    for (std::size_t i = 0; i < bytes; i += 8) {
      std::uint64_t word = 0;
      for (std::size_t k = i; k < bytes && k < i + 8; ++k) word = word << 8 | from[k];
      h(word);
    }
  }

  std::uint32_t message_bytes_;
  std::size_t stride_;
  SlotMemory memory_;
  std::vector<std::uint8_t> small_;  ///< control messages, where there is no memory for data
  nic::MemoryTable table_of_memory_;
  nic::Mr known_{}, unknown_{};  ///< the memory, and as much room without bytes as a message takes
  std::vector<Endpoint> endpoints_;
  std::vector<Cell> cells_;  ///< W towards the parent, then W towards the children
  nic::Cq cq_;               ///< empty between calls
  bool stirred_ = false;     ///< something has come or left since advance() found nothing to do
};

}  // namespace weft::inc
