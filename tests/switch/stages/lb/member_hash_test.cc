// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/member_hash.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "switch/config/config.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kUplinks = 4;
const std::string kWithQp = "[DST_IP, SRC_IP, IP_PROTOCOL, L4_DST_PORT, L4_SRC_PORT, RDMA_BTH_DEST_QP]";

std::string yaml_of(const std::string& lb, unsigned uplinks = kUplinks, bool ipv6 = false) {
  return leaf_yaml(1, {.uplinks = uplinks, .lb = lb, .ipv6 = ipv6});
}

// A packet of the sender to one of the receiver's queue pairs.
FrameBuilder packet(std::uint32_t qpn, std::uint16_t source_port = 50000, Opcode opcode = Opcode::RC_SEND_MIDDLE) {
  return data(1).udp(source_port).bth(opcode, Qpn(qpn), Psn(1));
}

class Leaf {
 public:
  explicit Leaf(const std::string& lb, bool ipv6 = false)
      : h(weft::testing::all_stages(), yaml_of(lb, kUplinks, ipv6)), ipv6_(ipv6) {}

  // The uplink that a packet takes, kUplinks for none.
  unsigned way(const FrameBuilder& frame) {
    h.inject("h1", (ipv6_ ? to_receiver_over_ipv6(frame) : frame).build());
    unsigned taken = kUplinks;
    for (unsigned i = 0; i < kUplinks; ++i) {
      if (!h.take("s" + std::to_string(i + 1)).empty()) taken = i;
    }
    return taken;
  }
  // The ways of flows with different source ports.
  std::vector<unsigned> ways(std::uint16_t flows) {
    std::vector<unsigned> all;
    for (std::uint16_t i = 0; i < flows; ++i) all.push_back(way(packet(34, static_cast<std::uint16_t>(50000 + i))));
    return all;
  }
  // How many of these queue pairs behind one source port take each uplink.
  std::array<int, kUplinks> spread_of_qps(std::uint32_t qps) {
    std::array<int, kUplinks> taken{};
    for (std::uint32_t qpn = 0; qpn < qps; ++qpn) ++taken.at(way(packet(0x100 + qpn)));
    return taken;
  }

  weft::testing::Harness h;

 private:
  bool ipv6_;
};

TEST(LbMemberHash, QueuePairsBehindOneSourcePortShareAPathByDefault) {
  Leaf leaf("{ policy: ecmp }");
  const auto taken = leaf.spread_of_qps(64);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 64), 1);
}

TEST(LbMemberHash, DestinationQpsSpreadEvenly) {
  for (const bool ipv6 : {false, true}) {
    Leaf leaf("{ policy: ecmp, hash_fields: " + kWithQp + " }", ipv6);
    for (const int count : leaf.spread_of_qps(4096)) EXPECT_NEAR(count, 1024, 102) << "25 % each, +-10 % of it";
    for (const int count : leaf.spread_of_qps(64)) EXPECT_LE(count, 64 * 45 / 100);
  }
}

TEST(LbMemberHash, AQueuePairKeepsItsPathAmongOthersThatShareItsFlow) {
  // Both are known, so that what l3 caches by flow would be asked.
  Leaf leaf("{ policy: ecmp, hash_fields: " + kWithQp + " }");
  ASSERT_NE(leaf.way(packet(34)), leaf.way(packet(35)));
  const unsigned first = leaf.way(packet(34)), second = leaf.way(packet(35));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(leaf.way(packet(34)), first);
    EXPECT_EQ(leaf.way(packet(35)), second);
    EXPECT_EQ(leaf.way(packet(34, 50000, Opcode::RC_SEND_LAST)), first) << "the opcode is not hashed";
  }
}

