// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The receiving half of an RC queue pair: checks requests in the order of IBTA 9.7.4, places their payload, and answers
// (9.7.5). Loss is reported as QpConfig::loss_recovery says. A plain value: it can be copied, compared and hashed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nic/rnic/config.h"
#include "nic/rnic/memory.h"
#include "nic/rnic/packet.h"
#include "nic/rnic/reorder_buffer.h"
#include "nic/rnic/work.h"
#include "switch/wire/types.h"

namespace weft::nic {

/// Counters of a responder. All only grow.
struct ResponderCounters {
  std::uint64_t packets = 0;        ///< request packets that arrived
  std::uint64_t bytes_placed = 0;   ///< payload written to memory, or counted there
  std::uint64_t messages = 0;       ///< requests that completed
  std::uint64_t duplicates = 0;     ///< had arrived before: what the peer retransmitted in vain
  std::uint64_t out_of_order = 0;   ///< with a PSN beyond the expected one
  std::uint64_t reordered = 0;      ///< of these, kept for their turn
  std::uint64_t beyond_window = 0;  ///< of these, too far ahead for the bitmap
  std::uint64_t acks_sent = 0;
  std::uint64_t naks_sent = 0;  ///< of a PSN sequence error
  std::uint64_t rnr_naks_sent = 0;
  std::uint64_t fatal_naks_sent = 0;
  std::uint64_t response_packets = 0;  ///< of READs
  std::uint64_t response_bytes = 0;
  std::uint64_t dropped = 0;  ///< requests that got no answer: after a failure, or with no room to answer in

  friend bool operator==(const ResponderCounters&, const ResponderCounters&) = default;
};

/// An IRN responder repeats the NACK of a packet that it has only after so long.
inline constexpr Time kRepeatNackNs = 4 * kUs;

/// The responder.
class Responder {
 public:
  Responder(const QpConfig& config, Pd pd, MemoryTable& memory, wire::Qpn qpn);

  /// Sets the PSN of the first packet that the peer sends.
  void connect(wire::Psn first) noexcept {
    epsn_ = first;
    ack_psn_ = first - 1;
  }
  /// Takes a receive work request, at any time.
  PostResult post(const RecvWr& wr, Cq& cq) noexcept;

  void on_request(Time now, const Packet& packet, Cq& cq) noexcept;

  /// True when transmit() would give a packet.
  [[nodiscard]] bool can_transmit() const noexcept { return response_count_ > 0; }
  /// True when that packet carries data, which congestion control paces; ACKs and NAKs go at once.
  [[nodiscard]] bool next_is_data() const noexcept {
    return can_transmit() && responses_[response_head_].kind == Response::Kind::read;
  }
  bool transmit(Packet& out, Cq& cq) noexcept;

  /// Ends all receive work requests, flushed. Answers that wait still leave.
  void fail(Cq& cq) noexcept;
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] std::uint32_t posted() const noexcept { return tail_ - head_; }
  [[nodiscard]] wire::Psn expected_psn() const noexcept { return epsn_; }
  [[nodiscard]] const ResponderCounters& counters() const noexcept { return counters_; }

  /// Bytes of the message under way that have been placed.
  [[nodiscard]] std::uint32_t message_bytes() const noexcept {
    return message_ == Message::none ? 0 : static_cast<std::uint32_t>(offset_);
  }
  /// From now on it works in other memory, of which `memory` knows: for a copy that gets its own.
  void relocate(MemoryTable& memory, const Relocation& moved) noexcept {
    memory_ = &memory;
    target_.relocate(moved);
  }

  /// Every member is compared, counters too.
  friend bool operator==(const Responder&, const Responder&) = default;
  /// Feeds to `h(std::uint64_t)` everything that decides what will be placed, answered and completed, of two responders
  /// that have the same configuration and were given the same receive work requests. Times are fed as their age at
  /// `now`. Left out are the counters, which decide nothing.
  template <class Hash>
  void hash_state(Hash&& h, Time now = 0) const {
    h(std::uint64_t{epsn_.value()} << 32 | msn_);
    h(std::uint64_t{head_} << 32 | tail_);
    h(std::uint64_t{ack_psn_.value()} << 16 | static_cast<unsigned>(withheld_) << 8 |
      static_cast<unsigned>(message_) << 4 | (failed_ ? 1u : 0u) | (told_no_credit_ ? 2u : 0u));
    if (config_.ack_every != 0) h(unacknowledged_);
    if (message_ != Message::none) h(offset_);
    if (message_ == Message::write) {
      h(write_address_);
      h(std::uint64_t{write_rkey_} << 32 | write_length_);
    }
    h(response_count_);
    for (std::uint32_t i = 0; i < response_count_; ++i) {
      const Response& r = responses_[(response_head_ + i) % responses_.size()];
      h(static_cast<std::uint64_t>(r.kind) << 32 | std::uint64_t{r.psn.value()} << 8 | r.syndrome);
      h(std::uint64_t{r.msn} << 1 | (r.started ? 1u : 0u));
      if (r.is(Response::Kind::atomic)) h(r.original);
      if (r.is(Response::Kind::read)) {
        h(r.address);
        h(std::uint64_t{r.rkey} << 32 | r.remaining);
      }
    }
    for (std::uint32_t i = 0; i < replays_.size(); ++i) {
      const Replay& r = replays_[(next_replay_ + i) % replays_.size()];
      h(r.used ? 1u : 0u);
      if (!r.used) continue;
      h(std::uint64_t{r.psn.value()} << 32 | r.msn);
      h(r.original);
    }
    if (config_.loss_recovery == LossRecovery::irn)
      h(static_cast<std::uint64_t>(std::min(now - last_nak_, kRepeatNackNs)));
    buffer_.hash_state(epsn_, h);
  }

