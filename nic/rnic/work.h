// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Work requests, completions and the queue that carries them, in the words of verbs.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nic/rnic/config.h"

namespace weft::nic {

/// What a send work request does.
enum class WrOpcode : std::uint8_t {
  send,
  send_imm,
  send_inv,
  write,
  write_imm,
  read,
  compare_swap,
  fetch_add,
};
[[nodiscard]] constexpr bool is_read_or_atomic(WrOpcode op) noexcept {
  return op >= WrOpcode::read;
}
[[nodiscard]] constexpr bool is_atomic(WrOpcode op) noexcept {
  return op == WrOpcode::compare_swap || op == WrOpcode::fetch_add;
}
[[nodiscard]] constexpr bool is_send(WrOpcode op) noexcept {
  return op <= WrOpcode::send_inv;
}
/// True when it takes a receive work request of the peer.
[[nodiscard]] constexpr bool consumes_receive(WrOpcode op) noexcept {
  return is_send(op) || op == WrOpcode::write_imm;
}
[[nodiscard]] std::string_view name(WrOpcode op) noexcept;

/// How a work request ended (IBTA 11.6.2).
enum class WcStatus : std::uint8_t {
  success,
  local_length_error,      ///< a received message is longer than its buffer
  local_protection_error,  ///< a buffer lies outside of its memory region, or the region does not allow it
  flushed,                 ///< the queue pair failed before
  remote_invalid_request_error,
  remote_access_error,
  remote_operation_error,
  retry_exceeded,  ///< no answer, after all retries
  rnr_retry_exceeded,
};
[[nodiscard]] std::string_view name(WcStatus s) noexcept;

/// What ended.
enum class WcOpcode : std::uint8_t { send, write, read, compare_swap, fetch_add, receive, receive_write_imm };

/// A work completion. With a status other than success only wr_id, status and qpn count.
struct Wc {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;
  bool with_immediate = false;
  bool with_invalidate = false;
  bool solicited = false;
  std::uint32_t byte_length = 0;  ///< received, read or written bytes
  std::uint32_t immediate = 0;    ///< host order
  std::uint32_t invalidated_rkey = 0;
  wire::Qpn qpn{};

  friend bool operator==(const Wc&, const Wc&) = default;
};

/// A piece of local memory. Address: as the memory region was registered.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;

  friend bool operator==(const Sge&, const Sge&) = default;
};

/// A send work request.
struct SendWr {
  std::uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::send;
  bool signaled = true;    ///< success is reported; failures always are
  bool solicited = false;  ///< the peer's completion raises an event
  bool fence = false;      ///< waits for all READs and atomics before it
  std::array<Sge, kMaxSge> sge{};
  std::uint8_t sge_count = 0;
  std::uint64_t remote_address = 0;  ///< write, read, atomics
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;  ///< host order; send_imm, write_imm
  std::uint32_t invalidate_rkey = 0;
  std::uint64_t compare_add = 0;  ///< compare_swap: expected; fetch_add: what to add
  std::uint64_t swap = 0;

  /// The usual case of one piece of memory.
  SendWr& with(Sge piece) noexcept {
    sge[0] = piece;
    sge_count = 1;
    return *this;
  }

  friend bool operator==(const SendWr&, const SendWr&) = default;
};

/// A receive work request.
struct RecvWr {
  std::uint64_t wr_id = 0;
  std::array<Sge, kMaxSge> sge{};
  std::uint8_t sge_count = 0;

  RecvWr& with(Sge piece) noexcept {
    sge[0] = piece;
    sge_count = 1;
    return *this;
  }

  friend bool operator==(const RecvWr&, const RecvWr&) = default;
};

/// Why a work request was not taken.
enum class PostResult : std::uint8_t {
  ok,
  queue_full,
  invalid_state,   ///< not yet connected
  invalid_length,  ///< over 2^31 bytes, over 2^22 packets of a READ, or not 8 bytes of an atomic
  invalid_sge,     ///< more than kMaxSge pieces
};
[[nodiscard]] std::string_view name(PostResult r) noexcept;

/// A completion queue of fixed size. The caller makes it large enough for all that can be under way; an entry too many
/// is counted and lost, as verbs have it, and the queue pair fails.
class Cq {
 public:
  explicit Cq(std::uint32_t depth) : ring_(depth) { assert(depth > 0); }

  /// False when full.
  bool push(const Wc& wc) noexcept {
    if (count_ == ring_.size()) {
      ++overruns_;
      return false;
    }
    ring_[tail_] = wc;
    tail_ = tail_ + 1 == ring_.size() ? 0 : tail_ + 1;
    ++count_;
    return true;
  }
  /// Takes the oldest completions; returns how many.
  std::size_t poll(std::span<Wc> out) noexcept {
    std::size_t n = 0;
    for (; n < out.size() && count_ > 0; ++n, --count_) {
      out[n] = ring_[head_];
      head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    }
    return n;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t overruns() const noexcept { return overruns_; }

 private:
  std::vector<Wc> ring_;
  std::size_t head_ = 0, tail_ = 0, count_ = 0;
  std::uint64_t overruns_ = 0;
};

}  // namespace weft::nic
