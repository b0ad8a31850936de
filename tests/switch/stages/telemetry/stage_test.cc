// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/telemetry/stage.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "nic/rnic/frame.h"
#include "switch/config/config.h"
#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "tests/support/all_stages.h"
#include "tests/support/edge_switch.h"
#include "tests/support/harness.h"
#include "tests/support/parsed.h"

namespace weft::stages {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using weft::testing::Bytes;
using weft::testing::Harness;
using weft::testing::parsed_of;
using weft::testing::port_mac;

// A sends to B through two such ports: 1 Gbit/s, a slot is 1024 ns.
std::string yaml(const std::string& rate = ", rate_mbps: 1000", const std::string& telemetry = "telemetry") {
  std::string text = weft::testing::edge_switch_yaml(
      {.stages = "  - " + telemetry + "\n", .sender = "10.1.0.1", .sender_v6 = "fd01::1"});
  const std::string mtu = ", mtu_bytes: 4200";
  for (std::size_t at = 0; (at = text.find(mtu, at)) != std::string::npos; at += mtu.size() + rate.size()) {
    text.insert(at + mtu.size(), rate);
  }
  return text;
}

Bytes frame(const wire::IntPath* echo = nullptr, bool option = true, std::uint32_t payload = 256) {
  nic::HeaderTemplate header;
  nic::Path path;
  path.source_mac = wire::MacAddress::from_u64(0x02aa00000001);
  path.destination_mac = port_mac(0);
  path.source = *wire::IpAddress::parse("10.1.0.1");
  path.destination = *wire::IpAddress::parse("10.2.0.1");
  header.set(path, option);
  nic::Packet packet;
  packet.opcode = wire::Opcode::RC_SEND_MIDDLE;
  packet.psn = wire::Psn(5);
  const Bytes data(payload, 0x3c);
  packet.payload.set(data.data(), payload);
  std::array<std::uint8_t, nic::kMaxHeadBytes> head;
  Bytes out(8192);
  out.resize(
      nic::copy_frame(nic::make_frame(header, 0x6a, packet, weft::testing::kDestination, head.data(), echo), out));
  return out;
}

const std::uint8_t* option_of(const Bytes& bytes) {
  return wire::find_int_option(bytes.data() + sizeof(wire::EthernetHeader));
}

void expect_right(const Bytes& bytes) {
  const wire::Parsed parsed = parsed_of(bytes);
  ASSERT_EQ(parsed.kind, wire::FrameKind::roce);
  EXPECT_TRUE(wire::ipv4_checksum_ok(wire::header_at<wire::Ipv4Header>(bytes.data() + parsed.l3_offset)));
  EXPECT_TRUE(wire::icrc_ok(bytes.data(), parsed));
}

struct TelemetryTest : ::testing::Test {
  explicit TelemetryTest(const std::string& text = yaml()) : h(weft::testing::all_stages(), text) {}
  std::vector<Bytes> sent() {
    h.advance_ns(1'000'000);
    std::vector<Bytes> result;
    for (auto& one : h.take("wan")) result.push_back(std::move(one.bytes));
    return result;
  }
  std::uint64_t counter(const char* name) const { return h.counter("telemetry", name); }
  Harness h;
};

TEST_F(TelemetryTest, APacketThatAsksGetsARecordOfThePortAndStaysRight) {
  h.inject("in", frame());
  const auto out = sent();
  ASSERT_THAT(out, SizeIs(1));
  expect_right(out[0]);
  const auto* option = option_of(out[0]);
  ASSERT_NE(option, nullptr);
  const wire::IntPath path = wire::read_int(option);
  ASSERT_EQ(path.hops, 1);
  EXPECT_EQ(path.hop[0].speed, wire::int_speed_code(1000));
  EXPECT_EQ(path.hop[0].queue, 0);
  EXPECT_EQ(path.hop[0].sent, (out[0].size() + 24) / wire::kIntSlotBytes) << "this one, as it takes the wire";
  EXPECT_EQ(counter("records"), 1u);
}

TEST_F(TelemetryTest, BytesAndTimeOfABusyPortGrowAlike) {
  for (int i = 0; i < 100; ++i) h.inject("in", frame());
  const auto out = sent();
  ASSERT_THAT(out, SizeIs(100));
  const auto first = wire::read_int(option_of(out[1])).hop[0], last = wire::read_int(option_of(out[99])).hop[0];
  const int time = static_cast<std::uint16_t>(last.time - first.time);
  const int bytes = static_cast<std::uint16_t>(last.sent - first.sent);
  EXPECT_NEAR(bytes, 98.0 * static_cast<double>(out[0].size() + 24) / wire::kIntSlotBytes, 1);
  EXPECT_NEAR(bytes, time, 3);
  EXPECT_GT(first.queue, last.queue);
  EXPECT_EQ(first.queue, 98 * out[0].size() / wire::kIntQueueBytes);
  for (const Bytes& one : out) expect_right(one);
}

TEST_F(TelemetryTest, APacketIsAlsoRightInPieces) {
  h.inject_chained("in", frame(nullptr, true, 1000), {192, 300, 578});
  const auto out = sent();
  ASSERT_THAT(out, SizeIs(1));
  expect_right(out[0]);
  EXPECT_EQ(wire::read_int(option_of(out[0])).hops, 1);
}

TEST_F(TelemetryTest, AWrongIcrcStaysWrong) {
  Bytes broken = frame();
  broken[broken.size() - 10] ^= 1;
  h.inject("in", broken);
  const auto out = sent();
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_FALSE(wire::icrc_ok(out[0].data(), parsed_of(out[0])));
}

TEST_F(TelemetryTest, WhatGoesBackAndWhatDoesNotAskIsLeftAlone) {
  wire::IntPath path;
  path.hops = 2;
  path.hop[1].time = 99;
  h.inject("in", frame(&path));
  h.inject("in", frame(nullptr, false));
  const auto out = sent();
  ASSERT_THAT(out, SizeIs(2));
  EXPECT_EQ(wire::read_int(option_of(out[0])), path);
  EXPECT_EQ(option_of(out[1]), nullptr);
  for (const Bytes& one : out) expect_right(one);
  EXPECT_EQ(counter("records"), 0u);
}

TEST_F(TelemetryTest, AfterSixHopsThereIsNoPlace) {
  Bytes bytes = frame();
  for (unsigned hop = 0; hop <= wire::kIntHops; ++hop) {
    auto& eth = wire::header_at<wire::EthernetHeader>(bytes.data());
    eth.source = wire::MacAddress::from_u64(0x02aa00000001);
    eth.destination = port_mac(0);
    h.inject("in", bytes);
    const auto out = sent();
    ASSERT_THAT(out, SizeIs(1));
    bytes = out[0];
    expect_right(bytes);
    EXPECT_EQ(wire::read_int(option_of(bytes)).hops, std::min<unsigned>(hop + 1, wire::kIntHops));
  }
  EXPECT_EQ(counter("full"), 1u);
}

TEST_F(TelemetryTest, AnOptionThatIsWrongIsLeftAlone) {
  constexpr std::size_t kIp = sizeof(wire::EthernetHeader), kOption = kIp + sizeof(wire::Ipv4Header);
  // The type, the length, the kind and the hops.
  for (const auto& [at, value] : {std::pair{0u, 0x1e28u}, {0u, 0x5e24u}, {2u, 0x7000u}, {2u, 0x0700u}}) {
    Bytes bytes = frame();
    bytes[kOption + at] = static_cast<std::uint8_t>(value >> 8);
    bytes[kOption + at + 1] = static_cast<std::uint8_t>(value);
    auto& ip = wire::header_at<wire::Ipv4Header>(bytes.data() + kIp);
    ip.checksum.set(wire::ipv4_checksum(ip));
    h.inject("in", bytes);
    const auto out = sent();
    ASSERT_THAT(out, SizeIs(1)) << value;
    EXPECT_TRUE(std::equal(bytes.begin() + kOption, bytes.end(), out[0].begin() + kOption, out[0].end())) << value;
  }
  EXPECT_EQ(counter("other_options"), 4u);
  EXPECT_EQ(counter("records"), 0u);
}

TEST_F(TelemetryTest, AReloadKeepsWhatAPortHasSent) {
  for (int i = 0; i < 50; ++i) h.inject("in", frame());
  const auto before = sent();
  h.reload(yaml(", rate_mbps: 1000", "telemetry: { link_mbps: 70 }"));
  h.inject("in", frame());
  const auto after = sent();
  ASSERT_THAT(after, SizeIs(1));
  const int grown = wire::read_int(option_of(after[0])).hop[0].sent - wire::read_int(option_of(before[49])).hop[0].sent;
  EXPECT_GT(grown, 0);
  EXPECT_LT(grown, 5);
}

struct OtherSpeedTest : TelemetryTest {
  OtherSpeedTest() : TelemetryTest(yaml("", "telemetry: { link_mbps: 30000 }")) {}
};

TEST_F(OtherSpeedTest, ALinkWithoutARateHasThatOfTheOption) {
  h.inject("in", frame());
  const auto out = sent();
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(wire::read_int(option_of(out[0])).hop[0].speed, wire::int_speed_code(25'000));
}

TEST(TelemetryOptions, LinksHaveASpeedThatRecordsCanSay) {
  const auto loads = [](const std::string& rate, const std::string& telemetry, const char* text) {
    config::Diagnostics diagnostics;
    const bool good = config::load_switch(yaml(rate, telemetry), weft::testing::all_stages(), diagnostics).has_value();
    EXPECT_THAT(diagnostics.to_string(), HasSubstr(text));
    return good;
  };
  EXPECT_FALSE(loads("", "telemetry", "port 'wan' has no rate_mbps: 'link_mbps' says what such links carry"));
  EXPECT_FALSE(loads("", "telemetry: { link_mbps: 9 }", "link_mbps: expected"));
  EXPECT_TRUE(loads(", rate_mbps: 9", "telemetry", "port 'in' has rate_mbps 9: RNICs do not heed ports below 10"));
  EXPECT_TRUE(loads("", "telemetry: { link_mbps: 10 }", ""));
}

TEST(SlotClock, CountsAtAnySpeedAndTime) {
  for (const std::uint64_t mbps : {10ull, 1000ull, 100'000ull, 3'200'000ull}) {
    const SlotClock clock(mbps);
    const double slot = 1024e3 / static_cast<double>(mbps);
    for (const TimeNs start : {TimeNs{0}, TimeNs{1'700'000'000'000'000'000}}) {
      const auto slots =
          static_cast<std::uint16_t>(clock.at(start + static_cast<TimeNs>(slot * 5000)) - clock.at(start));
      EXPECT_NEAR(slots, 5000, 1) << mbps << " " << start;
    }
  }
}

}  // namespace
}  // namespace weft::stages
