// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/link.h"

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tools/sim/packet_memory.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TimeNs kDelay = 1000;

// Notes when packets of which lengths arrive.
class Sink final : public Receiver {
 public:
  Sink() : Receiver(7) {}
  void receive(TimeNs now, PortIndex port, rte_mbuf* m) override {
    EXPECT_EQ(port, 3);
    seen.emplace_back(now, m->pkt_len);
    rte_pktmbuf_free(m);
  }
  std::vector<std::pair<TimeNs, std::uint32_t>> seen;
};

// Something that a test does at a time.
struct At : Event {
  At(std::uint32_t number, std::function<void()> what)
      : Event(EventOrder(EventOrder::Phase::change, number, EventOrder::Kind::fault)), action(std::move(what)) {}
  void fire(TimeNs) override { action(); }
  std::function<void()> action;
};

class LinkTest : public ::testing::Test {
 protected:
  LinkTest() : pool_(make_packet_pool(64)) {}
  // Before the pool goes: what a link still holds is of it.
  ~LinkTest() override { EXPECT_EQ(rte_mempool_avail_count(pool_.get()), 64u); }

  std::unique_ptr<Link> link_between(Partition& from, Partition& to) {
    auto link = std::make_unique<Link>(Link::Plan{"a/b", 0, kDelay, 2, 5}, from, to);
    link->connect(sink_, 3);
    return link;
  }
  rte_mbuf* packet(std::uint32_t bytes) {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_.get());
    EXPECT_NE(m, nullptr);
    m->pkt_len = bytes;
    return m;
  }
  void at(Partition& partition, TimeNs time, std::function<void()> what) {
    events_.push_back(std::make_unique<At>(static_cast<std::uint32_t>(events_.size()), std::move(what)));
    partition.events().schedule(*events_.back(), time);
  }

  pipeline::Pool pool_;
  Sink sink_;
  std::vector<std::unique_ptr<At>> events_;
};

TEST_F(LinkTest, APacketArrivesAPropagationDelayAfterItWasSent) {
  Partition partition;
  const auto link = link_between(partition, partition);
  at(partition, 10, [&] { link->carry(packet(100)); });
  at(partition, 20, [&] { link->carry(packet(200)); });
  partition.run(1020);
  EXPECT_THAT(sink_.seen, ElementsAre(std::pair(TimeNs{1010}, 100u)));
  EXPECT_EQ(link->held(), 1u);
  partition.run(kNever);
  EXPECT_THAT(sink_.seen, ElementsAre(std::pair(TimeNs{1010}, 100u), std::pair(TimeNs{1020}, 200u)));
  EXPECT_EQ(link->counters().packets, 2u);
  EXPECT_EQ(link->counters().bytes, 300u);
}

TEST_F(LinkTest, WhatIsOnTheWireWhileTheLinkIsDownIsLostEvenIfItIsUpAgain) {
  Partition partition;
  const auto link = link_between(partition, partition);
  at(partition, 0, [&] { link->carry(packet(100)); });
  at(partition, 200, [&] { link->set_up(200, false); });
  at(partition, 300, [&] { link->carry(packet(200)); });
  at(partition, 400, [&] { link->set_up(400, true); });
  at(partition, 400, [&] { link->carry(packet(300)); });
  partition.run(kNever);
  EXPECT_THAT(sink_.seen, ElementsAre(std::pair(TimeNs{1400}, 300u)));
  EXPECT_EQ(link->counters().cut, 2u);
}

TEST_F(LinkTest, WhatArrivesBeforeTheLinkGoesDownHasArrived) {
  Partition partition;
  const auto link = link_between(partition, partition);
  at(partition, 0, [&] { link->carry(packet(100)); });
  at(partition, 1001, [&] { link->set_up(1001, false); });
  partition.run(kNever);
  EXPECT_EQ(sink_.seen.size(), 1u);
  EXPECT_EQ(link->counters().cut, 0u);
}

TEST_F(LinkTest, AnotherPartitionHasPacketsWhenTheyAreHandedOver) {
  Partition from, to;
  const auto link = link_between(from, to);
  at(from, 10, [&] { link->carry(packet(100)); });
  at(from, 20, [&] { link->carry(packet(200)); });
  at(from, 1010, [&] { link->carry(packet(300)); });
  from.run(1000);
  EXPECT_EQ(to.next(), kNever);
  EXPECT_EQ(link->held(), 2u);
  from.hand_over();
  EXPECT_EQ(to.next(), 1010u);
  // Nothing of it was due in the next window: more comes behind.
  from.run(1500);
  from.hand_over();
  EXPECT_EQ(to.next(), 1010u);
  EXPECT_THAT(sink_.seen, IsEmpty());
  to.run(1020);
  EXPECT_THAT(sink_.seen, ElementsAre(std::pair(TimeNs{1010}, 100u)));
  EXPECT_EQ(to.next(), 1020u);
  to.run(kNever);
  EXPECT_EQ(sink_.seen.size(), 3u);
  EXPECT_EQ(sink_.seen.back(), std::pair(TimeNs{2010}, 300u));
  EXPECT_EQ(to.next(), kNever);
}

TEST_F(LinkTest, DropsWhatItHoldsWhereverThatIs) {
  Partition from, to;
  {
    const auto link = link_between(from, to);
    at(from, 10, [&] { link->carry(packet(100)); });
    at(from, 1010, [&] { link->carry(packet(200)); });
    at(from, 2010, [&] { link->carry(packet(300)); });
    from.run(1000);
    from.hand_over();
    to.run(1000);
    from.run(2000);
    from.hand_over();
    from.run(kNever);
    EXPECT_EQ(link->held(), 3u);
    link->drop_all();
    EXPECT_EQ(link->held(), 0u);
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), 64u);
  }
  EXPECT_THAT(sink_.seen, IsEmpty());
}

}  // namespace
}  // namespace weft::sim
