// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/requester.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace weft::nic {
namespace {

using wire::Opcode;

/// The last packets of a READ and of the window before it must stay tellable apart from duplicates (IBTA 9.7.1).
constexpr std::uint32_t kMaxReadPackets = 1u << 22;
constexpr std::uint64_t kMaxPsnsInFlight = 1u << 22;
constexpr std::uint32_t kSsnMask = 0xffffff;

/// Opcodes of a message by place: first, middle, last, only.
using Row = std::array<Opcode, 4>;
constexpr std::array<Row, 5> kDataOpcodes{{
    {Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST, Opcode::RC_SEND_ONLY},
    {Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST_IMM, Opcode::RC_SEND_ONLY_IMM},
    {Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST_INV, Opcode::RC_SEND_ONLY_INV},
    {Opcode::RC_RDMA_WRITE_FIRST, Opcode::RC_RDMA_WRITE_MIDDLE, Opcode::RC_RDMA_WRITE_LAST, Opcode::RC_RDMA_WRITE_ONLY},
    {Opcode::RC_RDMA_WRITE_FIRST, Opcode::RC_RDMA_WRITE_MIDDLE, Opcode::RC_RDMA_WRITE_LAST_IMM,
     Opcode::RC_RDMA_WRITE_ONLY_IMM},
}};

std::uint32_t local_access(WrOpcode op) noexcept {
  return is_read_or_atomic(op) ? Access::local_write : 0;
}

}  // namespace

Requester::Requester(const QpConfig& config, Pd pd, const MemoryTable& memory, wire::Qpn qpn)
    : config_(config), pd_(pd), memory_(&memory), qpn_(qpn), ring_(std::bit_ceil(config.send_queue_depth)) {
  assert(config.path_mtu > 0 && config.path_mtu <= kMaxPathMtu && config.send_queue_depth > 0 &&
         config.max_inflight_packets > 0);
  assert(std::has_single_bit(config.reorder_window) && config.reorder_window <= kMaxReorderWindow);
  mask_ = static_cast<std::uint32_t>(ring_.size()) - 1;
  if (config.loss_recovery == LossRecovery::irn) sacked_.resize(std::max(1u, config.reorder_window / 64));
}

void Requester::connect(wire::Psn first, std::uint8_t max_rd_atomic) noexcept {
  config_.max_rd_atomic = std::min(config_.max_rd_atomic, max_rd_atomic);
  first_psn_ = first;
  connected_ = true;
  limited_ = config_.end_to_end_credits;
}

PostResult Requester::post(const SendWr& wr, Cq& cq) noexcept {
  if (!connected_) return PostResult::invalid_state;
  if (wr.sge_count > kMaxSge) return PostResult::invalid_sge;
  if (failed_) {
    cq.push({.wr_id = wr.wr_id, .status = WcStatus::flushed, .qpn = qpn_});
    return PostResult::ok;
  }
  if (tail_ - head_ >= config_.send_queue_depth) return PostResult::queue_full;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < wr.sge_count; ++i) length += wr.sge[i].length;
  if (length > kMaxMessageBytes || (is_atomic(wr.opcode) && length != kAtomicBytes)) return PostResult::invalid_length;
  const std::uint32_t packets =
      is_atomic(wr.opcode) ? 1 : packets_of(static_cast<std::uint32_t>(length), config_.path_mtu);
  if (wr.opcode == WrOpcode::read && packets > kMaxReadPackets) return PostResult::invalid_length;
  Wqe& w = at(tail_);
  w.wr = wr;
  w.length = static_cast<std::uint32_t>(length);
  w.packets = packets;
  w.first = end_;
  w.ssn = next_ssn_++ & kSsnMask;
  w.issued = false;
  w.unreachable = !w.memory.resolve(*memory_, pd_, {wr.sge.data(), wr.sge_count}, local_access(wr.opcode));
  end_ += packets;
  ++tail_;
  return PostResult::ok;
}

