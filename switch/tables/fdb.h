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

/// Fixed-size hash table in buckets of one cache line, two candidate buckets per key. A reader that races with a
/// removal sees the old port or none, never another address's port. Two workers that learn an address at the same
/// instant may leave two entries; the first is used and the other ages out.
class Fdb {
 public:
  enum class Learned : std::uint8_t { refreshed, added, moved, is_static, full };

  struct Entry {
    FdbKey key{};
    pipeline::PortIndex port = 0;
    bool is_static = false;
    std::uint32_t last_seen_s = 0;
  };

  /// @param max_entries entries that are meant to fit; the table has room for half as many again
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
    if (place.slot == nullptr) return insert(key, pack(port, false, now_s)) ? Learned::added : Learned::full;
    if (place.value == pack(port, false, now_s)) return Learned::refreshed;
    return update(place, port, now_s);
  }

  /// Adds an entry that neither ages nor moves. False when there is no room.
  bool add_static(FdbKey key, pipeline::PortIndex port) noexcept;

  /// Removes learned entries not seen for `age_s` seconds; returns how many. One thread at a time.
  std::size_t expire(std::uint32_t now_s, std::uint32_t age_s) noexcept;
  /// Removes the learned entries of a port, or of all ports with kNoPort. One thread at a time.
  std::size_t flush(pipeline::PortIndex port) noexcept;

  /// Changes whenever find() may answer differently than before: what was found under one generation holds in it.
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

  /// Entries from position `cursor` on, at most `max`; sets cursor to where to go on, or to capacity() at the end.
  [[nodiscard]] std::vector<Entry> list(std::size_t& cursor, std::size_t max) const;
  [[nodiscard]] std::size_t capacity() const noexcept { return (bucket_mask_ + 1) * kWays; }

  void prefetch(FdbKey key) const noexcept { __builtin_prefetch(&buckets_[hash(key) & bucket_mask_]); }

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::uint64_t kEmpty = 0;
  static constexpr std::uint64_t kBusy = 1;  // being filled; MAC address 0 is no source that is learned
  static constexpr std::uint64_t kStatic = 1u << 16;

  // Keys lie together so that a lookup compares all of them without a branch per way.
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> key[kWays]{};
    std::atomic<std::uint64_t> value[kWays]{};  // last_seen_s << 32 | static << 16 | port
  };
  struct Place {
    std::atomic<std::uint64_t>* slot;  // of the value; nullptr when the key is not there
    std::uint64_t value;
  };

  static constexpr std::uint64_t pack(pipeline::PortIndex port, bool is_static, std::uint32_t now_s) noexcept {
    return std::uint64_t{now_s} << 32 | (is_static ? kStatic : 0) | port;
  }
  static constexpr std::uint64_t hash(FdbKey key) noexcept {
    const std::uint64_t z = (key.word() ^ (key.word() >> 29)) * 0x9fb21c651e98df25ull;
    return z ^ (z >> 32);
  }
  /// The other candidate bucket.
  static constexpr std::uint64_t second(std::uint64_t h) noexcept { return (h >> 17) * 0x2545f4914f6cdd1dull >> 20; }

  [[nodiscard]] Place locate(FdbKey key) const noexcept {
    const std::uint64_t h = hash(key);
    const Place place = locate_in(buckets_[h & bucket_mask_], key);
    if (place.slot != nullptr) [[likely]] return place;
    return locate_in(buckets_[second(h) & bucket_mask_], key);
  }
  [[nodiscard]] static Place locate_in(Bucket& bucket, FdbKey key) noexcept {
    static_assert(kWays == 4);
    const auto hit = [&](std::size_t way) {
      return static_cast<unsigned>(bucket.key[way].load(std::memory_order_acquire) == key.word()) << way;
    };
    const unsigned match = hit(0) | hit(1) | hit(2) | hit(3);
    if (match == 0) [[unlikely]] return {nullptr, 0};
    const auto way = static_cast<std::size_t>(std::countr_zero(match));
    const std::uint64_t value = bucket.value[way].load(std::memory_order_acquire);
    // The slot may have been given to another address between the two loads.
    if (bucket.key[way].load(std::memory_order_relaxed) != key.word()) [[unlikely]] return {nullptr, 0};
    return {&bucket.value[way], value};
  }
  template <typename Predicate>
  std::size_t remove_if(Predicate&& wanted) noexcept;
  bool insert(FdbKey key, std::uint64_t value) noexcept;
  Learned update(const Place& place, pipeline::PortIndex port, std::uint32_t now_s) noexcept;

  void changed() noexcept { generation_.fetch_add(1, std::memory_order_release); }

  std::atomic<std::uint32_t> generation_{0};
  std::size_t bucket_mask_;
  std::unique_ptr<Bucket[]> buckets_;
};

}  // namespace weft::tables
