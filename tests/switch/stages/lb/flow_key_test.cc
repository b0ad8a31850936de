// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flow_key.h"

#include <gtest/gtest.h>

#include "switch/wire/builder.h"
#include "tests/support/parsed.h"

namespace weft::stages {
namespace {

wire::FrameBuilder packet() {
  wire::FrameBuilder frame;
  return frame.ipv4("10.0.1.2", "10.0.3.2").udp(50000).payload(8);
}

TEST(FlowKeys, AreThe5TupleAndShownInWords) {
  const FlowKey key = FlowKey::of(weft::testing::parsed_of(packet().build()));
  EXPECT_EQ(key.to_string(), "addresses 0a0001020a000302 protocol 17 ports 50000 4791");
  EXPECT_NE(key, FlowKey::of(weft::testing::parsed_of(packet().udp(50001).build())));
}

TEST(FlowKeys, AQueuePairIsAFlowOfItsOwnWhereItIsAskedFor) {
  const auto key = [](std::uint32_t qp) {
    return FlowKey::of_qp(
        weft::testing::parsed_of(packet().bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(qp), wire::Psn(1)).build()));
  };
  EXPECT_EQ(key(0xabcdef).qp(), wire::Qpn(0xabcdef));
  EXPECT_NE(key(34), key(35));
  EXPECT_NE(key(0x100), key(1));
  EXPECT_EQ(key(34).with_qp(wire::Qpn(35)), key(35));
  EXPECT_EQ(key(34).to_string(), "addresses 0a0001020a000302 protocol 17 ports 50000 4791 qp 34");
  const wire::Parsed plain = weft::testing::parsed_of(packet().build());
  EXPECT_EQ(FlowKey::of_qp(plain), FlowKey::of(plain));
}

TEST(FlowKeys, AFlowHasItsPlacesInOneSet) {
  std::vector<int> entries(16);
  const auto set = flow_set(entries, {1, 2});
  EXPECT_EQ(set.data(), flow_set(entries, {1, 2}).data());
  EXPECT_EQ(static_cast<std::size_t>(set.data() - entries.data()) % kFlowWays, 0u);
  std::vector<int> least(kFlowWays);
  EXPECT_EQ(flow_set(least, {3, 4}).data(), least.data());
}

}  // namespace
}  // namespace weft::stages
