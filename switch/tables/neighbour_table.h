// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Link-layer addresses of neighbours: (port, IP address) -> MAC address, for ARP and neighbour discovery alike. All
// workers of a switch read it and learn into it without locks; the control thread ages it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "switch/base/rcu.h"
#include "switch/base/time.h"
#include "switch/pipeline/packet.h"
#include "switch/wire/addresses.h"
#include "switch/wire/hash.h"

namespace weft::tables {

/// State of a neighbour, as in RFC 4861 7.3.2 (whose DELAY is missing here: a stale entry that is used is probed at
/// once).
enum class NeighbourState : std::uint8_t {
  none,        ///< no entry
  incomplete,  ///< being resolved: no MAC address yet
  stale,       ///< the address may be out of date; usable, and its first use starts a probe
  probe,       ///< usable, and asked by unicast whether it is still there
  reachable,   ///< answered lately
  permanent,   ///< configured
};
/// `static` for permanent, as in the configuration.
[[nodiscard]] std::string_view to_string(NeighbourState state) noexcept;

/// MAC address and state in one word.
class NeighbourWord {
 public:
  constexpr NeighbourWord() = default;
  constexpr explicit NeighbourWord(std::uint64_t word) noexcept : word_(word) {}
  NeighbourWord(const wire::MacAddress& mac, NeighbourState state) noexcept;

  [[nodiscard]] constexpr std::uint64_t word() const noexcept { return word_; }
  [[nodiscard]] constexpr NeighbourState state() const noexcept {
    return static_cast<NeighbourState>(word_ >> kStateShift & 7);
  }
  /// The address as it lies in a frame: the low six bytes of a little-endian word; the two above it are 0.
  [[nodiscard]] constexpr std::uint64_t mac_bytes() const noexcept { return word_ & kMacMask; }
  [[nodiscard]] wire::MacAddress mac() const noexcept;
  /// Has a MAC address.
  [[nodiscard]] constexpr bool usable() const noexcept { return state() >= NeighbourState::stale; }
  /// Usable, and its use changes nothing.
  [[nodiscard]] constexpr bool settled() const noexcept { return state() >= NeighbourState::probe; }
  friend constexpr bool operator==(NeighbourWord, NeighbourWord) noexcept = default;

 private:
  static constexpr unsigned kStateShift = 48;
  static constexpr std::uint64_t kMacMask = 0xffffffffffff;
  std::uint64_t word_ = 0;
};

/// When states change by themselves.
struct NeighbourTimes {
  TimeNs reachable_ns;                    ///< reachable -> stale
  TimeNs stale_ns = 60'000'000'000;       ///< an unused stale entry is removed
  TimeNs unresolved_ns = 10'000'000'000;  ///< an incomplete entry is removed, an unanswered probe ends
};

/// Hash table in buckets of one cache line, two candidate buckets per key. An entry keeps its index as long as it
/// exists. Removed entries are reused when all readers of the domain have been quiescent, so an index that a worker
/// found is good until its next RcuDomain::quiescent().
class NeighbourTable {
 public:
  using Index = std::uint32_t;

  /// What a message told about a neighbour.
  struct Advertisement {
    std::optional<wire::MacAddress> mac{};  ///< none: the known one is meant
    bool confirmed = false;                 ///< an answer to our own question: it is reachable in both directions
    bool may_replace = true;                ///< may change a known MAC address (ND: the override flag)
  };
  enum class Learned : std::uint8_t {
    ignored,    ///< nothing changed
    refreshed,  ///< known, and now confirmed or doubted
    moved,      ///< another MAC address than before
    resolved,   ///< had no MAC address before
  };

  struct Entry {
    Index index = 0;
    pipeline::PortIndex port = 0;
    wire::IpAddress address{};
    NeighbourWord word{};
    TimeNs since = 0;  ///< of the state
  };

  /// @param max_neighbours  entries that are meant to fit; the table has room for twice as many
  /// @param domain  of the workers
  NeighbourTable(std::size_t max_neighbours, RcuDomain& domain);

  /// Index of no entry; word() of it is of state none.
  [[nodiscard]] Index nobody() const noexcept { return static_cast<Index>(capacity()); }

  [[nodiscard]] Index find_v4(pipeline::PortIndex port, std::uint32_t address) const noexcept {
    const std::uint64_t tag = tag_v4(port, address);
    const std::uint64_t h = hash(tag);
    const std::size_t first = h & bucket_mask_;
    for (std::size_t way = 0; way < kWays; ++way) {
      if (buckets_[first].tag[way].load(std::memory_order_acquire) == tag) [[likely]]
        return index_of(first, way);
    }
    const std::size_t second = second_bucket(h);
    for (std::size_t way = 0; way < kWays; ++way) {
      if (buckets_[second].tag[way].load(std::memory_order_acquire) == tag) return index_of(second, way);
    }
    return nobody();
  }
  /// nobody() when there is no entry.
  [[nodiscard]] Index find(pipeline::PortIndex port, const wire::IpAddress& address) const noexcept;

