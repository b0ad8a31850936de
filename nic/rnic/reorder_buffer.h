// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Keeps packets that arrived before their turn, so that they are handled in order whatever their opcode is. Bounded.
//
// Its memory is in pages of kPageSlots PSNs. A page is taken when the first packet of it comes: one that is empty by
// then, or a new one, and other empty ones are given back. So the window of a long link costs what is out of order, not
// what may be.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "nic/rnic/packet.h"

namespace weft::nic {

class ReorderBuffer {
 public:
  static constexpr std::uint32_t kPageSlots = 1024;

  /// Room for packets up to `window` - 1 PSNs ahead; a power of two. Payload is at most `mtu` bytes.
  ReorderBuffer(std::uint32_t window, std::uint32_t mtu)
      : window_(window), page_bits_(std::countr_zero(std::min(window, kPageSlots))), mtu_(mtu) {}

  [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  [[nodiscard]] bool has(wire::Psn psn) const noexcept {
    if (count_ == 0) return false;
    const Page& page = page_of(psn);
    return page.count > 0 && page.slots[slot_of(psn)].used && page.slots[slot_of(psn)].packet.psn == psn;
  }

  /// Keeps a packet whose PSN is inside the window and not there yet.
  void put(const Packet& packet) {
    if (pages_.empty()) pages_.resize(window_ >> page_bits_);
    Page& page = page_of(packet.psn);
    if (page.slots.empty()) make_room(page);
    if (page.count == 0) --empty_;
    Slot& s = page.slots[slot_of(packet.psn)];
    assert(!s.used && packet.payload.bytes <= mtu_);
    s.packet = packet;
    s.used = true;
    s.with_bytes = packet.payload.data() != nullptr;
    if (s.with_bytes) {
      if (page.bytes.empty()) page.bytes.resize(page_slots() * mtu_);
      std::memcpy(room(page, packet.psn), packet.payload.data(), packet.payload.bytes);
    }
    ++page.count;
    ++count_;
  }
  /// Takes the packet with this PSN, which has() says is there. Its payload stays valid until the next put().
  Packet take(wire::Psn psn) noexcept {
    Page& page = page_of(psn);
    Slot& s = page.slots[slot_of(psn)];
    assert(s.used);
    s.used = false;
    --count_;
    if (--page.count == 0) ++empty_;
    Packet packet = s.packet;
    packet.payload.set(s.with_bytes ? room(page, psn) : nullptr, packet.payload.bytes);
    return packet;
  }
  /// Drops what is there of `count` PSNs from `first` on: they are no packets of their own.
  void drop(wire::Psn first, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; count_ > 0 && i < count && i < window_; ++i) {
      if (has(first + i)) static_cast<void>(take(first + i));
    }
  }
  /// Pages that have memory.
  [[nodiscard]] std::size_t pages() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(pages_.begin(), pages_.end(), [](const Page& page) { return !page.slots.empty(); }));
  }

  friend bool operator==(const ReorderBuffer&, const ReorderBuffer&) = default;
  /// Feeds what is there to `h(std::uint64_t)`, in the order of PSNs; `first` is the PSN that comes next.
  template <class Hash>
  void hash_state(wire::Psn first, Hash&& h) const {
    h(count_);
    for (std::uint32_t i = 0, left = count_; left > 0 && i < window_; ++i) {
      if (!has(first + i)) continue;
      --left;
      const Page& page = page_of(first + i);
      const Slot& s = page.slots[slot_of(first + i)];
      hash_headers(s.packet, h);
      for (std::uint32_t at = 0; s.with_bytes && at < s.packet.payload.bytes; at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, room(page, first + i) + at, std::min<std::size_t>(sizeof word, s.packet.payload.bytes - at));
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
  struct Page {
    std::vector<Slot> slots;  // empty: no memory
    std::vector<std::uint8_t> bytes;
    std::uint32_t count = 0;  // used slots

    friend bool operator==(const Page&, const Page&) = default;
  };

  // The memory of an empty page, or new memory. Other empty pages lose theirs: now, and not in take(), whose packets
  // are in use until the next put().
  void make_room(Page& page) {
    for (Page& other : pages_) {
      if (empty_ == 0) break;
      if (other.count != 0 || other.slots.empty()) continue;
      if (page.slots.empty()) {
        std::swap(page.slots, other.slots);
        std::swap(page.bytes, other.bytes);
      } else {
        other = {};
      }
      --empty_;
    }
    if (page.slots.empty()) page.slots.resize(page_slots());
    empty_ = 1;  // this one, which put() fills
  }

  [[nodiscard]] Page& page_of(wire::Psn psn) noexcept { return pages_[page_index(psn)]; }
  [[nodiscard]] const Page& page_of(wire::Psn psn) const noexcept { return pages_[page_index(psn)]; }
  [[nodiscard]] std::size_t page_index(wire::Psn psn) const noexcept {
    return (psn.value() & (window_ - 1)) >> page_bits_;
  }
  [[nodiscard]] std::size_t page_slots() const noexcept { return std::size_t{1} << page_bits_; }
  [[nodiscard]] std::size_t slot_of(wire::Psn psn) const noexcept { return psn.value() & (page_slots() - 1); }
  [[nodiscard]] std::uint8_t* room(Page& page, wire::Psn psn) const noexcept {
    return page.bytes.data() + slot_of(psn) * mtu_;
  }
  [[nodiscard]] const std::uint8_t* room(const Page& page, wire::Psn psn) const noexcept {
    return page.bytes.data() + slot_of(psn) * mtu_;
  }

  std::uint32_t window_;
  int page_bits_;  // slots of a page: 2 to the power of it
  std::uint32_t mtu_;
  std::uint32_t count_ = 0;
  std::uint32_t empty_ = 0;  // pages with memory and without packets
  std::vector<Page> pages_;
};

}  // namespace weft::nic
