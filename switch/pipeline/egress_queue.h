// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What stands between admission and a port's device: a bounded FIFO, the emulated serialisation rate, and the emulated
// propagation delay of the link. Protocol unit: no clock, no device.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "switch/pipeline/packet.h"
#include "switch/pipeline/wire_framing.h"
#include "switch/qos/gauge.h"

namespace weft::pipeline {

/// A bounded ring that one worker uses from both ends. Other threads may ask for its size.
template <typename T>
class Ring {
 public:
  /// Holds at least `capacity` items.
  explicit Ring(std::uint32_t capacity) { resize(capacity); }
  /// Only while it is empty.
  void resize(std::uint32_t capacity) {
    std::uint32_t size = 1;
    while (size < capacity) size *= 2;
    mask_ = size - 1;
    items_ = std::make_unique<T[]>(size);
  }
  [[nodiscard]] std::uint32_t size() const noexcept {
    // head first: it only grows towards tail, so that the difference is never negative.
    const std::uint32_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_relaxed) - head;
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Undefined when full.
  void push(const T& item) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    items_[tail & mask_] = item;
    tail_.store(tail + 1, std::memory_order_relaxed);
  }
  /// Undefined without room for all.
  void push_all(const T* items, std::uint32_t count) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint32_t to_end = std::min(count, mask_ + 1 - (tail & mask_));
    std::copy_n(items, to_end, &items_[tail & mask_]);
    std::copy_n(items + to_end, count - to_end, &items_[0]);
    tail_.store(tail + count, std::memory_order_relaxed);
  }
  /// The item `offset` places behind the front; undefined beyond size().
  [[nodiscard]] T& peek(std::uint32_t offset) noexcept {
    return items_[(head_.load(std::memory_order_relaxed) + offset) & mask_];
  }
  void peek_all(T* out, std::uint32_t count) const noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const std::uint32_t to_end = std::min(count, mask_ + 1 - (head & mask_));
    std::copy_n(&items_[head & mask_], to_end, out);
    std::copy_n(&items_[0], count - to_end, out + to_end);
  }
  [[nodiscard]] T& front() noexcept { return peek(0); }
  [[nodiscard]] const T& front() const noexcept { return items_[head_.load(std::memory_order_relaxed) & mask_]; }
  /// Undefined with fewer items.
  void pop(std::uint32_t count = 1) noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

 private:
  std::unique_ptr<T[]> items_;
  std::uint32_t mask_ = 0;
  std::atomic<std::uint32_t> head_{0};
  std::atomic<std::uint32_t> tail_{0};
};

/// One port's egress. The worker that owns the port is the only user.
///
/// A packet goes through three places in order: the FIFO; the wire, which takes one packet after the other at the
/// emulated rate; the line, in which it travels for the emulated delay, and waits there when the device is busy. When
/// the line has no room for another burst, the wire stands still and does not make up for it later.
class EgressQueue {
 public:
  /// Most packets between two calls that move packets on (pop() to line_push(), line_due() to line_pop()).
  static constexpr std::uint16_t kBurst = 32;

  /// @param capacity  packets in the FIFO, at least 1; the limit is exact
  /// @param rate_mbps Mbit/s on the wire; 0: unlimited
  /// @param delay_ns  propagation delay
  /// @param framing   what a frame takes on the wire; default: what it does on Ethernet
  EgressQueue(std::uint32_t capacity, std::uint64_t rate_mbps, std::uint64_t delay_ns, WireFraming framing = {});

  /// False when the FIFO is full: the packet stays the caller's.
  [[nodiscard]] bool push(TimeNs now, rte_mbuf* m) noexcept {
    if (fifo_.size() >= capacity_) return false;
    start_wire(now);
    fifo_.push(m);
    fifo_bytes_.add<false>(m->pkt_len);
    return true;
  }
  /// The same for several of so many bytes together, of which all fit or none.
  [[nodiscard]] bool push_all(TimeNs now, rte_mbuf* const* packets, std::uint32_t count, std::uint64_t bytes) noexcept {
    if (fifo_.size() + count > capacity_) return false;
    start_wire(now);
    fifo_.push_all(packets, count);
    fifo_bytes_.add<false>(bytes);
    return true;
  }

  /// The next packet whose transmission may begin by `now`, or nullptr. `sent_at` is when its last bit has left.
  [[nodiscard]] rte_mbuf* pop(TimeNs now, TimeNs& sent_at) noexcept {
    if (fifo_.empty()) return nullptr;
    if (!line_has_room()) [[unlikely]] {
      stalled_ = true;
      return nullptr;
    }
    rte_mbuf* m = fifo_.front();
    if (rate_mbps_ == 0) {
      sent_at = now;
    } else {
      if (stalled_) [[unlikely]]
        restart(now);
      if (free_at_ > now) return nullptr;
      serialise(m->pkt_len);
      sent_at = free_at_;
    }
    fifo_.pop();
    fifo_bytes_.subtract<false>(m->pkt_len);
    return m;
  }

  /// Up to `max` packets when nothing is emulated and the line is empty.
  std::uint16_t pop_direct(rte_mbuf** out, std::uint16_t max) noexcept {
    const auto count = static_cast<std::uint16_t>(fifo_.size() < max ? fifo_.size() : max);
    fifo_.peek_all(out, count);
    fifo_.pop(count);
    std::uint64_t bytes = 0;
    for (std::uint16_t i = 0; i < count; ++i) bytes += out[i]->pkt_len;
    fifo_bytes_.subtract<false>(bytes);
    return count;
  }

