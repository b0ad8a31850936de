// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/responder.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace weft::nic {
namespace {

using wire::HeaderMask;
using wire::MessagePart;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kMsnMask = 0xffffff;
/// How many answers other than READ and atomic responses may wait at a time. ACKs can be merged, but every NACK of IRN
/// carries information of its own.
constexpr std::uint32_t spare_responses(LossRecovery recovery) noexcept {
  return recovery == LossRecovery::irn ? 64 : 16;
}

enum class Kind : std::uint8_t { send, write, read, atomic, other };

Kind kind_of(Opcode o) noexcept {
  switch (o) {
    case Opcode::RC_SEND_FIRST:
    case Opcode::RC_SEND_MIDDLE:
    case Opcode::RC_SEND_LAST:
    case Opcode::RC_SEND_LAST_IMM:
    case Opcode::RC_SEND_ONLY:
    case Opcode::RC_SEND_ONLY_IMM:
    case Opcode::RC_SEND_LAST_INV:
    case Opcode::RC_SEND_ONLY_INV:
      return Kind::send;
    case Opcode::RC_RDMA_WRITE_FIRST:
    case Opcode::RC_RDMA_WRITE_MIDDLE:
    case Opcode::RC_RDMA_WRITE_LAST:
    case Opcode::RC_RDMA_WRITE_LAST_IMM:
    case Opcode::RC_RDMA_WRITE_ONLY:
    case Opcode::RC_RDMA_WRITE_ONLY_IMM:
      return Kind::write;
    case Opcode::RC_RDMA_READ_REQUEST:
      return Kind::read;
    case Opcode::RC_CMP_SWAP:
    case Opcode::RC_FETCH_ADD:
      return Kind::atomic;
    default:
      return Kind::other;
  }
}

/// True when the packet asks for an ACK. READs and atomics are answered by their responses.
bool wants_ack(const Packet& p) noexcept {
  const Kind kind = kind_of(p.opcode);
  return p.ack_req && kind != Kind::read && kind != Kind::atomic;
}

/// True when the packet ends a message that takes a receive work request.
bool ends_receive(const Packet& p) noexcept {
  return p.info().ends_message() && (kind_of(p.opcode) == Kind::send || p.info().has(HeaderMask::immdt));
}

}  // namespace

Responder::Responder(const QpConfig& config, Pd pd, MemoryTable& memory, wire::Qpn qpn)
    : config_(config),
      pd_(pd),
      memory_(&memory),
      qpn_(qpn),
      receives_(std::bit_ceil(config.receive_queue_depth)),
      responses_(std::size_t{config.max_dest_rd_atomic} * 2 + spare_responses(config.loss_recovery)),
      replays_(config.max_dest_rd_atomic),
      buffer_(config.reorder_window, config.path_mtu) {
  assert(config.max_dest_rd_atomic > 0 && config.receive_queue_depth > 0);
  mask_ = static_cast<std::uint32_t>(receives_.size()) - 1;
}

PostResult Responder::post(const RecvWr& wr, Cq& cq) noexcept {
  if (wr.sge_count > kMaxSge) return PostResult::invalid_sge;
  if (failed_) {
    cq.push({.wr_id = wr.wr_id, .status = WcStatus::flushed, .opcode = WcOpcode::receive, .qpn = qpn_});
    return PostResult::ok;
  }
  if (tail_ - head_ >= config_.receive_queue_depth) return PostResult::queue_full;
  at(tail_++).wr = wr;
  if (told_no_credit_) {
    // A requester that waits for credit is told at once (IBTA 9.7.7.2.4).
    told_no_credit_ = false;
    acknowledge();
  }
  return PostResult::ok;
}

void Responder::on_request(Time now, const Packet& p, Cq& cq) noexcept {
  ++counters_.packets;
  if (failed_) {
    ++counters_.dropped;
    return;
  }
  const std::int32_t ahead = p.psn.distance_from(epsn_);
  if (ahead < 0) return on_duplicate(p);
  if (ahead > 0) return on_future(now, p, ahead);
  bool ack_req = wants_ack(p);
  if (!accept(p, cq)) return;
  while (buffer_.has(epsn_)) {
    const Packet next = buffer_.take(epsn_);
    ack_req = ack_req || wants_ack(next);
    if (!accept(next, cq)) break;
  }
  if (!failed_) after_arrival(p.psn, ack_req);
}

/// Handles the packet with the expected PSN (IBTA 9.7.4.1). True when it was executed.
bool Responder::accept(const Packet& p, Cq& cq) noexcept {
  if (!check_sequence(p, cq) || !check_resources(p, cq) || !check_length(p, cq)) return false;
  switch (kind_of(p.opcode)) {
    case Kind::send:
      return execute_send(p, cq);
    case Kind::write:
      return execute_write(p, cq);
    case Kind::read:
      return execute_read(p, cq);
    default:
      return execute_atomic(p, cq);
  }
}