  [[nodiscard]] NeighbourWord word(Index index) const noexcept {
    return NeighbourWord(buckets_[index / kWays].word[index % kWays].load(std::memory_order_acquire));
  }

  /// Number of times that any neighbour became usable. Who waits for one looks again when it has changed.
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

  /// Number of times that any neighbour's word() changed. Who keeps copies of them looks again when it has changed.
  [[nodiscard]] std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

  // Workers and control thread.

  /// The entry, made in state incomplete if there was none; nobody() when there is no room.
  Index find_or_add(pipeline::PortIndex port, const wire::IpAddress& address, TimeNs now) noexcept;
  Learned learn(Index index, const Advertisement& said, TimeNs now) noexcept;
  /// stale -> probe. True for one caller: that one has to ask.
  bool begin_probe(Index index, TimeNs now) noexcept;
  /// probe -> incomplete: it did not answer.
  void end_probe(Index index, TimeNs now) noexcept;
  /// Keeps an incomplete entry for another NeighbourTimes::unresolved_ns.
  void keep(Index index, TimeNs now) noexcept { detail_[index].since.store(now, std::memory_order_relaxed); }

  // Control thread only.

  /// Adds or replaces a configured entry. False when there is no room.
  bool add_permanent(pipeline::PortIndex port, const wire::IpAddress& address, const wire::MacAddress& mac);
  /// As find_or_add(), and the entry stays until it was unpinned as many times.
  Index pin(pipeline::PortIndex port, const wire::IpAddress& address, TimeNs now);
  void unpin(Index index);
  /// Enters what another table knew of a neighbour, state and time included; one that is configured here stays as it
  /// is. False when there is no room.
  bool restore(const Entry& entry);
  /// A learned neighbour is not there any more.
  void lose(Index index, TimeNs now);
  /// A neighbour, a configured one too, may not be there any more: its next use starts a probe.
  void doubt(Index index, TimeNs now);
  /// Lets states change with time and removes what has gone out of use.
  void age(TimeNs now, const NeighbourTimes& times);
  /// Forgets what was learned on a port, whose link went down.
  void flush(pipeline::PortIndex port, TimeNs now);
  /// Entries from position `cursor` on, at most `max`; sets cursor to where to go on, or to capacity() at the end.
  [[nodiscard]] std::vector<Entry> list(std::size_t& cursor, std::size_t max) const;
  [[nodiscard]] std::size_t capacity() const noexcept { return (bucket_mask_ + 1) * kWays; }

 private:
  static constexpr std::size_t kWays = 4;
  // Tags that are no key.
  static constexpr std::uint64_t kEmpty = 0;
  static constexpr std::uint64_t kBusy = 1;  // being filled
  static constexpr std::uint64_t kDead = 2;  // removed, and a reader may still know the index

  /// Keys are found by the tag: for IPv4 it is the key, for IPv6 a hash of it.
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> tag[kWays]{};
    std::atomic<std::uint64_t> word[kWays]{};
  };
  struct Detail {
    wire::IpAddress address{};
    pipeline::PortIndex port = 0;
    std::atomic<TimeNs> since{0};
  };

  static constexpr std::uint64_t tag_v4(pipeline::PortIndex port, std::uint32_t address) noexcept {
    return std::uint64_t{1} << 63 | std::uint64_t{port} << 32 | address;
  }
  static std::uint64_t tag_of(pipeline::PortIndex port, const wire::IpAddress& address) noexcept;
  static constexpr std::uint64_t hash(std::uint64_t tag) noexcept { return wire::mix64(tag, 0x9fb21c651e98df25); }
  [[nodiscard]] std::size_t second_bucket(std::uint64_t h) const noexcept { return h >> 32 & bucket_mask_; }
  static constexpr Index index_of(std::size_t bucket, std::size_t way) noexcept {
    return static_cast<Index>(bucket * kWays + way);
  }
  [[nodiscard]] std::atomic<std::uint64_t>& tag_at(Index index) noexcept {
    return buckets_[index / kWays].tag[index % kWays];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& word_at(Index index) noexcept {
    return buckets_[index / kWays].word[index % kWays];
  }
  [[nodiscard]] std::size_t free_ways(std::size_t bucket) const noexcept;
  Index add(pipeline::PortIndex port, const wire::IpAddress& address, TimeNs now) noexcept;
  bool change(Index index, NeighbourWord from, NeighbourWord to, TimeNs now) noexcept;
  void age_one(Index index, TimeNs now, const NeighbourTimes& times);
  void forget(Index index, NeighbourWord seen, TimeNs now);

  RcuDomain& domain_;
  std::size_t bucket_mask_;
  std::shared_ptr<Bucket[]> buckets_;  // one more than the hash reaches, for nobody(); shared with deferred actions
  std::unique_ptr<Detail[]> detail_;
  std::vector<std::uint32_t> pins_;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint32_t> changes_{0};
};

}  // namespace weft::tables
