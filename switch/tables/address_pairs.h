// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Interned pairs of IPv6 addresses: 32 bytes of addresses become one small number that is equal exactly when the
// addresses are, whatever their hashes.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "switch/tables/page_memory.h"
#include "switch/wire/addresses.h"

namespace weft::tables {

/// Fixed capacity, reference counted. An id names a pair and a direction: the two directions of a pair differ in the
/// lowest bit. Ids stay the same while the pair is referenced. Every operation takes bounded time: a pair whose hash
/// chain is full is refused like one that finds the table full.
class AddressPairs {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;
  /// Longest hash chain that is walked.
  static constexpr std::uint32_t kMaxChain = 32;

  /// @param capacity unordered pairs, 1 to 2^30
  explicit AddressPairs(std::uint32_t capacity);

  /// @param addresses source and destination, 16 bytes each in wire order, as they lie in an IPv6 header
  /// @return the id of this direction; kNone when the pair is not interned.
  [[nodiscard]] std::uint32_t find(const std::uint8_t* addresses) const noexcept;

  /// As find(), but interns a new pair and takes a reference. kNone when there is no room.
  [[nodiscard]] std::uint32_t acquire(const std::uint8_t* addresses) noexcept;
  /// Takes another reference on a pair that has one.
  void retain(std::uint32_t id) noexcept { ++records_[id >> 1].references; }
  /// Gives a reference back; the pair goes with its last one.
  void release(std::uint32_t id) noexcept;

  /// The id of the opposite direction: the same id where source and destination are equal, kNone for kNone.
  [[nodiscard]] std::uint32_t reverse(std::uint32_t id) const noexcept;
  /// Source and destination.
  [[nodiscard]] std::pair<wire::IpAddress, wire::IpAddress> addresses(std::uint32_t id) const noexcept;

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return heads_.bytes() + records_.bytes(); }

 private:
  using Address = std::array<std::uint8_t, 16>;
  struct Record {
    Address low, high;  // in this order as byte strings
    std::uint32_t references;
    std::uint32_t next;  // position + 1 of the next record of the chain or of the free list; 0 ends it
  };
  // A pair with its addresses in canonical order.
  struct Canonical {
    Address low, high;
    std::uint32_t direction;  // 1 when the source is `high`
  };

  [[nodiscard]] static Canonical canonical(const std::uint8_t* addresses) noexcept;
  [[nodiscard]] std::uint32_t chain_of(const Address& low, const Address& high) const noexcept;

  std::uint32_t capacity_;
  std::uint32_t chain_mask_;
  std::uint32_t size_ = 0;
  std::uint32_t fresh_ = 0;  // records from here on were never used
  std::uint32_t free_ = 0;   // position + 1 of the first record of the free list
  PageArray<std::uint32_t> heads_;
  PageArray<Record> records_;
};

}  // namespace weft::tables