// Credits are those of IBTA 9.7.7.2: without one, a single packet may find out whether there is one by now.
bool Requester::credit_for(const Wqe& w) const noexcept {
  if (!limited_ || !consumes_receive(w.wr.opcode)) return true;
  if (wire::Psn(lsn_).distance_from(wire::Psn(w.ssn)) >= 0) return true;
  return nxt_ == w.first && nxt_ == una_;
}

bool Requester::new_packet_allowed(const Wqe& w) const noexcept {
  if (w.unreachable) return una_ == w.first;  // it fails when everything before it has ended
  if (w.wr.fence && reads_inflight_ > 0) return false;
  const std::uint64_t psns = nxt_ - una_;
  if (is_read_or_atomic(w.wr.opcode)) {
    // Nothing else holds back the packets of READ responses: together they are to fit the window, too.
    if (reads_inflight_ >= config_.max_rd_atomic) return false;
    if (reads_inflight_ > 0 && read_packets_ + w.packets > config_.max_inflight_packets) return false;
  }
  if (psns + w.packets > kMaxPsnsInFlight && psns > 0 && w.wr.opcode == WrOpcode::read) return false;
  if (config_.loss_recovery != LossRecovery::gbn && psns >= config_.reorder_window) return false;
  const std::uint64_t packets = psns > read_packets_ ? psns - read_packets_ : 0;
  if (packets >= config_.max_inflight_packets) return false;
  if (config_.max_inflight_bytes != 0 && packets > 0 && (packets + 1) * config_.path_mtu > config_.max_inflight_bytes) {
    return false;
  }
  return credit_for(w);
}

/// Moves retx_cursor_ over what has arrived, to the next hole or the end of what the NACKs told. It never goes back
/// during a recovery, so that all calls together look at each word of the record once or twice.
void Requester::settle_retx_cursor() noexcept {
  retx_cursor_ = std::max(retx_cursor_, una_);
  while (retx_cursor_ < highest_sack_) {
    ++counters_.hole_searches;
    const std::uint64_t bit = retx_cursor_ & 63;
    const std::uint64_t holes = ~sacked_[(retx_cursor_ >> 6) & (sacked_.size() - 1)] >> bit;
    if ((holes & 1) != 0) return;
    // The shift has filled up with zeros: they stand for packets of the next word.
    retx_cursor_ += std::min<std::uint64_t>(static_cast<std::uint64_t>(std::countr_zero(holes)), 64 - bit);
  }
}

bool Requester::can_transmit() const noexcept {
  if (failed_ || rnr_deadline_ != kNever) return false;
  if (retx_pending_ || hole_to_resend()) return true;
  if (nxt_ >= end_) return false;
  return nxt_ < max_sent_ || new_packet_allowed(at(cursor_));
}

/// Puts nxt_ on a packet that was sent before.
void Requester::seek(std::uint64_t seq) noexcept {
  nxt_ = seq;
  cursor_ = head_;
  while (cursor_ != tail_ && at(cursor_).last() < seq) ++cursor_;
}

void Requester::skip_sacked() noexcept {
  if (config_.loss_recovery != LossRecovery::irn) return;
  while (nxt_ < max_sent_ && nxt_ < highest_sack_ && sacked(nxt_)) {
    ++nxt_;
    if (nxt_ > at(cursor_).last()) ++cursor_;
  }
}

