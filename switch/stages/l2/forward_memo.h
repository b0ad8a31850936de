// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <nmmintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "switch/pipeline/packet.h"

namespace weft::stages {

/// Where frames between two addresses of a VLAN went last, of one worker: one look instead of two into the forwarding
/// database, and no learning of what was just learned. An entry is void when the database answers otherwise than it
/// did (Fdb::generation()), and every second, so that the database hears of addresses that are in use.
class ForwardMemo {
 public:
  struct Key {
    std::uint64_t low, high;  ///< destination, source, then VLAN and ingress port in place of the ethertype
    friend bool operator==(const Key&, const Key&) = default;
  };
  /// What is the same for all frames of a VLAN from a port.
  static std::uint64_t way_in(std::uint16_t vid, pipeline::PortIndex in_port) noexcept {
    return std::uint64_t{vid} << 48 | std::uint64_t{in_port} << 32;
  }
  /// @param frame  at least the 12 bytes of both addresses
  static Key key(const std::uint8_t* frame, std::uint64_t way_in) noexcept {
    Key k;
    std::uint32_t end = 0;
    std::memcpy(&k.low, frame, 8);
    std::memcpy(&end, frame + 8, 4);
    k.high = way_in | end;
    return k;
  }

  /// @param generation  of the database, read before anything that store() is told of
  void start_burst(std::uint32_t generation, std::uint32_t now_s) noexcept {
    if (generation == generation_ && now_s == now_s_) return;
    generation_ = generation;
    now_s_ = now_s;
    ++epoch_;
  }
  struct alignas(32) Entry {
    Key key{0, 0};
    std::uint32_t epoch = 0;
    std::uint32_t untagged_epoch = 0;  ///< the same if untagged frames leave as they are, else 0
    pipeline::PortIndex out = pipeline::kNoPort;
  };
  /// nullptr when not known.
  [[nodiscard]] const Entry* find(const Key& k) const noexcept {
    const Entry& entry = entries_[slot(k)];
    return entry.key == k && entry.epoch == epoch_ ? &entry : nullptr;
  }
  /// The same for an untagged frame that leaves as it is.
  [[nodiscard]] const Entry* find_untagged(const Key& k) const noexcept {
    const Entry& entry = entries_[slot(k)];
    return ((entry.key.low ^ k.low) | (entry.key.high ^ k.high)) == 0 && entry.untagged_epoch == epoch_ ? &entry
                                                                                                        : nullptr;
  }
  void store(const Key& k, pipeline::PortIndex out, bool untagged) noexcept {
    entries_[slot(k)] = {k, epoch_, untagged ? epoch_ : 0, out};
  }

 private:
  static constexpr std::size_t kEntries = 4096;  // mostly empty, so that few pairs of hosts share one
  // The end of the source address, which differs most, goes in as the seed. Sources that differ in the last bit only
  // share a cache line: the addresses of hosts are often consecutive.
  static std::size_t slot(const Key& k) noexcept {
    constexpr std::uint32_t kLastBit = 1u << 24;
    const auto end = static_cast<std::uint32_t>(k.high);
    return (static_cast<std::size_t>(_mm_crc32_u64(end & ~kLastBit, k.low)) ^ (end / kLastBit & 1)) % kEntries;
  }

  std::array<Entry, kEntries> entries_{};
  std::uint32_t generation_ = 0;
  std::uint32_t now_s_ = 0;
  std::uint32_t epoch_ = 1;
};

}  // namespace weft::stages
