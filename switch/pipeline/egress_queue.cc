// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/egress_queue.h"

#include <algorithm>

#include "switch/pipeline/under_way.h"

namespace weft::pipeline {
namespace {

// Packets that fit on the link at once: what the rate can put there during the delay in minimum-size frames, and two
// bursts that wait for a busy device. Without an emulated rate, 100 Gbit/s stands in for it.
std::uint32_t packets_in_flight(std::uint64_t rate_mbps, std::uint64_t delay_ns, const WireFraming& framing) {
  const std::uint64_t by_rate = frames_under_way(rate_mbps == 0 ? 100'000 : rate_mbps, delay_ns, framing, 0);
  return static_cast<std::uint32_t>(std::min(by_rate + 2 * EgressQueue::kBurst, kMostUnderWay));
}

}  // namespace

EgressQueue::EgressQueue(std::uint32_t capacity, std::uint64_t rate_mbps, std::uint64_t delay_ns, WireFraming framing)
    : fifo_(capacity),
      line_(packets_in_flight(rate_mbps, delay_ns, framing)),
      capacity_(capacity),
      line_capacity_(packets_in_flight(rate_mbps, delay_ns, framing)),
      rate_mbps_(rate_mbps),
      delay_ns_(delay_ns),
      framing_(framing) {}

void EgressQueue::serialise(std::uint32_t frame_bytes) noexcept {
  // bytes * 8 bits / (rate * 1e6 bit/s) in nanoseconds is bytes * 8000 / rate.
  const std::uint64_t numerator = framing_.bytes_of(frame_bytes) * 8000 + remainder_;
  free_at_ += numerator / rate_mbps_;
  remainder_ = numerator % rate_mbps_;
}

void EgressQueue::restart(TimeNs now) noexcept {
  stalled_ = false;
  if (free_at_ < now) restart_at(now);
}

std::uint16_t EgressQueue::line_due(TimeNs now, rte_mbuf** out, std::uint16_t max) noexcept {
  std::uint16_t count = 0;
  while (count < max && count < line_.size() && line_.peek(count).at <= now) {
    out[count] = line_.peek(count).packet;
    ++count;
  }
  return count;
}

void EgressQueue::line_pop(std::uint16_t count, rte_mbuf* const* kept, std::uint16_t kept_count) noexcept {
  line_.pop(count);
  for (std::uint16_t i = 0; i < kept_count; ++i) line_.peek(i).packet = kept[i];
}

TimeNs EgressQueue::next_deadline() const noexcept {
  TimeNs next = kNever;
  if (!fifo_.empty() && line_has_room()) next = rate_mbps_ == 0 ? 0 : free_at_;
  if (!line_.empty()) next = std::min(next, line_.front().at);
  return next;
}

void EgressQueue::adopt(EgressQueue& old) {
  if (old.line_.size() > line_capacity_) line_.resize(old.line_.size());
  for (; !old.line_.empty(); old.line_.pop()) line_.push(old.line_.front());
  for (; !old.fifo_.empty() && fifo_.size() < capacity_; old.fifo_.pop()) {
    fifo_.push(old.fifo_.front());
    fifo_bytes_.add<false>(old.fifo_.front()->pkt_len);
    old.fifo_bytes_.subtract<false>(old.fifo_.front()->pkt_len);
  }
  // The wire finishes the packet that it is sending, and makes up for nothing.
  free_at_ = old.rate_mbps_ == 0 ? 0 : old.free_at_;
  stalled_ = true;
}

rte_mbuf* EgressQueue::take_any() noexcept {
  if (!line_.empty()) {
    rte_mbuf* m = line_.front().packet;
    line_.pop();
    return m;
  }
  if (fifo_.empty()) return nullptr;
  rte_mbuf* m = fifo_.front();
  fifo_.pop();
  fifo_bytes_.subtract<false>(m->pkt_len);
  return m;
}

}  // namespace weft::pipeline
