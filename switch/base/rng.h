// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The random source of the data path: an integer generator whose sequence is ours to define, so that a seed means the
// same on every machine and with every compiler.
#pragma once

#include <cstdint>

namespace weft {

/// xoshiro256** (Blackman and Vigna 2018), seeded through splitmix64. Copyable; equal seeds give equal sequences.
class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed = 1) noexcept {
    for (auto& word : s_) {
      seed += 0x9e3779b97f4a7c15ull;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      word = z ^ (z >> 31);
    }
  }

  /// 64 uniform bits.
  constexpr std::uint64_t next() noexcept {
    const std::uint64_t result = rotl(s_[1] * 5, 7) * 9;
    const std::uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotl(s_[3], 45);
    return result;
  }

  /// Uniform in [0, bound); 0 when bound is 0. The bias is below bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  static constexpr std::uint64_t rotl(std::uint64_t x, int k) noexcept { return (x << k) | (x >> (64 - k)); }
  std::uint64_t s_[4];
};

/// Many numbers for little, from one number of an Rng: for the packets of one burst, each of which needs one. A counter
/// whose wide product with itself is folded, as in wyhash (Wang Yi, 2019).
class FastDraws {
 public:
  explicit constexpr FastDraws(std::uint64_t seed) noexcept : state_(seed) {}
  /// 64 uniform bits.
  constexpr std::uint64_t next() noexcept {
    state_ += 0xa0761d6478bd642f;
    const auto product = static_cast<unsigned __int128>(state_) * (state_ ^ 0xe7037ed1a0b428db);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

 private:
  std::uint64_t state_;
};

/// A probability as a 64-bit threshold: exact for 0 and 1, and no floating point on the data path.
class Ratio {
 public:
  constexpr Ratio() = default;
  /// From a number in [0, 1]; values outside are clamped.
  static constexpr Ratio from_double(double p) noexcept {
    Ratio r;
    r.always_ = p >= 1.0;
    r.threshold_ = p <= 0.0 || r.always_ ? 0 : static_cast<std::uint64_t>(p * 18446744073709551616.0);
    return r;
  }
  [[nodiscard]] constexpr bool zero() const noexcept { return !always_ && threshold_ == 0; }
  /// One trial. Draws from the source unless the ratio is 0 or 1.
  [[nodiscard]] constexpr bool hit(Rng& rng) const noexcept {
    if (always_) return true;
    return threshold_ != 0 && rng.next() < threshold_;
  }

 private:
  std::uint64_t threshold_ = 0;
  bool always_ = false;
};

}  // namespace weft
