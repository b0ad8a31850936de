// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Keeps packets that arrived before their turn, so that they are handled in order whatever their opcode is. Bounded;
// the memory is taken when the first packet comes, and kept.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <vector>

#include "nic/rnic/packet.h"

namespace weft::nic {

class ReorderBuffer {
 public:
  /// Room for packets up to `window` - 1 PSNs ahead; a power of two. Payload is at most `mtu` bytes.
  ReorderBuffer(std::uint32_t window, std::uint32_t mtu) : window_(window), mtu_(mtu) {}

  [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  [[nodiscard]] bool has(wire::Psn psn) const noexcept {
    return count_ > 0 && slots_[index(psn)].used && slots_[index(psn)].packet.psn == psn;
  }

  /// Keeps a packet whose PSN is inside the window and not there yet.
  void put(const Packet& packet) {
    if (slots_.empty()) slots_.resize(window_);
    Slot& s = slots_[index(packet.psn)];
    assert(!s.used && packet.payload.bytes <= mtu_);
    s.packet = packet;
    s.used = true;
    s.with_bytes = packet.payload.data() != nullptr;
    if (s.with_bytes) {
      if (bytes_.empty()) bytes_.resize(std::size_t{window_} * mtu_);
      std::memcpy(room(packet.psn), packet.payload.data(), packet.payload.bytes);
    }
    ++count_;
  }
  /// Takes the packet with this PSN, which has() says is there. Its payload stays valid until the next put().
  Packet take(wire::Psn psn) noexcept {
    Slot& s = slots_[index(psn)];
    assert(s.used);
    s.used = false;
    --count_;
    Packet packet = s.packet;
    packet.payload.set(s.with_bytes ? room(psn) : nullptr, packet.payload.bytes);
    return packet;
  }
  /// Drops what is there of `count` PSNs from `first` on: they are no packets of their own.
  void drop(wire::Psn first, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; count_ > 0 && i < count && i < window_; ++i) {
      if (has(first + i)) static_cast<void>(take(first + i));
    }
  }

  friend bool operator==(const ReorderBuffer&, const ReorderBuffer&) = default;
  /// Feeds what is there to `h(std::uint64_t)`, in the order of PSNs; `first` is the PSN that comes next.
  template <class Hash>
  void hash_state(wire::Psn first, Hash&& h) const {
    h(count_);
    for (std::uint32_t i = 0, left = count_; left > 0 && i < window_; ++i) {
      if (!has(first + i)) continue;
      --left;
      const Slot& s = slots_[index(first + i)];
      hash_headers(s.packet, h);
      for (std::uint32_t at = 0; s.with_bytes && at < s.packet.payload.bytes; at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, room(first + i) + at, std::min<std::size_t>(sizeof word, s.packet.payload.bytes - at));
        h(word);
      }
    }
  }

 private:
  struct Slot {
    Packet packet;
    bool used = false;
    bool with_bytes = false;

    friend bool operator==(const Slot&, const Slot&) = default;
  };
  [[nodiscard]] std::size_t index(wire::Psn psn) const noexcept { return psn.value() & (window_ - 1); }
  [[nodiscard]] std::uint8_t* room(wire::Psn psn) noexcept { return bytes_.data() + index(psn) * mtu_; }
  [[nodiscard]] const std::uint8_t* room(wire::Psn psn) const noexcept { return bytes_.data() + index(psn) * mtu_; }

  std::uint32_t window_;
  std::uint32_t mtu_;
  std::uint32_t count_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace weft::nic
