// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

TEST(NackFilterRows, AQueuePairTellsWhatBecameOfItsNacks) {
  ReceiverLeaf leaf({.filter = ", guard_us: 100"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["state"], "blocked");
  leaf.arrive({4, 2, 7});
  leaf.say(nack(5));
  leaf.arrive({5, 9});
  leaf.say(nack(6));
  leaf.h.advance_ns(100 * kUs);
  const auto row = leaf.h.rows("nack_filter_qps")[0];
  EXPECT_EQ(row["source"], "10.0.1.2");
  EXPECT_EQ(row["destination"], "10.0.3.2");
  EXPECT_EQ(row["dest_qp"], 34);
  EXPECT_EQ(row["state"], "ready");
  EXPECT_EQ(row["nacks"], 3);
  EXPECT_EQ(row["valid"], 1);
  EXPECT_EQ(row["blocked"], 2);
  EXPECT_EQ(row["compensated"], 1);
  EXPECT_EQ(row["guard"], 1);
  const auto sum = leaf.h.rows("nack_filter")[0];
  EXPECT_EQ(sum["seen"], 3);
  EXPECT_EQ(sum["check"], "gap");
}

TEST(NackFilterRows, QueuePairsThatAreGoneAreNotListed) {
  ReceiverLeaf leaf({.filter = ", accept: inferred", .qps = "", .track = ", idle_timeout_s: 1"});
  EXPECT_EQ(leaf.h.rows("nack_filter_qps").size(), 0u);
}

}  // namespace
}  // namespace weft::stages::testing
