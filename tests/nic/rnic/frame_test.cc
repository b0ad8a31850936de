// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/frame.h"

#include <gtest/gtest.h>

#include "switch/wire/builder.h"
#include "switch/wire/checksum.h"
#include "switch/wire/parse.h"

namespace weft::nic {
namespace {

using wire::FrameBuilder;
using wire::MacAddress;
using wire::Opcode;

Path path(bool v6) {
  Path p;
  p.source_mac = MacAddress::from_u64(0x020000000001);
  p.destination_mac = MacAddress::from_u64(0x020000000002);
  p.source = *wire::IpAddress::parse(v6 ? "fd00::1" : "10.0.0.1");
  p.destination = *wire::IpAddress::parse(v6 ? "fd00::2" : "10.0.0.2");
  p.source_port = 50000;
  return p;
}

Packet sample(Opcode o, const std::vector<std::uint8_t>& data) {
  Packet p;
  p.opcode = o;
  p.ack_req = true;
  p.psn = wire::Psn(0x123456);
  p.syndrome = 0x1f;
  p.msn = 0x654321;
  p.remote_address = 0x1122334455667788;
  p.rkey = 0xaabbccdd;
  p.dma_length = 77;
  p.swap_add = 5;
  p.compare = 6;
  p.immediate = 0xcafe;
  p.payload.set(data.data(), static_cast<std::uint32_t>(data.size()));
  return p;
}

/// The same frame by the builder that tests of the switch use.
FrameBuilder::Bytes expected(Opcode o, bool v6, const std::vector<std::uint8_t>& data) {
  const auto& info = wire::opcode_info(o);
  FrameBuilder b;
  b.eth(path(v6).source_mac, path(v6).destination_mac).ip(path(v6).source, path(v6).destination).tos(0x6a).udp(50000);
  b.bth(o, wire::Qpn(0x010203), wire::Psn(0x123456)).ack_req();
  if (info.has(wire::HeaderMask::reth)) b.reth(0x1122334455667788, 0xaabbccdd, 77);
  if (info.has(wire::HeaderMask::aeth)) b.aeth(wire::Syndrome(0x1f), 0x654321);
  if (info.has(wire::HeaderMask::atomic_eth)) b.atomic(0x1122334455667788, 0xaabbccdd, 5, 6);
  if (info.has(wire::HeaderMask::atomic_ack_eth)) b.atomic_ack(6);
  if (info.has(wire::HeaderMask::immdt)) b.immediate(0xcafe);
  if (info.has(wire::HeaderMask::ieth)) b.invalidate(0xcafe);
  if (!data.empty()) b.payload(data);
  return b.build();
}

TEST(Frame, EveryRcOpcodeIsWhatTheBuilderMakesAndIsReadBack) {
  for (unsigned raw = 0; raw < 0x20; ++raw) {
    const auto o = static_cast<Opcode>(raw);
    const auto& info = wire::opcode_info(o);
    if (!info.known()) continue;
    for (const bool v6 : {false, true}) {
      for (const std::size_t size : {0u, 1u, 2u, 3u, 4u, 256u}) {
        if ((size > 0 && !info.may_carry_payload()) || (size == 0 && info.payload == wire::PayloadRule::required))
          continue;
        SCOPED_TRACE(std::string(opcode_name(o)) + " " + std::to_string(size));
        const std::vector<std::uint8_t> data(size, 0x3c);
        HeaderTemplate header;
        header.set(path(v6));
        std::array<std::uint8_t, kMaxHeadBytes> head;
        const Packet packet = sample(o, data);
        const TxFrame f = make_frame(header, 0x6a, packet, wire::Qpn(0x010203), head.data());
        std::vector<std::uint8_t> out(2048);
        out.resize(copy_frame(f, out));
        ASSERT_EQ(out, expected(o, v6, data));
        wire::Parsed parsed;
        const auto length = static_cast<std::uint32_t>(out.size());
        wire::parse_frame(out.data(), length, length, parsed);
        ASSERT_EQ(parsed.kind, wire::FrameKind::roce);
        Packet again;
        decode(out.data(), length, parsed, again);
        HeaderTemplate same;
        same.set(path(v6));
        std::array<std::uint8_t, kMaxHeadBytes> second;
        std::vector<std::uint8_t> copy(2048);
        copy.resize(copy_frame(make_frame(same, 0x6a, again, wire::Qpn(0x010203), second.data()), copy));
        EXPECT_EQ(copy, out) << "what was read makes the same frame";
      }
    }
  }
}

TEST(Frame, TheOptionOfTelemetryLiesBetweenIpAndUdp) {
  wire::IntPath back;
  back.hops = 2;
  back.path = 0x77;
  back.hop[1] = {10, 0xfffe, 0x8001, 0xabc};
  for (const bool echoes : {false, true}) {
    const std::vector<std::uint8_t> data(100, 0x3c);
    HeaderTemplate header;
    header.set(path(false), true);
    std::array<std::uint8_t, kMaxHeadBytes> head;
    const Packet packet = sample(Opcode::RC_RDMA_WRITE_ONLY_IMM, data);
    std::vector<std::uint8_t> out(2048);
    out.resize(copy_frame(make_frame(header, 0x6a, packet, wire::Qpn(5), head.data(), echoes ? &back : nullptr), out));
    wire::Parsed parsed;
    const auto length = static_cast<std::uint32_t>(out.size());
    wire::parse_frame(out.data(), length, length, parsed);
    ASSERT_EQ(parsed.kind, wire::FrameKind::roce);
    ASSERT_EQ(parsed.validity, wire::Validity::ok);
    EXPECT_TRUE(wire::icrc_ok(out.data(), parsed));
    const std::uint8_t* option = wire::find_int_option(out.data() + parsed.l3_offset);
    ASSERT_NE(option, nullptr);
    EXPECT_EQ(wire::int_kind(option), echoes ? wire::IntKind::echo : wire::IntKind::collects);
    EXPECT_EQ(wire::read_int(option), echoes ? back : wire::IntPath{});
    Packet again;
    decode(out.data(), length, parsed, again);
    EXPECT_EQ(again.psn, packet.psn);
    EXPECT_EQ(again.immediate, packet.immediate);
    ASSERT_EQ(again.payload.bytes, data.size());
    EXPECT_EQ(std::vector<std::uint8_t>(again.payload.data(), again.payload.data() + data.size()), data);
  }
}

TEST(Frame, ThePathMtuLeavesRoomForTheLargestPacket) {
  for (const bool telemetry : {false, true}) {
    const std::uint32_t options = telemetry ? std::uint32_t{wire::kIntOptionBytes} : 0;
    const std::vector<std::uint8_t> data(4096);
    HeaderTemplate header;
    header.set(path(false), telemetry);
    std::array<std::uint8_t, kMaxHeadBytes> head;
    const Packet packet = sample(Opcode::RC_RDMA_WRITE_ONLY_IMM, data);
    const auto mtu = static_cast<std::uint32_t>(make_frame(header, 0, packet, wire::Qpn(5), head.data()).bytes() -
                                                sizeof(wire::EthernetHeader));
    EXPECT_EQ(path_mtu_for(mtu, false, options), 4096u);
    EXPECT_EQ(path_mtu_for(mtu - 1, false, options), 2048u);
  }
}

TEST(Frame, Ipv6HasNoOptionOfTelemetry) {
  HeaderTemplate header, plain;
  header.set(path(true), true);
  plain.set(path(true));
  EXPECT_EQ(header.size(), plain.size());
}

TEST(Frame, ATooSmallBufferTakesNothing) {
  HeaderTemplate header;
  header.set(path(false));
  std::array<std::uint8_t, kMaxHeadBytes> head;
  const std::vector<std::uint8_t> data(10, 1);
  const Packet packet = sample(Opcode::RC_SEND_ONLY, data);
  const TxFrame f = make_frame(header, 0, packet, wire::Qpn(1), head.data());
  std::vector<std::uint8_t> out(f.bytes() - 1);
  EXPECT_EQ(copy_frame(f, out), 0u);
}

}  // namespace
}  // namespace weft::nic
