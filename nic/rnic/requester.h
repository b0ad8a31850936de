// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The sending half of an RC queue pair: cuts work requests into packets, keeps what is not acknowledged, and repairs
// loss as QpConfig::loss_recovery says (IBTA 9.7.5, 9.7.6). A plain value: it can be copied, compared and hashed.
//
// PSNs are kept as 64-bit sequence numbers that count from the starting PSN and never wrap.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "nic/rnic/config.h"
#include "nic/rnic/memory.h"
#include "nic/rnic/packet.h"
#include "nic/rnic/round_trips.h"
#include "nic/rnic/work.h"
#include "switch/wire/types.h"

namespace weft::nic {

/// What a response told, for congestion control.
struct ResponseEvent {
  bool nack = false;              ///< a NAK of a PSN sequence error
  std::uint64_t acked_bytes = 0;  ///< payload that is no longer in flight
  Time rtt_ns = 0;                ///< 0: no sample
};

/// Counters of a requester. All only grow.
struct RequesterCounters {
  std::uint64_t packets = 0;        ///< request packets, retransmissions included
  std::uint64_t retransmitted = 0;  ///< of these, those sent before
  std::uint64_t bytes = 0;          ///< payload of requests, retransmissions included
  std::uint64_t acks = 0;
  std::uint64_t naks_sequence = 0;
  std::uint64_t naks_rnr = 0;
  std::uint64_t naks_fatal = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t implied_naks = 0;     ///< a response was missing in front of a later one (IBTA 9.7.5.1.2)
  std::uint64_t stale_responses = 0;  ///< for PSNs acknowledged before, or of a QP that has failed
  std::uint64_t bad_responses = 0;    ///< for PSNs never sent, or of a kind or length that was not asked for
  std::uint64_t hole_searches = 0;    ///< irn: words of its record that were looked at for the next hole to resend

  friend bool operator==(const RequesterCounters&, const RequesterCounters&) = default;
};

/// The requester. Time only enters by arguments.
class Requester {
 public:
  Requester(const QpConfig& config, Pd pd, const MemoryTable& memory, wire::Qpn qpn);

  /// Sets the PSN of the first packet, and how many READs and atomics the peer takes; work can be posted from now on.
  void connect(wire::Psn first, std::uint8_t max_rd_atomic = 255) noexcept;
  /// Takes a work request. After a failure it completes at once, flushed.
  PostResult post(const SendWr& wr, Cq& cq) noexcept;

  /// True when transmit() would send a packet at this time.
  [[nodiscard]] bool can_transmit() const noexcept;
  /// Fills `out` with the next packet; false when there is none, which may also mean that the queue pair has failed.
  bool transmit(Time now, Packet& out, Cq& cq) noexcept;
  /// Takes an ACK, NAK, READ response or atomic response.
  ResponseEvent on_response(Time now, const Packet& packet, Cq& cq) noexcept;
  /// To be called at next_deadline() or later.
  void on_timer(Time now, Cq& cq) noexcept;
  [[nodiscard]] Time next_deadline() const noexcept { return std::min(rto_deadline_, rnr_deadline_); }

  /// Ends all work requests; the oldest one with `status`, the others flushed. No packet leaves afterwards.
  void fail(WcStatus status, Cq& cq) noexcept;
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// Work requests that have not completed.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return tail_ - head_; }
  [[nodiscard]] std::uint64_t inflight_packets() const noexcept { return nxt_ - una_; }
  /// Packets from the first on that are acknowledged, and that were ever sent.
  [[nodiscard]] std::uint64_t acknowledged() const noexcept { return una_; }
  [[nodiscard]] std::uint64_t ever_sent() const noexcept { return max_sent_; }
  /// The next packet was never sent before.
  [[nodiscard]] bool next_is_new() const noexcept { return !retx_pending_ && !hole_to_resend() && nxt_ >= max_sent_; }
  [[nodiscard]] const RequesterCounters& counters() const noexcept { return counters_; }

