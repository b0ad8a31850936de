// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the responder does with packets out of their order, and the queue of its answers.
#include <algorithm>
#include <cassert>

#include "nic/rnic/responder.h"

namespace weft::nic {
namespace {

using wire::Opcode;
using wire::Syndrome;

/// The credit code of the largest number of credits up to `count` (IBTA 9.7.7.2).
std::uint8_t credit_code(std::uint32_t count) noexcept {
  std::uint8_t code = 0;
  while (code < 30 && wire::credit_count(static_cast<std::uint8_t>(code + 1)) <= count) ++code;
  return code;
}

}  // namespace

Syndrome Responder::ack_syndrome() const noexcept {
  return Syndrome::ack(config_.end_to_end_credits ? credit_code(tail_ - head_) : wire::kInvalidCreditCode);
}

/// A packet was handled in order, and with it perhaps some that waited.
void Responder::after_arrival(wire::Psn arrived, bool ack_req) noexcept {
  const bool holes = buffer_.size() > 0 && withheld_ == Withheld::no;
  if (holes && config_.loss_recovery == LossRecovery::irn) return send_nak(arrived);
  const bool enough = config_.ack_every != 0 && unacknowledged_ >= config_.ack_every;
  if (ack_req || enough) acknowledge();
  if (holes && config_.loss_recovery == LossRecovery::nic_sr && config_.renack == Renack::eager) send_nak({});
}

/// Never with the PSN of a READ or atomic, even if that is the last to have arrived: its response may have been lost,
/// and rxe takes such an ACK for the response.
void Responder::acknowledge() noexcept {
  unacknowledged_ = 0;
  told_no_credit_ = config_.end_to_end_credits && head_ == tail_;
  Response r;
  r.syndrome = ack_syndrome().raw();
  r.psn = ack_psn_;
  r.msn = msn_;
  if (response_count_ > 0) {
    Response& last = response(response_count_ - 1);
    if (last.is(Response::Kind::acknowledge)) {
      // The newest ACK says what those before it said, and so does a NAK of this PSN (9.7.5.1.3: coalescing).
      if (Syndrome(last.syndrome).is_ack()) {
        last = r;
        return;
      }
      if (last.psn == epsn_) return;
    }
  }
  append(r);
}

void Responder::on_future(Time now, const Packet& p, std::int32_t ahead) noexcept {
  ++counters_.out_of_order;
  if (config_.loss_recovery == LossRecovery::gbn) {
    if (withheld_ != Withheld::no) return;
    withheld_ = Withheld::nak_sent;
    return send_nak({});
  }
  if (static_cast<std::uint32_t>(ahead) >= buffer_.window() || p.payload.bytes > config_.path_mtu) {
    ++counters_.beyond_window;
    return;
  }
  const bool known = buffer_.has(p.psn);
  if (known) {
    ++counters_.duplicates;
  } else {
    buffer_.put(p);
    ++counters_.reordered;
  }
  if (withheld_ == Withheld::rnr_sent || config_.loss_recovery == LossRecovery::ideal) return;
  if (config_.loss_recovery == LossRecovery::irn) {
    if (known && now - last_nak_ < kRepeatNackNs) return;
    last_nak_ = now;
    return send_nak(p.psn);
  }
  if (withheld_ == Withheld::nak_sent) return;
  withheld_ = Withheld::nak_sent;
  send_nak({});
}

/// A NAK of the expected PSN. IRN's also names the packet that caused it, in the field of the MSN, which an IRN
/// requester reads so.
void Responder::send_nak(wire::Psn sack) noexcept {
  ++counters_.naks_sent;
  unacknowledged_ = 0;
  if (config_.loss_recovery == LossRecovery::nic_sr) withheld_ = Withheld::nak_sent;
  append_nak(Syndrome::nak(wire::NakCode::psn_sequence_error), epsn_,
             config_.loss_recovery == LossRecovery::irn ? sack.value() : msn_);
}

void Responder::append_nak(Syndrome syndrome, wire::Psn psn, std::uint32_t msn) noexcept {
  Response r;
  r.syndrome = syndrome.raw();
  r.psn = psn;
  r.msn = msn;
  append(r);
}

void Responder::on_duplicate(const Packet& p) noexcept {
  ++counters_.duplicates;
  switch (p.opcode) {
    case Opcode::RC_RDMA_READ_REQUEST:
      return repeat_read(p);
    case Opcode::RC_CMP_SWAP:
    case Opcode::RC_FETCH_ADD:
      return repeat_atomic(p);
    default:
      return acknowledge();  // 9.7.5.1.2, C9-105: it has arrived, and all before it
  }
}

/// Executes a READ again, perhaps from its middle on. It takes the place of an answer to the same READ that is still
/// under way; answers leave in the order of PSNs.
void Responder::repeat_read(const Packet& p) noexcept {
  const std::uint32_t packets = packets_of(p.dma_length, config_.path_mtu);
  const bool inside = p.dma_length <= kMaxMessageBytes && (p.psn + packets).distance_from(epsn_) <= 0;
  const bool allowed = (config_.access & Access::remote_read) != 0 &&
                       (p.dma_length == 0 ||
                        memory_->resolve(pd_, p.rkey, p.remote_address, p.dma_length, Access::remote_read).has_value());
  if (!inside || !allowed) {
    ++counters_.dropped;
    return;
  }
  const Response r = read_response(p);
  std::uint32_t place = 0;
  for (; place < response_count_; ++place) {
    Response& other = response(place);
    if (other.is(Response::Kind::read)) {
      const wire::Psn end = other.psn + packets_of(other.remaining, config_.path_mtu);
      if (end == p.psn + packets) {
        other = r;
        return;
      }
    }
    if (other.psn.distance_from(p.psn) > 0) break;
  }
  if (pending_reads() >= config_.max_dest_rd_atomic || response_count_ == responses_.size()) {
    ++counters_.dropped;
    return;
  }
  insert(place, r);
}

void Responder::repeat_atomic(const Packet& p) noexcept {
  for (std::uint32_t i = 0; i < response_count_; ++i) {
    if (response(i).is(Response::Kind::atomic) && response(i).psn == p.psn) return;
  }
  for (const Replay& done : replays_) {
    if (!done.used || done.psn != p.psn) continue;
    Response r;
    r.kind = Response::Kind::atomic;
    r.psn = p.psn;
    r.msn = done.msn;
    r.original = done.original;
    if (pending_reads() < config_.max_dest_rd_atomic) append(r);
    return;
  }
  ++counters_.dropped;  // too long ago to be remembered
}

std::uint32_t Responder::pending_reads() const noexcept {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < response_count_; ++i) {
    const Response& r = responses_[(response_head_ + i) % responses_.size()];
    count += r.is(Response::Kind::acknowledge) ? 0 : 1;
  }
  return count;
}

