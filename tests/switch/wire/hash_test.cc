// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <vector>

#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

using Address = std::array<std::uint8_t, 16>;

std::uint32_t v4(std::uint32_t a, std::uint32_t b) {
  return pair_hash_v4(std::uint64_t{a} << 32 | b);
}

Address v6(std::uint32_t high, std::uint32_t low) {
  Address a{0x20, 0x01, 0x0d, 0xb8};
  header_at<be32>(a.data() + 4).set(high);
  header_at<be32>(a.data() + 12).set(low);
  return a;
}
std::uint32_t v6_pair(const Address& a, const Address& b) {
  return hash_v6(a.data(), b.data()).unordered;
}

/// The largest chi-square statistic over 16 buckets that any four neighbouring bits of the hashes give. With 15 degrees
/// of freedom a random function exceeds 44 once in ten thousand.
double worst_chi_square(const std::vector<std::uint64_t>& hashes, unsigned bits) {
  double worst = 0;
  for (unsigned shift = 0; shift + 4 <= bits; ++shift) {
    std::array<double, 16> count{};
    for (const auto h : hashes) ++count[h >> shift & 15];
    const double mean = static_cast<double>(hashes.size()) / 16;
    double chi = 0;
    for (const double c : count) chi += (c - mean) * (c - mean) / mean;
    worst = std::max(worst, chi);
  }
  return worst;
}
constexpr double kLimit = 50;

/// Pairs of small integers in the patterns of real address plans.
std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> pair_patterns() {
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> patterns(6);
  for (std::uint32_t i = 1; i <= 256; ++i) {
    patterns[0].push_back({i, 0x100});              // many clients, one server
    patterns[1].push_back({i, i + 1});              // a ring
    patterns[2].push_back({2 * i, 2 * i + 1});      // disjoint pairs
    patterns[3].push_back({(i << 8) + 1, 0xfffe});  // one client per /24
  }
  for (std::uint32_t i = 1; i < 48; ++i) {
    for (std::uint32_t j = i + 1; j < 48; ++j) patterns[4].push_back({i, j});  // all pairs of a rack
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    for (std::uint32_t j = 0; j < 16; ++j) patterns[5].push_back({(i << 16) + 1, (j << 8) + 2});  // racks by hosts
  }
  return patterns;
}

TEST(PairHash, IsSymmetric) {
  TestRandom random;
  for (int i = 0; i < 10000; ++i) {
    const std::uint32_t a = random.word(), b = random.word();
    ASSERT_EQ(v4(a, b), v4(b, a));
    const Address x = v6(a, b), y = v6(b, a ^ 1);
    ASSERT_EQ(v6_pair(x, y), v6_pair(y, x));
    const std::uint64_t m = std::uint64_t{a} << 16 | (b & 0xffff), n = std::uint64_t{b} << 16 | (a & 0xffff);
    ASSERT_EQ(pair_hash_mac(m, n), pair_hash_mac(n, m));
  }
}

TEST(PairHash, SpreadsIpv4PairsOverBucketsByAnyFourBits) {
  for (const auto& pattern : pair_patterns()) {
    std::vector<std::uint64_t> hashes;
    for (const auto& [a, b] : pattern) hashes.push_back(v4(0x0a000000 + a, 0x0a000000 + b));
    EXPECT_LT(worst_chi_square(hashes, 32), kLimit);
  }
}

TEST(PairHash, SpreadsIpv6PairsOverBucketsByAnyFourBits) {
  for (const auto& pattern : pair_patterns()) {
    std::vector<std::uint64_t> hashes;
    for (const auto& [a, b] : pattern) hashes.push_back(v6_pair(v6(0, a), v6(0, b)));
    EXPECT_LT(worst_chi_square(hashes, 32), kLimit);
  }
}

TEST(PairHash, SpreadsMacPairsOverBucketsByAnyFourBits) {
  for (const auto& pattern : pair_patterns()) {
    std::vector<std::uint64_t> hashes;
    for (const auto& [a, b] : pattern) hashes.push_back(pair_hash_mac(0x020000000000 + a, 0x020000000000 + b));
    EXPECT_LT(worst_chi_square(hashes, 32), kLimit);
  }
}

TEST(PairHash, TellsPairsWithTheSameSumOrExclusiveOrApart) {
  std::set<std::uint32_t> hashes;
  for (std::uint32_t i = 0; i < 64; ++i) hashes.insert(v4(0x0a000000 + i, 0x0a000000 + 127 - i));
  EXPECT_EQ(hashes.size(), 64u);
}

TEST(Ipv6Key, SpreadsAddressPairsOverBucketsByAnyFourBits) {
  for (const auto& pattern : pair_patterns()) {
    std::vector<std::uint64_t> hashes;
    for (const auto& [a, b] : pattern) hashes.push_back(hash_v6(v6(0, a).data(), v6(0, b).data()).ordered);
    EXPECT_LT(worst_chi_square(hashes, 64), kLimit);
  }
}

TEST(Ipv6Key, DependsOnTheOrderAndOnEveryBit) {
  const Address a = v6(1, 2), b = v6(3, 4);
  const std::uint64_t key = hash_v6(a.data(), b.data()).ordered;
  EXPECT_NE(key, hash_v6(b.data(), a.data()).ordered);
  std::set<std::uint64_t> keys{key};
  for (unsigned bit = 0; bit < 128; ++bit) {
    Address x = a, y = b;
    x[bit / 8] = static_cast<std::uint8_t>(x[bit / 8] ^ 1 << bit % 8);
    y[bit / 8] = static_cast<std::uint8_t>(y[bit / 8] ^ 1 << bit % 8);
    keys.insert(hash_v6(x.data(), b.data()).ordered);
    keys.insert(hash_v6(a.data(), y.data()).ordered);
  }
  EXPECT_EQ(keys.size(), 257u);
}

}  // namespace
}  // namespace weft::wire
