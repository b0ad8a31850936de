// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The forwarding database of the L2 stage: (VLAN, MAC address) -> port. All workers of a switch read it and learn into
// it without locks.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "switch/pipeline/packet.h"
#include "switch/wire/addresses.h"
#include "switch/wire/hash.h"

namespace weft::tables {

/// Key of an entry: the MAC address and the VLAN ID in one word. Never 0 for a usable MAC address.
class FdbKey {
 public:
  constexpr FdbKey() = default;
  /// @param mac 48 bits, first wire byte most significant  @param vid 0-4094
  constexpr FdbKey(std::uint64_t mac, std::uint16_t vid) noexcept : word_(mac << 16 | vid) {}
  [[nodiscard]] constexpr std::uint64_t word() const noexcept { return word_; }
  [[nodiscard]] constexpr wire::MacAddress mac() const noexcept { return wire::MacAddress::from_u64(word_ >> 16); }
  [[nodiscard]] constexpr std::uint16_t vid() const noexcept { return static_cast<std::uint16_t>(word_); }
  friend constexpr bool operator==(FdbKey, FdbKey) noexcept = default;
  static constexpr FdbKey from_word(std::uint64_t word) noexcept {
    FdbKey key;
    key.word_ = word;
    return key;
  }

 private:
  std::uint64_t word_ = 0;
};

/// Fixed-size hash table in buckets of one cache line, two candidate buckets per key, of which the emptier is taken. A
/// reader that races with a removal sees the old port or none, never another address's port. Two workers that learn an
/// address at the same instant may leave two entries; the first is used and the other ages out.
class Fdb {
 public:
  enum class Learned : std::uint8_t { refreshed, added, moved, is_static, full };

  struct Entry {
    FdbKey key{};
    pipeline::PortIndex port = 0;
    bool is_static = false;
    std::uint32_t last_seen_s = 0;
  };

  /// @param max_entries entries that are meant to fit; the table has room for 2.5 to 5 times as many
  explicit Fdb(std::size_t max_entries);

  /// Port of the key, kNoPort when unknown.
  [[nodiscard]] pipeline::PortIndex find(FdbKey key) const noexcept {
    const Place place = locate(key);
    return place.slot == nullptr ? pipeline::kNoPort : static_cast<pipeline::PortIndex>(place.value);
  }

  /// Notes that `key` was seen as a source on `port`. Worker threads.
  /// @param now_s coarse time in seconds
  Learned learn(FdbKey key, pipeline::PortIndex port, std::uint32_t now_s) noexcept {
    const Place place = locate(key);
    if (place.slot == nullptr) return insert(key, pack(key, port, false, now_s)) ? Learned::added : Learned::full;
    if (place.value == pack(key, port, false, now_s)) return Learned::refreshed;
    return update(key, place, port, now_s);
  }

  /// Adds an entry that neither ages nor moves. False when there is no room.
  bool add_static(FdbKey key, pipeline::PortIndex port) noexcept;

  /// Exchanges the contents of two tables of the same capacity that nobody uses meanwhile.
  void swap(Fdb& other) noexcept;

  /// Removes learned entries not seen for `age_s` seconds; returns how many. One thread at a time.
  std::size_t expire(std::uint32_t now_s, std::uint32_t age_s) noexcept;
  /// Removes the learned entries of a port, or of all ports with kNoPort. One thread at a time.
  std::size_t flush(pipeline::PortIndex port) noexcept;

  /// Changes whenever find() may name another port than before for a key, or none: what was found under one generation
  /// holds in it. A key that is added changes no such answer, so that a storm of new addresses costs those alone who
  /// send them.
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

  /// Entries from position `cursor` on, at most `max`; sets cursor to where to go on, or to capacity() at the end.
  [[nodiscard]] std::vector<Entry> list(std::size_t& cursor, std::size_t max) const;
  [[nodiscard]] std::size_t capacity() const noexcept { return (bucket_mask_ + 1) * kWays; }

