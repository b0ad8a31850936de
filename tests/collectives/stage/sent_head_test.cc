// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/sent_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "switch/base/rng.h"
#include "switch/wire/parse.h"
#include "switch/wire/payload_crc.h"

namespace weft::inc {
namespace {

using wire::Opcode;

/// Over IPv6 when the parameter is true.
class SentHeadTest : public ::testing::TestWithParam<bool> {
 protected:
  SentHeadTest() {
    nic::Path path;
    path.source = *wire::IpAddress::parse(GetParam() ? "2001:db8::1" : "10.0.0.1");
    path.destination = *wire::IpAddress::parse(GetParam() ? "2001:db8::2" : "10.0.0.2");
    path.source_port = 50'000;
    to_.set(path);
    for (auto& byte : payload_) byte = static_cast<std::uint8_t>(rng_.below(256));
  }
  /// All fields are set at random, those that the opcode has no header for, too.
  nic::Packet packet(Opcode opcode, std::uint32_t bytes) {
    nic::Packet p;
    p.opcode = opcode;
    p.psn = wire::Psn(static_cast<std::uint32_t>(rng_.next()));
    p.ack_req = rng_.below(2) != 0;
    p.solicited = rng_.below(2) != 0;
    p.syndrome = static_cast<std::uint8_t>(rng_.next());
    p.msn = static_cast<std::uint32_t>(rng_.next()) & 0xffffff;
    p.remote_address = rng_.next();
    p.immediate = static_cast<std::uint32_t>(rng_.next());
    p.payload.set(payload_.data(), bytes);
    return p;
  }
  /// The frame and what the parser finds in it are those that make_frame() leads to.
  void expect_same(const SentHead& head, const nic::Packet& p, std::uint8_t tos) {
    std::uint8_t bytes[nic::kMaxHeadBytes];
    const nic::TxFrame frame = nic::make_frame(to_, tos, p, wire::Qpn(17), bytes);
    std::vector<std::uint8_t> expected(frame.bytes());
    nic::copy_frame(frame, expected);
    std::vector<std::uint8_t> made(std::max<std::size_t>(head.frame_bytes(), SentHead::kBytes));
    head.write(made.data());
    made.resize(head.frame_bytes());
    ASSERT_EQ(head.size(), frame.head.size());
    std::copy_n(payload_.begin(), p.payload.bytes, made.begin() + head.size());
    const std::uint32_t rest = p.payload.bytes == 0 ? 0 : wire::payload_crc({payload_.data(), p.payload.bytes});
    wire::store_icrc(made.data() + frame.layout.icrc, head.crc() ^ rest);
    ASSERT_EQ(made, expected);
    wire::Parsed parsed, found;
    head.write_parsed(p, p.psn, parsed);
    wire::parse_frame(expected.data(), frame.bytes(), frame.bytes(), found);
    EXPECT_EQ(std::memcmp(&parsed, &found, sizeof parsed), 0);
  }

  nic::HeaderTemplate to_;
  Rng rng_{1};
  std::vector<std::uint8_t> payload_ = std::vector<std::uint8_t>(4096);
};
INSTANTIATE_TEST_SUITE_P(Families, SentHeadTest, ::testing::Bool());

/// One after the other through those of one endpoint: runs of packets of the same length and TOS, and changes.
TEST_P(SentHeadTest, FramesAreThoseThatAreMadeFromTheStart) {
  constexpr Opcode kOpcodes[]{Opcode::RC_SEND_FIRST,      Opcode::RC_SEND_MIDDLE,         Opcode::RC_SEND_LAST,
                              Opcode::RC_SEND_ONLY,       Opcode::RC_SEND_ONLY_IMM,       Opcode::RC_SEND_LAST_IMM,
                              Opcode::RC_RDMA_WRITE_LAST, Opcode::RC_RDMA_WRITE_LAST_IMM, Opcode::RC_ACKNOWLEDGE};
  constexpr std::uint32_t kBytes[]{4, 16, 64, 256, 1024, 4096};
  SentHead heads[SentHead::kKinds];
  std::uint32_t bytes = 4;
  std::uint8_t tos = 0;
  for (int round = 0; round < 4000; ++round) {
    if (rng_.below(8) == 0) bytes = kBytes[rng_.below(std::size(kBytes))];
    if (rng_.below(8) == 0) tos = static_cast<std::uint8_t>(rng_.below(256));
    const Opcode opcode = kOpcodes[rng_.below(std::size(kOpcodes))];
    const nic::Packet p = packet(opcode, opcode == Opcode::RC_ACKNOWLEDGE ? 0 : bytes);
    ASSERT_TRUE(SentHead::fits(p));
    SentHead& head = heads[SentHead::kind(p)];
    head.set(to_, tos, p, p.psn, wire::Qpn(17));
    ASSERT_NO_FATAL_FAILURE(expect_same(head, p, tos)) << "round " << round;
  }
}

TEST_P(SentHeadTest, RefusesWhatHasOtherHeadersOrPad) {
  for (const Opcode opcode : {Opcode::RC_RDMA_WRITE_ONLY, Opcode::RC_RDMA_WRITE_ONLY_IMM, Opcode::RC_SEND_ONLY_INV,
                              Opcode::RC_ATOMIC_ACKNOWLEDGE, Opcode::CNP}) {
    EXPECT_FALSE(SentHead::fits(packet(opcode, 0))) << static_cast<int>(opcode);
  }
  EXPECT_FALSE(SentHead::fits(packet(Opcode::RC_SEND_ONLY, 5)));
  nic::Packet elided = packet(Opcode::RC_SEND_ONLY, 8);
  elided.payload.set(nullptr, 8);
  EXPECT_FALSE(SentHead::fits(elided));
  nic::Packet pieces = packet(Opcode::RC_SEND_ONLY, 8);
  pieces.payload.pieces[1] = pieces.payload.pieces[0];
  pieces.payload.count = 2;
  EXPECT_FALSE(SentHead::fits(pieces));
  EXPECT_TRUE(SentHead::fits(packet(Opcode::RC_SEND_ONLY, 8)));
}

}  // namespace
}  // namespace weft::inc
