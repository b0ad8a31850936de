// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which worker has which flow, where the hash of the addresses does not decide. Every switch has one, however its
// packets are steered: `steer: qp` publishes queue pairs in it, and a stage whose state belongs to several flows at
// once (an aggregation group with members on many hosts) binds them to a group, which has one worker and moves as a
// whole.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "switch/pipeline/steer.h"
#include "switch/wire/parsed.h"

namespace weft::pipeline {

/// A group of flows in an OwnerTable.
enum class OwnerGroup : std::uint16_t {};

/// Flow to worker. A flow is named by the addresses and the destination QP of its RoCE packets; both directions of a
/// connection are two flows. Readers take no lock, and any thread may publish. Fixed size: an entry that finds no place
/// is not stored, and its packets go by the hash. Every entry has two candidate lines of eight slots and goes into the
/// emptier one, so that the table can be filled to two thirds.
///
/// Whoever moves a flow or a group takes care of the state that the old worker has, and of packets that are on their
/// way to it.
class OwnerTable {
 public:
  static constexpr std::size_t kSlots = 1u << 16;
  /// Workers are numbered below this.
  static constexpr std::uint16_t kMaxWorkers = 1u << 12;
  static constexpr std::uint16_t kMaxGroups = 1u << 12;

  OwnerTable() : lines_(std::make_unique<Line[]>(kLines)) {}

  /// What is not in the table goes to the worker to which cards with RSS bring it (RssWorkers), where it is IP.
  /// Before packets come.
  void spread_as_cards(std::uint16_t workers) noexcept {
    rss_workers_ = RssWorkers(workers);
    as_cards_ = true;
  }
  [[nodiscard]] bool spreads_as_cards() const noexcept { return as_cards_; }

  /// The worker of a packet: the table first, its addresses otherwise.
  [[nodiscard]] std::uint16_t worker_of(const wire::Parsed& parsed, std::uint16_t workers) const noexcept {
    const std::uint16_t otherwise = worker_of_addresses(parsed, workers);
    if (empty() || parsed.kind != wire::FrameKind::roce) [[likely]]
      return otherwise;
    return find(parsed.address_key, parsed.dest_qp, otherwise);
  }
  /// Of what is not in the table.
  [[nodiscard]] std::uint16_t worker_of_addresses(const wire::Parsed& parsed, std::uint16_t workers) const noexcept {
    if (as_cards_) {
      // Both directions of what has no valid header have one hash as well, wherever a card brings it.
      if (parsed.has(wire::ParsedFlag::ipv6)) return rss_workers_.of_v6(parsed.stored_pair_hash);
      if (parsed.address_key != 0) return rss_workers_.of_v4(parsed.address_key);
    }
    return worker_by_hash(parsed.pair_hash(), workers);
  }

  /// No flow was ever published or bound.
  [[nodiscard]] bool empty() const noexcept { return !used_.load(std::memory_order_acquire); }

  /// Worker of packets to `qp` between the addresses of `address_key` (Parsed::address_key); fallback if unknown.
  [[nodiscard]] std::uint16_t find(std::uint64_t address_key, wire::Qpn qp, std::uint16_t fallback) const noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    for (const std::size_t line : {first_line(key), second_line(key)}) {
      for (const auto& slot : lines_[line].slots) {
        const std::uint64_t entry = slot.load(std::memory_order_relaxed);
        if (entry >> 16 == key >> 16) return worker_of(static_cast<std::uint16_t>(entry), fallback);
      }
    }
    return fallback;
  }

  /// Gives a flow to a worker. Both directions of a connection must be published with the same one. False when the
  /// table is full there.
  bool publish(std::uint64_t address_key, wire::Qpn qp, std::uint16_t worker) noexcept {
    return store(address_key, qp, worker);
  }
  /// Forgets a flow, unless it was published for another worker than this one, or bound to a group, meanwhile.
  void withdraw(std::uint64_t address_key, wire::Qpn qp, std::uint16_t worker) noexcept {
    forget(address_key, qp, worker);
  }

  /// A new group without flows, at a worker; nullopt when there are kMaxGroups. Takes a lock: not for the packet path.
  [[nodiscard]] std::optional<OwnerGroup> make_group(std::uint16_t worker) {
    const std::lock_guard lock(groups_mutex_);
    for (std::uint16_t i = 0; i < kMaxGroups; ++i) {
      if (groups_[i].load(std::memory_order_relaxed) != kFree) continue;
      groups_[i].store(worker, std::memory_order_release);
      return OwnerGroup{i};
    }
    return std::nullopt;
  }
  /// Gives a flow to the worker that the group has, now and later. False when the table is full there.
  bool bind(std::uint64_t address_key, wire::Qpn qp, OwnerGroup group) noexcept {
    return store(address_key, qp, value_of(group));
  }
  /// Forgets a flow, unless it was bound to another group or published for a worker meanwhile.
  void unbind(std::uint64_t address_key, wire::Qpn qp, OwnerGroup group) noexcept {
    forget(address_key, qp, value_of(group));
  }
  /// All flows of the group go to this worker from now on: one store, so that a reader who has seen one of them there
  /// finds all of them there.
  void move(OwnerGroup group, std::uint16_t worker) noexcept {
    groups_[static_cast<std::uint16_t>(group)].store(worker, std::memory_order_release);
  }
  [[nodiscard]] std::uint16_t worker(OwnerGroup group) const noexcept {
    return groups_[static_cast<std::uint16_t>(group)].load(std::memory_order_acquire);
  }
  /// The group may be made anew. Its flows have been unbound; one that was not goes by the hash until then.
  void remove_group(OwnerGroup group) noexcept {
    groups_[static_cast<std::uint16_t>(group)].store(kFree, std::memory_order_release);
  }