  /// From now on it works in other memory, of which `memory` knows: for a copy that gets its own.
  void relocate(const MemoryTable& memory, const Relocation& moved) noexcept {
    memory_ = &memory;
    for (Wqe& w : ring_) w.memory.relocate(moved);
  }

  /// Every member is compared, counters too.
  friend bool operator==(const Requester&, const Requester&) = default;
  /// Feeds to `h(std::uint64_t)` everything that decides what will be sent and completed, of two requesters that have
  /// the same configuration and were given the same work. Times are fed as what is left of them at `now`. Left out are
  /// the counters and, but for adaptive timeouts, the measurement of round-trip times, which decides nothing here.
  template <class Hash>
  void hash_state(Hash&& h, Time now = 0) const {
    const auto left = [now](Time deadline) {
      return static_cast<std::uint64_t>(deadline == kNever ? -1 : deadline - now);
    };
    for (const std::uint64_t v : {una_, nxt_, max_sent_, end_, read_packets_}) h(v);
    h(std::uint64_t{head_} << 32 | tail_);
    h(std::uint64_t{cursor_} << 32 | reads_inflight_);
    h(std::uint64_t{retries_} << 32 | rnr_retries_);
    h(std::uint64_t{lsn_} << 32 | next_ssn_);
    // A NAK repeats the last one when una_ has not moved since; how far it has moved otherwise means nothing.
    h(std::uint64_t{since_ack_req_} << 8 | (failed_ ? 1u : 0u) | (retx_pending_ ? 2u : 0u) | (in_recovery_ ? 4u : 0u) |
      (limited_ ? 8u : 0u) | (connected_ ? 16u : 0u) | (nak_una_ == una_ ? 32u : 0u));
    for (std::uint32_t i = head_; i != tail_; ++i) h((at(i).issued ? 1u : 0u) | (at(i).unreachable ? 2u : 0u));
    if (retx_pending_) h(retx_seq_);
    if (config_.loss_recovery == LossRecovery::irn) {
      h(highest_sack_);
      for (const std::uint64_t word : sacked_) h(word);
    }
    if (in_recovery_) {
      h(recovery_end_);
      h(retx_cursor_);
    }
    h(left(rto_deadline_));
    h(left(rnr_deadline_));
    if (config_.rto_mode == RtoMode::adaptive) round_trips_.hash_state(h, una_, now);
    if (config_.rto_mode == RtoMode::irn) h(static_cast<std::uint64_t>(rto_started_ - now));
  }

 private:
  struct Wqe {
    SendWr wr;
    ScatterList memory;
    std::uint64_t first = 0;
    std::uint32_t packets = 0;
    std::uint32_t length = 0;
    std::uint32_t ssn = 0;
    bool issued = false;       ///< READs and atomics: the request was sent once
    bool unreachable = false;  ///< its memory must not be used

    friend bool operator==(const Wqe&, const Wqe&) = default;
    [[nodiscard]] std::uint64_t last() const noexcept { return first + packets - 1; }
  };

  [[nodiscard]] Wqe& at(std::uint32_t index) noexcept { return ring_[index & mask_]; }
  [[nodiscard]] const Wqe& at(std::uint32_t index) const noexcept { return ring_[index & mask_]; }
  [[nodiscard]] wire::Psn psn_of(std::uint64_t seq) const noexcept {
    return first_psn_ + static_cast<std::uint32_t>(seq & wire::Psn::kMask);
  }
  [[nodiscard]] std::int64_t distance(wire::Psn psn) const noexcept { return psn.distance_from(psn_of(una_)); }

  // Sending: requester.cc.
  [[nodiscard]] bool new_packet_allowed(const Wqe& w) const noexcept;
  [[nodiscard]] bool credit_for(const Wqe& w) const noexcept;
  /// irn: something that was sent before is missing, and was not resent in this recovery.
  [[nodiscard]] bool hole_to_resend() const noexcept {
    return in_recovery_ && retx_cursor_ < std::min(highest_sack_, nxt_);
  }
  void settle_retx_cursor() noexcept;
  std::uint64_t take_next(std::uint32_t& index) noexcept;
  void skip_sacked() noexcept;
  void build(const Wqe& w, std::uint64_t seq, Packet& out) const noexcept;
  void build_data(const Wqe& w, std::uint64_t seq, Packet& out) const noexcept;
  [[nodiscard]] bool wants_ack(const Wqe& w, std::uint64_t seq) const noexcept;
  void note_sent(Time now, Wqe& w, std::uint64_t seq, Packet& out) noexcept;
  [[nodiscard]] Time rto() const noexcept;
  void start_rto(Time now) noexcept;
  void seek(std::uint64_t seq) noexcept;

