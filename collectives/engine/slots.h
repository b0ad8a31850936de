// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The buffers of a pipe: a ring of slots, each with what is kept of one position of a group: who has contributed, and
// the sum so far (EPIC, modules CheckDuplicate, AggregateData and RecycleBuffer; algorithms 1 and 2).
//
// A slot knows the position that it holds. A packet of an older position is told apart and never touches the slot, and
// a newer one takes the slot over: whether that is safe, the mode has to know. The array `arrived` of the paper's
// endpoints is a set of endpoints per slot here, so it cannot be forgotten when a slot is recycled.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/engine/arithmetic.h"
#include "collectives/engine/checked_loops.h"
#include "collectives/engine/group.h"
#include "nic/rnic/packet.h"

namespace weft::inc {

/// What a slot keeps beside the payload. All contributions of a position have the same opcode, length and immediate,
/// and the same offset from their endpoint's address; a packet made of the slot has them too.
struct Slot {
  std::uint64_t position = 0;
  EndpointSet arrived;
  EndpointSet repeated;      ///< Mode II: those that repeated theirs since the full slot was last sent on
  std::uint32_t degree = 0;  ///< contributions that are in
  wire::Opcode opcode{};
  bool used = false;     ///< holds a position
  bool full = false;     ///< every contribution is in, and the payload is as on the wire
  bool result = false;   ///< the payload is the collective's result
  bool values = false;   ///< the payload's bytes are known
  bool ack_req = false;  ///< of any contribution
  bool solicited = false;
  bool marked = false;          ///< CE of any contribution
  bool kept_whole = false;      ///< the payload is kept as it came: nothing is summed up
  std::uint32_t bytes = 0;      ///< of the payload on the wire
  std::uint32_t sum_bytes = 0;  ///< of the sum before it is full
  std::uint32_t immediate = 0;
  std::uint32_t dma_length = 0;
  std::uint64_t offset = 0;  ///< of RETH's address from the endpoint's

  friend bool operator==(const Slot&, const Slot&) = default;
};

/// Memory of slots: a region that somebody else owns and that outlives it, memory of its own, which is copied with it,
/// or none.
class SlotMemory {
 public:
  SlotMemory() = default;
  explicit SlotMemory(std::span<std::byte> region) noexcept : region_(region) {}
  explicit SlotMemory(std::size_t bytes) : own_(bytes), region_(own_) {}
  SlotMemory(const SlotMemory& o) : own_(o.own_), region_(own_.empty() ? o.region_ : std::span<std::byte>(own_)) {}
  SlotMemory& operator=(const SlotMemory& o) {
    own_ = o.own_;
    region_ = own_.empty() ? o.region_ : std::span<std::byte>(own_);
    return *this;
  }
  ~SlotMemory() = default;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return region_; }

 private:
  std::vector<std::byte> own_;
  std::span<std::byte> region_;
};

/// What became of a contribution.
enum class Contribution : std::uint8_t {
  stale,      ///< the slot holds a later position
  duplicate,  ///< this endpoint's is in
  different,  ///< its header fields are not those of the others
  partial,    ///< taken; others are missing
  complete,   ///< taken, and the last one
};

/// What became of a packet that was added before its CRC was known.
enum class Checked : std::uint8_t {
  unfit,  ///< it has to be checked first
  wrong,  ///< its CRC is not the right one; nothing has changed
  added,  ///< the sum is ready: contribute() takes it
};

/// Slots with their payload.
class Slots {
 public:
  /// What slots have room for: the sums of 16-bit floats in 32 bits, or the packets of all endpoints where sums are
  /// reproducible; or packets as they come.
  enum class Room : std::uint8_t { sums, packets };
  /// Bytes of payload that a group's slots take: what Slots wants as memory.
  [[nodiscard]] static std::size_t memory_bytes(const GroupConfig& group, Room room = Room::sums) noexcept;

  /// @param memory  of memory_bytes(); empty: payload is elided, and sums are not made
  Slots(const GroupConfig& group, SlotMemory memory, Room room = Room::sums);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  [[nodiscard]] Slot& at(std::uint64_t position) noexcept { return slots_[index(position)]; }
  [[nodiscard]] const Slot& at(std::uint64_t position) const noexcept { return slots_[index(position)]; }
  /// The slot of a position, or null when it holds another or none.
  [[nodiscard]] Slot* find(std::uint64_t position) noexcept {
    Slot& s = at(position);
    return s.used && s.position == position ? &s : nullptr;
  }

