// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/group_spec.h"

#include <gtest/gtest.h>

#include "switch/config/config.h"
#include "tests/collectives/stage/star.h"

namespace weft::inc {
namespace {

using testing::Forwarding;

// What the loader says of a switch with these options of inc; empty: nothing.
std::string verdict(const std::string& options, Forwarding f = Forwarding::bridged) {
  std::string yaml = testing::switch_yaml(f, options), indented;
  for (std::size_t at = 0; at < yaml.size();) {
    const std::size_t end = yaml.find('\n', at);
    indented += (at == 0 ? "  - " : "    ") + yaml.substr(at, end - at) + "\n";
    at = end + 1;
  }
  config::Diagnostics diagnostics;
  static_cast<void>(config::load_config("switches:\n" + indented, "f", weft::testing::all_stages(), diagnostics));
  std::string all;
  for (const auto& entry : diagnostics.entries()) all += (all.empty() ? "" : "; ") + entry.text;
  return all;
}

std::string two(const std::string& a, const std::string& b, const std::string& more = "") {
  return "{ groups: [{ id: 9, ranks: 2" + more + ", endpoints: [{ " + a + " }, { " + b + " }] }] }";
}

const std::string kA = "address: 10.0.0.9, qp: 5, peer: 10.0.0.1, peer_qp: 7, rank: 0";
const std::string kB = "address: 10.0.0.9, qp: 6, peer: 10.0.0.2, peer_qp: 7, rank: 1";

TEST(GroupSpec, WhatIsRightIsTaken) {
  EXPECT_EQ(verdict(two(kA, kB)), "");
  for (const Forwarding f :
       {Forwarding::bridged, Forwarding::bridged_v6, Forwarding::routed_v4, Forwarding::routed_v6}) {
    EXPECT_EQ(verdict("{ groups: [" + testing::group_yaml(f) + "] }", f), "");
  }
}

TEST(GroupSpec, EveryMistakeIsNamed) {
  EXPECT_EQ(verdict(two(kA, kA)), "groups: group 9: endpoint 1: rank 0 is behind two endpoints");
  EXPECT_EQ(verdict(two(kA, "address: 10.0.0.9, qp: 5, peer: 10.0.0.1, peer_qp: 7, rank: 1")),
            "groups: group 9: endpoints 0 and 1 have the same address, qp and peer");
  EXPECT_EQ(verdict(two(kA, kB + ", parent: true")),
            "groups: group 9: endpoint 1: endpoint 1 has one of rank, ranks and parent");
  EXPECT_EQ(verdict(two(kA, "address: 10.0.0.9, qp: 6, peer: 10.0.0.2, peer_qp: 7, rank: 2")),
            "groups: group 9: endpoint 1: rank 2 is none of 2");
  EXPECT_EQ(verdict(two(kA, "address: 10.0.0.9, qp: 6, peer: 10.0.0.2, peer_qp: 7, ranks: [0]")),
            "groups: group 9: endpoint 1: rank 0 is behind two endpoints");
  EXPECT_EQ(verdict(two(kA, "address: 10.0.0.9, qp: 6, peer: 10.0.0.9, peer_qp: 7, rank: 1")),
            "groups: group 9: endpoint 1: address and peer are not the same");
  EXPECT_EQ(verdict(two(kA, "address: 10.0.0.9, qp: 6, peer: \"fd00::1\", peer_qp: 7, rank: 1")),
            "groups: group 9: endpoint 1: address and peer are of one family");
  EXPECT_EQ(verdict(two(kA, kB, ", mtu: 1000")), "groups: group 9: mtu is one of 256, 512, 1024, 2048, 4096");
  EXPECT_EQ(verdict(two(kA, kB, ", window: 1000")), "groups: their slots need 16004 KiB, and memory_kb is 4096");
  EXPECT_EQ(verdict(two(kA, kB, ", mode: iii, slots: 7")), "");
  EXPECT_EQ(verdict(two(kA, kB, ", mode: iv")), "mode: expected one of i, ii, iii, found 'iv'; did you mean 'i'?");
  EXPECT_EQ(verdict(two(kA, kB, ", block: 8")), "");
  EXPECT_EQ(verdict(two(kA, kB, ", mode: iii, block: 8")),
            "groups: group 9: a block is for mode ii: groups of other modes have memory of their own");
  EXPECT_EQ(verdict(two(kA, kB, ", slots: 8")),
            "groups: group 9: slots are for mode iii: other modes go by the window");
}

TEST(GroupSpec, WhatTheSwitchDoesNotOfferIsNotTaken) {
  const auto offered = [](const std::string& offer, const std::string& more) {
    std::string options = two(kA, kB, more);
    return verdict(options.insert(1, " " + offer + ","));
  };
  EXPECT_EQ(offered("modes: [ii, iii]", ""), "");
  EXPECT_EQ(offered("modes: [ii, iii]", ", mode: i"),
            "groups: group 9: mode i is not offered here; `modes` are ii, iii");
  EXPECT_EQ(offered("fan_in: 2", ""), "");
  EXPECT_EQ(offered("fan_in: 1", ""), "groups: group 9: 2 children, and `fan_in` is 1");
  EXPECT_NE(offered("modes: []", ""), "");
  EXPECT_NE(offered("fan_in: 65", ""), "");
}

TEST(GroupSpec, GroupsMayNotShareWhatTellsTheirPacketsApart) {
  const std::string one = "{ id: 9, ranks: 2, endpoints: [{ " + kA + " }, { " + kB + " }] }";
  EXPECT_EQ(verdict("{ groups: [" + one + ", " + one + "] }"), "groups: group 9: there is a group 9 already");
  EXPECT_EQ(verdict("{ groups: [" + one + ", { id: 8, ranks: 2, endpoints: [{ " + kA + " }, { " + kB + " }] }] }"),
            "groups: group 8: group 9 has the endpoint 10.0.0.9 qp 5 with the peer 10.0.0.1 already");
}

TEST(GroupSpec, AChildOfATreeReachesTheOthersThroughItsParent) {
  EXPECT_EQ(verdict("{ groups: [{ id: 9, ranks: 4, endpoints: [{ " + kA + " }, { " + kB +
                    " }, { address: 10.0.0.9, qp: 8, peer: 10.0.0.3, peer_qp: 7, parent: true }] }] }"),
            "");
  EXPECT_EQ(verdict("{ groups: [{ id: 9, ranks: 4, endpoints: [{ " + kA + " }, { " + kB + " }] }] }"),
            "groups: group 9: rank 2 is behind no endpoint");
}

}  // namespace
}  // namespace weft::inc
