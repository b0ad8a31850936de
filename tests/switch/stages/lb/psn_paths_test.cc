// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/psn_paths.h"

#include <gtest/gtest.h>

namespace weft::stages {
namespace {

using wire::Psn;

TEST(PsnPaths, RemaindersAndQuotientsAreThoseOfDivision) {
  for (const std::uint32_t n : {1u, 2u, 3u, 5u, 7u, 16u, 100u, 255u, 256u, 65535u}) {
    const PathCount paths(n);
    for (std::uint64_t number = 0; number <= 0xffffffff; number += 999'983) {
      ASSERT_EQ(paths.remainder(static_cast<std::uint32_t>(number)), number % n) << number << " mod " << n;
      ASSERT_EQ(paths.quotient(static_cast<std::uint32_t>(number)), number / n) << number << " / " << n;
    }
    for (const std::uint32_t number : {0u, 1u, n - 1, n, n + 1, 0xffffffu, 0xffffffffu}) {
      ASSERT_EQ(paths.remainder(number), number % n) << number << " mod " << n;
      ASSERT_EQ(paths.quotient(number), number / n) << number << " / " << n;
    }
  }
}

TEST(PsnPaths, TheNextPsnOfAClassIsTheNearestOneBehindAlsoWherePsnsWrap) {
  for (const std::uint32_t n : {1u, 2u, 3u, 5u, 7u, 256u}) {
    const PathCount paths(n);
    for (std::uint32_t back = 1; back < 3 * n + 4; ++back) {
      const Psn psn = Psn(2) - back;
      Psn expected = psn + 1;
      while (paths.class_of(expected) != paths.class_of(psn)) ++expected;
      ASSERT_EQ(paths.next(psn), expected) << n << " paths, PSN " << psn.value();
    }
  }
}

}  // namespace
}  // namespace weft::stages
