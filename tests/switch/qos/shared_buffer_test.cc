// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/shared_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "switch/base/rng.h"

namespace weft::qos {
namespace {

constexpr std::uint32_t kPacket = 1000;

Settings two_ports(BufferModel model) {
  Settings s;
  s.model = model;
  s.pool_bytes = 1'000'000;
  s.ports.resize(2);
  for (auto& port : s.ports) {
    for (unsigned i = 0; i < kClasses; ++i) {
      port.group[i].dynamic_th = 0;
      port.queue[i].dynamic_th = 0;
    }
    port.group[3] = {.reserve_bytes = 4000, .dynamic_th = -3, .headroom_bytes = 50'000, .xon_offset_bytes = 3072};
    port.queue[3] = {};
    port.pfc_enable = 1 << 3;
    port.map.tc_to_group[3] = 3;
  }
  return s;
}

// Charges packets until one is refused.
std::uint64_t fill(SharedBuffer& b, unsigned port, unsigned group, Admission& end) {
  std::uint64_t bytes = 0;
  while ((end = b.admit(b.group(port, group), b.queue(1 - port, group), kPacket)) == Admission::admitted)
    bytes += kPacket;
  return bytes;
}

TEST(SharedBuffer, ALosslessGroupGetsReserveThresholdAndHeadroomAndNoMore) {
  SharedBuffer b(two_ports(BufferModel::hpcc), false);
  EXPECT_EQ(b.shared_size(), 1'000'000u - 2 * (4000 + 50'000));
  Admission end{};
  const std::uint64_t bytes = fill(b, 0, 3, end);
  EXPECT_EQ(end, Admission::headroom_full);
  // In equilibrium the group has an eighth of what is left: a ninth of all (892000 / 9).
  EXPECT_NEAR(static_cast<double>(bytes), 4000 + 892'000 / 9 + 50'000, 2 * kPacket);
  EXPECT_EQ(b.group(0, 3).headroom.value(), 50'000u);
}

TEST(SharedBuffer, XoffComesBeforeAnythingIsLostAndXonWhenDrained) {
  SharedBuffer b(two_ports(BufferModel::hpcc), false);
  auto& group = b.group(0, 3);
  auto& queue = b.queue(1, 3);
  std::uint64_t after_xoff = 0;
  EXPECT_FALSE(b.xoff(group));
  while (b.admit(group, queue, kPacket) == Admission::admitted) {
    if (b.xoff(group)) after_xoff += kPacket;
    EXPECT_FALSE(b.xoff(group) && b.xon(group));
  }
  EXPECT_GE(after_xoff, 50'000u);
  bool xon = false;
  while (queue.packets.value() != 0) {
    b.release(group, queue, kPacket);
    EXPECT_FALSE(xon && b.xoff(group));
    xon |= b.xon(group);
  }
  EXPECT_TRUE(xon);
  EXPECT_TRUE(b.xon(group));
  EXPECT_EQ(b.shared_used(), 0u);
}

TEST(SharedBuffer, WhileHeadroomIsInUseTheSenderWaitsEvenWhenTheThresholdHasRisen) {
  SharedBuffer b(two_ports(BufferModel::hpcc), false);
  Admission end{};
  const std::uint64_t others = fill(b, 1, 0, end);
  for (int i = 0; i < 65; ++i) ASSERT_EQ(b.admit(b.group(0, 3), b.queue(1, 3), kPacket), Admission::admitted);
  ASSERT_GT(b.group(0, 3).headroom.value(), 0u);
  for (std::uint64_t i = 0; i < others; i += kPacket) b.release(b.group(1, 0), b.queue(0, 0), kPacket);
  ASSERT_LT(b.group(0, 3).bytes.value() + 10'000, b.threshold(b.group(0, 3).limit));
  EXPECT_TRUE(b.xoff(b.group(0, 3)));
  EXPECT_FALSE(b.xon(b.group(0, 3)));
}

TEST(SharedBuffer, NoneIsFullUntilTheFirstGroupReachesItsThresholdAndWhenItsHeadroomIsEmptyAgain) {
  for (const bool fixed : {false, true}) {
    SCOPED_TRACE(fixed ? "static threshold" : "dynamic threshold");
    Settings settings = two_ports(BufferModel::hpcc);
    if (fixed) settings.ports[0].group[3] = {.static_th_bytes = 70'000, .headroom_bytes = 50'000};
    SharedBuffer b(settings, false);
    auto& group = b.group(0, 3);
    auto& queue = b.queue(1, 3);
    EXPECT_TRUE(b.none_is_full());
    while (b.admit(group, queue, kPacket) == Admission::admitted) {
      // It is the only one that holds anything.
      ASSERT_EQ(b.none_is_full(), !b.xoff(group)) << group.bytes.value();
    }
    ASSERT_TRUE(b.xoff(group));
    while (queue.packets.value() != 0) {
      b.release(group, queue, kPacket);
      ASSERT_EQ(b.none_is_full(), !b.xoff(group)) << group.bytes.value();
    }
  }
}

TEST(SharedBuffer, LossyPacketsEndAtTheThresholdOfTheirQueueInConweaveAndOfTheirGroupInHpcc) {
  Admission end{};
  SharedBuffer conweave(two_ports(BufferModel::conweave), false);
  EXPECT_NEAR(static_cast<double>(fill(conweave, 0, 0, end)), 892'000 / 2, 2 * kPacket);
  EXPECT_EQ(end, Admission::queue_limit);
  SharedBuffer hpcc(two_ports(BufferModel::hpcc), false);
  EXPECT_NEAR(static_cast<double>(fill(hpcc, 0, 0, end)), 892'000 / 2, 2 * kPacket);
  EXPECT_EQ(end, Admission::group_limit);
}

TEST(SharedBuffer, AStaticThresholdHoldsWhateverIsFree) {
  Settings s = two_ports(BufferModel::conweave);
  s.ports[1].queue[0] = {.static_th_bytes = 20'000};
  SharedBuffer b(s, false);
  Admission end{};
  EXPECT_EQ(fill(b, 0, 0, end), 20'000u);
  EXPECT_EQ(end, Admission::queue_limit);
}

TEST(SharedBuffer, AnAlphaAboveOneStillCannotTakeMoreThanThereIs) {
  Settings s = two_ports(BufferModel::hpcc);
  s.ports[0].group[0].dynamic_th = 8;
  SharedBuffer b(s, false);
  Admission end{};
  const std::uint64_t bytes = fill(b, 0, 0, end);
  EXPECT_LE(bytes, b.shared_size());
  EXPECT_GT(bytes, b.shared_size() * 9 / 10);
  // The lossless group still has its reserve and its headroom.
  EXPECT_GE(fill(b, 0, 3, end), 54'000u - kPacket);
}

TEST(SharedBuffer, PropertyTheSharedCountIsTheSumOfWhatGroupsHoldBeyondTheirReserves) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    SharedBuffer b(two_ports(BufferModel::conweave), false);
    struct Charged {
      unsigned port, group;
      std::uint32_t length;
    };
    std::vector<Charged> inside;
    for (int i = 0; i < 100'000; ++i) {
      if (rng.below(100) < (i / 2000 % 2 == 0 ? 65u : 35u)) {
        const Charged c{static_cast<unsigned>(rng.below(2)), static_cast<unsigned>(rng.below(8)),
                        static_cast<std::uint32_t>(60 + rng.below(9000))};
        if (b.admit(b.group(c.port, c.group), b.queue(1 - c.port, c.group), c.length) == Admission::admitted) {
          inside.push_back(c);
        }
      } else if (!inside.empty()) {
        std::swap(inside[rng.below(inside.size())], inside.back());
        const Charged c = inside.back();
        inside.pop_back();
        b.release(b.group(c.port, c.group), b.queue(1 - c.port, c.group), c.length);
      }
      std::uint64_t held = 0, shared = 0, queued = 0, packets = 0, want = 0;
      for (const Charged& c : inside) want += c.length;
      for (unsigned port = 0; port < 2; ++port) {
        const std::uint64_t before = queued;
        for (unsigned k = 0; k < kClasses; ++k) {
          const auto& g = b.group(port, k);
          held += g.bytes.value() + g.headroom.value();
          shared += g.limit.beyond_reserve(g.bytes.value());
          ASSERT_LE(g.headroom.value(), g.headroom_limit);
          queued += b.queue(port, k).bytes.value();
          packets += b.queue(port, k).packets.value();
        }
        ASSERT_EQ(b.port_bytes(port).value(), queued - before);
      }
      ASSERT_EQ(held, want);
      ASSERT_EQ(queued, want);
      ASSERT_EQ(packets, inside.size());
      ASSERT_EQ(b.shared_used(), shared);
      ASSERT_LE(b.shared_used(), b.shared_size());
      ASSERT_FALSE(b.none_is_full() && (b.xoff(b.group(0, 3)) || b.xoff(b.group(1, 3))));
    }
  }
}

TEST(SharedBuffer, NothingIsLostTrackOfWhenSeveralThreadsChargeTheSameGroup) {
  SharedBuffer b(two_ports(BufferModel::hpcc), true);
  // Each thread owns one egress port, as workers do, and all packets came in on port 0.
  const auto work = [&](unsigned port) {
    Rng rng(port + 1);
    std::deque<std::uint32_t> inside;
    for (int i = 0; i < 50'000; ++i) {
      const auto length = static_cast<std::uint32_t>(60 + rng.below(1400));
      if (b.admit(b.group(0, 3), b.queue(port, 3), length) == Admission::admitted) inside.push_back(length);
      if (inside.size() > 100 || rng.below(2) == 0) {
        if (inside.empty()) continue;
        b.release(b.group(0, 3), b.queue(port, 3), inside.front());
        inside.pop_front();
      }
    }
    for (const auto length : inside) b.release(b.group(0, 3), b.queue(port, 3), length);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(b.group(0, 3).bytes.value(), 0u);
  EXPECT_EQ(b.group(0, 3).headroom.value(), 0u);
  EXPECT_EQ(b.shared_used(), 0u);
}

TEST(SharedBuffer, PropertyABurstIsChargedAsItsPacketsWouldBeOrNotAtAll) {
  Rng rng(7);
  SharedBuffer b(two_ports(BufferModel::hpcc), true);
  GroupSums sums(b.group_count());
  SharedBuffer::Credit credits[2];
  std::deque<std::vector<std::pair<std::uint16_t, std::uint32_t>>> inside;
  std::uint64_t want = 0;
  unsigned refused = 0;
  ASSERT_GT(b.chunk(), 0u);
  for (int i = 0; i < 20'000; ++i) {
    // Any worker may release what another has charged.
    SharedBuffer::Credit& credit = credits[rng.below(2)];
    sums.clear();
    if (rng.below(100) < (i / 1000 % 2 == 0 ? 65u : 35u)) {
      auto& burst = inside.emplace_back(rng.below(GroupSums::kMostPackets) + 1);
      for (auto& [group, length] : burst) {
        group = static_cast<std::uint16_t>(rng.below(b.group_count()));
        length = static_cast<std::uint32_t>(60 + rng.below(1400));
        sums.add(group, length);
      }
      if (b.charge(sums, b.shared_free() + credit.bytes(), credit)) {
        want += sums.bytes();
      } else {
        inside.pop_back();
        ++refused;
      }
    } else if (!inside.empty()) {
      for (const auto& [group, length] : inside.front()) sums.add(group, length);
      inside.pop_front();
      b.release(sums, credit);
      want -= sums.bytes();
    }
    std::uint64_t held = 0;
    for (std::size_t g = 0; g < b.group_count(); ++g) held += b.groups()[g].bytes.value();
    ASSERT_EQ(held, want);
    ASSERT_EQ(b.shared_used() + credits[0].bytes() + credits[1].bytes(), b.shared_taken());
    ASSERT_LE(b.shared_taken(), b.shared_size());
    ASSERT_LE(std::max(credits[0].bytes(), credits[1].bytes()), 2 * b.chunk());
  }
  EXPECT_GT(refused, 100u);
}

TEST(SharedBuffer, ABurstGivesBackWhatPacketsHaveTakenOfTheHeadroomFirst) {
  SharedBuffer b(two_ports(BufferModel::hpcc), true);
  auto& group = b.group(0, 3);
  while (group.headroom.value() < 10 * kPacket) ASSERT_EQ(b.admit_to_group(group, kPacket), Admission::admitted);
  const std::uint64_t bytes = group.bytes.value();
  GroupSums sums(b.group_count());
  SharedBuffer::Credit credit;
  for (int i = 0; i < 12; ++i) sums.add(3, kPacket);
  EXPECT_FALSE(b.charge(sums, b.shared_free(), credit)) << "what is beyond takes headroom packet by packet";
  b.release(sums, credit);
  EXPECT_EQ(group.headroom.value(), 0u);
  EXPECT_EQ(group.bytes.value(), bytes - 2 * kPacket);
  EXPECT_EQ(b.shared_used() + credit.bytes(), b.shared_taken());
}

TEST(SharedBuffer, ACreditIsUsedBeforeMoreIsTakenAndTheLastBytesAreNotKeptForIt) {
  Settings settings = two_ports(BufferModel::hpcc);
  settings.ports[0].group[0] = {.static_th_bytes = settings.pool_bytes};
  SharedBuffer b(settings, true);
  GroupSums sums(b.group_count());
  SharedBuffer::Credit credit;
  sums.add(0, 100);
  ASSERT_TRUE(b.charge(sums, b.shared_free(), credit));
  EXPECT_EQ(b.shared_taken(), 100 + b.chunk());
  ASSERT_TRUE(b.charge(sums, b.shared_free() + credit.bytes(), credit));
  EXPECT_EQ(b.shared_taken(), 100 + b.chunk()) << "of the credit";
  EXPECT_EQ(credit.bytes(), b.chunk() - 100);
  EXPECT_EQ(b.shared_used(), 200u);
  sums.clear();
  sums.add(0, b.shared_size() - 200);
  ASSERT_TRUE(b.charge(sums, b.shared_free() + credit.bytes(), credit)) << "all that is free";
  EXPECT_EQ(b.shared_taken(), b.shared_size());
  EXPECT_EQ(credit.bytes(), 0u);
  sums.add(0, 200);
  b.release(sums, credit);
  EXPECT_EQ(b.shared_used(), 0u);
  EXPECT_EQ(credit.bytes(), b.chunk()) << "what is beyond two chunks goes back";
}

// Each compares the group with its threshold before it charges, so that all may find the same room.
TEST(SharedBuffer, ThreadsAreBeyondAStaticThresholdByNoMoreThanWhatTheOthersChargeAtOnce) {
  constexpr std::uint64_t kReserve = 4000, kThreshold = 60'000, kThreads = 3;
  constexpr std::uint32_t kPackets = 8, kLongest = 1460;
  Settings settings = two_ports(BufferModel::hpcc);
  settings.ports[0].group[0] = {.reserve_bytes = kReserve, .static_th_bytes = kThreshold};
  SharedBuffer b(settings, true);
  auto& group = b.group(0, 0);
  const auto work = [&](unsigned thread) {
    Rng rng(thread + 1);
    GroupSums sums(b.group_count());
    SharedBuffer::Credit credit;
    std::deque<std::uint64_t> inside;
    const auto release = [&] {
      sums.clear();
      sums.add(0, inside.front());
      inside.pop_front();
      b.release(sums, credit);
    };
    for (int i = 0; i < 50'000; ++i) {
      sums.clear();
      for (std::uint32_t left = kPackets; left != 0; --left) sums.add(0, 60 + rng.below(kLongest - 59));
      const auto length = static_cast<std::uint32_t>(60 + rng.below(kLongest - 59));
      if (i % 4 == 0 ? b.admit_to_group(group, length) == Admission::admitted
                     : b.charge(sums, b.shared_free() + credit.bytes(), credit)) {
        inside.push_back(i % 4 == 0 ? length : sums.bytes());
      } else if (!inside.empty()) {
        release();
      }
    }
    while (!inside.empty()) release();
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < kThreads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
  EXPECT_GT(group.peak_bytes.value(), kReserve + kThreshold - kPackets * kLongest) << "the threshold was reached";
  EXPECT_LE(group.peak_bytes.value(), kReserve + kThreshold + (kThreads - 1) * kPackets * kLongest);
  EXPECT_EQ(group.bytes.value(), 0u);
  EXPECT_EQ(b.shared_used(), 0u);
}

TEST(SharedBuffer, ThreadsNeverGetMoreOfTheSharedPartThanThereIs) {
  Settings settings = two_ports(BufferModel::hpcc);
  settings.pool_bytes = 108'000 + 60'000;
  // Nothing but what there is limits these groups, of which each thread has its own.
  for (auto& port : settings.ports) port.group[0] = {.static_th_bytes = settings.pool_bytes};
  SharedBuffer b(settings, true);
  ASSERT_EQ(b.shared_size(), 60'000u);
  SharedBuffer::Credit credits[2];
  const auto work = [&](unsigned port, bool bursts) {
    Rng rng(port + 1);
    GroupSums sums(b.group_count());
    SharedBuffer::Credit& credit = credits[port];
    for (int i = 0; i < 100'000; ++i) {
      sums.clear();
      for (std::uint64_t left = rng.below(GroupSums::kMostPackets) + 1; left != 0; --left) {
        const auto length = static_cast<std::uint32_t>(60 + rng.below(1400));
        if (bursts || b.admit_to_group(b.group(port, 0), length) == Admission::admitted) {
          sums.add(static_cast<std::uint16_t>(port * kClasses), length);
        }
      }
      if (!bursts || b.charge(sums, b.shared_free() + credit.bytes(), credit)) b.release(sums, credit);
    }
  };
  std::thread other(work, 1, true);
  work(0, false);
  other.join();
  EXPECT_GT(b.shared_peak(), b.shared_size() / 2);
  EXPECT_LE(b.shared_peak(), b.shared_size());
  EXPECT_EQ(b.shared_used(), 0u);
  EXPECT_EQ(b.shared_taken(), credits[0].bytes() + credits[1].bytes());
}

}  // namespace
}  // namespace weft::qos
