// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The table of queue pairs seen in RoCEv2 traffic: (source IP, destination IP, destination QPN) -> entry, exact for
// IPv4 and IPv6. One worker owns it.
//
// A hash table in buckets of 16 entries. A key may be in its first or its second bucket, and is in the first one unless
// that was full. Beside the entries there is an array of 16-bit tags, two bytes per entry: even for a million entries
// it is small enough for the last-level cache, and the tags of a bucket are compared at once, so that a lookup costs
// one miss on the tags and one on the entry. A burst hides both: candidates() starts loading all tags, then reads them
// and starts loading the entries.
#pragma once

#include <nmmintrin.h>
#include <smmintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "switch/tables/address_pairs.h"
#include "switch/tables/page_memory.h"
#include "switch/tables/qp_entry.h"
#include "switch/wire/addresses.h"
#include "switch/wire/parsed.h"

namespace weft::tables {

/// Names one direction of a queue pair.
struct QpKey {
  std::uint64_t addresses;  ///< as QpEntry::addresses
  std::uint32_t qp;         ///< destination QPN, and QpEntry::kV6 for IPv6

  friend constexpr bool operator==(const QpKey&, const QpKey&) noexcept = default;
};

class QpTable {
 public:
  static constexpr std::uint32_t kMaxCapacity = 1u << 24;
  static constexpr std::uint32_t kNone = 0xffffffff;

  /// @param capacity  entries, 1 to kMaxCapacity. All memory is allocated here: at most 128 bytes per entry in tables
  /// of
  ///                  a million, a little more in small ones.
  explicit QpTable(std::uint32_t capacity);

  /// Key of a packet of kind roce. `l3` is its IP header. IPv6 addresses that are in no entry give a key that no entry
  /// has.
  [[nodiscard]] QpKey key_of(const wire::Parsed& parsed, const std::uint8_t* l3) const noexcept {
    if (!parsed.has(wire::ParsedFlag::ipv6)) [[likely]]
      return {parsed.address_key, parsed.dest_qp.value()};
    return {pairs_.find(l3 + kV6Addresses), parsed.dest_qp.value() | QpEntry::kV6};
  }
  /// The same direction of another QP.
  [[nodiscard]] static QpKey with_qp(QpKey key, wire::Qpn qp) noexcept {
    return {key.addresses, (key.qp & QpEntry::kV6) | qp.value()};
  }
  /// The opposite direction, to `qp`.
  [[nodiscard]] QpKey reverse(QpKey key, wire::Qpn qp) const noexcept;

  /// CRC-32C: one instruction each, and keys that differ in few bits do not share their hash.
  [[nodiscard]] static std::uint32_t hash_of(const QpKey& key) noexcept {
    return _mm_crc32_u32(static_cast<std::uint32_t>(_mm_crc32_u64(0, key.addresses)), key.qp);
  }
  /// Turns the hashes of a burst's keys into the positions where they are, unless another key shares its tag. Always
  /// readable positions: the caller compares with matches() and, on a mismatch, calls find(). Starts loading the
  /// entries.
  void candidates(std::span<std::uint32_t> hashes) const noexcept;
  [[nodiscard]] bool matches(std::uint32_t position, const QpKey& key) const noexcept {
    const QpEntry& e = entries_[position];
    return e.addresses == key.addresses && (e.qp & QpEntry::kKeyMask) == key.qp;
  }

  /// Position of the key's entry, kNone if it has none.
  [[nodiscard]] std::uint32_t find(const QpKey& key) const noexcept;

  /// An entry that insert() had to move, with its links; kNone when there was none.
  struct Moved {
    std::uint32_t from = kNone;
    std::uint32_t to = kNone;
  };

  /// Adds an entry for a key that has none: zeroed, with its key, no peer, unsynced, transport unknown, first and last
  /// seen `now`. May move one other entry, whose peer is told; `moved` says so to others who know its position.
  /// @return its position; kNone when the table is full.
  [[nodiscard]] std::uint32_t insert(const QpKey& key, std::uint64_t now_ns, Moved& moved) noexcept;

  /// Makes an existing entry as insert() makes a new one.
  void reset(std::uint32_t position, std::uint64_t now_ns) noexcept;

  /// Removes an entry. Its peer's link to it is the caller's to clear first.
  void erase(std::uint32_t position) noexcept;

  /// Pairs of IPv6 addresses. Every entry holds a reference of its own.
  [[nodiscard]] AddressPairs& pairs() noexcept { return pairs_; }
  [[nodiscard]] const AddressPairs& pairs() const noexcept { return pairs_; }