TEST(LbMemberHash, TheOpcodeIsHashedWhenAskedFor) {
  Leaf leaf("{ policy: ecmp, hash_fields: [DST_IP, RDMA_BTH_OPCODE] }");
  std::array<int, kUplinks> taken{};
  for (unsigned opcode = 0; opcode < 3; ++opcode) {
    ++taken.at(leaf.way(packet(34, 50000, static_cast<Opcode>(opcode))));
    EXPECT_EQ(leaf.way(packet(34, 50000, static_cast<Opcode>(opcode))),
              leaf.way(packet(35, 1, static_cast<Opcode>(opcode))));
  }
  EXPECT_GT(std::count_if(taken.begin(), taken.end(), [](int count) { return count != 0; }), 1);
}

TEST(LbMemberHash, AFieldThatIsLeftOutDoesNotCount) {
  for (const bool ipv6 : {false, true}) {
    Leaf leaf("{ policy: ecmp, hash_fields: [DST_IP, IP_PROTOCOL, L4_DST_PORT] }", ipv6);
    const auto ways = leaf.ways(50);
    EXPECT_EQ(std::count(ways.begin(), ways.end(), ways[0]), 50) << "the source port";
    Leaf ports("{ policy: ecmp, hash_fields: [L4_SRC_PORT] }", ipv6);
    const auto other = ports.ways(50);
    EXPECT_LT(std::count(other.begin(), other.end(), other[0]), 30);
  }
}

TEST(LbMemberHash, TheDefaultFieldsAreTheDocumentedHash) {
  // The same fields, in another order and with one more that is 0 here, would not do: the key has another word.
  Leaf plain("{ policy: ecmp }");
  Leaf listed("{ policy: ecmp, hash_fields: [L4_SRC_PORT, L4_DST_PORT, IP_PROTOCOL, SRC_IP, DST_IP] }");
  EXPECT_EQ(plain.ways(50), listed.ways(50));
}

std::array<int, kUplinks> count(const std::vector<unsigned>& ways) {
  std::array<int, kUplinks> taken{};
  for (const unsigned way : ways) ++taken.at(way);
  return taken;
}

TEST(LbMemberHash, MembersShareFlowsByTheirWeights) {
  for (const char* more : {"", ", resilient: true"}) {
    Leaf leaf("{ policy: ecmp, weights: { s1: 3, s3: 2, s4: 2 }" + std::string(more) + " }");
    const auto taken = count(leaf.ways(4000));
    EXPECT_NEAR(taken[0], 1500, 150);
    EXPECT_NEAR(taken[1], 500, 75);
    EXPECT_NEAR(taken[2], 1000, 100);
    EXPECT_NEAR(taken[3], 1000, 100);
  }
}

TEST(LbMemberHash, RandomFollowsTheWeights) {
  Leaf leaf("{ policy: random, weights: { s2: 5 } }");
  std::vector<unsigned> ways;
  for (int i = 0; i < 1600; ++i) ways.push_back(leaf.way(packet(34)));
  EXPECT_NEAR(count(ways)[1], 1000, 100);
}

TEST(LbMemberHash, APathThatIsDownMovesItsOwnFlowsToTheOthersByTheirWeights) {
  for (const char* more : {"", ", resilient: true"}) {
    Leaf leaf("{ policy: ecmp, weights: { s1: 2, s2: 3 }" + std::string(more) + " }");
    const auto before = leaf.ways(2000);
    leaf.h.set_link("s1", false);
    const auto after = leaf.ways(2000);
    std::array<int, kUplinks> moved{};
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == 0) {
        ++moved.at(after[i]);
      } else {
        ASSERT_EQ(after[i], before[i]);
      }
    }
    const double all = std::accumulate(moved.begin(), moved.end(), 0);
    EXPECT_EQ(moved[0], 0);
    EXPECT_NEAR(moved[1], all * 3 / 5, all / 10);
    EXPECT_NEAR(moved[2], all / 5, all / 10);
    leaf.h.set_link("s1", true);
    EXPECT_EQ(leaf.ways(2000), before);
    for (const char* port : {"s1", "s2", "s3", "s4"}) leaf.h.set_link(port, false);
    EXPECT_EQ(leaf.way(packet(34)), kUplinks);
    EXPECT_EQ(leaf.h.counter("lb", "no_member_up"), 1u);
  }
}