/// The whole answer to a READ request, whose packets leave one by one.
Responder::Response Responder::read_response(const Packet& p) const noexcept {
  Response r;
  r.kind = Response::Kind::read;
  r.psn = p.psn;
  r.msn = msn_;
  r.rkey = p.rkey;
  r.address = p.remote_address;
  r.remaining = p.dma_length;
  return r;
}

bool Responder::append(const Response& r) noexcept {
  if (response_count_ == responses_.size()) {
    ++counters_.dropped;
    return false;
  }
  response(response_count_++) = r;
  return true;
}

void Responder::insert(std::uint32_t place, const Response& r) noexcept {
  ++response_count_;
  for (std::uint32_t i = response_count_ - 1; i > place; --i) response(i) = response(i - 1);
  response(place) = r;
}

void Responder::pop() noexcept {
  response_head_ = (response_head_ + 1) % static_cast<std::uint32_t>(responses_.size());
  --response_count_;
}

bool Responder::transmit(Packet& out, Cq& cq) noexcept {
  if (response_count_ == 0) return false;
  Response& r = responses_[response_head_];
  out.psn = r.psn;
  out.msn = r.msn;
  out.ack_req = false;
  out.solicited = false;
  out.retransmission = false;
  out.payload.count = 0;
  out.payload.bytes = 0;
  if (r.is(Response::Kind::read)) return transmit_read(r, out, cq);
  if (r.is(Response::Kind::atomic)) {
    out.opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE;
    out.syndrome = ack_syndrome().raw();
    out.compare = r.original;
  } else {
    out.opcode = Opcode::RC_ACKNOWLEDGE;
    out.syndrome = r.syndrome;
    counters_.acks_sent += Syndrome(r.syndrome).is_ack() ? 1 : 0;
  }
  pop();
  return true;
}

bool Responder::transmit_read(Response& r, Packet& out, Cq& cq) noexcept {
  const std::uint32_t bytes = std::min(r.remaining, config_.path_mtu);
  const bool last = bytes == r.remaining;
  const auto from = memory_->resolve(pd_, r.rkey, r.address, bytes, Access::remote_read);
  if (bytes > 0 && !from) {
    // The consumer took the region away while the response was under way (9.7.4.1.5).
    response_count_ = 0;
    out.opcode = Opcode::RC_ACKNOWLEDGE;
    out.syndrome = Syndrome::nak(wire::NakCode::remote_access_error).raw();
    ++counters_.fatal_naks_sent;
    fail(cq);
    return true;
  }
  out.opcode = r.started ? (last ? Opcode::RC_RDMA_READ_RESPONSE_LAST : Opcode::RC_RDMA_READ_RESPONSE_MIDDLE)
                         : (last ? Opcode::RC_RDMA_READ_RESPONSE_ONLY : Opcode::RC_RDMA_READ_RESPONSE_FIRST);
  out.syndrome = ack_syndrome().raw();
  out.payload.set(bytes > 0 ? from->data : nullptr, bytes);
  ++counters_.response_packets;
  counters_.response_bytes += bytes;
  r.started = true;
  ++r.psn;
  r.address += bytes;
  r.remaining -= bytes;
  if (last) pop();
  return true;
}

}  // namespace weft::nic