  void prefetch(FdbKey key) const noexcept { __builtin_prefetch(&first_bucket(hash(key))); }

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::uint64_t kEmpty = 0;
  static constexpr std::uint64_t kBusy = ~std::uint64_t{0};  // being filled; its VLAN ID is none
  static constexpr std::uint64_t kStatic = 1u << 16;

  // Keys lie together so that a lookup compares all of them without a branch per way.
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> key[kWays]{};
    std::atomic<std::uint64_t> value[kWays]{};  // last_seen_s << 32 | check << 17 | static << 16 | port
  };
  struct Place {
    std::atomic<std::uint64_t>* slot;  // of the value; nullptr when the key is not there
    std::uint64_t value;
  };

  static constexpr std::uint64_t pack(FdbKey key, pipeline::PortIndex port, bool is_static,
                                      std::uint32_t now_s) noexcept {
    return std::uint64_t{now_s} << 32 | check(key) | (is_static ? kStatic : 0) | port;
  }
  // Fifteen bits of the key's hash within the value: a slot that changed hands twice while a thread looked away does
  // not pass for the same.
  static constexpr std::uint64_t kCheckMask = std::uint64_t{0x7fff} << 17;
  static constexpr std::uint64_t check(FdbKey key) noexcept { return hash(key) >> 32 & kCheckMask; }
  static constexpr bool belongs(std::uint64_t value, FdbKey key) noexcept { return (value & kCheckMask) == check(key); }

  static constexpr std::uint64_t hash(FdbKey key) noexcept {
    return wire::mix64(key.word() ^ 0x9fb21c651e98df25ull, 0xd6e8feb86659fd93ull);
  }
  [[nodiscard]] Bucket& first_bucket(std::uint64_t h) const noexcept { return buckets_[h & bucket_mask_]; }
  // Never the first one, if there are two.
  [[nodiscard]] Bucket& second_bucket(std::uint64_t h) const noexcept {
    return buckets_[(h ^ (h >> 32 | 1)) & bucket_mask_];
  }

  [[nodiscard]] Place locate(FdbKey key) const noexcept {
    const std::uint64_t h = hash(key);
    const Place place = locate_in(first_bucket(h), key);
    if (place.slot != nullptr) [[likely]]
      return place;
    return locate_in(second_bucket(h), key);
  }
  [[nodiscard]] static Place locate_in(Bucket& bucket, FdbKey key) noexcept {
    static_assert(kWays == 4);
    const auto hit = [&](std::size_t way) {
      return static_cast<unsigned>(bucket.key[way].load(std::memory_order_acquire) == key.word()) << way;
    };
    const unsigned match = hit(0) | hit(1) | hit(2) | hit(3);
    if (match == 0) [[unlikely]]
      return {nullptr, 0};
    const auto way = static_cast<std::size_t>(std::countr_zero(match));
    const std::uint64_t value = bucket.value[way].load(std::memory_order_acquire);
    // The slot may have been given to another address between the two loads.
    if (bucket.key[way].load(std::memory_order_relaxed) != key.word() || !belongs(value, key)) [[unlikely]] {
      return {nullptr, 0};
    }
    return {&bucket.value[way], value};
  }
  template <typename Predicate>
  std::size_t remove_if(Predicate&& wanted) noexcept;
  // How many entries a key has: two when two workers learned it at the same instant.
  [[nodiscard]] std::size_t places(FdbKey key) const noexcept;
  static bool insert_in(Bucket& bucket, FdbKey key, std::uint64_t value) noexcept;
  bool insert(FdbKey key, std::uint64_t value) noexcept;
  Learned update(FdbKey key, const Place& place, pipeline::PortIndex port, std::uint32_t now_s) noexcept;

  void changed() noexcept { generation_.fetch_add(1, std::memory_order_release); }

  std::atomic<std::uint32_t> generation_{0};
  std::size_t bucket_mask_;
  std::unique_ptr<Bucket[]> buckets_;
};

}  // namespace weft::tables
