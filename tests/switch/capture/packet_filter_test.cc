// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/packet_filter.h"

#include <gmock/gmock.h>

#include "switch/stages/l3/drops.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft::capture {
namespace {

using pipeline::SwitchInfo;
using testing::HasSubstr;

wire::Parsed parsed(const wire::FrameBuilder& builder) {
  const auto bytes = builder.build();
  const auto size = static_cast<std::uint32_t>(bytes.size());
  wire::Parsed out;
  wire::parse_frame(bytes.data(), size, size, out);
  return out;
}

wire::Parsed roce(wire::Opcode opcode, std::uint32_t qp, std::uint32_t psn) {
  return parsed(wire::FrameBuilder().bth(opcode, wire::Qpn(qp), wire::Psn(psn)).payload(8));
}

class FilterTest : public testing::Test {
 protected:
  FilterTest() {
    for (const char* name : {"tor1", "tor2"}) {
      SwitchInfo info;
      info.name = name;
      for (const char* port : {"h1", "h2"}) {
        info.ports.push_back(
            {.name = port, .index = static_cast<std::uint16_t>(info.ports.size()), .type = "null", .device = {}});
      }
      infos.push_back(info);
    }
    reasons.add(stages::L3Drop::block());
    infos[1].ports.push_back({.name = "up", .index = 2, .type = "null", .device = {}});
  }
  /// Group 7 runs on tor2.
  Filters make(const Query& query) {
    SwitchView tor1{&infos[0], {}}, tor2{&infos[1], {}};
    for (const std::uint32_t group : query.groups) {
      tor1.groups.emplace_back();
      tor2.groups.push_back(group == 7 ? flows_of_7 : std::vector<pipeline::FlowGroups::Flow>{});
    }
    return make_filters(query, {tor1, tor2}, reasons);
  }
  PacketFilter of_first(const Query& query) {
    const Filters filters = make(query);
    EXPECT_EQ(filters.error, "");
    return filters.by_switch.empty() ? PacketFilter{} : filters.by_switch[0].filter;
  }
  std::vector<SwitchInfo> infos;
  std::vector<pipeline::FlowGroups::Flow> flows_of_7{
      {roce(wire::Opcode::RC_SEND_ONLY, 17, 0).address_key, wire::Qpn(17)}};
  pipeline::DropReasons reasons;
};

TEST_F(FilterTest, AnEmptyQueryAsksForAllThatComesAndLeaves) {
  const PacketFilter filter = of_first({});
  EXPECT_TRUE(filter.rx && filter.tx);
  EXPECT_TRUE(filter.drops.none());
  EXPECT_TRUE(filter.port(0) && filter.port(7));
  EXPECT_TRUE(filter.headers(parsed(wire::FrameBuilder().udp(1, 2))));
}

TEST_F(FilterTest, AskingForDropsAsksForNothingElse) {
  const PacketFilter filter = of_first({.drops = {"no_route"}});
  EXPECT_FALSE(filter.rx || filter.tx);
  EXPECT_EQ(filter.drops.count(), 1U);
  EXPECT_TRUE(filter.drops[static_cast<std::size_t>(stages::L3Drop::no_route)]);
}

TEST_F(FilterTest, AnyDropLeavesOutOnlyWhatDevicesRefuse) {
  const auto refused = static_cast<std::size_t>(pipeline::DropReason::tx_failed);
  const PacketFilter any = of_first({.drops = {"any"}});
  EXPECT_EQ(any.drops.count(), pipeline::kDropReasonSlots - 1);
  EXPECT_FALSE(any.drops[refused]);
  EXPECT_TRUE(of_first({.drops = {"tx_failed", "any"}}).drops.all());
  EXPECT_TRUE(of_first({.drops = {"any", "tx_failed"}}).drops.all());
}

TEST_F(FilterTest, ConditionsOnRoceHeadersMustAllHold) {
  using wire::Opcode;
  const PacketFilter filter = of_first({.dest_qps = {17, 18}, .opcodes = {"RC_SEND_ONLY", "0x81"}, .psns = {{5, 7}}});
  EXPECT_TRUE(filter.headers(roce(Opcode::RC_SEND_ONLY, 17, 5)));
  EXPECT_TRUE(filter.headers(roce(Opcode::RC_SEND_ONLY, 18, 7)));
  EXPECT_FALSE(filter.headers(roce(Opcode::RC_SEND_ONLY, 19, 5)));
  EXPECT_FALSE(filter.headers(roce(Opcode::RC_SEND_ONLY, 17, 8)));
  EXPECT_FALSE(filter.headers(roce(Opcode::RC_SEND_ONLY, 17, 4)));
  EXPECT_FALSE(filter.headers(roce(Opcode::RC_RDMA_WRITE_ONLY, 17, 5)));
  EXPECT_FALSE(filter.headers(parsed(wire::FrameBuilder().udp(1, 2))));
}

TEST_F(FilterTest, APsnRangeMayWrapAroundZero) {
  const PacketFilter filter = of_first({.psns = {{0xfffffe, 1}}});
  for (const std::uint32_t psn : {0xfffffeU, 0xffffffU, 0U, 1U}) {
    EXPECT_TRUE(filter.headers(roce(wire::Opcode::RC_SEND_ONLY, 1, psn))) << psn;
  }
  EXPECT_FALSE(filter.headers(roce(wire::Opcode::RC_SEND_ONLY, 1, 2)));
  EXPECT_FALSE(filter.headers(roce(wire::Opcode::RC_SEND_ONLY, 1, 0xfffffd)));
}

TEST_F(FilterTest, PortsChooseTheSwitchesThatHaveThem) {
  const Filters both = make({.ports = {"h2"}});
  EXPECT_TRUE(both.by_switch[0].chosen && both.by_switch[1].chosen);
  EXPECT_FALSE(both.by_switch[0].filter.port(0));
  EXPECT_TRUE(both.by_switch[0].filter.port(1));
  EXPECT_FALSE(both.by_switch[0].filter.port(pipeline::kNoPort));
  const Filters one = make({.ports = {"tor2/h1", "up"}});
  EXPECT_FALSE(one.by_switch[0].chosen);
  EXPECT_TRUE(one.by_switch[1].filter.port(0) && one.by_switch[1].filter.port(2));
  const Filters by_switch = make({.switch_name = "tor1"});
  EXPECT_TRUE(by_switch.by_switch[0].chosen);
  EXPECT_FALSE(by_switch.by_switch[1].chosen);
}

TEST_F(FilterTest, GroupsChooseTheSwitchesThatRunThemAndTheirFlowsThePackets) {
  const Filters filters = make({.groups = {7}});
  EXPECT_EQ(filters.error, "");
  EXPECT_FALSE(filters.by_switch[0].chosen);
  ASSERT_TRUE(filters.by_switch[1].chosen);
  const PacketFilter& filter = filters.by_switch[1].filter;
  EXPECT_TRUE(filter.headers(roce(wire::Opcode::RC_SEND_ONLY, 17, 5)));
  EXPECT_TRUE(filter.headers(roce(wire::Opcode::RC_SEND_LAST, 17, 6)));
  EXPECT_FALSE(filter.headers(roce(wire::Opcode::RC_SEND_ONLY, 18, 5)));
  const auto between_others = parsed(wire::FrameBuilder()
                                         .ip(wire::IpAddress::v4(0x0a000001), wire::IpAddress::v4(0x0a000063))
                                         .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(17), wire::Psn(5))
                                         .payload(8));
  EXPECT_FALSE(filter.headers(between_others));
  EXPECT_FALSE(filter.headers(parsed(wire::FrameBuilder().udp(1, 2))));
}

