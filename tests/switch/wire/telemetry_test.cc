// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/telemetry.h"

#include <gtest/gtest.h>

#include <vector>

#include "switch/wire/parse.h"
#include "switch/wire/telemetry_cnp.h"

namespace weft::wire {
namespace {

using Option = std::array<std::uint8_t, kIntOptionBytes>;

TEST(IntOption, ARecordIsSixBytesFromTheMostSignificantBitOn) {
  Option option;
  begin_int(option.data(), IntKind::collects);
  ASSERT_TRUE(append_int(option.data(), {10, 0x1234, 0xabcd, 0x789}, 0x5a));
  const std::vector<std::uint8_t> expected{94, 40, 0x01, 0x5a, 0xa1, 0x23, 0x4a, 0xbc, 0xd7, 0x89, 0};
  EXPECT_EQ(std::vector<std::uint8_t>(option.begin(), option.begin() + 11), expected);
}

TEST(IntOption, WhatIsWrittenIsReadAndASeventhHopHasNoPlace) {
  Option option;
  begin_int(option.data(), IntKind::collects);
  EXPECT_EQ(int_hops(option.data()), 0);
  IntPath expected;
  for (std::uint8_t i = 0; i < kIntHops; ++i) {
    const IntHop hop{static_cast<std::uint8_t>(15 - i), static_cast<std::uint16_t>(0xffff - i),
                     static_cast<std::uint16_t>(i * 9000), static_cast<std::uint16_t>(0xfff - i)};
    ASSERT_TRUE(append_int(option.data(), hop, static_cast<std::uint8_t>(1 << i)));
    EXPECT_EQ(int_hops(option.data()), i + 1);
    expected.hop[i] = hop;
  }
  expected.hops = kIntHops;
  expected.path = 0x3f;
  const Option full = option;
  EXPECT_FALSE(append_int(option.data(), {1, 2, 3, 4}, 1));
  EXPECT_EQ(option, full);
  EXPECT_EQ(read_int(option.data()), expected);

  Option echo;
  write_int(echo.data(), IntKind::echo, expected);
  EXPECT_EQ(int_kind(echo.data()), IntKind::echo);
  EXPECT_EQ(read_int(echo.data()), expected);
}

TEST(IntOption, IsFoundWhereItIsRightAndAlone) {
  std::array<std::uint8_t, 60> ip{};
  ip[0] = 0x4f;
  begin_int(ip.data() + 20, IntKind::echo);
  EXPECT_EQ(find_int_option(ip.data()), ip.data() + 20);
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, std::uint8_t>>{
           {0, 0x45}, {0, 0x4e}, {0, 0x6f}, {20, 30}, {20, 0}, {21, 36}, {22, 0x07}, {22, 0x30}, {22, 0xf0}}) {
    auto wrong = ip;
    wrong[at] = value;
    EXPECT_EQ(find_int_option(wrong.data()), nullptr) << at << " " << int{value};
  }
}

TEST(IntOption, ACnpBringsRecords) {
  IntPath path;
  path.hops = 2;
  path.path = 9;
  path.hop[1] = {10, 1, 2, 3};
  RoceAddressing to;
  to.source = IpAddress::v4(0x0a020001);
  to.destination = IpAddress::v4(0x0a010001);
  to.tos = 0xc2;
  std::array<std::uint8_t, kMirrorBytes> out;
  const std::size_t bytes = write_mirror(out, to, Qpn(17), path);
  ASSERT_EQ(bytes, kMirrorBytes);
  EXPECT_EQ(bytes, emitted_bytes(to, Opcode::CNP) + kIntOptionBytes);
  Parsed parsed;
  parse_frame(out.data(), static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes), parsed);
  ASSERT_EQ(parsed.kind, FrameKind::roce);
  EXPECT_EQ(parsed.validity, Validity::ok);
  EXPECT_EQ(parsed.opcode, static_cast<std::uint8_t>(Opcode::CNP));
  EXPECT_EQ(parsed.dest_qp, Qpn(17));
  EXPECT_TRUE(parsed.has(ParsedFlag::becn));
  EXPECT_TRUE(icrc_ok(out.data(), parsed));
  EXPECT_TRUE(ipv4_checksum_ok(header_at<Ipv4Header>(out.data() + parsed.l3_offset)));
  const std::uint8_t* option = find_int_option(out.data() + parsed.l3_offset);
  ASSERT_NE(option, nullptr);
  EXPECT_EQ(int_kind(option), IntKind::mirror);
  EXPECT_EQ(read_int(option), path);

  EXPECT_EQ(write_mirror(std::span(out).first(bytes - 1), to, Qpn(17), path), 0u);
  to.tagged = true;
  EXPECT_EQ(write_mirror(out, to, Qpn(17), path), 0u);
  to.tagged = false;
  to.source = to.destination = *IpAddress::parse("fd00::1");
  EXPECT_EQ(write_mirror(out, to, Qpn(17), path), 0u);
}

TEST(IntOption, SpeedsAreRoundedDown) {
  EXPECT_EQ(int_speed_code(0), 0);
  EXPECT_EQ(int_speed_code(9), 0);
  EXPECT_EQ(int_speed_code(10), 1);
  EXPECT_EQ(kIntSpeedsMbps[int_speed_code(99'999)], 50'000u);
  EXPECT_EQ(kIntSpeedsMbps[int_speed_code(100'000)], 100'000u);
  EXPECT_EQ(kIntSpeedsMbps[int_speed_code(1ull << 60)], 3'200'000u);
  EXPECT_LT(int_speed_code(~std::uint64_t{0}), 16) << "four bits";
}

}  // namespace
}  // namespace weft::wire