/// Opcodes in an order that makes messages (9.7.4.1.2).
bool Responder::check_sequence(const Packet& p, Cq& cq) noexcept {
  const Kind kind = kind_of(p.opcode);
  if (kind == Kind::other) return refuse(NakCode::invalid_request, cq);
  const MessagePart part = p.info().part;
  const bool starts = part == MessagePart::first || part == MessagePart::only;
  if (starts) return message_ == Message::none || refuse(NakCode::invalid_request, cq);
  const Message needed = kind == Kind::send ? Message::send : Message::write;
  return message_ == needed || refuse(NakCode::invalid_request, cq);
}

/// What the consumer allows and has provided (9.7.4.1.4, 9.7.5.2.8).
bool Responder::check_resources(const Packet& p, Cq& cq) noexcept {
  const Kind kind = kind_of(p.opcode);
  const std::uint32_t needed = kind == Kind::write    ? Access::remote_write
                               : kind == Kind::read   ? Access::remote_read
                               : kind == Kind::atomic ? Access::remote_atomic
                                                      : 0;
  if ((config_.access & needed) != needed) return refuse(NakCode::invalid_request, cq);
  if (kind == Kind::read || kind == Kind::atomic) {
    if (pending_reads() >= config_.max_dest_rd_atomic) return refuse(NakCode::invalid_request, cq);
    return true;
  }
  const bool needs_receive =
      (kind == Kind::send && p.info().starts_message()) || (kind == Kind::write && p.info().has(HeaderMask::immdt));
  return !needs_receive || head_ != tail_ || not_ready();
}

/// Payload as long as the place in the message asks for (9.7.4.1.6).
bool Responder::check_length(const Packet& p, Cq& cq) noexcept {
  const std::uint32_t bytes = p.payload.bytes;
  const MessagePart part = p.info().part;
  const bool full = part == MessagePart::first || part == MessagePart::middle;
  if (full ? bytes != config_.path_mtu : bytes > config_.path_mtu) return refuse(NakCode::invalid_request, cq);
  return true;
}

bool Responder::execute_send(const Packet& p, Cq& cq) noexcept {
  Receive& receive = at(head_);
  if (p.info().starts_message()) {
    offset_ = 0;
    if (!target_.resolve(*memory_, pd_, {receive.wr.sge.data(), receive.wr.sge_count}, Access::local_write)) {
      return refuse_receive(NakCode::remote_operational_error, WcStatus::local_protection_error, cq);
    }
  }
  if (offset_ + p.payload.bytes > target_.length()) {
    return refuse_receive(NakCode::invalid_request, WcStatus::local_length_error, cq);
  }
  if (p.info().has(HeaderMask::ieth) && !memory_->invalidate(pd_, p.immediate)) {
    return refuse(NakCode::remote_access_error, cq);
  }
  target_.write(offset_, p.payload.data(), p.payload.bytes);
  counters_.bytes_placed += p.payload.bytes;
  offset_ += p.payload.bytes;
  message_ = p.info().ends_message() ? Message::none : Message::send;
  if (p.info().ends_message()) complete_receive(p, cq);
  ack_psn_ = epsn_;
  advance(1);
  return true;
}

bool Responder::execute_write(const Packet& p, Cq& cq) noexcept {
  if (p.info().starts_message()) {
    write_address_ = p.remote_address;
    write_length_ = p.dma_length;
    write_rkey_ = p.rkey;
    offset_ = 0;
    if (write_length_ > kMaxMessageBytes) return refuse(NakCode::invalid_request, cq);
    // Keys of empty messages are not looked at (C9-88). Others must be good for the whole of it.
    if (write_length_ > 0 && !memory_->resolve(pd_, write_rkey_, write_address_, write_length_, Access::remote_write)) {
      return refuse(NakCode::remote_access_error, cq);
    }
  }
  const std::uint32_t bytes = p.payload.bytes;
  const std::uint64_t end = offset_ + bytes;
  if (p.info().ends_message() ? end != write_length_ : end >= write_length_) {
    return refuse(NakCode::invalid_request, cq);
  }
  if (bytes > 0) {
    // Looked up each time: the consumer may take a region away while a message is under way.
    const auto to = memory_->resolve(pd_, write_rkey_, write_address_ + offset_, bytes, Access::remote_write);
    if (!to) return refuse(NakCode::remote_access_error, cq);
    if (to->data != nullptr && p.payload.data() != nullptr) std::memcpy(to->data, p.payload.data(), bytes);
    counters_.bytes_placed += bytes;
  }
  offset_ = end;
  message_ = p.info().ends_message() ? Message::none : Message::write;
  if (ends_receive(p)) {
    complete_receive(p, cq);
  } else if (p.info().ends_message()) {
    msn_ = (msn_ + 1) & kMsnMask;
    ++counters_.messages;
  }
  ack_psn_ = epsn_;
  advance(1);
  return true;
}

