// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/findings.h"

#include <gmock/gmock.h>

namespace weft::inc_tool {
namespace {

using inc::comm::Gid;
using ::testing::HasSubstr;
using ::testing::Not;

wire::IpAddress ip(const char* text) {
  return *wire::IpAddress::parse(text);
}

const std::vector<KnownHost> kKnown{{"h1", ip("10.0.1.2")}, {"h2", ip("10.0.2.2")}};

TEST(GidFinding, NamesTheIndexThatProgramsTake) {
  const Gid chosen{ip("10.0.1.2"), 3, 1};
  const Finding found = gid_finding("mlx5_0", chosen, {chosen}, kKnown);
  EXPECT_EQ(found.fine, true);
  EXPECT_EQ(found.detail, "GID 3 of mlx5_0, port 1 (10.0.1.2) is of RoCE v2, and the address of h1 for the manager");
}

TEST(GidFinding, SaysWhichOneToTakeInPlaceOfAnUnknownOne) {
  const Gid chosen{ip("10.9.9.9"), 1, 1}, right{ip("10.0.2.2"), 5, 2};
  const Finding found = gid_finding("mlx5_0", chosen, {chosen, right}, kKnown);
  EXPECT_EQ(found.fine, false);
  EXPECT_THAT(found.detail, HasSubstr("programs take GID 1 of mlx5_0, port 1 (10.9.9.9)"));
  EXPECT_THAT(found.detail, HasSubstr("its h2 is GID 5 of mlx5_0, port 2 (10.0.2.2): name this address (--rnic "
                                      "10.0.2.2"));
}

TEST(GidFinding, ListsWhatThereIsWhereTheManagerKnowsNone) {
  const Gid chosen{ip("10.9.9.9")}, other{ip("fd00::9")};
  const Finding found = gid_finding("eth0", chosen, {chosen, other}, kKnown);
  EXPECT_EQ(found.fine, false);
  EXPECT_THAT(found.detail, HasSubstr("10.9.9.9 of eth0, fd00::9 of eth0"));
}

IcrcFacts facts() {
  IcrcFacts f;
  f.switch_name = "leaf1";
  f.packets = 7;
  f.mtu = 1024;
  f.says = IcrcFacts::AtSwitch{7, 0, 4};
  f.rnic_drops = 0;
  return f;
}

TEST(IcrcFinding, IsFineWhereAllIsAcknowledgedAndNobodyDroppedAnything) {
  IcrcFacts f = facts();
  f.acknowledged = true;
  EXPECT_EQ(icrc_finding(f).fine, true);
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("leaf1 took 7 packets of up to 1024 bytes"));
  f.says.reset();
  f.rnic_drops.reset();
  EXPECT_EQ(icrc_finding(f).fine, true) << "an answer that the RNIC takes says all";
}

TEST(IcrcFinding, NamesTheSideThatDrops) {
  IcrcFacts f = facts();
  f.says = IcrcFacts::AtSwitch{2, 9, 1};
  EXPECT_EQ(icrc_finding(f).fine, false);
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("leaf1 drops packets of this host: 9 came with a wrong ICRC, 2"));
  f.acknowledged = true;
  EXPECT_EQ(icrc_finding(f).fine, false) << "repetitions came through in the end";
  f = facts();
  f.rnic_drops = 1;
  EXPECT_EQ(icrc_finding(f).fine, false);
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("RNIC drops packets of leaf1: 1 answer came with a wrong ICRC"));
}

TEST(IcrcFinding, TellsLossFromAWrongIcrc) {
  IcrcFacts f = facts();
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("of its 4 answers this host's RNIC took too few"));
  EXPECT_THAT(icrc_finding(f).detail, Not(HasSubstr("does not count")));
  f.rnic_drops.reset();
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("dropped by the RNIC, which does not count"));
  f.says = IcrcFacts::AtSwitch{7, 0, 0};
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("sent no answer"));
  f.says = IcrcFacts::AtSwitch{};
  EXPECT_EQ(icrc_finding(f).fine, false);
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("no packet of this host came to leaf1"));
  f.says.reset();
  f.error = "retry exceeded";
  EXPECT_EQ(icrc_finding(f).fine, std::nullopt) << "nobody knows";
  EXPECT_THAT(icrc_finding(f).detail, HasSubstr("retry exceeded"));
}

}  // namespace
}  // namespace weft::inc_tool
