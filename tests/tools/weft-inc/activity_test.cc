// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/activity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft::inc_tool {
namespace {

using inc::v1::ShowActivityReply;
using Switch = ShowActivityReply::Switch;

class ActivityRows : public testing::Test {
 protected:
  /// Two hosts behind each of two leaves under a root, at a time.
  static ShowActivityReply reply(std::uint64_t at_ns, std::uint64_t collectives, std::uint64_t bytes) {
    ShowActivityReply r;
    r.set_at_ns(at_ns);
    auto& g = *r.add_groups();
    g.set_group(7);
    g.set_generation(3);
    for (const char* host : {"h1", "h2", "h3", "h4"}) g.add_hosts(host);
    for (const char* name : {"leaf1", "leaf2", "root"}) {
      auto& s = *g.add_switches();
      s.set_name(name);
      s.set_answers(true);
      s.set_root(s.name() == "root");
      // Leaves are ahead, and count what the root has not added up yet.
      s.set_collectives(collectives + (s.root() ? 0 : 1));
      s.set_completed_bytes(bytes + (s.root() ? 0 : 4096));
    }
    return r;
  }
  static Switch& at(ShowActivityReply& r, int n) { return *r.mutable_groups(0)->mutable_switches(n); }
  static void waits(Switch& s, const char* what, const char* for_whom, std::uint64_t ms) {
    s.set_collective(what);
    s.set_waits_for(for_whom);
    s.set_still_ms(ms);
  }
};

TEST_F(ActivityRows, RatesAreTheRootsBetweenTwoAnswers) {
  const auto before = reply(1'000'000'000, 100, 5'000'000), now = reply(3'000'000'000, 160, 9'000'000);
  const auto rows = activity_rows(now, &before);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].dump(),
            R"({"group":7,"ranks":4,"collectives_per_s":30.0,"mbytes_per_s":2.0,"collective":"","waits_for":"",)"
            R"("still_s":null})");
}

TEST_F(ActivityRows, WithoutTheSameGroupBeforeThereIsNoRate) {
  const auto now = reply(3'000'000'000, 160, 9'000'000);
  EXPECT_TRUE(activity_rows(now, nullptr)[0]["mbytes_per_s"].is_null());
  auto before = reply(1'000'000'000, 100, 5'000'000);
  before.mutable_groups(0)->set_generation(2);
  EXPECT_TRUE(activity_rows(now, &before)[0]["mbytes_per_s"].is_null());
  before = reply(1'000'000'000, 200, 10'000'000);
  EXPECT_TRUE(activity_rows(now, &before)[0]["collectives_per_s"].is_null()) << "the switch was started again";
  before = reply(3'000'000'000, 100, 5'000'000);
  EXPECT_TRUE(activity_rows(now, &before)[0]["mbytes_per_s"].is_null()) << "no time has passed";
  EXPECT_TRUE(activity_rows(ShowActivityReply(), &now).empty());
}

TEST_F(ActivityRows, ARankIsBlamedBeforeTheSwitchesThatWaitBecauseOfIt) {
  auto now = reply(1, 5, 0);
  waits(at(now, 0), "allreduce #4", "parent switch (10.1.1.0)", 900);
  waits(at(now, 2), "allreduce #4", "child switch (10.1.2.1)", 800);
  EXPECT_EQ(activity_rows(now, nullptr)[0]["waits_for"],
            "leaf1 for parent switch (10.1.1.0), root for child switch (10.1.2.1)");
  EXPECT_EQ(activity_rows(now, nullptr)[0]["still_s"], 0.9);
  waits(at(now, 1), "allreduce #5", "rank 2 (10.0.3.2), rank 3 (10.0.4.2)", 700);
  at(now, 1).add_waits_for_ranks(2);
  at(now, 1).add_waits_for_ranks(3);
  const auto row = activity_rows(now, nullptr)[0];
  EXPECT_EQ(row["waits_for"], "rank 2 (h3), rank 3 (h4)");
  EXPECT_EQ(row["collective"], "allreduce #5");
  EXPECT_EQ(row["still_s"], 0.7);
}

TEST_F(ActivityRows, SwitchesThatDoNotAnswerOrHaveFailedAreNamed) {
  const auto before = reply(1, 5, 0);
  auto now = reply(1'000'000'001, 6, 4096);
  at(now, 2).set_answers(false);
  at(now, 1).set_state("failed: rank 3 (10.0.4.2): a fatal NAK");
  const auto row = activity_rows(now, &before)[0];
  EXPECT_TRUE(row["mbytes_per_s"].is_null());
  EXPECT_EQ(row["waits_for"], "root (no answer)");
  EXPECT_EQ(row["collective"], "leaf2: failed: rank 3 (10.0.4.2): a fatal NAK");
}

}  // namespace
}  // namespace weft::inc_tool