  // Receiving: requester_response.cc.
  void on_acknowledge(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept;
  void on_nak(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept;
  void on_read_response(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept;
  void on_atomic_response(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept;
  bool acknowledge_until(Time now, std::uint64_t end, Cq& cq, ResponseEvent& event) noexcept;
  void complete_head(Cq& cq) noexcept;
  void progressed(Time now, ResponseEvent& event) noexcept;
  void start_recovery(Time now, wire::Psn sack, bool has_sack) noexcept;
  bool count_retry(Cq& cq) noexcept;
  void take_credits(const Packet& p) noexcept;

  // IRN's record of what has arrived out of order, by sequence number modulo its size.
  [[nodiscard]] bool sacked(std::uint64_t seq) const noexcept {
    return (sacked_[(seq >> 6) & (sacked_.size() - 1)] >> (seq & 63) & 1) != 0;
  }
  void set_sacked(std::uint64_t seq, bool v) noexcept {
    auto& word = sacked_[(seq >> 6) & (sacked_.size() - 1)];
    const std::uint64_t bit = std::uint64_t{1} << (seq & 63);
    word = v ? word | bit : word & ~bit;
  }
  void move_una(std::uint64_t seq) noexcept;

  QpConfig config_;
  Pd pd_;
  const MemoryTable* memory_;
  wire::Qpn qpn_;
  wire::Psn first_psn_{};

  std::vector<Wqe> ring_;
  std::uint32_t mask_;
  std::uint32_t head_ = 0, tail_ = 0;  ///< oldest work request, and one past the newest
  std::uint32_t cursor_ = 0;           ///< the work request that holds nxt_
  std::uint64_t una_ = 0;              ///< oldest packet that is not acknowledged
  std::uint64_t nxt_ = 0;              ///< next packet in order
  std::uint64_t max_sent_ = 0;         ///< one past the last packet that was ever sent
  std::uint64_t end_ = 0;              ///< one past the last packet of all posted work
  std::uint32_t next_ssn_ = 1;
  std::uint32_t reads_inflight_ = 0;
  std::uint64_t read_packets_ = 0;  ///< response packets that the READs under way were to bring
  std::uint32_t since_ack_req_ = 0;

  bool connected_ = false;
  bool failed_ = false;
  bool retx_pending_ = false;  ///< retx_seq_ goes before everything else
  bool in_recovery_ = false;   ///< irn
  bool limited_ = false;       ///< the responder tells credits
  std::uint64_t retx_seq_ = 0;
  std::uint64_t recovery_end_ = 0;  ///< irn: recovery is over when una_ has reached it
  std::uint64_t retx_cursor_ = 0;   ///< irn: the next hole to resend, while there is one below highest_sack_
  std::uint32_t retx_wqe_ = 0;      ///< irn: the work request of the last hole resent, or one before retx_cursor_
  std::uint64_t highest_sack_ = 0;  ///< irn
  std::vector<std::uint64_t> sacked_;
  std::uint64_t nak_una_ = ~std::uint64_t{0};  ///< una_ when the last NAK arrived: another one there is no progress

  std::uint32_t retries_ = 0;
  std::uint32_t rnr_retries_ = 0;
  std::uint32_t lsn_ = 0;  ///< last message that has a credit
  Time rto_deadline_ = kNever;
  Time rto_started_ = 0;
  Time rnr_deadline_ = kNever;
  RoundTrips round_trips_;  ///< decides with adaptive timeouts alone
  RequesterCounters counters_;
};

}  // namespace weft::nic
