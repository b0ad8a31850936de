// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an explorer of states compares them by. A unit feeds what decides its future behaviour, word by word, to a
// visitor: `unit.hash_state(h)` calls `h(std::uint64_t)`. StateHash makes 64 bits of the words, StateWords keeps them
// all. A search by StateHash is quick; the same search by StateWords on a small case has to find as many states, or the
// hash has taken two different ones for one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace weft::testing {

/// A hash of a sequence of words: the same words in another order have another hash. Two sequences that differ in one
/// word never share it, and others by chance alone (2^-64).
class StateHash {
 public:
  void operator()(std::uint64_t word) noexcept { value_ = spread(value_ ^ word) + kStep; }

  /// Memory, eight bytes at a time; the count must be a multiple of 8. Quicker than feeding the words.
  void bytes(std::span<const std::uint8_t> memory) noexcept {
    std::uint64_t h = value_;
    for (std::size_t i = 0; i + sizeof h <= memory.size(); i += sizeof h) {
      std::uint64_t word = 0;
      std::memcpy(&word, memory.data() + i, sizeof word);
      h = (h ^ word) * kFactor;
      h ^= h >> 32;
    }
    value_ = spread(h) + kStep;
  }

  /// Things whose order means nothing, each given by its own hash. Sorted, and then fed: a sum or an exclusive or of
  /// the hashes would take {1, 4} for {2, 3} as soon as they are not spread well, and {a, a} for {b, b}.
  void unordered(std::span<std::uint64_t> hashes) noexcept {
    std::sort(hashes.begin(), hashes.end());
    for (const std::uint64_t one : hashes) (*this)(one);
    (*this)(hashes.size());
  }

  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  static constexpr std::uint64_t kFactor = 0xd6e8feb86659fd93;
  /// One to one: different words stay different. The finaliser of MurmurHash3, by Austin Appleby (public domain).
  static constexpr std::uint64_t spread(std::uint64_t v) noexcept {
    v = (v ^ v >> 33) * 0xff51afd7ed558ccd;
    v = (v ^ v >> 33) * 0xc4ceb9fe1a85ec53;
    return v ^ v >> 33;
  }

  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// The words themselves, for a container that compares them: the same interface as StateHash.
class StateWords {
 public:
  void operator()(std::uint64_t word) { words_.push_back(word); }
  void bytes(std::span<const std::uint8_t> memory) {
    for (std::size_t i = 0; i + sizeof(std::uint64_t) <= memory.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, memory.data() + i, sizeof word);
      words_.push_back(word);
    }
  }
  void unordered(std::span<std::uint64_t> things) {
    std::sort(things.begin(), things.end());
    for (const std::uint64_t one : things) words_.push_back(one);
    words_.push_back(things.size());
  }
  [[nodiscard]] const std::vector<std::uint64_t>& value() const noexcept { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace weft::testing