  // With class queues in the place of the FIFO, which then stays empty: the wire and the line.

  /// Packets wait anew: a wire that was idle starts now.
  void wake(TimeNs now) noexcept { start_wire(now); }
  /// Whether a transmission may begin by `now`.
  [[nodiscard]] bool ready(TimeNs now) noexcept {
    if (!line_has_room()) [[unlikely]] {
      stalled_ = true;
      return false;
    }
    if (rate_mbps_ == 0) return true;
    if (stalled_) [[unlikely]]
      restart(now);
    return free_at_ <= now;
  }
  /// Begins one, after the one that is going on. Returns when its last bit has left.
  TimeNs transmit(TimeNs now, std::uint32_t frame_bytes) noexcept {
    if (rate_mbps_ == 0) return now;
    if (free_at_ < now) restart_at(now);
    serialise(frame_bytes);
    return free_at_;
  }
  /// Bursts may be taken at once: the wire takes no time.
  [[nodiscard]] bool unlimited() const noexcept { return rate_mbps_ == 0; }
  /// When the wire is free; kNever while the line has no room.
  [[nodiscard]] TimeNs wire_deadline() const noexcept {
    if (!line_has_room()) return kNever;
    return rate_mbps_ == 0 ? 0 : free_at_;
  }
  /// When the first packet of the line arrives; kNever when there is none.
  [[nodiscard]] TimeNs line_deadline() const noexcept { return line_.empty() ? kNever : line_.front().at; }
  [[nodiscard]] bool line_has_room() const noexcept { return line_.size() + kBurst <= line_capacity_; }

  /// True when nothing is emulated, so that packets may go straight to the device.
  [[nodiscard]] bool direct() const noexcept { return rate_mbps_ == 0 && delay_ns_ == 0; }
  [[nodiscard]] bool line_empty() const noexcept { return line_.empty(); }

  /// Puts a packet that pop() gave on its way.
  void line_push(rte_mbuf* m, TimeNs sent_at) noexcept { line_.push({m, sent_at + delay_ns_}); }
  /// Up to `max` packets that have arrived at the far end by `now`; they stay in the line until line_pop().
  std::uint16_t line_due(TimeNs now, rte_mbuf** out, std::uint16_t max) noexcept;
  /// Takes the first `count` packets out of the line. The `kept_count` behind them stay; `kept` is what they are now:
  /// a device may have rearranged the buffers of a packet that it then did not take.
  void line_pop(std::uint16_t count, rte_mbuf* const* kept, std::uint16_t kept_count) noexcept;

  /// Fetches what the receiver of the first packet of the line will read of it.
  void prefetch_line() const noexcept {
    if (line_.empty()) return;
    const auto* m = reinterpret_cast<const char*>(line_.front().packet);
    constexpr int kLine = 64;
    __builtin_prefetch(m);
    __builtin_prefetch(m + sizeof(rte_mbuf));
    __builtin_prefetch(m + sizeof(rte_mbuf) + kMetaSize + kLine);
    __builtin_prefetch(m + sizeof(rte_mbuf) + kMetaSize + 2 * kLine);
  }

  /// When the queue next has something to do; kNever when it is empty.
  [[nodiscard]] TimeNs next_deadline() const noexcept;
  [[nodiscard]] std::uint32_t depth() const noexcept { return fifo_.size(); }
  /// Bytes of frames in the FIFO. Its line is the worker's that sends.
  [[nodiscard]] const qos::Gauge& depth_bytes() const noexcept { return fifo_bytes_; }
  [[nodiscard]] std::uint32_t held() const noexcept { return fifo_.size() + line_.size(); }

  /// Takes over what a queue with other settings holds, in order, while both are empty of users. This one is new. What
  /// its FIFO has no room for stays in `old`; what travels on the line arrives at its time.
  void adopt(EgressQueue& old);
  /// Calls f with every packet that the queue holds.
  template <typename F>
  void for_each(F&& f) {
    for (std::uint32_t i = 0; i < line_.size(); ++i) f(line_.peek(i).packet);
    for (std::uint32_t i = 0; i < fifo_.size(); ++i) f(fifo_.peek(i));
  }

  /// A packet of the FIFO or the line, whichever is non-empty, regardless of time; nullptr when both are empty.
  [[nodiscard]] rte_mbuf* take_any() noexcept;

 private:
  struct InFlight {
    rte_mbuf* packet;
    TimeNs at;
  };
  // An idle wire starts at once; it does not send faster later because it was idle before.
  void start_wire(TimeNs now) noexcept {
    if (rate_mbps_ == 0 || !fifo_.empty() || free_at_ >= now) [[likely]]
      return;
    restart_at(now);
  }
  void restart_at(TimeNs now) noexcept {
    free_at_ = now;
    remainder_ = 0;
  }
  void serialise(std::uint32_t frame_bytes) noexcept;
  void restart(TimeNs now) noexcept;

  Ring<rte_mbuf*> fifo_;
  Ring<InFlight> line_;
  qos::Gauge fifo_bytes_;
  std::uint32_t capacity_;
  std::uint32_t line_capacity_;
  std::uint64_t rate_mbps_;
  std::uint64_t delay_ns_;
  WireFraming framing_;
  TimeNs free_at_ = 0;           ///< when the wire is free
  std::uint64_t remainder_ = 0;  ///< fraction of free_at_, in 1/rate_mbps_ ns, so that rates are exact
  bool stalled_ = false;         ///< the line had no room when the wire was last asked
};

}  // namespace weft::pipeline