void Responder::complete_receive(const Packet& p, Cq& cq) noexcept {
  const bool write = kind_of(p.opcode) == Kind::write;
  Wc wc;
  wc.wr_id = at(head_++).wr.wr_id;
  wc.opcode = write ? WcOpcode::receive_write_imm : WcOpcode::receive;
  wc.byte_length = static_cast<std::uint32_t>(offset_);
  wc.with_immediate = p.info().has(HeaderMask::immdt);
  wc.with_invalidate = p.info().has(HeaderMask::ieth);
  if (wc.with_immediate) wc.immediate = p.immediate;
  if (wc.with_invalidate) wc.invalidated_rkey = p.immediate;
  wc.solicited = p.solicited;
  wc.qpn = qpn_;
  cq.push(wc);
  msn_ = (msn_ + 1) & kMsnMask;
  ++counters_.messages;
}

bool Responder::execute_read(const Packet& p, Cq& cq) noexcept {
  if (p.dma_length > kMaxMessageBytes) return refuse(NakCode::invalid_request, cq);
  if (p.dma_length > 0 && !memory_->resolve(pd_, p.rkey, p.remote_address, p.dma_length, Access::remote_read)) {
    return refuse(NakCode::remote_access_error, cq);
  }
  msn_ = (msn_ + 1) & kMsnMask;
  ++counters_.messages;
  append(read_response(p));
  advance(packets_of(p.dma_length, config_.path_mtu));
  return true;
}

bool Responder::execute_atomic(const Packet& p, Cq& cq) noexcept {
  if (p.remote_address % kAtomicBytes != 0) return refuse(NakCode::invalid_request, cq);
  const auto at = memory_->resolve(pd_, p.rkey, p.remote_address, kAtomicBytes, Access::remote_atomic);
  if (!at) return refuse(NakCode::remote_access_error, cq);
  std::uint64_t value = 0;
  if (at->data != nullptr) {
    std::memcpy(&value, at->data, sizeof value);
    const std::uint64_t changed = p.opcode == Opcode::RC_FETCH_ADD ? value + p.swap_add
                                  : value == p.compare             ? p.swap_add
                                                                   : value;
    std::memcpy(at->data, &changed, sizeof changed);
  }
  msn_ = (msn_ + 1) & kMsnMask;
  ++counters_.messages;
  Response r;
  r.kind = Response::Kind::atomic;
  r.psn = p.psn;
  r.msn = msn_;
  r.original = value;
  append(r);
  // What a duplicate gets: the operation itself must not be done twice (9.7.4.1.2, C9-107).
  replays_[next_replay_] = {p.psn, value, msn_, true};
  next_replay_ = (next_replay_ + 1) % static_cast<std::uint32_t>(replays_.size());
  advance(1);
  return true;
}

void Responder::advance(std::uint32_t packets) noexcept {
  if (packets > 1) buffer_.drop(epsn_ + 1, packets - 1);
  epsn_ = epsn_ + packets;
  withheld_ = Withheld::no;
  ++unacknowledged_;
}

/// Refuses the packet with the expected PSN for good: the queue pair is of no more use (9.7.5.2).
bool Responder::refuse(NakCode code, Cq& cq) noexcept {
  append_nak(wire::Syndrome::nak(code), epsn_, msn_);
  ++counters_.fatal_naks_sent;
  fail(cq);
  return false;
}

bool Responder::refuse_receive(NakCode code, WcStatus status, Cq& cq) noexcept {
  cq.push({.wr_id = at(head_++).wr.wr_id, .status = status, .opcode = WcOpcode::receive, .qpn = qpn_});
  return refuse(code, cq);
}

bool Responder::not_ready() noexcept {
  append_nak(wire::Syndrome::rnr_nak(config_.min_rnr_timer), epsn_, msn_);
  ++counters_.rnr_naks_sent;
  withheld_ = Withheld::rnr_sent;
  return false;
}

void Responder::fail(Cq& cq) noexcept {
  if (failed_) return;
  failed_ = true;
  for (; head_ != tail_; ++head_) {
    cq.push({.wr_id = at(head_).wr.wr_id, .status = WcStatus::flushed, .opcode = WcOpcode::receive, .qpn = qpn_});
  }
}

}  // namespace weft::nic
