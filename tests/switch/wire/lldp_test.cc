// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/lldp.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "switch/wire/headers.h"

namespace weft::wire {
namespace {

using Bytes = std::vector<std::uint8_t>;

const MacAddress kChassis = MacAddress::from_u64(0x020000000001), kPort = MacAddress::from_u64(0x020000000002);

std::string text(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

Bytes frame_of(const LldpSelf& self) {
  Bytes out(kLldpFrameBytes);
  out.resize(write_lldp(out, self));
  return out;
}

/// A frame to the nearest bridge with these TLVs, each (type, value).
Bytes frame_of(const std::vector<std::pair<unsigned, std::string>>& tlvs) {
  Bytes out = frame_of(LldpSelf{kChassis, kPort});
  out.resize(sizeof(EthernetHeader));
  for (const auto& [type, value] : tlvs) {
    out.push_back(static_cast<std::uint8_t>(type << 1 | value.size() >> 8));
    out.push_back(static_cast<std::uint8_t>(value.size() & 0xff));
    out.insert(out.end(), value.begin(), value.end());
  }
  return out;
}

const std::string kMac("\x04\x02\x00\x00\x00\x00\x01", 7),
    kIfname(
        "\x05"
        "eth1"),
    kTtl("\x00\x78", 2);

TEST(Lldp, AFrameIsAsLldpdWritesIt) {
  const Bytes frame = frame_of(LldpSelf{kChassis, kPort, 121, "p1", "leaf1"});
  const Bytes expected{0x01, 0x80, 0xc2, 0,   0,   0x0e, 2,   0, 0, 0, 0, 2, 0x88, 0xcc,  // Ethernet
                       0x02, 7,    4,    2,   0,   0,    0,   0, 1,                       // chassis
                       0x04, 7,    3,    2,   0,   0,    0,   0, 2,                       // port
                       0x06, 2,    0,    121,                                             // ttl
                       0x08, 2,    'p',  '1',                                             // description
                       0x0a, 5,    'l',  'e', 'a', 'f',  '1',                             // system
                       0,    0};
  EXPECT_EQ(frame, expected);
}

TEST(Lldp, WhatIsWrittenIsRead) {
  const Bytes frame = frame_of(LldpSelf{kChassis, kPort, 65'535, "p1", std::string(300, 'x')});
  ASSERT_LE(frame.size(), kLldpFrameBytes);
  const auto unit = read_lldp(frame);
  ASSERT_TRUE(unit);
  EXPECT_EQ(unit->chassis.kind, kLldpChassisMac);
  EXPECT_EQ(text(unit->chassis.bytes), std::string("\x02\x00\x00\x00\x00\x01", 6));
  EXPECT_EQ(unit->port.kind, kLldpPortMac);
  EXPECT_EQ(unit->ttl_s, 65'535);
  EXPECT_EQ(text(unit->port_description), "p1");
  EXPECT_EQ(text(unit->system_name), std::string(kLldpTextBytes, 'x'));
  Bytes padded = frame;
  padded.resize(padded.size() + 20, 0xee);
  EXPECT_TRUE(read_lldp(padded)) << "what is behind the end does not count";
}

TEST(Lldp, OtherTlvsArePassedOverAndTheEndMayBeMissing) {
  // What is read points into it.
  const Bytes frame =
      frame_of({{1, kMac}, {2, kIfname}, {3, kTtl}, {127, "anything"}, {5, "one"}, {5, "two"}, {8, ""}});
  const auto unit = read_lldp(frame);
  ASSERT_TRUE(unit);
  EXPECT_EQ(unit->port.kind, 5);
  EXPECT_EQ(text(unit->port.bytes), "eth1");
  EXPECT_EQ(unit->ttl_s, 120);
  EXPECT_EQ(text(unit->system_name), "one");
}

TEST(Lldp, WhatReceiversDiscardIsNone) {
  const std::vector<std::vector<std::pair<unsigned, std::string>>> wrong{
      {},
      {{1, kMac}, {2, kIfname}},
      {{2, kIfname}, {1, kMac}, {3, kTtl}},
      {{1, "\x04"}, {2, kIfname}, {3, kTtl}},
      {{1, kMac}, {2, std::string(257, 'x')}, {3, kTtl}},
      {{1, kMac}, {2, kIfname}, {3, "x"}},
      {{1, kMac}, {2, kIfname}, {3, kTtl}, {1, kMac}},
      {{1, kMac}, {2, kIfname}, {3, kTtl}, {3, kTtl}},
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) EXPECT_FALSE(read_lldp(frame_of(wrong[i]))) << i;
}

TEST(Lldp, NoFrameIsReadBeyondItsEnd) {
  const Bytes frame = frame_of(LldpSelf{kChassis, kPort, 121, "p1", "leaf1"});
  // Only where a TLV ends is there a unit without an end.
  std::size_t accepted = 0;
  for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
    const Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes));
    accepted += read_lldp(cut) ? 1 : 0;
  }
  EXPECT_EQ(accepted, 3u);
}

TEST(Lldp, OtherFramesAreNone) {
  Bytes frame = frame_of(LldpSelf{kChassis, kPort});
  frame[5] = 0x03;
  EXPECT_TRUE(read_lldp(frame)) << "nearest bridge that is no two-port one";
  frame[5] = 0x02;
  EXPECT_FALSE(read_lldp(frame)) << "slow protocols";
  frame[5] = 0x0e;
  frame[13] = 0xcd;
  EXPECT_FALSE(read_lldp(frame));
}

}  // namespace
}  // namespace weft::wire
