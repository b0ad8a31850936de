// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The states that a search has seen, as 64-bit hashes: eight bytes each and room to spare, so that hundreds of millions
// fit in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::testing {

/// A set of hashes; nothing is ever removed. Open addressing: a hash is looked for from the place that its upper bits
/// name, so it must be spread well. No more than three quarters of the places are taken.
class Fingerprints {
 public:
  /// Returns true when the hash was not there before.
  bool insert(std::uint64_t hash) {
    if (hash == kFree) hash = kInPlaceOfFree;
    if (4 * (count_ + 1) > 3 * places_.size()) grow();
    if (!put(hash)) return false;
    ++count_;
    return true;
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return places_.size() * sizeof places_[0]; }

 private:
  static constexpr std::uint64_t kFree = 0, kInPlaceOfFree = 1;

  bool put(std::uint64_t hash) noexcept {
    const std::size_t mask = places_.size() - 1;
    for (std::size_t i = (hash >> 20) & mask;; i = (i + 1) & mask) {
      if (places_[i] == hash) return false;
      if (places_[i] != kFree) continue;
      places_[i] = hash;
      return true;
    }
  }
  void grow() {
    const std::vector<std::uint64_t> before = std::move(places_);
    places_.assign(before.empty() ? 1024 : 2 * before.size(), kFree);
    for (const std::uint64_t hash : before) {
      if (hash != kFree) put(hash);
    }
  }

  std::vector<std::uint64_t> places_;
  std::uint64_t count_ = 0;
};

}  // namespace weft::testing
