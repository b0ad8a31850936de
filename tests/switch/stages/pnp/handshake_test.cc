// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/handshake.h"

#include <gtest/gtest.h>

#include "switch/wire/headers.h"

namespace weft::stages {
namespace {

constexpr std::uint8_t kSyn = wire::TcpHeader::kSyn, kAck = wire::TcpHeader::kAck, kRst = wire::TcpHeader::kRst;

TcpSegment from_client(std::uint8_t flags, std::uint32_t sequence, std::uint32_t acknowledgement = 0) {
  return {.pair = 99,
          .from_lower = false,
          .source_port = 40000,
          .destination_port = 18515,
          .flags = flags,
          .sequence = sequence,
          .acknowledgement = acknowledgement};
}
TcpSegment from_server(std::uint8_t flags, std::uint32_t sequence, std::uint32_t acknowledgement) {
  return {.pair = 99,
          .from_lower = true,
          .source_port = 18515,
          .destination_port = 40000,
          .flags = flags,
          .sequence = sequence,
          .acknowledgement = acknowledgement};
}

TEST(HandshakeMonitor, ThreeSegmentsMakeAPair) {
  HandshakeMonitor monitor(16);
  EXPECT_FALSE(monitor.on_segment(0, from_client(kSyn, 0xffffffff)));
  EXPECT_FALSE(monitor.on_segment(1, from_server(kSyn | kAck, 700, 0)));
  EXPECT_TRUE(monitor.on_segment(2, from_client(kAck, 0, 701)));
  EXPECT_FALSE(monitor.on_segment(3, from_client(kAck, 0, 701))) << "it has ended";
}

TEST(HandshakeMonitor, FlagsBesideDoNotMatter) {
  HandshakeMonitor monitor(16);
  monitor.on_segment(0, from_client(kSyn | wire::TcpHeader::kEce | wire::TcpHeader::kCwr, 5));
  monitor.on_segment(1, from_server(kSyn | kAck | wire::TcpHeader::kEce, 700, 6));
  EXPECT_TRUE(monitor.on_segment(2, from_client(kAck | wire::TcpHeader::kPsh, 6, 701)));
}

TEST(HandshakeMonitor, RepeatedSegmentsAreNoNewHandshake) {
  HandshakeMonitor monitor(16);
  for (int i = 0; i < 3; ++i) monitor.on_segment(0, from_client(kSyn, 5));
  for (int i = 0; i < 3; ++i) monitor.on_segment(1, from_server(kSyn | kAck, 700, 6));
  EXPECT_EQ(monitor.evicted(), 0u);
  EXPECT_TRUE(monitor.on_segment(2, from_client(kAck, 6, 701)));
}

// Each is a guess of somebody who sees nothing of the other's answers.
TEST(HandshakeMonitor, WrongNumbersMakeNoPair) {
  HandshakeMonitor monitor(16);
  EXPECT_FALSE(monitor.on_segment(0, from_client(kAck, 6, 701)));
  monitor.on_segment(0, from_client(kSyn, 5));
  EXPECT_FALSE(monitor.on_segment(1, from_client(kAck, 6, 701))) << "without a SYN-ACK";
  monitor.on_segment(1, from_server(kSyn | kAck, 700, 5));
  EXPECT_FALSE(monitor.on_segment(2, from_client(kAck, 6, 701))) << "the SYN-ACK answers another SYN";
  monitor.on_segment(1, from_server(kSyn | kAck, 700, 6));
  EXPECT_FALSE(monitor.on_segment(2, from_client(kAck, 6, 700)));
  EXPECT_FALSE(monitor.on_segment(2, from_client(kAck, 5, 701)));
  EXPECT_FALSE(monitor.on_segment(2, from_server(kAck, 6, 701)));
  EXPECT_TRUE(monitor.on_segment(2, from_client(kAck, 6, 701)));
}

TEST(HandshakeMonitor, AResetEndsIt) {
  HandshakeMonitor monitor(16);
  for (const bool by_client : {true, false}) {
    monitor.on_segment(0, from_client(kSyn, 5));
    monitor.on_segment(1, from_server(kSyn | kAck, 700, 6));
    monitor.on_segment(2, by_client ? from_client(kRst, 6) : from_server(kRst | kAck, 700, 6));
    EXPECT_FALSE(monitor.on_segment(3, from_client(kAck, 6, 701)));
  }
}

TEST(HandshakeMonitor, AFloodTakesNoMemoryAndMakesNoPair) {
  HandshakeMonitor monitor(1000);
  EXPECT_EQ(monitor.capacity(), 1024u);
  TcpSegment syn = from_client(kSyn, 1);
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    syn.pair = i + 1;
    EXPECT_FALSE(monitor.on_segment(i, syn));
  }
  EXPECT_EQ(monitor.capacity(), 1024u);
  EXPECT_GE(monitor.evicted(), 100'000u - 1024u);
}

}  // namespace
}  // namespace weft::stages
