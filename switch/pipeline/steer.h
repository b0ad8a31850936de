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
  qp,       ///< both directions of a known QP pair by a hash of the pair; everything else as ip_pair
};

/// The table that comes before the hash: known QPs and their workers. Readers take no lock; any thread may publish.
/// Fixed size; an entry that finds no place is not stored, and its packets go by the hash.
class SteerTable {
 public:
  static constexpr std::size_t kSlots = 1u << 16;
  static constexpr std::size_t kProbes = 8;

  SteerTable() : slots_(std::make_unique<std::array<std::atomic<std::uint64_t>, kSlots>>()) {}

  /// Worker of packets to `qp` between the addresses of `address_key` (Parsed::address_key); fallback if unknown.
  [[nodiscard]] std::uint16_t find(std::uint64_t address_key, wire::Qpn qp, std::uint16_t fallback) const noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    for (std::size_t i = 0; i < kProbes; ++i) {
      const std::uint64_t slot = (*slots_)[(key + i) % kSlots].load(std::memory_order_relaxed);
      if (slot >> 16 == key >> 16) return static_cast<std::uint16_t>(slot);
    }
    return fallback;
  }

  /// Both directions of a connection must be published with the same worker. False when the table is full there.
  bool publish(std::uint64_t address_key, wire::Qpn qp, std::uint16_t worker) noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    const std::uint64_t entry = (key >> 16 << 16) | worker;
    for (std::size_t i = 0; i < kProbes; ++i) {
      auto& slot = (*slots_)[(key + i) % kSlots];
      std::uint64_t seen = slot.load(std::memory_order_relaxed);
      if (seen >> 16 != key >> 16 && seen != 0) continue;
      if (slot.compare_exchange_strong(seen, entry, std::memory_order_relaxed) || seen >> 16 == key >> 16) return true;
    }
    return false;
  }

  void withdraw(std::uint64_t address_key, wire::Qpn qp) noexcept {
    const std::uint64_t key = key_of(address_key, qp);
    for (std::size_t i = 0; i < kProbes; ++i) {
      auto& slot = (*slots_)[(key + i) % kSlots];
      std::uint64_t seen = slot.load(std::memory_order_relaxed);
      if (seen >> 16 == key >> 16) slot.compare_exchange_strong(seen, 0, std::memory_order_relaxed);
    }
  }

 private:
  // 48 bits identify the entry; two of 65536 entries share them with a probability of about 1e-5, and then the second
  // one's packets merely go to the first one's worker.
  static constexpr std::uint64_t key_of(std::uint64_t address_key, wire::Qpn qp) noexcept {
    std::uint64_t z = address_key ^ (std::uint64_t{qp.value()} * 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
    z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
    z ^= z >> 32;
    return z >> 16 == 0 ? z | 1ull << 16 : z;
  }

  std::unique_ptr<std::array<std::atomic<std::uint64_t>, kSlots>> slots_;
};

/// A uniform choice of one of `workers` by a 32-bit hash.
[[nodiscard]] constexpr std::uint16_t worker_by_hash(std::uint32_t hash, std::uint16_t workers) noexcept {
  return static_cast<std::uint16_t>(std::uint64_t{hash} * workers >> 32);
}

}  // namespace weft::pipeline