 private:
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kLines = kSlots / kWays;
  static constexpr std::uint16_t kGroupBit = 0x8000;
  static constexpr std::uint16_t kFree = 0xffff;
  struct alignas(64) Line {
    /// Upper 48 bits of the key << 16 | worker, or kGroupBit and a group; 0 when free.
    std::array<std::atomic<std::uint64_t>, kWays> slots{};
  };

  static constexpr std::uint16_t value_of(OwnerGroup group) noexcept {
    return static_cast<std::uint16_t>(static_cast<std::uint16_t>(group) | kGroupBit);
  }
  [[nodiscard]] std::uint16_t worker_of(std::uint16_t value, std::uint16_t fallback) const noexcept {
    if ((value & kGroupBit) == 0) [[likely]]
      return value;
    const std::uint16_t worker = groups_[value & (kMaxGroups - 1)].load(std::memory_order_acquire);
    return worker == kFree ? fallback : worker;
  }

  // 48 bits identify the entry; two of 65536 entries share them with a probability of about 1e-5, and then the second
  // one's packets merely go to the first one's worker.
  static constexpr std::uint64_t key_of(std::uint64_t address_key, wire::Qpn qp) noexcept {
    std::uint64_t z = address_key ^ (std::uint64_t{qp.value()} * 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
    z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
    z ^= z >> 32;
    return z >> 16 == 0 ? z | 1ull << 16 : z;
  }
  static constexpr std::size_t first_line(std::uint64_t key) noexcept { return key % kLines; }
  static constexpr std::size_t second_line(std::uint64_t key) noexcept { return (key >> 32) % kLines; }

  bool store(std::uint64_t address_key, wire::Qpn qp, std::uint16_t value) noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    const std::uint64_t entry = (key >> 16 << 16) | value;
    used_.store(true, std::memory_order_release);
    for (const std::size_t line : {first_line(key), second_line(key)}) {
      if (replace(lines_[line], key, entry)) return true;
    }
    Line& first = lines_[first_line(key)];
    Line& second = lines_[second_line(key)];
    const bool second_is_emptier = used(second) < used(first);
    return add(second_is_emptier ? second : first, entry) || add(second_is_emptier ? first : second, entry);
  }
  void forget(std::uint64_t address_key, wire::Qpn qp, std::uint16_t value) noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    for (const std::size_t line : {first_line(key), second_line(key)}) {
      for (auto& slot : lines_[line].slots) {
        std::uint64_t published = (key >> 16 << 16) | value;
        slot.compare_exchange_strong(published, 0, std::memory_order_relaxed);
      }
    }
  }
  // Two threads that publish a flow at the same instant may leave two entries: all of them are replaced.
  static bool replace(Line& line, std::uint64_t key, std::uint64_t entry) noexcept {
    bool found = false;
    for (auto& slot : line.slots) {
      std::uint64_t seen = slot.load(std::memory_order_relaxed);
      if (seen >> 16 == key >> 16) found |= slot.compare_exchange_strong(seen, entry, std::memory_order_relaxed);
    }
    return found;
  }
  static bool add(Line& line, std::uint64_t entry) noexcept {
    for (auto& slot : line.slots) {
      std::uint64_t free = 0;
      if (slot.compare_exchange_strong(free, entry, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  static std::size_t used(const Line& line) noexcept {
    std::size_t count = 0;
    for (const auto& slot : line.slots) count += slot.load(std::memory_order_relaxed) != 0 ? 1 : 0;
    return count;
  }

  std::unique_ptr<Line[]> lines_;
  std::atomic<bool> used_{false};
  bool as_cards_ = false;
  RssWorkers rss_workers_{1};
  std::mutex groups_mutex_;  ///< of make_group()
  struct Groups {
    Groups() noexcept {
      for (auto& group : workers) group.store(kFree, std::memory_order_relaxed);
    }
    [[nodiscard]] std::atomic<std::uint16_t>& operator[](std::size_t i) noexcept { return workers[i]; }
    [[nodiscard]] const std::atomic<std::uint16_t>& operator[](std::size_t i) const noexcept { return workers[i]; }
    std::array<std::atomic<std::uint16_t>, kMaxGroups> workers;
  };
  Groups groups_;
};

}  // namespace weft::pipeline
