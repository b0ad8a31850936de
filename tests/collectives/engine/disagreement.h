// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/collectives/engine/hosts.h"
#include "tests/collectives/engine/network.h"

namespace weft::inc::testing {

/// Rank 3 calls another primitive, with another size or root, than the others: every rank that waits hears of it, the
/// leaf knows why, and no switch has sent a result. For the modes in which switches answer their ranks (I and III).
inline void expect_that_disagreement_is_told(const GroupConfig& group) {
  const std::vector<Collective> right{{Primitive::allreduce, 0, 4}};
  for (const Collective& wrong : {Collective{Primitive::allreduce, 0, 5}, Collective{Primitive::barrier, 0, 0},
                                  Collective{Primitive::reduce, 1, 4}}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Network n(group, host(), right, {}, seed);
      n.set_program(3, group, {wrong});
      n.patient = true;
      EXPECT_EQ(n.run(), "stuck");
      for (std::size_t r = 0; r < kRanks; ++r) EXPECT_TRUE(n.rank(r).failed() || !n.rank(r).waits()) << r;
      const auto& failure = n.at(1).failure();
      ASSERT_TRUE(failure.has_value());
      ASSERT_EQ(failure->reason, Failure::Reason::disagreement);
      for (const std::size_t node : {1u, 2u}) EXPECT_EQ(n.at(node).counters().results, 0u);
    }
  }
}

}  // namespace weft::inc::testing
