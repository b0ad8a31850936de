// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/patience.h"

#include <gmock/gmock.h>

namespace weft::inc::policy {
namespace {

TEST(MayPass, WhatOtherGroupsHaveMayBecomeFree) {
  for (const Reason r : {Reason::links_taken, Reason::no_memory, Reason::no_bandwidth, Reason::no_share}) {
    EXPECT_TRUE(may_pass(r)) << to_string(r);
  }
  for (const Reason r : {Reason::none, Reason::bad_request, Reason::group_exists, Reason::host_down, Reason::no_path,
                         Reason::unsupported, Reason::too_many_children, Reason::no_gain}) {
    EXPECT_FALSE(may_pass(r)) << to_string(r);
  }
}

TEST(PaysToWait, UntilItWouldBeDoneAsSoonWithout) {
  const Want want{1000, 100, 500};
  EXPECT_TRUE(pays_to_wait(1000, want, std::nullopt));
  EXPECT_TRUE(pays_to_wait(1399, want, std::nullopt));
  EXPECT_FALSE(pays_to_wait(1400, want, std::nullopt)) << "it would be done at 1500";
  EXPECT_TRUE(pays_to_wait(1000, want, Holding{900, 1399}));
  EXPECT_FALSE(pays_to_wait(1000, want, Holding{900, 1400}));
  EXPECT_FALSE(pays_to_wait(1000, {1000, 100, 0}, Holding{900, 1000})) << "without patience";
}

TEST(PaysToWait, NotForWhoIsLate) {
  const Want want{1000, 100, 5000};
  EXPECT_TRUE(pays_to_wait(1200, want, Holding{1000, 1200}));
  EXPECT_FALSE(pays_to_wait(1201, want, Holding{1000, 1200}));
  EXPECT_TRUE(pays_to_wait(1201, want, Holding{1000, 1200, 2})) << "the time may be twice as long";
  EXPECT_FALSE(pays_to_wait(1401, want, Holding{1000, 1200, 2}));
}

TEST(WaitingLine, TriesInTheOrderOfArrival) {
  WaitingLine line;
  const auto a = line.join(), b = line.join();
  EXPECT_TRUE(line.may_try(a));
  EXPECT_FALSE(line.may_try(b)) << "the first has not tried";
  line.tried(a);
  EXPECT_FALSE(line.may_try(a));
  EXPECT_TRUE(line.may_try(b));
  line.tried(b);
  const auto c = line.join();
  EXPECT_TRUE(line.may_try(c)) << "those before it have tried in vain";
  line.freed();
  EXPECT_TRUE(line.may_try(a));
  EXPECT_FALSE(line.may_try(b));
  EXPECT_FALSE(line.may_try(c)) << "who comes later takes nothing from those who wait";
  line.leave(a);
  EXPECT_TRUE(line.may_try(b));
  line.leave(b);
  EXPECT_TRUE(line.may_try(c));
  EXPECT_FALSE(line.may_try(a)) << "it is gone";
  EXPECT_EQ(line.size(), 1u);
}

}  // namespace
}  // namespace weft::inc::policy
