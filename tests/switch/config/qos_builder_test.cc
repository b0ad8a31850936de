// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "switch/config/qos_speed.h"
#include "switch/config/switch_builder.h"
#include "switch/qos/defaults.h"
#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::expect_accepted;
using testing::expect_mistakes;

// A switch of two ports; `qos` is indented by six.
std::string with(const std::string& qos, const std::string& port_keys = "") {
  return "switches:\n  - name: s1\n    ports:\n      - { name: p1, type: null, rate_mbps: 10000" + port_keys +
         " }\n      - { name: p2, type: null }\n    pipeline: [parse, l2]\n    qos:" + qos + "\n";
}

qos::Settings accepted(const std::string& qos) {
  const auto config = expect_accepted(with(qos));
  return config.switches.at(0).qos.value();
}

TEST(QosBuilder, ASwitchHasNoQosUnlessItSaysSo) {
  const auto config =
      expect_accepted("switches:\n  - name: s1\n    ports: [ { name: p1, type: null } ]\n    pipeline: [parse, l2]\n");
  EXPECT_FALSE(config.switches.at(0).qos);
}

TEST(QosBuilder, AnEmptySectionIsALosslessTorForRoceWithThresholdsForEachPortsSpeed) {
  const qos::Settings s = accepted(" {}");
  ASSERT_EQ(s.ports.size(), 2u);
  EXPECT_EQ(s.ports[0], qos::default_port({.speed_mbps = 10'000, .delay_ns = 0, .mtu_bytes = 4200}));
  EXPECT_EQ(s.ports[1], qos::default_port({.speed_mbps = 100'000, .delay_ns = 0, .mtu_bytes = 4200}));
  EXPECT_EQ(s.ports[0].wred[3]->mark.min_bytes, 40'000u);
  EXPECT_EQ(s.pool_bytes, qos::default_pool_bytes(s));
  EXPECT_EQ(s.model, qos::BufferModel::conweave);
}

// The settings of both ports, p1 with an emulated rate and p2 without, after their devices have told these speeds.
qos::Settings at_speeds(const std::string& qos, std::uint64_t p1_mbps, std::uint64_t p2_mbps) {
  auto config = expect_accepted(with(qos));
  const std::string error =
      set_device_facts(config.switches.at(0), config.source, testing::config_registry(), {{p1_mbps, p2_mbps}});
  EXPECT_EQ(error, "");
  return config.switches.at(0).qos.value();
}

TEST(QosBuilder, TheSpeedOfADeviceCountsWhereNeitherARateNorASpeedIsSaid) {
  const qos::Settings s = at_speeds(" {}", 25'000, 25'000);
  EXPECT_EQ(s.ports[0].speed_mbps, 10'000u) << "an emulated rate is the port's speed";
  EXPECT_EQ(s.ports[1], qos::default_port({.speed_mbps = 25'000, .delay_ns = 0, .mtu_bytes = 4200}));
  EXPECT_EQ(s.ports[1].wred[3]->mark.min_bytes, 100'000u);
  EXPECT_EQ(at_speeds(" {}", 0, 0).ports[1].speed_mbps, 100'000u) << "nobody knows";
  const qos::Settings said = at_speeds("\n      PORT: { p2: { speed: 40000 } }", 25'000, 25'000);
  EXPECT_EQ(said.ports[1].speed_mbps, 40'000u);
  const qos::Settings own = at_speeds(R"(
      WRED_PROFILE: { w: { green_min_threshold: 400000, green_max_threshold: 1600000 } }
      QUEUE: { "all|3": { wred_profile: w } })",
                                      0, 25'000);
  EXPECT_EQ(own.ports[1].wred[3]->mark.min_bytes, 400'000u) << "what the file says stays";
  EXPECT_EQ(own.ports[1].wred[4]->mark.min_bytes, 100'000u);
}

TEST(QosBuilder, HeadroomThatTheFileDoesNotGiveIsMadeForTheWorkersThatRun) {
  auto config = expect_accepted(with(R"(
      BUFFER_PROFILE: { own: { size: 1000, dynamic_th: 0, xoff: 9000 } }
      BUFFER_PG: { "p2|3": { profile: own } })"));
  const DeviceFacts facts{.speeds_mbps = {0, 25'000}, .workers = 4, .away_ns = 250'000, .rx_packets = 1024};
  ASSERT_EQ(set_device_facts(config.switches.at(0), config.source, testing::config_registry(), facts), "");
  const qos::Settings& s = config.switches.at(0).qos.value();
  const qos::PortFacts p2{
      .speed_mbps = 25'000, .delay_ns = 0, .mtu_bytes = 4200, .workers = 4, .away_ns = 250'000, .rx_packets = 1024};
  EXPECT_EQ(s.ports[1].group[4].headroom_bytes, qos::default_headroom(p2));
  EXPECT_EQ(s.ports[1].group[3].headroom_bytes, 9000u) << "what the file says stays";
}

TEST(QosBuilder, WhatCannotBeAtTheSpeedOfTheDevicesIsSaidAndChangesNothing) {
  auto config = expect_accepted(
      "switches:\n  - name: s1\n    ports: [ { name: p1, type: null, delay_ns: 100000 } ]\n    pipeline: [parse, l2]\n"
      "    qos: { BUFFER_POOL: { size: 8000000 } }\n");
  pipeline::SwitchInfo& info = config.switches.at(0);
  const std::string error = set_device_facts(info, config.source, testing::config_registry(), {{400'000}});
  EXPECT_NE(error.find("expected more than the reserves and headroom"), std::string::npos) << error;
  EXPECT_EQ(info.qos->ports[0].speed_mbps, 100'000u);
}

TEST(QosBuilder, APortsOwnEntriesComeAfterThoseOfAll) {
  const qos::Settings s = accepted(R"(
      SCHEDULER: { a: { weight: 7 }, b: { type: STRICT, pir: 5000, pbs: 9 } }
      WRED_PROFILE: { w: { green_min_threshold: 10, green_max_threshold: 20, green_drop_probability: 50 } }
      QUEUE:
        p2|1: { scheduler: b, wred_profile: w }
        all|0-2: { scheduler: a }
        all|3: { wred_profile: none }
      PFC_WD: { p1: { action: forward, detection_time: 5 }, all: { action: off } }
      PORT: { p2: { speed: 25000, pause_quanta: 9 } }
      PORT_QOS_MAP: { p1: { flow_control: true, scheduler: b } })");
  EXPECT_EQ(s.ports[0].scheduler[1].weight, 7u);
  EXPECT_EQ(s.ports[1].scheduler[1], (qos::SchedulerSettings{qos::SchedulerSettings::Type::strict, 1, 5000, 9}));
  EXPECT_EQ(s.ports[1].wred[1]->mark, (qos::CurveSettings{10, 20, 0.5}));
  EXPECT_FALSE(s.ports[0].wred[3]);
  EXPECT_FALSE(s.ports[1].watchdog.enabled);
  EXPECT_TRUE(s.ports[0].watchdog.enabled);
  EXPECT_EQ(s.ports[0].watchdog.detection_ns, 5'000'000u);
  EXPECT_EQ(s.ports[1].speed_mbps, 25'000u);
  EXPECT_EQ(s.ports[1].pause_quanta, 9);
  EXPECT_EQ(s.ports[0].pfc_enable, 0);
  EXPECT_TRUE(s.ports[0].flow_control);
  EXPECT_EQ(s.ports[0].pir_bytes_s, 5000u);
  EXPECT_NE(s.ports[0].group[3].headroom_bytes, 0u);
}

TEST(QosBuilder, MapsAreAppliedAndLosslessClassesFollowThem) {
  const qos::Settings s = accepted(R"(
      DSCP_TO_TC_MAP: { m: { 0-25: 0, 26: 5, 27-63: 1 } }
      TC_TO_QUEUE_MAP: { q: { 0-1: 0, 2: 1, 3-4: 3, 5: 2, 6: 6, 7: 7 } }
      TC_TO_PRIORITY_GROUP_MAP: { g: { 0-4: 0, 5: 1, 6-7: 0 } }
      PORT_QOS_MAP:
        all: { dscp_to_tc_map: m, tc_to_queue_map: q, tc_to_pg_map: g, pfc_enable: [5] })");
  const auto& port = s.ports[0];
  EXPECT_EQ(port.map.dscp_to_tc[26], 5);
  EXPECT_EQ(port.map.dscp_to_tc[27], 1);
  EXPECT_EQ(port.map.tc_to_queue[5], 2);
  EXPECT_EQ(port.pfc_enable, 1u << 5);
  for (unsigned i = 0; i < qos::kClasses; ++i) {
    EXPECT_EQ(port.group[i].headroom_bytes != 0, i == 1) << i;
    EXPECT_EQ(port.wred[i].has_value(), i == 2) << i;
  }
}

TEST(QosBuilder, ABufferPoolMayBeOfEitherModelAndAnySizeThatHoldsAllHeadroom) {
  const qos::Settings s = accepted(R"(
      BUFFER_POOL: { size: 20000000, model: hpcc }
      BUFFER_PROFILE: { l: { size: 1, dynamic_th: -4, xoff: 100000, xon_offset: 7 }, q: { static_th: 5000 } }
      BUFFER_PG: { all|3-4: { profile: l } }
      BUFFER_QUEUE: { p1|0: { profile: q } })");
  EXPECT_EQ(s.model, qos::BufferModel::hpcc);
  EXPECT_EQ(s.pool_bytes, 20'000'000u);
  EXPECT_EQ(s.ports[1].group[4], (qos::BufferShare{1, -4, qos::BufferShare::kUnlimited, 100'000, 7}));
  EXPECT_EQ(s.ports[0].queue[0].static_th_bytes, 5000u);
  EXPECT_FALSE(s.ports[0].queue[0].dynamic_th);
}

TEST(QosBuilder, ThresholdsThatCrossAreMistakes) {
  expect_mistakes(with(R"(
      WRED_PROFILE:
        w: { green_min_threshold: 200, green_max_threshold: @100 }
        x: { green_min_threshold: 1, green_max_threshold: 2, not_ect: drop_by_curve, drop_min_threshold: @9 }
        y: { green_min_threshold: 1, green_max_threshold: 2, drop_probability: @9 })"),
                  {"WRED_PROFILE: w: green_max_threshold: expected at least the minimum of 200 (line 9), found 100",
                   "WRED_PROFILE: x: drop_min_threshold: expected at most the maximum of 2 (line 10), found 9",
                   "WRED_PROFILE: y: drop_probability: only with not_ect: drop_by_curve"});
}

TEST(QosBuilder, AlphasOutOfRangeAndTwoThresholdsAreMistakes) {
  expect_mistakes(with(R"(
      BUFFER_PROFILE:
        a: { dynamic_th: @9 }
        b: { dynamic_th: @-9 }
        c: { dynamic_th: 1, static_th: @5 })"),
                  {"dynamic_th: expected an integer from -8 to 8, found 9",
                   "dynamic_th: expected an integer from -8 to 8, found -9",
                   "BUFFER_PROFILE: c: static_th: there is a dynamic_th (line 11); a profile has one or the other"});
}

TEST(QosBuilder, HeadroomLargerThanTheBufferIsAMistake) {
  expect_mistakes(with(R"(
      BUFFER_POOL: { size: @1000000 }
      BUFFER_PROFILE: { l: { xoff: 250000 } }
      BUFFER_PG: { all|3-4: { profile: l } })"),
                  {"size: expected more than the reserves and headroom of all ports, 1000000 bytes, found 1000000"});
}

TEST(QosBuilder, MapsWithHolesAndWrongKeysAreMistakes) {
  expect_mistakes(with(R"(
      DSCP_TO_TC_MAP: { m: @{ 0-25: 0, 27-62: 1 } }
      TC_TO_QUEUE_MAP: { q: { 0-7: 1, 3: @3 } }
      DOT1P_TO_TC_MAP: { d: { 0-7: 0, 8: @1 } })"),
                  {"DSCP_TO_TC_MAP: m: expected all of 0 to 63, found nothing for '26, 63'",
                   "TC_TO_QUEUE_MAP: q: 3 is mapped twice",
                   "DOT1P_TO_TC_MAP: d: expected keys from 0 to 7, or ranges such as \"2-5\", found '8'"});
}

TEST(QosBuilder, ABufferForMorePacketsThanThereAreBuffersIsNoted) {
  std::string text = with(" { BUFFER_POOL: { size: 70000000 } }");
  text.insert(text.find("name: s1"), "@");
  (void)expect_accepted(text,
                        {"note: qos: a shared buffer of 70000000 bytes holds more than 16384 packets (mbufs), even "
                         "of 4218 bytes"});
}

TEST(QosBuilder, NamesThatMeanNothingAreMistakesWithASuggestion) {
  expect_mistakes(with(R"(
      SCHEDULER: { lossless: {} }
      QUEUE:
        all|3: { scheduler: @losless }
        p3|0: @{}
        p1: @{}
      PFC_WD: { p9: @{} })"),
                  {"scheduler: SCHEDULER has no 'losless'; did you mean 'lossless'?",
                   "QUEUE: unknown port 'p3'; did you mean 'p1'?",
                   "QUEUE: expected a port and numbers from 0 to 7, such as p1|3-4, found 'p1'",
                   "PFC_WD: unknown port 'p9'; did you mean 'p1'?"});
}

TEST(QosBuilder, ALosslessClassNeedsHeadroomAndAGroupOfItsOwn) {
  expect_mistakes(
      with(R"(
      BUFFER_PROFILE: { l: {} }
      BUFFER_PG: @{ all|3: { profile: l } })"),
      {"port 'p1': the lossless class 3 needs headroom: expected a profile with xoff for priority group 3"});
  expect_mistakes(with(R"(
      PORT_QOS_MAP: @{ all: { pfc_enable: [0] } })"),
                  {"port 'p1': the lossless class 0 shares its priority group or queue with class 1, which is not "
                   "lossless"});
}

TEST(QosBuilder, PfcAndPauseOnOnePortAreAMistakeAndSoIsAQueueLimitInPackets) {
  expect_mistakes(with(R"(
      PORT_QOS_MAP: { p1: { flow_control: true, pfc_enable: @[3] } })"),
                  {"pfc_enable: expected [] with flow_control: a port has PFC or PAUSE"});
  expect_mistakes(with(" {}", ", queue_packets: @9"),
                  {"queue_packets: with 'qos' the shared buffer decides; expected no such key"});
}

}  // namespace
}  // namespace weft::config