  [[nodiscard]] QpEntry& entry(std::uint32_t position) noexcept { return entries_[position]; }
  [[nodiscard]] const QpEntry& entry(std::uint32_t position) const noexcept { return entries_[position]; }
  [[nodiscard]] QpDetail& detail(std::uint32_t position) noexcept { return details_[position]; }
  [[nodiscard]] const QpDetail& detail(std::uint32_t position) const noexcept { return details_[position]; }
  [[nodiscard]] QpKey key(std::uint32_t position) const noexcept {
    return {entries_[position].addresses, entries_[position].qp & QpEntry::kKeyMask};
  }
  [[nodiscard]] wire::IpAddress source(const QpKey& key) const noexcept;
  [[nodiscard]] wire::IpAddress destination(const QpKey& key) const noexcept;

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// Positions are below this; most hold an entry when the table is full.
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  /// Bytes of all arrays.
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  /// Different IPv6 address pairs that a table of this capacity can hold: one for two entries, or for 32 in large
  /// tables.
  [[nodiscard]] static constexpr std::uint32_t address_pair_capacity(std::uint32_t capacity) noexcept {
    return std::min(std::max(capacity / 2, 1u), std::max(capacity / 32, 1u << 15));
  }

  /// Offset of the addresses in an IPv6 header.
  static constexpr std::size_t kV6Addresses = 8;

 private:
  static constexpr std::uint32_t kBucket = 16;
  // Part of a second-level cache.
  static constexpr std::size_t kNearBytes = 256 << 10;

  /// Tags of a bucket's entries; 0: free.
  struct alignas(32) Tags {
    std::uint16_t tag[kBucket];
  };

  static unsigned countr_zero(std::uint32_t v) noexcept { return static_cast<unsigned>(std::countr_zero(v)); }

  // The high bits of the hash choose the bucket, the low ones are the tag.
  [[nodiscard]] std::uint32_t first_bucket(std::uint32_t hash) const noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{hash} * buckets_ >> 32);
  }
  [[nodiscard]] static std::uint16_t tag_of(std::uint32_t hash) noexcept {
    return std::max<std::uint16_t>(static_cast<std::uint16_t>(hash), 1);
  }
  // The other bucket of an entry with this tag; its own inverse.
  [[nodiscard]] std::uint32_t other_bucket(std::uint32_t bucket, std::uint16_t tag) const noexcept {
    const auto sum = static_cast<std::uint32_t>(std::uint64_t{tag * 0x9e3779b1u} * buckets_ >> 32);
    return sum >= bucket ? sum - bucket : sum + buckets_ - bucket;
  }
  [[nodiscard]] static __m128i tag_copies(std::uint32_t hash) noexcept {
    const __m128i pattern = _mm_set1_epi16(0x0100);
    return _mm_max_epu16(_mm_shuffle_epi8(_mm_cvtsi32_si128(static_cast<int>(hash)), pattern), _mm_set1_epi16(1));
  }
  [[nodiscard]] std::uint32_t candidate(std::uint32_t hash) const noexcept;
  void candidates_wide(std::span<std::uint32_t> hashes) const noexcept;
  [[nodiscard]] std::uint32_t candidate_elsewhere(std::uint32_t hash) const noexcept;
  // Bit i: entry i of the bucket has the tag.
  [[nodiscard]] std::uint32_t equal_tags(std::uint32_t bucket, __m128i copies) const noexcept {
    const auto* const tags = reinterpret_cast<const __m128i*>(&tags_[bucket]);
    const __m128i low = _mm_cmpeq_epi16(_mm_load_si128(tags), copies);
    const __m128i high = _mm_cmpeq_epi16(_mm_load_si128(tags + 1), copies);
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
  }
  [[nodiscard]] std::uint32_t free_slots(std::uint32_t bucket) const noexcept {
    return equal_tags(bucket, _mm_setzero_si128());
  }
  [[nodiscard]] std::uint32_t find_in(std::uint32_t bucket, std::uint32_t hash, const QpKey& key) const noexcept;
  [[nodiscard]] std::uint32_t free_position(std::uint32_t hash, Moved& moved) noexcept;
  [[nodiscard]] bool make_room(std::uint32_t bucket, Moved& moved) noexcept;
  void move(std::uint32_t from, std::uint32_t to) noexcept;
  [[nodiscard]] std::uint16_t& tag_at(std::uint32_t position) noexcept {
    return tags_[position / kBucket].tag[position % kBucket];
  }

  std::uint32_t capacity_;
  std::uint32_t buckets_;
  std::uint32_t slots_;
  std::uint32_t size_ = 0;
  PageArray<Tags> tags_;
  PageArray<QpEntry> entries_;  // one more than slots_: the last one matches no key
  PageArray<QpDetail> details_;
  AddressPairs pairs_;
};

}  // namespace weft::tables
