// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace weft {
namespace {

// splitmix64 and xoshiro256** once more, written after their authors' descriptions, as the reference.
std::array<std::uint64_t, 4> reference_state(std::uint64_t seed) {
  std::array<std::uint64_t, 4> state;
  for (auto& word : state) {
    std::uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    word = z ^ z >> 31;
  }
  return state;
}
std::uint64_t rotate(std::uint64_t x, unsigned k) {
  return x << k | x >> (64 - k);
}
std::uint64_t reference_next(std::array<std::uint64_t, 4>& s) {
  const std::uint64_t out = rotate(s[1] * 5, 7) * 9;
  const auto [a, b, c, d] = s;
  s = {a ^ d ^ b, b ^ c ^ a, c ^ a ^ b << 17, rotate(d ^ b, 45)};
  return out;
}

TEST(Rng, SplitmixSeedsAreThePublishedOnes) {
  // The first output of splitmix64 with seed 0.
  EXPECT_EQ(reference_state(0)[0], 0xe220a8397b1dcdafu);
}

TEST(Rng, TheSequenceIsXoshiro256StarStar) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    Rng rng(seed);
    auto state = reference_state(seed);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(rng.next(), reference_next(state)) << "seed " << seed << " draw " << i;
  }
}

TEST(Rng, EqualSeedsGiveEqualSequencesAndCopiesGoOnAlike) {
  Rng a(5);
  Rng b(5);
  EXPECT_EQ(a.next(), b.next());
  Rng copy = a;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(copy.next(), a.next());
  EXPECT_NE(Rng(5).next(), Rng(6).next());
}

TEST(Rng, BelowStaysBelowItsBoundAndReachesEveryValue) {
  Rng rng(3);
  EXPECT_EQ(rng.below(0), 0u);
  EXPECT_EQ(rng.below(1), 0u);
  std::array<int, 7> hits{};
  for (int i = 0; i < 70'000; ++i) ++hits.at(rng.below(7));
  // Six standard deviations: sqrt(70000 * 1/7 * 6/7) = 93.
  for (const int n : hits) EXPECT_NEAR(n, 10'000, 560);
  for (int i = 0; i < 1000; ++i) ASSERT_LT(rng.below(std::uint64_t{3} << 62), std::uint64_t{3} << 62);
}

TEST(Ratio, ZeroAndOneAreExactAndDrawNothing) {
  Rng rng(9);
  Rng untouched(9);
  for (const double p : {0.0, -1.0, 1.0, 2.0}) {
    const Ratio ratio = Ratio::from_double(p);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(ratio.hit(rng), p >= 1.0);
    EXPECT_EQ(ratio.zero(), p <= 0.0);
  }
  EXPECT_FALSE(Ratio().hit(rng));
  EXPECT_EQ(rng.next(), untouched.next());
}

TEST(Ratio, HitsAsOftenAsItSays) {
  for (const double p : {0.5, 0.01, 1e-4, 0.999}) {
    Rng rng(1);
    const Ratio ratio = Ratio::from_double(p);
    constexpr int kTrials = 1'000'000;
    int hits = 0;
    for (int i = 0; i < kTrials; ++i) hits += ratio.hit(rng) ? 1 : 0;
    EXPECT_NEAR(hits, p * kTrials, 6 * std::sqrt(kTrials * p * (1 - p))) << p;
  }
}

TEST(Ratio, TheSmallestProbabilityIsNotZero) {
  EXPECT_FALSE(Ratio::from_double(1e-19).zero());
  EXPECT_FALSE(Ratio::from_double(std::nextafter(1.0, 0.0)).zero());
}

TEST(FastDraws, EveryBitIsSetHalfTheTimeAndNeighboursAreIndependent) {
  constexpr int kDraws = 100'000;
  constexpr double kFiveSigma = 5 * 158;  // sqrt(100000) / 2
  for (const std::uint64_t seed : {0ull, 1ull, 0x123456789abcdefull}) {
    FastDraws draws(seed);
    std::array<int, 64> ones{};
    std::array<int, 64> changes{};
    std::uint64_t before = draws.next();
    for (int i = 0; i < kDraws; ++i) {
      const std::uint64_t x = draws.next();
      for (unsigned bit = 0; bit < 64; ++bit) {
        ones[bit] += static_cast<int>(x >> bit & 1);
        changes[bit] += static_cast<int>((x ^ before) >> bit & 1);
      }
      before = x;
    }
    for (unsigned bit = 0; bit < 64; ++bit) {
      EXPECT_NEAR(ones[bit], kDraws / 2, kFiveSigma) << seed << " " << bit;
      EXPECT_NEAR(changes[bit], kDraws / 2, kFiveSigma) << seed << " " << bit;
    }
  }
}

}  // namespace
}  // namespace weft
