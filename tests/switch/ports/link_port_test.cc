// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/link_port.h"

#include <thread>

#include "tests/switch/ports/port_rig.h"

namespace weft::ports {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LinkPortTest : public PortTest {
 protected:
  void SetUp() override {
    use_pool(4096, 512);
    std::tie(left, right) = LinkPort::make_pair("s1/u1", "s2/d1");
  }
  void TearDown() override {
    left.reset();
    right.reset();
    PortTest::TearDown();
  }
  std::uint16_t send(LinkPort& from, std::uint16_t count, std::uint8_t first = 0) {
    std::vector<rte_mbuf*> packets;
    for (std::uint16_t i = 0; i < count; ++i)
      packets.push_back(packet(frame_of(60, static_cast<std::uint8_t>(first + i))));
    const pipeline::TxResult result = from.transmit(packets.data(), count);
    EXPECT_EQ(result.rejected, 0);
    for (std::uint16_t i = result.taken; i < count; ++i) rte_pktmbuf_free(packets[i]);
    return result.taken;
  }
  std::vector<Bytes> receive(LinkPort& at, std::uint16_t most) {
    rte_mbuf* packets[64];
    const std::uint16_t count = at.receive(now, 0, packets, most);
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < count; ++i) frames.push_back(take(packets[i]));
    return frames;
  }
  std::unique_ptr<LinkPort> left;
  std::unique_ptr<LinkPort> right;
};

TEST_F(LinkPortTest, WhatOneEndSendsTheOtherReceivesInOrder) {
  EXPECT_EQ(send(*left, 3), 3);
  EXPECT_THAT(receive(*left, 8), IsEmpty());
  EXPECT_THAT(receive(*right, 2), ElementsAre(frame_of(60, 0), frame_of(60, 1)));
  EXPECT_THAT(receive(*right, 2), ElementsAre(frame_of(60, 2)));
  EXPECT_EQ(send(*right, 1, 9), 1);
  EXPECT_THAT(receive(*left, 8), ElementsAre(frame_of(60, 9)));
}

TEST_F(LinkPortTest, ACableIsUpWhileNeitherEndIsDown) {
  EXPECT_TRUE(left->link_up() && right->link_up());
  EXPECT_EQ(left->set_link(false), "");
  EXPECT_FALSE(left->link_up() || right->link_up());
  EXPECT_EQ(right->set_link(false), "");
  EXPECT_EQ(left->set_link(true), "");
  EXPECT_FALSE(left->link_up() || right->link_up());
  EXPECT_EQ(right->set_link(true), "");
  EXPECT_TRUE(left->link_up() && right->link_up());
}

TEST_F(LinkPortTest, AFullCableTakesNoMoreUntilTheFarEndReceives) {
  std::uint32_t taken = 0;
  while (const std::uint16_t now_taken = send(*left, 32)) taken += now_taken;
  EXPECT_EQ(taken, pipeline::PacketRing::kCapacity);
  EXPECT_EQ(right->in_flight(), taken);
  EXPECT_EQ(left->in_flight(), 0u);
  EXPECT_EQ(receive(*right, 5).size(), 5u);
  EXPECT_EQ(send(*left, 32), 5);
  EXPECT_EQ(send(*right, 32), 32);  // the other direction has its own room
}

TEST_F(LinkPortTest, WhatIsStillInTheCableIsFreedWithIt) {
  send(*left, 10);
  send(*right, 10);
  left.reset();
  EXPECT_EQ(receive(*right, 3).size(), 3u);
}  // TearDown checks the pool

TEST_F(LinkPortTest, ALinkIsUpAndHasNoInputOfItsOwn) {
  EXPECT_TRUE(left->link_up());
  EXPECT_TRUE(left->finite());
  EXPECT_TRUE(left->exhausted());
  EXPECT_EQ(left->description(), "link to s2/d1");
  EXPECT_EQ(right->description(), "link to s1/u1");
}

TEST_F(LinkPortTest, TwoThreadsLoseNothing) {
  constexpr std::uint64_t kPackets = 200'000;
  std::thread sender([&] {
    for (std::uint64_t n = 0; n < kPackets;) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool.get());
      if (m == nullptr) {
        std::this_thread::yield();
        continue;
      }
      std::memcpy(rte_pktmbuf_append(m, 60), &n, sizeof n);
      while (left->transmit(&m, 1).taken == 0) std::this_thread::yield();
      ++n;
    }
  });
  std::uint64_t next = 0;
  bool in_order = true;
  while (next < kPackets) {
    rte_mbuf* packets[32];
    const std::uint16_t count = right->receive(now, 0, packets, 32);
    if (count == 0) std::this_thread::yield();
    for (std::uint16_t i = 0; i < count; ++i) {
      in_order &= std::memcmp(rte_pktmbuf_mtod(packets[i], const char*), &next, sizeof next) == 0;
      ++next;
      rte_pktmbuf_free(packets[i]);
    }
  }
  sender.join();
  EXPECT_TRUE(in_order);
}

}  // namespace
}  // namespace weft::ports
