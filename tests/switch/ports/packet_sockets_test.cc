// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A veth pair in a network namespace that the test's thread makes, and that goes with it. Needs root.
#include "switch/ports/packet_sockets.h"

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "tests/switch/ports/port_rig.h"

namespace weft::ports {
namespace {

constexpr const char* kOurs = "weftps0";
constexpr const char* kTheirs = "weftps1";

// Sends through an interface of the thread's namespace, without DPDK.
class RawSocket {
 public:
  explicit RawSocket(const std::string& interface) : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawSocket() { close(fd_); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  void transmit(const Bytes& frame, int count) const {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(::send(fd_, frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    }
  }

 private:
  int fd_;
};

class PacketSocketsTest : public PortTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root for network namespaces";
    use_pool(4096, 8192 + RTE_PKTMBUF_HEADROOM);
  }

  // Runs the test on a thread with a namespace of its own.
  template <typename F>
  static void with_veth(F&& f) {
    std::thread([&] {
      if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "this machine lets nobody add network namespaces";
      add_veth();
      f();
    }).join();
  }
  static void add_veth() {
    const std::string add = std::string("ip link add ") + kOurs + " type veth peer name " + kTheirs;
    const std::string quiet = std::string("sysctl -qw net.ipv6.conf.") + kTheirs + ".disable_ipv6=1";
    const std::string up = std::string("ip link set ") + kTheirs + " up";
    ASSERT_EQ(std::system((add + " && " + quiet + " && " + up).c_str()), 0);
  }
  static Bytes frame() {
    Bytes bytes = frame_of(200);
    bytes[0] = 2;  // unicast
    return bytes;
  }
};

TEST_F(PacketSocketsTest, OnlyThePacketSocketsOfTheInterfaceAreFound) {
  with_veth([] {
    const RawSocket here(kOurs), also_here(kOurs), there(kTheirs);
    EXPECT_EQ(PacketSockets(kOurs).count(), 2u);
    EXPECT_EQ(PacketSockets(kTheirs).count(), 1u);
    EXPECT_EQ(PacketSockets("no-such-thing").count(), 0u);
  });
}

TEST_F(PacketSocketsTest, WhatTheRingOfAVethPortCannotHoldIsCountedAsMissed) {
  with_veth([this] {
    ASSERT_EQ(open(info("veth", {{"interface", Value(std::string(kOurs))}}, 1500)), "");
    const RawSocket peer(kTheirs);
    constexpr int kFew = 50, kMany = 3000;
    peer.transmit(frame(), kFew);
    EXPECT_EQ(receive_all().size(), std::size_t{kFew});
    EXPECT_EQ(port->device_stats().rx_missed, 0u);

    for (std::uint64_t missed = 0; missed < 5000;) {
      peer.transmit(frame(), kMany);
      const std::uint64_t received = receive_all().size();
      const std::uint64_t now_missed = port->device_stats().rx_missed;
      ASSERT_GT(now_missed, missed);
      ASSERT_EQ(received + (now_missed - missed), std::uint64_t{kMany});
      missed = now_missed;
    }
    const std::uint64_t before = port->device_stats().rx_missed;
    EXPECT_EQ(port->device_stats().rx_missed, before);
    port.reset();
    EXPECT_EQ(PacketSockets(kOurs).count(), 0u);
  });
}

// Workers may look at a port at any time while it opens its interface again.
TEST_F(PacketSocketsTest, AVethPortOpensAnInterfaceThatWasMadeAgainAndItsCountsGoOn) {
  with_veth([this] {
    int waits = 0;
    await_bursts = [&] {
      ++waits;
      rte_mbuf* none[8];
      EXPECT_EQ(port->receive(now, 0, none, 8), 0);
      rte_mbuf* packets[]{packet(frame()), packet(frame())};
      const pipeline::TxResult result = port->transmit(packets, 2);
      EXPECT_EQ(result.taken, 2);
      EXPECT_EQ(result.rejected, 2);
      EXPECT_EQ(result.rejected_bytes, 2 * frame().size());
    };
    ASSERT_EQ(open(info("veth", {{"interface", Value(std::string(kOurs))}}, 1500)), "");
    const std::size_t sockets = PacketSockets(kOurs).count();
    RawSocket(kTheirs).transmit(frame(), 3000);
    EXPECT_GT(receive_all().size(), 0u);
    const std::uint64_t missed = port->device_stats().rx_missed;
    ASSERT_GT(missed, 0u);
    for (int round = 1; round <= 3; ++round) {
      ASSERT_EQ(std::system((std::string("ip link del ") + kOurs).c_str()), 0);
      ASSERT_EQ(port->supervise().size(), 1u);
      EXPECT_FALSE(port->link_up());
      EXPECT_THAT(port->supervise(), testing::IsEmpty());
      add_veth();
      const std::vector<PortNews> news = port->supervise();
      ASSERT_EQ(news.size(), 1u);
      EXPECT_FALSE(news[0].warning) << news[0].text;
      EXPECT_EQ(waits, round);
      EXPECT_TRUE(port->link_up());
      EXPECT_EQ(port->device_stats().rx_missed, missed);
      const RawSocket peer(kTheirs);
      peer.transmit(frame(), 50);
      EXPECT_EQ(receive_all().size(), 50u);
      EXPECT_EQ(PacketSockets(kOurs).count(), sockets);
    }
    port.reset();
    EXPECT_EQ(waits, 3) << "nobody looks at a port that ends";
  });
}

TEST_F(PacketSocketsTest, AnInterfaceThatWasDeletedAndMadeAgainIsAnotherOne) {
  with_veth([] {
    const RawSocket ours(kOurs);
    const PacketSockets sockets(kOurs);
    const unsigned first = if_nametoindex(kOurs);
    EXPECT_TRUE(sockets.bound_to(first));
    ASSERT_EQ(std::system((std::string("ip link del ") + kOurs).c_str()), 0);
    EXPECT_FALSE(sockets.bound_to(first));
    ASSERT_EQ(std::system((std::string("ip link add ") + kOurs + " type veth peer name " + kTheirs).c_str()), 0);
    const unsigned second = if_nametoindex(kOurs);
    EXPECT_FALSE(sockets.bound_to(second));
  });
}

}  // namespace
}  // namespace weft::ports