 private:
  struct Response {
    enum class Kind : std::uint8_t { acknowledge, read, atomic };
    Kind kind = Kind::acknowledge;
    std::uint8_t syndrome = 0;
    wire::Psn psn{};  ///< read: of the next packet
    std::uint32_t msn = 0;
    std::uint32_t rkey = 0;
    std::uint64_t address = 0;    ///< read: of the next byte
    std::uint32_t remaining = 0;  ///< read: bytes
    bool started = false;         ///< read: the first packet has left
    std::uint64_t original = 0;   ///< atomic

    [[nodiscard]] bool is(Kind k) const noexcept { return kind == k; }
    friend bool operator==(const Response&, const Response&) = default;
  };
  struct Replay {
    wire::Psn psn{};
    std::uint64_t original = 0;
    std::uint32_t msn = 0;
    bool used = false;

    friend bool operator==(const Replay&, const Replay&) = default;
  };
  enum class Message : std::uint8_t { none, send, write };
  /// Why requests with larger PSNs get no NAK at the moment.
  enum class Withheld : std::uint8_t { no, nak_sent, rnr_sent };

  // In order: responder.cc. Each check returns false when the request was answered by a NAK.
  bool accept(const Packet& p, Cq& cq) noexcept;
  bool check_sequence(const Packet& p, Cq& cq) noexcept;
  bool check_resources(const Packet& p, Cq& cq) noexcept;
  bool check_length(const Packet& p, Cq& cq) noexcept;
  bool execute_send(const Packet& p, Cq& cq) noexcept;
  bool execute_write(const Packet& p, Cq& cq) noexcept;
  bool execute_read(const Packet& p, Cq& cq) noexcept;
  bool execute_atomic(const Packet& p, Cq& cq) noexcept;
  void complete_receive(const Packet& p, Cq& cq) noexcept;
  bool refuse(wire::NakCode code, Cq& cq) noexcept;
  bool refuse_receive(wire::NakCode code, WcStatus status, Cq& cq) noexcept;
  bool not_ready() noexcept;
  void advance(std::uint32_t packets) noexcept;
  void after_arrival(wire::Psn arrived, bool ack_req) noexcept;

  // Out of order, twice, and the queue of answers: responder_order.cc.
  void on_future(Time now, const Packet& p, std::int32_t ahead) noexcept;
  void on_duplicate(const Packet& p) noexcept;
  void repeat_read(const Packet& p) noexcept;
  void repeat_atomic(const Packet& p) noexcept;
  void send_nak(wire::Psn sack) noexcept;
  void acknowledge() noexcept;
  [[nodiscard]] wire::Syndrome ack_syndrome() const noexcept;
  [[nodiscard]] Response& response(std::uint32_t i) noexcept {
    return responses_[(response_head_ + i) % responses_.size()];
  }
  [[nodiscard]] std::uint32_t pending_reads() const noexcept;
  [[nodiscard]] Response read_response(const Packet& p) const noexcept;
  bool append(const Response& r) noexcept;
  void insert(std::uint32_t place, const Response& r) noexcept;
  void append_nak(wire::Syndrome syndrome, wire::Psn psn, std::uint32_t msn) noexcept;
  bool transmit_read(Response& r, Packet& out, Cq& cq) noexcept;
  void pop() noexcept;

  struct Receive {
    RecvWr wr;

    friend bool operator==(const Receive&, const Receive&) = default;
  };
  [[nodiscard]] Receive& at(std::uint32_t index) noexcept { return receives_[index & mask_]; }

  QpConfig config_;
  Pd pd_;
  MemoryTable* memory_;
  wire::Qpn qpn_;
  bool failed_ = false;
  wire::Psn epsn_{};
  wire::Psn ack_psn_{};  ///< of the last SEND or WRITE packet: READs and atomics are answered in other ways
  std::uint32_t msn_ = 0;
  Withheld withheld_ = Withheld::no;

  std::vector<Receive> receives_;
  std::uint32_t mask_;
  std::uint32_t head_ = 0, tail_ = 0;

  Message message_ = Message::none;
  std::uint64_t offset_ = 0;  ///< bytes of the current message that have arrived
  ScatterList target_;        ///< of the current SEND
  std::uint64_t write_address_ = 0;
  std::uint32_t write_length_ = 0;
  std::uint32_t write_rkey_ = 0;

  std::vector<Response> responses_;
  std::uint32_t response_head_ = 0, response_count_ = 0;
  std::vector<Replay> replays_;  ///< the last atomics
  std::uint32_t next_replay_ = 0;
  std::uint32_t unacknowledged_ = 0;
  bool told_no_credit_ = false;

  ReorderBuffer buffer_;
  Time last_nak_ = 0;
  ResponderCounters counters_;
};

}  // namespace weft::nic