TEST_F(FilterTest, AGroupThatRunsNowhereIsAMistake) {
  EXPECT_EQ(make({.groups = {8}}).error, "group 8 runs on no switch");
  EXPECT_EQ(make({.groups = {7, 8}}).error, "group 8 runs on no switch");
  EXPECT_EQ(make({.switch_name = "tor1", .groups = {7}}).error, "group 7 runs on no switch 'tor1'");
}

TEST_F(FilterTest, WordsThatNobodyKnowsGetASuggestion) {
  EXPECT_EQ(make({.drops = {"egress_queue_ful"}}).error,
            "unknown drop reason 'egress_queue_ful'; did you mean 'egress_queue_full'?");
  EXPECT_EQ(make({.opcodes = {"RC_SEND_ONL"}}).error, "unknown opcode 'RC_SEND_ONL'; did you mean 'RC_SEND_ONLY'?");
  EXPECT_THAT(make({.opcodes = {"256"}}).error, HasSubstr("unknown opcode '256'"));
  EXPECT_EQ(make({.switch_name = "tor3"}).error, "unknown switch 'tor3'; did you mean 'tor1'?");
  EXPECT_THAT(make({.ports = {"tor1/up"}}).error, HasSubstr("unknown port 'tor1/up'"));
  EXPECT_THAT(make({.switch_name = "tor1", .ports = {"up"}}).error, HasSubstr("unknown port 'up'; known: "));
}

TEST_F(FilterTest, NumbersOfMoreThan24BitsAreMistakes) {
  EXPECT_EQ(make({.dest_qps = {0x1000000}}).error, "queue pair number 16777216 has more than 24 bits");
  EXPECT_EQ(make({.psns = {{5, 0x1000000}}}).error, "PSN 16777216 has more than 24 bits");
}

TEST(PacketFilter, PortsFollowTheirNewIndexesAndNoneIsNotAll) {
  PacketFilter filter;
  filter.ports = {true, false, true};
  filter.rename_ports(pipeline::PortMap({4, 0, 1}));
  for (const pipeline::PortIndex port : {4, 1}) EXPECT_TRUE(filter.port(port)) << port;
  for (const pipeline::PortIndex port : {0, 2, 3}) EXPECT_FALSE(filter.port(port)) << port;
  filter.rename_ports(pipeline::PortMap(std::vector<pipeline::PortIndex>(5, pipeline::kNoPort)));
  for (const pipeline::PortIndex port : {0, 1, 4}) EXPECT_FALSE(filter.port(port)) << port;
}

}  // namespace
}  // namespace weft::capture
