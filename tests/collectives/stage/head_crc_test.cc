// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/head_crc.h"

#include <gtest/gtest.h>

#include <vector>

#include "nic/rnic/frame.h"
#include "switch/base/rng.h"

namespace weft::inc {
namespace {

using wire::Opcode;

class HeadCrcTest : public ::testing::TestWithParam<bool> {
 protected:
  HeadCrcTest() {
    nic::Path path;
    path.source = *wire::IpAddress::parse(GetParam() ? "2001:db8::1" : "10.0.0.1");
    path.destination = *wire::IpAddress::parse(GetParam() ? "2001:db8::2" : "10.0.0.2");
    to_.set(path);
  }
  nic::Packet packet(Opcode opcode, std::uint32_t bytes) {
    payload_.resize(bytes);
    for (auto& byte : payload_) byte = static_cast<std::uint8_t>(rng_.below(256));
    nic::Packet p;
    p.opcode = opcode;
    p.psn = wire::Psn(static_cast<std::uint32_t>(rng_.below(1 << 24)));
    p.ack_req = rng_.below(2) != 0;
    p.solicited = rng_.below(2) != 0;
    p.remote_address = rng_.next();
    p.rkey = static_cast<std::uint32_t>(rng_.next());
    p.dma_length = bytes;
    p.immediate = static_cast<std::uint32_t>(rng_.next());
    p.payload.set(payload_.data(), bytes);
    return p;
  }
  nic::HeaderTemplate to_;
  Rng rng_{1};
  std::vector<std::uint8_t> payload_;
};
INSTANTIATE_TEST_SUITE_P(Families, HeadCrcTest, ::testing::Bool());

/// One after the other through the same ArrivedHeadCrc: what differs from the packet before may be anything.
TEST_P(HeadCrcTest, OfWhatArrivesAnythingMayDiffer) {
  constexpr Opcode kOpcodes[]{Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_ONLY, Opcode::RC_SEND_ONLY_IMM,
                              Opcode::RC_RDMA_WRITE_ONLY};
  ArrivedHeadCrc crc;
  std::vector<std::uint8_t> whole;
  wire::RoceLayout layout;
  for (int round = 0; round < 4000; ++round) {
    if (whole.empty() || rng_.below(8) == 0) {
      const nic::Packet p = packet(kOpcodes[rng_.below(std::size(kOpcodes))], rng_.below(2) != 0 ? 256 : 1024);
      std::uint8_t head[nic::kMaxHeadBytes];
      const nic::TxFrame frame = nic::make_frame(to_, 0, p, wire::Qpn(17), head);
      whole.resize(frame.bytes());
      nic::copy_frame(frame, whole);
      layout = frame.layout;
    }
    // A byte of the headers, whether the ICRC covers it or not; not the one that says how long the IP header is.
    const std::uint64_t byte = rng_.below(layout.l4 + sizeof(wire::UdpHeader) + sizeof(wire::Bth) - layout.l3);
    if (byte != 0) whole[layout.l3 + byte] ^= static_cast<std::uint8_t>(rng_.below(256));
    ASSERT_EQ(crc.part(whole.data(), layout, payload_.size()),
              wire::icrc_of_head(whole.data(), layout, payload_.size()))
        << "round " << round << ", byte " << byte;
  }
}

}  // namespace
}  // namespace weft::inc
