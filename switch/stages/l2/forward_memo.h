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
    std::uint64_t low;  ///< destination, and the beginning of the source
    std::uint32_t end;  ///< of the source
    std::uint32_t way;  ///< VLAN and ingress port
    friend bool operator==(const Key&, const Key&) = default;
  };
  /// What is the same for all frames of a VLAN from a port.
  static std::uint32_t way_in(std::uint16_t vid, pipeline::PortIndex in_port) noexcept {
    return std::uint32_t{vid} << 16 | in_port;
  }
  /// @param frame  at least the 12 bytes of both addresses
  static Key key(const std::uint8_t* frame, std::uint32_t way_in) noexcept {
    Key k;
    std::memcpy(&k.low, frame, 8);
    std::memcpy(&k.end, frame + 8, 4);
    k.way = way_in;
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
    Key key{0, 0, 0};
    std::uint64_t untagged = 0;  ///< untagged() if untagged frames leave as they are, else 0
    std::uint32_t epoch = 0;
    pipeline::PortIndex out = pipeline::kNoPort;
  };
  /// nullptr when not known.
  [[nodiscard]] const Entry* find(const Key& k) const noexcept {
    const Entry& entry = entries_[slot(k)];
    return entry.key == k && entry.epoch == epoch_ ? &entry : nullptr;
  }
  /// For untagged frames that come in by `way`: what their entries hold until the next start_burst().
  [[nodiscard]] std::uint64_t untagged(std::uint32_t way) const noexcept { return std::uint64_t{epoch_} << 32 | way; }
  /// As find(), for an untagged frame that leaves as it is. `untagged` says how it comes in, the key need not.
  [[nodiscard]] const Entry* find_untagged(const Key& k, std::uint64_t untagged) const noexcept {
    const Entry& entry = entries_[slot(k)];
    return entry.key.low == k.low && entry.key.end == k.end && entry.untagged == untagged ? &entry : nullptr;
  }
  void store(const Key& k, pipeline::PortIndex out, bool as_it_is) noexcept {
    entries_[slot(k)] = {k, as_it_is ? untagged(k.way) : 0, epoch_, out};
  }

 private:
  static constexpr std::size_t kEntries = 4096;  // mostly empty, so that few pairs of hosts share one
  static std::size_t slot(const Key& k) noexcept { return _mm_crc32_u64(k.end, k.low) % kEntries; }

  std::array<Entry, kEntries> entries_{};
  std::uint32_t generation_ = 0;
  std::uint32_t now_s_ = 0;
  std::uint32_t epoch_ = 1;
};

}  // namespace weft::stages
