// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flow_key.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

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

struct PlacedFlow {
  FlowKey key{};
  std::uint64_t last = 0;
};
bool has_nobody(const PlacedFlow& entry) {
  return entry.last == 0;
}

TEST(FlowKeys, AFlowHasAFirstPlaceAndTheOthersAreBesideIt) {
  std::vector<PlacedFlow> entries(4 * kFlowWays);
  std::array<int, 4 * kFlowWays> first{};
  for (std::uint64_t flow = 0; flow < 1000; ++flow) ++first[flow_place(entries, {flow, 2})];
  for (const int flows : first) EXPECT_GT(flows, 30) << "flows begin anywhere";
  EXPECT_EQ(flow_place(entries, {1, 2}), flow_place(entries, {1, 2}));
  entries.resize(kFlowWays);
  EXPECT_LT(flow_place(entries, {1, 2}), kFlowWays);
}

TEST(FlowKeys, AFlowTakesItsFirstPlaceThenAnotherOneThenThatOfWhoWasSilentLongest) {
  std::vector<PlacedFlow> entries(2 * kFlowWays);
  constexpr std::uint32_t kPlace = kFlowWays + 2;
  std::set<std::uint32_t> taken;
  for (std::uint64_t flow = 1; flow <= kFlowWays; ++flow) {
    const auto [entry, known] = find_flow(entries, kPlace, {flow, 0}, has_nobody);
    EXPECT_FALSE(known);
    const auto place = static_cast<std::uint32_t>(entry - entries.data());
    EXPECT_TRUE(flow != 1 || place == kPlace);
    EXPECT_EQ(place / kFlowWays, kPlace / kFlowWays);
    EXPECT_TRUE(taken.insert(place).second);
    *entry = {{flow, 0}, flow == 3 ? 1 : 10 + flow};
  }
  for (std::uint64_t flow = 1; flow <= kFlowWays; ++flow) {
    const FlowKey key{flow, 0};
    const PlacedFlow* const entry = known_flow(entries, kPlace, key, has_nobody);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->key, key);
    EXPECT_EQ(find_flow(entries, kPlace, key, has_nobody).entry, entry);
    EXPECT_TRUE(find_flow(entries, kPlace, key, has_nobody).known);
  }
  EXPECT_EQ(known_flow(entries, kPlace, {9, 0}, has_nobody), nullptr);
  const auto [victim, known] = find_flow(entries, kPlace, {9, 0}, has_nobody);
  EXPECT_FALSE(known);
  EXPECT_EQ(victim->key, (FlowKey{3, 0}));
  EXPECT_EQ(find_flow(entries, kPlace, {9, 0}, has_nobody, [](const PlacedFlow&) { return true; }).entry, nullptr);
}

}  // namespace
}  // namespace weft::stages
