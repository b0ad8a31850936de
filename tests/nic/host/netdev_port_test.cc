// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/netdev_port.h"

#include <gmock/gmock.h>

#include <vector>

#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/nic/host/namespace.h"

namespace weft::nic {
namespace {

using testing::run;

using Bytes = std::vector<std::uint8_t>;

/// Both ends of a veth are ports, in one namespace.
class NetdevPortTest : public testing::InNamespace {
 protected:
  void open() {
    ASSERT_TRUE(run("ip link add left0 type veth peer name right0"));
    for (const char* name : {"left0", "right0"}) ASSERT_TRUE(run(std::string("ip link set ") + name + " mtu 1500 up"));
    for (const char* name : {"left0", "right0"}) ASSERT_TRUE(testing::wait_until_up(name));
    ASSERT_EQ(left.open("left0"), "");
    ASSERT_EQ(right.open("right0"), "");
    path.source_mac = left.info().mac;
    path.destination_mac = right.info().mac;
    path.source = wire::IpAddress::v4(1);
    path.destination = wire::IpAddress::v4(2);
  }
  void send(std::uint32_t bytes) {
    header.set(path);
    Packet packet;
    packet.opcode = wire::Opcode::RC_SEND_ONLY;
    packet.payload.set(payload.data(), bytes);
    left.send(make_frame(header, 0, packet, wire::Qpn(77), head.data()));
  }
  std::vector<Bytes> arrived() {
    std::vector<Bytes> all;
    for (const auto& frame : right.receive()) all.emplace_back(frame.begin(), frame.end());
    return all;
  }

  NetdevPort left, right;
  HeaderTemplate header;
  Path path;
  Bytes payload = Bytes(9000, 3);
  std::array<std::uint8_t, kMaxHeadBytes> head{};
};

TEST_F(NetdevPortTest, RoceFramesArriveWithAValidIcrcAndNothingElseDoes) {
  open();
  for (const bool v6 : {false, true}) {
    if (v6) {
      path.source = *wire::IpAddress::parse("fd00::1");
      path.destination = *wire::IpAddress::parse("fd00::2");
    }
    for (int i = 0; i < 3; ++i) send(100);
    EXPECT_TRUE(left.flush());
    right.wait(5'000'000'000);
    const auto frames = arrived();
    ASSERT_EQ(frames.size(), 3u);
    wire::Parsed p;
    wire::parse_frame(frames[0].data(), static_cast<std::uint32_t>(frames[0].size()),
                      static_cast<std::uint32_t>(frames[0].size()), p);
    EXPECT_EQ(p.dest_qp, wire::Qpn(77));
    EXPECT_TRUE(wire::icrc_ok(frames[0].data(), p));
  }
  EXPECT_EQ(left.counters().tx_frames, 6u);
  EXPECT_EQ(right.counters().rx_frames, 6u);
  EXPECT_TRUE(left.receive().empty()) << "what was sent does not come back";
  // Any other datagram is the kernel's.
  ASSERT_TRUE(run("ip addr add 10.81.0.1/24 dev left0 && ip neigh add 10.81.0.2 lladdr 02:00:00:00:00:02 dev left0"));
  ASSERT_TRUE(run("timeout 1 bash -c 'echo x > /dev/udp/10.81.0.2/4790'"));
  right.wait(1'000'000);
  EXPECT_TRUE(arrived().empty());
}

TEST_F(NetdevPortTest, MacControlFramesArriveToo) {
  open();
  ASSERT_TRUE(
      run("python3 -c \"import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('left0', 0)); "
          "s.send(bytes.fromhex('0180c2000001020000000009880801010008').ljust(60, bytes(1)))\""));
  right.wait(5'000'000'000);
  const auto frames = arrived();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].size(), 60u);
}

TEST_F(NetdevPortTest, AFrameLongerThanTheInterfaceTakesIsCounted) {
  open();
  send(8000);
  EXPECT_TRUE(left.flush());
  EXPECT_EQ(left.counters().tx_errors, 1u);
}

TEST_F(NetdevPortTest, AFrameLongerThanOursIsCounted) {
  open();
  ASSERT_TRUE(run("ip link set left0 mtu 9000"));
  NetdevPort longer;
  ASSERT_EQ(longer.open("left0"), "");
  header.set(path);
  Packet packet;
  packet.opcode = wire::Opcode::RC_SEND_ONLY;
  packet.payload.set(payload.data(), 4000);
  ASSERT_TRUE(run("ip link set right0 mtu 9000"));  // the kernel lets it pass; our buffers are of the time before
  longer.send(make_frame(header, 0, packet, wire::Qpn(77), head.data()));
  EXPECT_TRUE(longer.flush());
  right.wait(5'000'000'000);
  EXPECT_TRUE(arrived().empty());
  EXPECT_EQ(right.counters().rx_truncated, 1u);
}

TEST_F(NetdevPortTest, AnInterfaceThatIsDownRefusesFramesWhichAreLost) {
  open();
  EXPECT_TRUE(left.link_up());
  ASSERT_TRUE(run("ip link set left0 down"));
  EXPECT_FALSE(left.link_up());
  send(10);
  EXPECT_TRUE(left.flush());
  EXPECT_EQ(left.counters().tx_errors, 1u);
}

TEST_F(NetdevPortTest, WaitingEndsWithTheTime) {
  open();
  right.wait(1);
  EXPECT_TRUE(arrived().empty());
}

TEST_F(NetdevPortTest, WhatIsNoInterfaceIsSaid) {
  EXPECT_THAT(NetdevPort().open("nosuch"), ::testing::HasSubstr("no Ethernet interface nosuch"));
}

}  // namespace
}  // namespace weft::nic