/// Chooses the packet to send and moves on; `index` is its work request.
std::uint64_t Requester::take_next(std::uint32_t& index) noexcept {
  if (retx_pending_ || hole_to_resend()) {
    std::uint64_t seq = retx_seq_;
    const bool single = retx_pending_;
    retx_pending_ = false;
    if (single) {
      for (index = head_; at(index).last() < seq;) ++index;
      return seq;
    }
    // Holes are resent in order: the search goes on where the last one ended.
    seq = retx_cursor_;
    index = retx_wqe_ - head_ < tail_ - head_ ? retx_wqe_ : head_;
    while (at(index).last() < seq) ++index;
    retx_wqe_ = index;
    retx_cursor_ = (at(index).wr.opcode == WrOpcode::read ? at(index).last() : seq) + 1;
    settle_retx_cursor();
    return seq;
  }
  index = cursor_;
  const std::uint64_t seq = nxt_;
  const Wqe& w = at(index);
  nxt_ = w.wr.opcode == WrOpcode::read ? w.last() + 1 : seq + 1;
  if (nxt_ > w.last()) ++cursor_;
  return seq;
}

bool Requester::transmit(Time now, Packet& out, Cq& cq) noexcept {
  if (failed_ || rnr_deadline_ != kNever) return false;
  if (!retx_pending_ && !hole_to_resend()) {
    const std::uint64_t before = nxt_;
    skip_sacked();
    if (nxt_ >= end_ || (nxt_ >= max_sent_ && !new_packet_allowed(at(cursor_)))) {
      // What was to be sent again has all arrived.
      if (nxt_ != before && rto_deadline_ == kNever) start_rto(now);
      return false;
    }
    if (at(cursor_).unreachable) {
      fail(WcStatus::local_protection_error, cq);
      return false;
    }
  }
  std::uint32_t index = 0;
  const std::uint64_t seq = take_next(index);
  Wqe& w = at(index);
  build(w, seq, out);
  note_sent(now, w, seq, out);
  return true;
}

void Requester::build(const Wqe& w, std::uint64_t seq, Packet& out) const noexcept {
  out.psn = psn_of(seq);
  out.ack_req = false;
  out.solicited = false;
  out.remote_address = w.wr.remote_address;
  out.rkey = w.wr.rkey;
  out.payload.count = 0;
  out.payload.bytes = 0;
  switch (w.wr.opcode) {
    case WrOpcode::read: {
      // A READ that is repeated asks for what is missing (IBTA 9.7.5.1.3 allows any packet of it as a start).
      const std::uint64_t offset = (seq - w.first) * config_.path_mtu;
      out.opcode = Opcode::RC_RDMA_READ_REQUEST;
      out.remote_address += offset;
      out.dma_length = static_cast<std::uint32_t>(w.length - offset);
      return;
    }
    case WrOpcode::compare_swap:
      out.opcode = Opcode::RC_CMP_SWAP;
      out.swap_add = w.wr.swap;
      out.compare = w.wr.compare_add;
      return;
    case WrOpcode::fetch_add:
      out.opcode = Opcode::RC_FETCH_ADD;
      out.swap_add = w.wr.compare_add;
      out.compare = 0;
      return;
    default:
      build_data(w, seq, out);
  }
}

void Requester::build_data(const Wqe& w, std::uint64_t seq, Packet& out) const noexcept {
  const std::uint64_t offset = (seq - w.first) * config_.path_mtu;
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(w.length - offset, config_.path_mtu));
  const bool first = seq == w.first, last = seq == w.last();
  const std::size_t place = first && last ? 3 : first ? 0 : last ? 2 : 1;
  out.opcode = kDataOpcodes[static_cast<std::size_t>(w.wr.opcode)][place];
  out.dma_length = w.length;
  out.immediate = w.wr.opcode == WrOpcode::send_inv ? w.wr.invalidate_rkey : w.wr.immediate;
  out.solicited = last && w.wr.solicited && consumes_receive(w.wr.opcode);
  w.memory.gather(offset, bytes, out.payload);
  out.ack_req = wants_ack(w, seq);
}

