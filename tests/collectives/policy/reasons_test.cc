// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gmock/gmock.h>

#include "tests/collectives/policy/requests.h"

namespace weft::inc::policy {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// Refused, and why in words.
std::vector<std::string> refused(Policy& policy, const Request& r, Reason reason) {
  const Decision d = policy.explain(r);
  EXPECT_EQ(to_string(d.reason), to_string(reason));
  return sentences(policy.topology(), r, d);
}

Topology small(const Abilities& abilities = weft_abilities(100'000)) {
  return leaf_spine(2, 2, 2, abilities, 100);
}

TEST(Reasons, BadRequestsAreRefusedByName) {
  Policy policy(small(), {});
  const Topology& t = policy.topology();
  const auto expect = [&](const Request& r, const std::string& says) {
    EXPECT_THAT(refused(policy, r, Reason::bad_request), ElementsAre(HasSubstr(says)));
  };
  expect(request(t, 1, {"h0"}), "two hosts");
  expect(request(t, 1, {"h0", "h1", "h0"}), "twice");
  expect(request(t, 1, {"h0", "h9"}), "not known");
  expect(request(t, 1, {"h0", "leaf1"}), "leaf1 is a switch");
  const auto changed = [&](auto change) {
    Request r = request(t, 1, {"h0", "h1"});
    change(r);
    return r;
  };
  expect(changed([](Request& r) { r.memory.unit_bytes = 0; }), "no bytes");
  expect(changed([](Request& r) { r.memory.message_bytes = 0; }), "no bytes");
  expect(changed([](Request& r) { r.memory.least_units = 11; }), "least_units");
  expect(changed([](Request& r) { r.memory.least_units = 0; }), "least_units");
  expect(changed([](Request& r) { r.memory.unit_bytes = UINT64_MAX; }), "too much");
  expect(changed([](Request& r) { r.duty_per_mille = 1001; }), "duty");
  expect(changed([](Request& r) { r.duty_per_mille = 0; }), "duty");
  expect(changed([](Request& r) { r.period_ns = UINT64_MAX; }), "period");
}

TEST(Reasons, AGroupIsMadeOnce) {
  Policy policy(small(), {});
  const Request r = request(policy.topology(), 1, {"h0", "h1"});
  ASSERT_TRUE(policy.place(r).admitted());
  EXPECT_THAT(refused(policy, r, Reason::group_exists), ElementsAre(HasSubstr("with that number")));
}

TEST(Reasons, HostsThatAreDownAreNamed) {
  Policy policy(small(), {});
  const Topology& t = policy.topology();
  policy.set_link_up(link_between(t, "h3", "leaf1"), false);
  policy.set_node_up(t.find("h2"), false);
  EXPECT_THAT(refused(policy, request(t, 1, {"h0", "h2", "h3"}), Reason::host_down),
              ElementsAre(HasSubstr("no way"), HasSubstr("h2"), HasSubstr("h3")));
  EXPECT_TRUE(policy.explain(request(t, 1, {"h0", "h1"})).admitted());
}

TEST(Reasons, AFabricInTwoPartsHasNoPath) {
  Policy policy(small(), {});
  const Topology& t = policy.topology();
  policy.set_node_up(t.find("spine0"), false);
  policy.set_link_up(link_between(t, "leaf0", "spine1"), false);
  EXPECT_THAT(refused(policy, request(t, 1, {"h0", "h2"}), Reason::no_path), ElementsAre(HasSubstr("reaches")));
}

TEST(Reasons, SwitchesThatCannotDoItAreNamed) {
  Policy policy(small(), {});
  const Topology& t = policy.topology();
  Abilities abilities = weft_abilities(100'000);
  abilities.modes = bit(Mode::i);
  policy.set_abilities(t.find("leaf1"), abilities);
  EXPECT_THAT(refused(policy, request(t, 1, {"h0", "h2"}), Reason::unsupported),
              ElementsAre(HasSubstr("do not connect"), HasSubstr("leaf1 does not have")));
  Request r = request(t, 1, {"h0", "h2"});
  r.mode = Mode::i;
  EXPECT_TRUE(policy.explain(r).admitted());
  abilities.types = bit(DataType::int32);
  policy.set_abilities(t.find("leaf1"), abilities);
  EXPECT_EQ(policy.explain(r).reason, Reason::unsupported);
}

TEST(Reasons, LinksOfOtherGroupsAreNamedWithThem) {
  Policy policy(leaf_spine(2, 1, 3, weft_abilities(100'000), 100), {.kind = PolicyKind::edge_disjoint});
  const Topology& t = policy.topology();
  ASSERT_TRUE(policy.place(request(t, 7, {"h0", "h3"})).admitted());
  EXPECT_TRUE(policy.explain(request(t, 8, {"h1", "h2"})).admitted()) << "the leaf has links of its own for these";
  EXPECT_THAT(refused(policy, request(t, 8, {"h1", "h4"}), Reason::links_taken),
              ElementsAre(HasSubstr("other groups"), "Group 7 has the link leaf0 - spine0.",
                          "Group 7 has the link leaf1 - spine0."));
}

TEST(Reasons, MemoryThatIsMissingIsCounted) {
  Policy policy(small(), {});
  const Topology& t = policy.topology();
  policy.set_abilities(t.find("leaf1"), weft_abilities(999));
  Request r = request(t, 1, {"h0", "h2"});
  EXPECT_THAT(refused(policy, r, Reason::no_memory),
              ElementsAre(HasSubstr("memory"), "leaf1 has 999 bytes left, and the group needs 1000 there."));
  r.memory.unit_bytes = 500;
  EXPECT_TRUE(policy.explain(r).admitted());
  r.memory.unit_bytes_per_endpoint = 250;  // two endpoints
  EXPECT_EQ(policy.explain(r).reason, Reason::no_memory);
}

TEST(Reasons, BandwidthThatIsSetAsideIsCounted) {
  Policy policy(leaf_spine(2, 1, 2, weft_abilities(100'000), 100), {});
  const Topology& t = policy.topology();
  Request r = request(t, 1, {"h0", "h2"});
  r.rate_mbps = 70;
  ASSERT_TRUE(policy.place(r).admitted());
  Request next = request(t, 2, {"h1", "h3"});
  next.rate_mbps = 31;
  EXPECT_THAT(
      refused(policy, next, Reason::no_bandwidth),
      ElementsAre(HasSubstr("bandwidth"), "Of the link leaf0 - spine0 30 Mbit/s are left, and the group needs 31.",
                  HasSubstr("leaf1 - spine0")));
  next.rate_mbps = 30;
  EXPECT_TRUE(policy.place(next).admitted());
  EXPECT_EQ(policy.explain(request(t, 3, {"h0", "h2"})).reason, Reason::no_bandwidth) << "nothing is left";
}

TEST(Reasons, MemoryThatIsBusyIsNotShared) {
  Policy policy(leaf_spine(1, 1, 4, weft_abilities(10'000), 100), {.kind = PolicyKind::temporal});
  const Topology& t = policy.topology();
  Request r = request(t, 1, {"h0", "h1"});
  r.duty_per_mille = 800;
  ASSERT_TRUE(policy.place(r).admitted());
  Request next = request(t, 2, {"h2", "h3"});
  next.duty_per_mille = 201;
  EXPECT_THAT(refused(policy, next, Reason::no_share),
              ElementsAre(HasSubstr("shared"), HasSubstr("leaf0 has 0 bytes")));
  next.duty_per_mille = 200;
  EXPECT_TRUE(policy.explain(next).admitted());
}

TEST(Reasons, ChildrenAreCounted) {
  Abilities abilities = weft_abilities(100'000);
  abilities.fan_in = 2;
  Policy policy(leaf_spine(1, 1, 3, abilities, 100), {});
  const Topology& t = policy.topology();
  EXPECT_THAT(refused(policy, request(t, 1, {"h0", "h1", "h2"}), Reason::too_many_children),
              ElementsAre(HasSubstr("children"), "leaf0 would have 3 children, and takes 2."));
  EXPECT_TRUE(policy.explain(request(t, 1, {"h0", "h1"})).admitted());
}

TEST(Reasons, FewHostsGainNothing) {
  Policy policy(small(), {.least_hosts = 3});
  EXPECT_THAT(refused(policy, request(policy.topology(), 1, {"h0", "h1"}), Reason::no_gain),
              ElementsAre("Group 1 gets no tree: its ring sends hardly more than a tree would."));
  EXPECT_TRUE(policy.explain(request(policy.topology(), 1, {"h0", "h1", "h2"})).admitted());
}

TEST(Reasons, ALongListIsCutAndCounted) {
  Policy policy(leaf_spine(30, 1, 1, weft_abilities(1), 100), {});
  std::vector<std::string> hosts;
  for (int i = 0; i < 30; ++i) hosts.push_back("h" + std::to_string(i));
  const Decision d = policy.explain(request(policy.topology(), 1, hosts));
  EXPECT_EQ(d.blockers.size(), kMaxBlockers);
  EXPECT_EQ(d.more_blockers, 31 - kMaxBlockers);
}

TEST(Reasons, ATreeIsDescribed) {
  Policy policy(small(), {.kind = PolicyKind::spatial, .hop_ns = 10});
  const Request r = request(policy.topology(), 7, {"h0", "h2"});
  const Decision d = policy.explain(r);
  EXPECT_THAT(sentences(policy.topology(), r, d),
              ElementsAre("Group 7 of 2 hosts gets a tree of 3 switches under spine0, 100 Mbit/s wide.",
                          "Its window is 10 messages of the 10 that it asks for."));
}

TEST(Reasons, SharedMemoryIsSaid) {
  Policy policy(leaf_spine(1, 1, 4, weft_abilities(10'000), 100), {.kind = PolicyKind::temporal});
  const Topology& t = policy.topology();
  Request r = request(t, 1, {"h0", "h1"});
  r.duty_per_mille = 300;
  ASSERT_TRUE(policy.place(r).admitted());
  r = request(t, 2, {"h2", "h3"});
  r.duty_per_mille = 300;
  const Decision d = policy.explain(r);
  EXPECT_THAT(sentences(t, r, d), Contains(AllOf(HasSubstr("shares memory"), HasSubstr("locked"))));
}

}  // namespace
}  // namespace weft::inc::policy