  /// AggregateData for a packet whose CRC has not been checked: reads the payload once for the sum and for the CRC.
  /// The sum is made in spare memory, so that a packet with a wrong CRC leaves the slot as it was.
  /// @param crc  what wire::payload_crc() of the packet must be
  /// @return unfit: nothing was summed up, because contribute() would refuse the packet, because the slot holds an
  ///         older position that is not full, or because bytes are unknown or their number is no multiple of
  ///         kCheckedStep
  [[nodiscard]] Checked add_checked(std::uint64_t position, EndpointIndex from, const nic::Packet& packet,
                                    std::uint64_t offset, const CheckedLoops& how, std::uint32_t crc) noexcept;
  /// CheckDuplicate and AggregateData: takes what `from` contributes to a position.
  /// @param how      the sum; null: the payload is kept as it is (control messages, Broadcast), or it was added
  /// @param senders  contributions that make the slot full
  /// @param added    add_checked() has returned Checked::added for this packet, in the call before this one
  Contribution contribute(std::uint64_t position, EndpointIndex from, const nic::Packet& packet, std::uint64_t offset,
                          bool marked, const Arithmetic* how, std::uint32_t senders, bool added = false);
  /// Puts the result of a position in the place of what was summed up here.
  void replace(std::uint64_t position, const nic::Packet& packet, std::uint64_t offset, bool marked);
  /// RecycleBuffer: empties the slot of a position.
  void recycle(std::uint64_t position) noexcept { at(position) = Slot{}; }

  /// The payload of a full slot, null when its bytes are not known.
  [[nodiscard]] const std::uint8_t* payload(const Slot& s) const noexcept;

  friend bool operator==(const Slots&, const Slots&) noexcept;
  template <class Hash>
  void hash_state(Hash&& h) const {
    for (const Slot& s : slots_) {
      h(std::uint64_t{s.degree} << 32 | (s.used ? 1u : 0u) | (s.full ? 2u : 0u) | (s.result ? 4u : 0u) |
        (s.values ? 8u : 0u) | (s.ack_req ? 16u : 0u) | (s.solicited ? 32u : 0u) | (s.marked ? 64u : 0u));
      if (!s.used) continue;
      h(s.position);
      s.arrived.hash_state(h);
      s.repeated.hash_state(h);
      h(static_cast<std::uint64_t>(s.opcode) << 56 | std::uint64_t{s.bytes} << 32 | s.immediate);
      h(s.dma_length);
      h(s.offset);
      hash_payload(s, h);
    }
  }

 private:
  /// The bytes that a slot's payload consists of: one range, or one for each contribution that is kept apart.
  template <class Hash>
  void hash_payload(const Slot& s, Hash&& h) const {
    const std::byte* from = of(s);
    if (from == nullptr || !s.values) return;
    if (!reproducible_ || s.full || s.kept_whole) return hash_range(from, s.full ? s.bytes : s.sum_bytes, h);
    for (std::uint32_t e = 0; e < endpoints_; ++e) {
      if (s.arrived.has(static_cast<EndpointIndex>(e))) hash_range(from + std::size_t{e} * mtu_, s.bytes, h);
    }
  }
  template <class Hash>
  static void hash_range(const std::byte* from, std::size_t bytes, Hash&& h) {
    for (std::size_t i = 0; i < bytes; i += 8) {
      std::uint64_t word = 0;
      for (std::size_t k = i; k < bytes && k < i + 8; ++k) word = word << 8 | static_cast<std::uint8_t>(from[k]);
      h(word);
    }
  }
  /// Of the slot of a position. A power of two, the usual number of slots, spares the division.
  [[nodiscard]] std::size_t index(std::uint64_t position) const noexcept {
    return std::has_single_bit(slots_.size()) ? position & (slots_.size() - 1) : position % slots_.size();
  }
  [[nodiscard]] std::size_t number(const Slot& s) const noexcept {
    return static_cast<std::size_t>(&s - slots_.data());
  }
  [[nodiscard]] std::byte* of(const Slot& s) const noexcept { return room(rooms_[number(s)]); }
  [[nodiscard]] std::byte* room(std::uint32_t number) const noexcept {
    const std::span<std::byte> all = memory_.bytes();
    return all.empty() ? nullptr : all.data() + number * slot_bytes_;
  }
  /// Behind the last room: where a sum is made ready for the wire.
  [[nodiscard]] std::byte* scratch() const noexcept;
  void take_headers(Slot& s, const nic::Packet& p, std::uint64_t offset) noexcept;
  void add(Slot& s, EndpointIndex from, const nic::Packet& p, const Arithmetic* how) noexcept;
  void finish(Slot& s, const Arithmetic* how) noexcept;

  std::vector<Slot> slots_;
  SlotMemory memory_;
  std::size_t slot_bytes_ = 0;
  std::uint32_t mtu_ = 0;
  std::uint32_t endpoints_ = 0;
  bool reproducible_ = false;
  /// By slot, which part of the memory has its payload. Where sums are made of packets whose CRC is not known there is
  /// one more, that a sum moves to: the last slot's, which is in the first cache because it has just been read.
  std::vector<std::uint32_t> rooms_;
  std::uint32_t spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace weft::inc