bool Requester::wants_ack(const Wqe& w, std::uint64_t seq) const noexcept {
  if (seq == w.last() || since_ack_req_ + 1 >= config_.ack_interval) return true;
  if (seq != nxt_ - 1) return true;  // a single packet sent again: whether it helped decides what comes next
  // The window is full behind it, so that only an answer lets the next packet go.
  const std::uint64_t psns = nxt_ - una_;
  return psns >= config_.max_inflight_packets ||
         (config_.loss_recovery != LossRecovery::gbn && psns >= config_.reorder_window) ||
         (config_.max_inflight_bytes != 0 && (psns + 1) * config_.path_mtu > config_.max_inflight_bytes) ||
         (limited_ && !credit_for(w));
}

void Requester::note_sent(Time now, Wqe& w, std::uint64_t seq, Packet& out) noexcept {
  out.retransmission = seq < max_sent_;
  ++counters_.packets;
  counters_.retransmitted += out.retransmission ? 1 : 0;
  counters_.bytes += out.payload.bytes;
  since_ack_req_ = out.ack_req ? 0 : since_ack_req_ + 1;
  if (is_read_or_atomic(w.wr.opcode) && !w.issued) {
    w.issued = true;
    ++reads_inflight_;
    read_packets_ += w.packets;
  }
  max_sent_ = std::max(max_sent_, nxt_);
  if (!out.retransmission && out.ack_req) round_trips_.sent(seq, now);
  if (rto_deadline_ == kNever) start_rto(now);
}

Time Requester::rto() const noexcept {
  constexpr std::uint64_t kFewPackets = 3;
  switch (config_.rto_mode) {
    case RtoMode::irn:
      return nxt_ - una_ <= kFewPackets ? config_.rto_low_ns : config_.rto_high_ns;
    case RtoMode::adaptive:
      return round_trips_.timeout(config_.rto_low_ns, config_.rto_ns);
    case RtoMode::doubled:
      return config_.rto_ns << std::min(retries_, 16u);
    default:
      return config_.rto_ns;
  }
}

/// Starts the time over, if there is something to wait for.
void Requester::start_rto(Time now) noexcept {
  rto_started_ = now;
  rto_deadline_ = una_ < max_sent_ && config_.rto_ns != 0 ? now + rto() : kNever;
}

void Requester::on_timer(Time now, Cq& cq) noexcept {
  if (failed_) return;
  if (rnr_deadline_ <= now) {
    rnr_deadline_ = kNever;
    if (config_.loss_recovery == LossRecovery::gbn) {
      seek(una_);
    } else {
      retx_pending_ = una_ < max_sent_;
      retx_seq_ = una_;
    }
  }
  if (rto_deadline_ > now) return;
  if (config_.rto_mode == RtoMode::irn && rto_started_ + rto() > now) {
    rto_deadline_ = rto_started_ + rto();  // more packets have been sent since it started
    return;
  }
  rto_deadline_ = kNever;
  if (una_ == max_sent_) return;
  ++counters_.timeouts;
  const bool counts = config_.rto_mode != RtoMode::adaptive || rto() >= config_.rto_ns;
  round_trips_.expired();
  if (counts && !count_retry(cq)) return;
  // A timeout does not say which packets are missing, so everything is sent again except what is known to have arrived.
  retx_pending_ = false;
  in_recovery_ = false;
  nak_una_ = ~std::uint64_t{0};
  // The responder may have discarded the packet at una_ although it had come early, and the RNR NAK that said so may
  // have been lost.
  if (config_.loss_recovery == LossRecovery::irn) set_sacked(una_, false);
  seek(una_);
}

void Requester::fail(WcStatus status, Cq& cq) noexcept {
  if (failed_) return;
  failed_ = true;
  rto_deadline_ = rnr_deadline_ = kNever;
  for (; head_ != tail_; ++head_, status = WcStatus::flushed) {
    cq.push({.wr_id = at(head_).wr.wr_id, .status = status, .qpn = qpn_});
  }
  una_ = nxt_ = max_sent_ = end_;
  cursor_ = head_;
  retx_pending_ = in_recovery_ = false;
}

}  // namespace weft::nic
