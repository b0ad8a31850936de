// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// owner(packet): which worker handles a packet. Both directions of a connection meet on one worker, so that all state
// of a connection is that worker's own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "switch/wire/parsed.h"

namespace weft::pipeline {

/// How packets are spread over workers.
enum class SteerMode : std::uint8_t {
  ip_pair,  ///< the symmetric hash of the IP pair: one pair of hosts, one worker
  qp,       ///< both directions of a QP pair that CM or configuration names on one; everything else as ip_pair
};

/// The table that comes before the hash: known QPs and their workers. Readers take no lock; any thread may publish.
/// Fixed size; an entry that finds no place is not stored, and its packets go by the hash. Every entry has two
/// candidate lines of eight slots and goes into the emptier one, so that the table can be filled to two thirds.
class SteerTable {
 public:
  static constexpr std::size_t kSlots = 1u << 16;

  SteerTable() : lines_(std::make_unique<Line[]>(kLines)) {}

  /// Worker of packets to `qp` between the addresses of `address_key` (Parsed::address_key); fallback if unknown.
  [[nodiscard]] std::uint16_t find(std::uint64_t address_key, wire::Qpn qp, std::uint16_t fallback) const noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    for (const std::size_t line : {first_line(key), second_line(key)}) {
      for (const auto& slot : lines_[line].slots) {
        const std::uint64_t entry = slot.load(std::memory_order_relaxed);
        if (entry >> 16 == key >> 16) return static_cast<std::uint16_t>(entry);
      }
    }
    return fallback;
  }

  /// Both directions of a connection must be published with the same worker. False when the table is full there.
  bool publish(std::uint64_t address_key, wire::Qpn qp, std::uint16_t worker) noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    const std::uint64_t entry = (key >> 16 << 16) | worker;
    for (const std::size_t line : {first_line(key), second_line(key)}) {
      if (replace(lines_[line], key, entry)) return true;
    }
    Line& first = lines_[first_line(key)];
    Line& second = lines_[second_line(key)];
    const bool second_is_emptier = used(second) < used(first);
    return add(second_is_emptier ? second : first, entry) || add(second_is_emptier ? first : second, entry);
  }

  /// Forgets a QP, unless it was published for another worker than this one meanwhile.
  void withdraw(std::uint64_t address_key, wire::Qpn qp, std::uint16_t worker) noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    for (const std::size_t line : {first_line(key), second_line(key)}) {
      for (auto& slot : lines_[line].slots) {
        std::uint64_t published = (key >> 16 << 16) | worker;
        slot.compare_exchange_strong(published, 0, std::memory_order_relaxed);
      }
    }
  }

 private:
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kLines = kSlots / kWays;
  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, kWays> slots{};  ///< upper 48 bits of the key << 16 | worker; 0 when free
  };

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

  // Two threads that publish a QP at the same instant may leave two entries: all of them are replaced.
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
};

/// A uniform choice of one of `workers` by a 32-bit hash.
[[nodiscard]] constexpr std::uint16_t worker_by_hash(std::uint32_t hash, std::uint16_t workers) noexcept {
  return static_cast<std::uint16_t>(std::uint64_t{hash} * workers >> 32);
}

}  // namespace weft::pipeline
