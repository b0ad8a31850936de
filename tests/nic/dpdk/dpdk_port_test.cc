// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/dpdk/dpdk_port.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "nic/dpdk/eal.h"
#include "nic/host/host.h"

namespace weft::nic {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// A ring whose end is its beginning: what is sent arrives.
std::string ring() {
  static int number = 0;
  return "net_ring" + std::to_string(number++);
}

struct End {
  explicit End(Device& d) : device(d), pd(d.alloc_pd()), cq(d.create_cq(64)) {
    QpConfig config;
    config.path_mtu = 4096;
    qp = &d.create_qp(pd, cq, cq, config);
    memory.resize(300'000);
    mr = d.reg_mr(pd, memory.data(), memory.size(), Access::all);
  }
  [[nodiscard]] Peer peer(const End& to) const {
    const auto &f = device.config(), &t = to.device.config();
    return {to.qp->qpn(), {f.mac, t.mac, f.address, t.address, 0, 64, 0}, wire::Psn(5), wire::Psn(5)};
  }
  Device& device;
  Pd pd;
  Cq& cq;
  Qp* qp = nullptr;
  Bytes memory;
  Mr mr{};
};

TEST(DpdkPort, RnicsTalkToEachOtherThroughADevice) {
  auto port = std::make_unique<DpdkPort>();
  ASSERT_EQ(port->open({.devargs = ring()}), "");
  EXPECT_FALSE(port->info().mac.is_zero());
  EXPECT_FALSE(port->info().mac.is_multicast());
  EXPECT_TRUE(port->link_up());
  Host host;
  host.open(std::move(port));
  End a(host.add_device(wire::IpAddress::v4(1), 1)), b(host.add_device(wire::IpAddress::v4(2), 2));
  a.qp->connect(a.peer(b));
  b.qp->connect(b.peer(a));
  for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<std::uint8_t>(i * 31 >> 3);
  for (const WrOpcode op : {WrOpcode::write, WrOpcode::read}) {
    SendWr wr;
    wr.opcode = op;
    End& from = op == WrOpcode::write ? a : b;
    End& to = op == WrOpcode::write ? b : a;
    wr.with({from.mr.address, 300'000, from.mr.key});
    wr.remote_address = to.mr.address;
    wr.rkey = to.mr.key;
    if (op == WrOpcode::read) std::memset(b.memory.data(), 0, b.memory.size());
    ASSERT_EQ(from.qp->post_send(wr), PostResult::ok);
    Wc wc;
    ASSERT_TRUE(host.run_until([&] { return from.cq.poll({&wc, 1}) == 1; }, std::chrono::seconds(20)));
    EXPECT_EQ(wc.status, WcStatus::success);
    EXPECT_EQ(a.memory, b.memory) << name(op);
  }
  const auto c = host.port().counters();
  EXPECT_EQ(c.rx_frames, c.tx_frames);
  EXPECT_GT(c.rx_frames, 148u);
  EXPECT_EQ(c.tx_errors + c.rx_truncated + c.rx_missed, 0u);
  EXPECT_EQ(host.unclaimed(), 0u);
}

TEST(DpdkPort, WhatFitsNoBufferIsCountedAndLost) {
  DpdkPort port;
  ASSERT_EQ(port.open({.devargs = ring()}), "");
  Bytes payload(9000);
  Payload pieces;
  pieces.set(payload.data(), 9000);
  TxFrame frame;
  frame.payload = &pieces;
  frame.layout.icrc = 9000;
  port.send(frame);
  EXPECT_EQ(port.counters().tx_errors, 1u);
  EXPECT_TRUE(port.flush());
}

TEST(DpdkPort, FramesThatAreNotRoceAreTheKernelsAndGoNowhereWithoutIt) {
  DpdkPort port;
  ASSERT_EQ(port.open({.devargs = ring()}), "");
  // Whatever the bytes are: no Ethernet header of ours is in them.
  Payload nothing;
  nothing.set(nullptr, 0);
  const Bytes zeros(60);
  TxFrame frame;
  frame.head = zeros;
  frame.payload = &nothing;
  frame.layout = {14, 34, 60, false};
  port.send(frame);
  EXPECT_TRUE(port.flush());
  EXPECT_TRUE(port.receive().empty());
  EXPECT_EQ(port.counters().rx_frames, 0u);
}

TEST(DpdkPort, WaitingEndsWithTheTime) {
  DpdkPort port;
  ASSERT_EQ(port.open({.devargs = ring()}), "");
  const Time before = monotonic_now();
  for (int i = 0; i < 100; ++i) port.wait(1'000);
  EXPECT_LT(monotonic_now() - before, 10'000 * kMs) << "naps are no longer than they may be";
}

TEST(DpdkPort, MistakesAreSaid) {
  EXPECT_THAT(DpdkPort().open({.devargs = "net_nosuch0"}), ::testing::HasSubstr("net_nosuch0"));
}

TEST(DpdkPort, AMemifWithoutItsServerWaitsForIt) {
  DpdkPort port;
  ASSERT_EQ(port.open({.devargs = *memif_device(::testing::TempDir() + "weft-nobody.sock", 0)}), "");
  EXPECT_FALSE(port.link_up());
  port.wait(1'000'000);
  EXPECT_FALSE(port.link_up());
  EXPECT_TRUE(port.receive().empty());
}

TEST(MemifDevice, NamesTheSocketAndTheId) {
  EXPECT_THAT(*memif_device("/run/x.sock", 3),
              ::testing::AllOf(::testing::HasSubstr("role=client"), ::testing::HasSubstr("socket=/run/x.sock"),
                               ::testing::HasSubstr("id=3")));
  EXPECT_FALSE(memif_device("/run/a,b", 0));
  EXPECT_FALSE(memif_device("/run/a=b", 0));
  EXPECT_FALSE(memif_device("", 0));
}

TEST(Eal, KnowsPciDevicesFromOthers) {
  EXPECT_TRUE(is_pci_device("0000:3b:00.1"));
  EXPECT_TRUE(is_pci_device("3b:00.1,representor=0"));
  EXPECT_TRUE(is_pci_device("pci:0000:3b:00.1"));
  EXPECT_FALSE(is_pci_device("net_memif0,socket=/run/a:b.sock"));
  EXPECT_FALSE(is_pci_device("net_ring0"));
}

}  // namespace
}  // namespace weft::nic
