// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/source_cnp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "switch/wire/packet_addresses.h"
#include "tests/switch/wire/samples.h"
#include "tests/switch/wire/vectors.h"

namespace weft::wire {
namespace {

/// A packet with these addresses, and what the parser finds in it.
struct Packet {
  std::vector<std::uint8_t> frame;
  Parsed parsed{};

  Packet(MacAddress from, MacAddress to, IpAddress source, IpAddress destination, bool tagged) {
    FrameBuilder b;
    b.eth(from, to).ip(source, destination).udp(50000).bth(Opcode::RC_SEND_MIDDLE, Qpn(0x4321), Psn(7)).payload(256);
    if (tagged) b.vlan(100, 3, true);
    frame = b.build();
    parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()),
                parsed);
  }
};

TEST(SourceCnp, EqualsTheBuildersAndWhatTheParserFindsInItWhateverItsFieldsHold) {
  std::mt19937_64 random(1);
  constexpr std::uint64_t kOnes = ~std::uint64_t{0};
  std::vector<std::uint8_t> out;
  for (int i = 0; i < 3000; ++i) {
    const auto any = [&] {
      return i == 0 ? 0 : i == 1 ? kOnes : random() & (i % 3 == 0 ? random() & random() : kOnes);
    };
    const auto host = MacAddress::from_u64(any() & 0xfeffffffffff),
               gateway = MacAddress::from_u64(any() & 0xfeffffffffff);
    const auto source = IpAddress::v4(static_cast<std::uint32_t>(any()));
    const auto destination = IpAddress::v4(static_cast<std::uint32_t>(any()));
    const auto tos = static_cast<std::uint8_t>(any());
    const Qpn qp(std::max<std::uint32_t>(static_cast<std::uint32_t>(any()) & 0xffffff, 1));
    const Packet packet(host, gateway, source, destination, i % 2 == 1);
    ASSERT_EQ(packet.parsed.kind, FrameKind::roce) << i;

    out.assign(kSourceCnpBytes + 3, 0xaa);
    Parsed made;
    std::memset(static_cast<void*>(&made), 0xaa, sizeof made);
    ASSERT_EQ(write_source_cnp(out, packet.frame.data(), packet.parsed, tos, qp, made), kSourceCnpBytes);
    ASSERT_EQ(std::count(out.end() - 3, out.end(), 0xaa), 3);
    out.resize(kSourceCnpBytes);
    FrameBuilder b;
    b.eth(gateway, host).ip(destination, source).tos(tos).ttl(64).udp(0);
    ASSERT_EQ(out, b.cnp(qp).build()) << i;
    Parsed found{};
    parse_frame(out.data(), kSourceCnpBytes, kSourceCnpBytes, found);
    ASSERT_EQ(std::memcmp(&made, &found, sizeof made), 0) << i;
  }
}

// Sent by a ConnectX-4 Lx. A switch counts up no IPv4 identification, so that this one is taken from the recording, and
// both checksums are computed again with it.
TEST(SourceCnp, IsTheOneThatAConnectXSentFieldByField) {
  const auto recorded = vectors::from_hex(vectors::kConnectX4Cnp);
  const Parsed theirs = parse(recorded);
  const auto& eth = header_at<EthernetHeader>(recorded.data());
  const Packet data(eth.destination, eth.source, destination_address(theirs, recorded.data()),
                    source_address(theirs, recorded.data()), false);
  const auto with_identification = [&](std::vector<std::uint8_t> ours) {
    auto& ip = header_at<Ipv4Header>(ours.data() + theirs.l3_offset);
    ip.identification = header_at<Ipv4Header>(recorded.data() + theirs.l3_offset).identification;
    ip.checksum.set(ipv4_checksum(ip));
    const RoceLayout layout = roce_layout(ours.data(), theirs);
    store_icrc(ours.data() + layout.icrc, icrc_full(ours.data(), layout));
    return ours;
  };
  std::vector<std::uint8_t> out(kSourceCnpBytes);
  Parsed made;
  ASSERT_EQ(write_source_cnp(out, data.frame.data(), data.parsed, theirs.tos, theirs.dest_qp, made), kSourceCnpBytes);
  EXPECT_EQ(with_identification(out), recorded) << "of pnp";
  const RoceAddressing to = source_cnp_addressing(data.frame.data(), data.parsed, theirs.tos);
  ASSERT_EQ(write_cnp(out, to, theirs.dest_qp), kSourceCnpBytes);
  EXPECT_EQ(with_identification(out), recorded) << "of trp, and of pnp over IPv6";
}

TEST(SourceCnp, WritesNothingIntoABufferThatIsTooSmall) {
  const Packet packet(MacAddress::from_u64(2), MacAddress::from_u64(4), IpAddress::v4(1), IpAddress::v4(2), false);
  for (std::size_t n = 0; n < kSourceCnpBytes; ++n) {
    std::vector<std::uint8_t> out(n, 0xaa);
    Parsed made;
    EXPECT_EQ(write_source_cnp(out, packet.frame.data(), packet.parsed, 2, Qpn(1), made), 0u);
    EXPECT_EQ(std::count(out.begin(), out.end(), 0xaa), static_cast<std::ptrdiff_t>(n));
  }
}

}  // namespace
}  // namespace weft::wire
