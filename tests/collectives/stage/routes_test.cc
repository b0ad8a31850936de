// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Routes, links and members of an equal-cost group change while a group runs: what it sends takes the new way, as every
// packet does, and the collectives end with the right data.
#include <gtest/gtest.h>

#include "tests/collectives/stage/star.h"

namespace weft::inc {
namespace {

using testing::Collective;
using testing::Forwarding;
using testing::Star;
using testing::Verb;

constexpr std::size_t kFar = 3;  ///< the rank behind the spines

/// Rank 3 is behind spines, to each of which a port leads. The prefix of the port that it sends through is shorter.
std::string behind(const std::string& mode, const std::string& spines) {
  std::string yaml =
      testing::switch_yaml(Forwarding::routed_v4,
                           "{ groups: [" + testing::group_yaml(Forwarding::routed_v4, testing::kGroupId, mode) + "] }");
  const auto insert = [&](const std::string& behind, const std::string& lines) {
    yaml.insert(yaml.find(behind) + behind.size(), lines);
  };
  std::string ports, addresses, neighbours;
  for (const std::string n : {"0", "1"}) {
    ports += "  - { name: s" + n + ", type: \"null\" }\n";
    addresses += "  - { port: s" + n + ", address: 10.1." + n + ".1/30 }\n";
    neighbours +=
        "  - { port: s" + n + ", address: 10.1." + n + ".2, mac: \"" + testing::host_mac(kFar).to_string() + "\" }\n";
  }
  insert("ports:\n", ports);
  insert("\naddresses:\n", addresses);
  insert("\nneighbours:\n", neighbours);
  if (!spines.empty()) {
    yaml.insert(yaml.find("pipeline:"), "routes:\n  - { prefix: 10.0.3.2/32, via: [" + spines + "] }\n");
  }
  yaml.insert(yaml.size(), "  - lb: { policy: ecmp }\n");
  return yaml;
}
const std::string kBoth = "10.1.0.2, 10.1.1.2";

const std::vector<Collective> kLong{{Primitive::allreduce, 0, 20}, {Primitive::reduce, kFar, 20},
                                    {Primitive::broadcast, 1, 20}, {Primitive::barrier, 0, 0},
                                    {Primitive::reduce, 0, 10},    {Primitive::allreduce, 0, 20}};

class Routed {
 public:
  explicit Routed(const std::string& mode)
      : mode_(mode), star(Forwarding::routed_v4, kLong, Verb::send, behind(mode, kBoth)) {
    star.ways[kFar] = {{"h3", 0}, {"s0", 0}, {"s1", 0}};
  }
  /// Goes on for so many steps, in the middle of the program. The packets that came by each way.
  std::map<std::string, std::uint64_t> go_on(std::uint64_t steps) {
    auto before = star.ways[kFar];
    EXPECT_EQ(star.run(steps), "endless");
    auto now = star.ways[kFar];
    for (auto& [way, count] : now) count -= before[way];
    return now;
  }
  void route(const std::string& spines) { star.h.reload(behind(mode_, spines)); }

 private:
  std::string mode_;

 public:
  Star star;
};

class IncRoutes : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Mode, IncRoutes, ::testing::Values("", "mode: iii, timeout: 6", "mode: i, timeout: 6"));

TEST_P(IncRoutes, ALinkThatGoesDownAndComesBackMovesAGroupsPackets) {
  Routed r(GetParam());
  auto came = r.go_on(8);
  const std::string one = came["s0"] > 0 ? "s0" : "s1", other = one == "s0" ? "s1" : "s0";
  EXPECT_GT(came[one], 0u);
  EXPECT_EQ(came[other] + came["h3"], 0u) << "one flow takes one way";
  r.star.h.set_link(one, false);
  came = r.go_on(8);
  EXPECT_GT(came[other], 0u);
  EXPECT_EQ(came[one] + came["h3"], 0u);
  r.star.h.set_link(one, true);
  r.star.h.set_link(other, false);
  came = r.go_on(8);
  EXPECT_GT(came[one], 0u);
  EXPECT_EQ(came[other] + came["h3"], 0u);
  EXPECT_EQ(r.star.run(), "done");
}

TEST_P(IncRoutes, AMemberThatIsTakenOutAndARouteThatGoesAreFollowed) {
  Routed r(GetParam());
  auto came = r.go_on(8);
  const bool first = came["s0"] > 0;
  const std::string one = first ? "s0" : "s1", other = first ? "s1" : "s0";
  r.route(first ? "10.1.1.2" : "10.1.0.2");
  came = r.go_on(8);
  EXPECT_GT(came[other], 0u);
  EXPECT_EQ(came[one] + came["h3"], 0u);
  r.route("");
  came = r.go_on(8);
  EXPECT_GT(came["h3"], 0u) << "by the prefix of the port";
  EXPECT_EQ(came[one] + came[other], 0u);
  r.route(kBoth);
  came = r.go_on(8);
  EXPECT_GT(came[one] + came[other], 0u);
  EXPECT_EQ(came["h3"], 0u);
  EXPECT_EQ(r.star.run(), "done");
  EXPECT_EQ(r.star.h.rows("inc_groups")[0]["generation"], 1) << "the group has stayed the same one";
}

// Nothing leads to the rank for a while: its neighbours' and its own repetitions bring what was dropped meanwhile.
TEST_P(IncRoutes, AWayThatIsMissingForAWhileIsRepaired) {
  Routed r(GetParam());
  r.go_on(8);
  r.star.h.set_link("s0", false);
  r.star.h.set_link("s1", false);
  EXPECT_EQ(r.star.run(3), "endless");
  r.star.h.set_link("s1", true);
  EXPECT_EQ(r.star.run(), "done");
  EXPECT_EQ(r.star.h.rows("inc_groups")[0]["state"], "running");
}

}  // namespace
}  // namespace weft::inc
