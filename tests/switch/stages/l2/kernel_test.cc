// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A bridge whose link-local control frames are the kernel's.
#include "tests/switch/stages/l2/rig.h"

namespace weft::stages::l2_rig {
namespace {

const std::string kAccess = "  - { name: access, type: \"null\" }\n";
// Untagged frames belong to no VLAN here.
const std::string kTrunk = "  - { name: trunk, type: \"null\", trunk: { vlans: [2] } }\n";

std::string bridge(const std::string& ports) {
  return "name: tor\nports:\n" + ports + "kernel: { packets_per_s: 1000 }\npipeline: [parse, l2]\n";
}

const MacAddress kLldp = mac("01:80:c2:00:00:0e");
const MacAddress kSlow = mac("01:80:c2:00:00:02");

Bytes control_frame(const MacAddress& to, std::uint16_t type, int from) {
  return FrameBuilder().eth(host(from), to).ethertype(type).payload(46).build();
}
const Bytes kLacp = control_frame(kSlow, 0x8809, 1);

class L2KernelTest : public ::testing::Test {
 protected:
  L3Kernel& kernel() { return *s.shared<L2Shared>("l2").kernel(); }
  // What went to the kernel: the ports where it came in, and the frames.
  std::vector<std::pair<PortIndex, Bytes>> taken() {
    std::vector<std::pair<PortIndex, Bytes>> out;
    rte_mbuf* m = nullptr;
    while (kernel().take(0, &m, 1) == 1) {
      out.emplace_back(pipeline::meta(m).in_port, Bytes(pipeline::frame(m), pipeline::frame(m) + m->pkt_len));
      rte_pktmbuf_free(m);
    }
    return out;
  }
  void give(const Bytes& frame, PortIndex port) {
    rte_mbuf* m = rte_pktmbuf_alloc(s.pool());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    pipeline::meta(m).out_port = port;
    ASSERT_TRUE(kernel().give(0, m));
  }
  Harness s{registry(), bridge(kAccess + kTrunk)};
};

TEST_F(L2KernelTest, LinkLocalFramesGoToTheKernelAsTheyCameWhateverTheVlan) {
  const Bytes lldp = control_frame(kLldp, wire::EtherType::lldp, 2);
  s.inject("access", kLacp);
  s.inject("trunk", lldp);
  EXPECT_THAT(taken(), ElementsAre(std::pair(PortIndex{0}, kLacp), std::pair(PortIndex{1}, lldp)));
  EXPECT_EQ(s.totals().consumed.value(), 2u);
  EXPECT_EQ(s.totals().tx.value(), 0u);
  EXPECT_THAT(s.rows("fdb"), IsEmpty());
}

TEST_F(L2KernelTest, NothingElseGoesToTheKernel) {
  s.inject("access", control_frame(kBroadcast, wire::EtherType::lldp, 1));
  s.inject("access", control_frame(mac("01:80:c2:00:00:10"), wire::EtherType::lldp, 1));
  s.inject("access", control_frame(host(2), wire::EtherType::lldp, 1));
  EXPECT_THAT(taken(), IsEmpty());
  EXPECT_EQ(s.totals().consumed.value(), 0u);
}

TEST_F(L2KernelTest, FramesOfTheKernelLeaveThroughTheirPortAsTheyAre) {
  give(kLacp, 1);
  EXPECT_LE(s.pipeline().next_deadline(), s.now());
  s.advance_ns(1000);
  const auto sent = s.take("trunk");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, kLacp);
  EXPECT_THAT(s.take("access"), IsEmpty());
  EXPECT_EQ(s.rows("kernel")[1]["from_kernel"], 1u);
}

TEST_F(L2KernelTest, WhatWaitsGoesThroughAReloadUnderTheNewNamesOfItsPorts) {
  s.inject("access", kLacp);
  s.inject("trunk", kLacp);
  const Bytes answer = control_frame(kSlow, 0x8809, 7);
  give(answer, 1);
  kernel().counters(1).to_kernel = 17;
  s.reload(bridge(kTrunk + "  - { name: new, type: \"null\" }\n"));
  EXPECT_THAT(taken(), ElementsAre(std::pair(PortIndex{0}, kLacp))) << "the other one's port is gone";
  s.advance_ns(1000);
  const auto sent = s.take("trunk");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, answer);
  const auto rows = s.rows("kernel");
  EXPECT_EQ(rows[0]["port"], "trunk");
  EXPECT_EQ(rows[0]["to_kernel"], 17u);
  EXPECT_EQ(rows[1]["to_kernel"], 0u);
}

}  // namespace
}  // namespace weft::stages::l2_rig
