// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the requester reads responses (IBTA 9.7.5, 9.7.6).
#include <algorithm>
#include <cassert>
#include <cstring>

#include "nic/rnic/requester.h"

namespace weft::nic {
namespace {

using wire::NakCode;
using wire::Opcode;
using wire::Syndrome;

WcOpcode wc_opcode(WrOpcode op) noexcept {
  switch (op) {
    case WrOpcode::write:
    case WrOpcode::write_imm:
      return WcOpcode::write;
    case WrOpcode::read:
      return WcOpcode::read;
    case WrOpcode::compare_swap:
      return WcOpcode::compare_swap;
    case WrOpcode::fetch_add:
      return WcOpcode::fetch_add;
    default:
      return WcOpcode::send;
  }
}

WcStatus status_of(NakCode code) noexcept {
  switch (code) {
    case NakCode::remote_access_error:
      return WcStatus::remote_access_error;
    case NakCode::remote_operational_error:
      return WcStatus::remote_operation_error;
    default:
      return WcStatus::remote_invalid_request_error;
  }
}

}  // namespace

ResponseEvent Requester::on_response(Time now, const Packet& p, Cq& cq) noexcept {
  ResponseEvent event;
  const std::int64_t d = distance(p.psn);
  if (d >= static_cast<std::int64_t>(max_sent_ - una_)) {
    ++counters_.bad_responses;
    return event;
  }
  // The network may deliver the NAK that ended the QP twice.
  if (failed_ || d < 0) {
    ++counters_.stale_responses;
    // An ACK that was not asked for brings credits (IBTA 9.7.7.2.4).
    if (!failed_ && p.opcode == Opcode::RC_ACKNOWLEDGE && Syndrome(p.syndrome).is_ack()) take_credits(p);
    return event;
  }
  switch (p.opcode) {
    case Opcode::RC_ACKNOWLEDGE:
      if (Syndrome(p.syndrome).is_ack()) {
        on_acknowledge(now, p, cq, event);
      } else {
        on_nak(now, p, cq, event);
      }
      break;
    case Opcode::RC_ATOMIC_ACKNOWLEDGE:
      on_atomic_response(now, p, cq, event);
      break;
    default:
      on_read_response(now, p, cq, event);
  }
  return event;
}

void Requester::move_una(std::uint64_t seq) noexcept {
  if (!sacked_.empty()) {
    for (std::uint64_t s = una_; s < seq && s < highest_sack_ + 1; ++s) set_sacked(s, false);
  }
  una_ = seq;
  if (in_recovery_) settle_retx_cursor();
}

void Requester::complete_head(Cq& cq) noexcept {
  const Wqe& w = at(head_);
  if (is_read_or_atomic(w.wr.opcode) && w.issued) {
    --reads_inflight_;
    read_packets_ -= w.packets;
  }
  if (w.wr.signaled) {
    cq.push({.wr_id = w.wr.wr_id, .opcode = wc_opcode(w.wr.opcode), .byte_length = w.length, .qpn = qpn_});
  }
  ++head_;
}

/// Sums up after una_ has moved.
void Requester::progressed(Time now, ResponseEvent& event) noexcept {
  retries_ = rnr_retries_ = 0;
  rnr_deadline_ = kNever;
  if (nxt_ < una_) {
    nxt_ = una_;
    cursor_ = head_;
    while (cursor_ != tail_ && at(cursor_).last() < nxt_) ++cursor_;
  }
  if (retx_pending_ && retx_seq_ < una_) retx_pending_ = false;
  if (in_recovery_ && una_ >= recovery_end_) in_recovery_ = false;
  if (const Time rtt = round_trips_.acknowledged(una_, now); rtt >= 0) {
    event.rtt_ns = rtt;
    if (config_.rto_mode == RtoMode::adaptive) round_trips_.take(rtt);
  }
  start_rto(now);
}

/// Takes all packets before `end` as acknowledged. False when a READ or atomic among them has no response yet: that is
/// lost, and asked for again (IBTA 9.7.5.1.2).
bool Requester::acknowledge_until(Time now, std::uint64_t end, Cq& cq, ResponseEvent& event) noexcept {
  const std::uint64_t before = una_;
  bool complete = true;
  while (una_ < end) {
    const Wqe& w = at(head_);
    if (is_read_or_atomic(w.wr.opcode)) {
      complete = false;
      break;
    }
    const std::uint64_t stop = std::min(end, w.last() + 1);
    event.acked_bytes += std::min<std::uint64_t>(w.length, (stop - w.first) * config_.path_mtu) -
                         std::min<std::uint64_t>(w.length, (una_ - w.first) * config_.path_mtu);
    move_una(stop);
    if (stop > w.last()) complete_head(cq);
  }
  if (una_ != before) progressed(now, event);
  if (complete) return true;
  if (nak_una_ != una_) {
    nak_una_ = una_;
    ++counters_.implied_naks;
    start_recovery(now, {}, false);
  }
  return false;
}

void Requester::take_credits(const Packet& p) noexcept {
  const std::uint8_t code = Syndrome(p.syndrome).value();
  limited_ = code != wire::kInvalidCreditCode;
  const wire::Psn lsn(p.msn + wire::credit_count(code));
  if (limited_ && lsn.distance_from(wire::Psn(lsn_)) > 0) lsn_ = lsn.value();
}

void Requester::on_acknowledge(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept {
  ++counters_.acks;
  take_credits(p);
  const std::uint64_t seq = una_ + static_cast<std::uint64_t>(distance(p.psn));
  acknowledge_until(now, seq + 1, cq, event);
  // The responder has nothing out of order any more, or it would have said so.
  if (in_recovery_ && !retx_pending_) in_recovery_ = una_ < recovery_end_ && hole_to_resend();
}

void Requester::on_nak(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept {
  const Syndrome syndrome(p.syndrome);
  const std::uint64_t seq = una_ + static_cast<std::uint64_t>(distance(p.psn));
  if (syndrome.kind() == wire::AethKind::reserved) {
    ++counters_.bad_responses;
    return;
  }
  // A NAK acknowledges what lies before it (IBTA 9.7.5.1.1).
  const bool there = acknowledge_until(now, seq, cq, event);
  if (syndrome.is_rnr_nak()) {
    ++counters_.naks_rnr;
    // The responder discarded the packet for want of a receive request, even if an earlier NACK said that it had
    // arrived.
    if (there && config_.loss_recovery == LossRecovery::irn) set_sacked(una_, false);
    if (!there || rnr_deadline_ != kNever) return;
    if (config_.rnr_retry_count != 7 && rnr_retries_++ >= config_.rnr_retry_count) {
      return fail(WcStatus::rnr_retry_exceeded, cq);
    }
    // Whoever answers is there. Timeouts count from here: a receiver may take any time, and now and then an answer is
    // late.
    retries_ = 0;
    rto_deadline_ = kNever;
    rnr_deadline_ = now + static_cast<Time>(wire::rnr_timer_ns(syndrome.value()));
    return;
  }
  if (!syndrome.is_sequence_nak()) {
    ++counters_.naks_fatal;
    if (there) fail(status_of(syndrome.code()), cq);
    return;
  }
  ++counters_.naks_sequence;
  event.nack = true;
  if (!there || rnr_deadline_ != kNever) return;
  const bool repeated = nak_una_ == una_;
  nak_una_ = una_;
  if (config_.loss_recovery == LossRecovery::gbn && repeated && !count_retry(cq)) return;
  start_recovery(now, wire::Psn(p.msn), config_.loss_recovery == LossRecovery::irn);
}

/// Starts to send again what the loss of the packet at una_ requires. `sack`: the PSN that an IRN responder says it
/// has.
void Requester::start_recovery(Time now, wire::Psn sack, bool has_sack) noexcept {
  switch (config_.loss_recovery) {
    case LossRecovery::gbn:
      seek(una_);
      break;
    case LossRecovery::nic_sr:
    case LossRecovery::ideal:
      retx_pending_ = true;
      retx_seq_ = una_;
      break;
    case LossRecovery::irn: {
      if (!has_sack) {
        retx_pending_ = true;
        retx_seq_ = una_;
        break;
      }
      const std::int64_t d = distance(sack);
      if (d > 0 && d < static_cast<std::int64_t>(max_sent_ - una_) &&
          d < static_cast<std::int64_t>(sacked_.size() * 64)) {
        const std::uint64_t seq = una_ + static_cast<std::uint64_t>(d);
        set_sacked(seq, true);
        highest_sack_ = std::max(highest_sack_, seq);
      }
      if (!in_recovery_) {
        in_recovery_ = true;
        recovery_end_ = max_sent_;
        retx_cursor_ = una_;
        retx_wqe_ = head_;
      }
      settle_retx_cursor();
      break;
    }
  }
  // The time starts again with what is sent again, which congestion control may delay.
  rto_deadline_ = kNever;
  if (!can_transmit()) start_rto(now);
}

bool Requester::count_retry(Cq& cq) noexcept {
  if (retries_++ < config_.retry_count) return true;
  fail(WcStatus::retry_exceeded, cq);
  return false;
}

void Requester::on_read_response(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept {
  const std::uint64_t seq = una_ + static_cast<std::uint64_t>(distance(p.psn));
  if (!acknowledge_until(now, seq, cq, event)) {
    // Inside the READ at the head this is its next packet, or a later one whose predecessors are lost.
    if (seq != una_) return;
  }
  const Wqe& w = at(head_);
  if (head_ == tail_ || w.wr.opcode != WrOpcode::read || !w.issued) {
    ++counters_.bad_responses;
    return;
  }
  const std::uint64_t offset = (seq - w.first) * config_.path_mtu;
  const auto expected = static_cast<std::uint32_t>(std::min<std::uint64_t>(w.length - offset, config_.path_mtu));
  const bool last = seq == w.last();
  if (p.payload.bytes != expected || p.info().ends_message() != last) {
    ++counters_.bad_responses;
    return;
  }
  if (p.info().has(wire::HeaderMask::aeth)) take_credits(p);
  w.memory.write(offset, p.payload.data(), expected);
  event.acked_bytes += expected;
  move_una(seq + 1);
  if (last) complete_head(cq);
  progressed(now, event);
}

void Requester::on_atomic_response(Time now, const Packet& p, Cq& cq, ResponseEvent& event) noexcept {
  const std::uint64_t seq = una_ + static_cast<std::uint64_t>(distance(p.psn));
  if (!acknowledge_until(now, seq, cq, event)) return;
  const Wqe& w = at(head_);
  if (head_ == tail_ || !is_atomic(w.wr.opcode) || !w.issued || !Syndrome(p.syndrome).is_ack()) {
    ++counters_.bad_responses;
    return;
  }
  take_credits(p);
  std::uint8_t original[sizeof p.compare];
  std::memcpy(original, &p.compare, sizeof original);
  w.memory.write(0, original, sizeof original);
  event.acked_bytes += sizeof original;
  move_una(seq + 1);
  complete_head(cq);
  progressed(now, event);
}

}  // namespace weft::nic