// The configuration without one next hop of the route, as when a routing protocol withdraws it.
std::string without_hop(std::string yaml, const std::string& hop) {
  const std::string text = hop + ".254, ";
  return yaml.erase(yaml.rfind(text), text.size());
}

TEST(LbMemberHash, ANextHopThatLeavesAResilientGroupMovesOnlyItsOwnFlows) {
  for (const char* weights : {"", ", weights: { s2: 2, s3: 3 }"}) {
    const std::string lb = "{ policy: ecmp, resilient: true" + std::string(weights) + " }";
    Leaf leaf(lb);
    const auto before = leaf.ways(1000);
    leaf.h.reload(without_hop(yaml_of(lb), "10.1.2"));
    const auto after = leaf.ways(1000);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == 1) {
        ASSERT_NE(after[i], 1u);
      } else {
        ASSERT_EQ(after[i], before[i]) << "flow " << i;
      }
    }
    leaf.h.reload(yaml_of(lb));
    EXPECT_EQ(leaf.ways(1000), before) << "it takes back what it had, and nothing else";
  }
}

TEST(LbMemberHash, WithoutResilienceOtherFlowsMoveToo) {
  const std::string lb = "{ policy: ecmp }";
  Leaf leaf(lb);
  const auto before = leaf.ways(1000);
  leaf.h.reload(without_hop(yaml_of(lb), "10.1.2"));
  const auto after = leaf.ways(1000);
  int moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) moved += before[i] != 1 && after[i] != before[i] ? 1 : 0;
  EXPECT_GT(moved, 40) << "the test above can fail";
}

TEST(LbMemberHash, WhatChangesUnderTrafficHoldsForCachedFlowsToo) {
  Leaf leaf("{ policy: ecmp }");
  ASSERT_EQ(leaf.h.set("lb", {"weights.s1=64", "weights.s2=64"}), "");
  auto taken = count(leaf.ways(600));
  EXPECT_GT(taken[0] + taken[1], 560);
  ASSERT_EQ(leaf.h.set("lb", {"weights.s1=1", "weights.s2=1", "weights.s4=64"}), "");
  taken = count(leaf.ways(600));
  EXPECT_GT(taken[3], 520);
  EXPECT_EQ(leaf.h.rows("lb")[3]["weight"], 64);
  EXPECT_EQ(leaf.h.rows("lb")[2]["weight"], 1);
  EXPECT_EQ(leaf.h.dropped_total(), 0u);
}

std::string told_about(const std::string& lb) {
  config::Diagnostics diagnostics;
  static_cast<void>(config::load_switch(yaml_of(lb), weft::testing::all_stages(), diagnostics));
  return diagnostics.to_string();
}

TEST(LbMemberHash, MistakesInTheFieldsAreNamed) {
  EXPECT_EQ(told_about("{ hash_fields: " + kWithQp + " }"), "");
  EXPECT_THAT(told_about("{ hash_fields: [DST_IP, SRC_IP, DST_IP] }"),
              HasSubstr("hash_fields: DST_IP stands there twice"));
  EXPECT_THAT(told_about("{ hash_fields: [DEST_QP] }"), HasSubstr("found 'DEST_QP'"));
  EXPECT_THAT(told_about("{ hash_fields: [] }"), HasSubstr("hash_fields"));
  EXPECT_THAT(told_about("{ hash_fields: [RDMA_BTH_OPCODE] }"),
              HasSubstr("note: hash_fields: RDMA_BTH_OPCODE sends the packets of one message over several paths, which "
                        "breaks the order within a queue pair"));
}

}  // namespace
}  // namespace weft::stages::testing
