// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <numeric>

#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

constexpr unsigned kUplinks = 4;
constexpr const char* kToOthers = "  - { prefix: 10.0.0.0/16, via: [";  // a leaf's route to other leaves

// PSNs of what left through each uplink, with its number.
std::vector<std::uint32_t> left_through_uplinks(Harness& leaf) {
  std::vector<std::uint32_t> psns;
  for (unsigned i = 1; i <= kUplinks; ++i) {
    for (const auto& frame : leaf.take("s" + std::to_string(i)))
      psns.push_back(i << 24 | parsed_of(frame.bytes).psn.value());
  }
  return psns;
}

class LbDrill : public ::testing::Test {
 protected:
  explicit LbDrill(const std::string& options = "")
      : h(weft::testing::all_stages(), leaf_yaml(1, {.uplinks = kUplinks, .lb = "{ policy: drill" + options + " }"})) {}

  std::array<std::size_t, kUplinks> send(std::size_t packets, std::uint16_t payload = 256) {
    std::vector<Bytes> burst;
    for (std::uint32_t psn = 0; psn < packets; ++psn) burst.push_back(data(psn).payload(payload).build());
    h.inject("h1", burst);
    return taken();
  }
  std::array<std::size_t, kUplinks> taken() {
    std::array<std::size_t, kUplinks> sent{};
    for (unsigned i = 0; i < kUplinks; ++i) sent.at(i) = h.take("s" + std::to_string(i + 1)).size();
    return sent;
  }
  // Only these are chosen from. A link that goes down would drop what waits.
  void use(const std::vector<std::string>& ports) {
    for (const std::string port : {"s1", "s2", "s3", "s4"}) {
      const bool wanted = std::find(ports.begin(), ports.end(), port) != ports.end();
      if (wanted) static_cast<void>(h.exclude(port, false));
    }
    for (const std::string port : {"s1", "s2", "s3", "s4"}) {
      const bool wanted = std::find(ports.begin(), ports.end(), port) != ports.end();
      if (!wanted) static_cast<void>(h.exclude(port, true));
    }
  }
  std::uint32_t waiting(const std::string& port) { return h.pipeline().queue_depth(h.port(port).index); }
  // Packets wait in the queue of a port.
  void fill(const std::string& port, std::uint32_t packets, std::uint16_t payload = 256) {
    h.block_device(port, true);
    use({port});
    for (int i = 0; i < 4000 && waiting(port) < packets; ++i) send(1, payload);
    ASSERT_GE(waiting(port), packets);
  }
  Harness h;
};

TEST_F(LbDrill, SpreadsABurstNearlyEvenly) {
  const auto sent = send(32);
  EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), std::size_t{0}), 32u);
  for (const std::size_t count : sent) EXPECT_NEAR(static_cast<double>(count), 8, 3);
}

TEST_F(LbDrill, UsesIdlePortsEvenly) {
  std::array<double, kUplinks> total{};
  for (int i = 0; i < 1200; ++i) {
    const auto sent = send(1);
    for (unsigned k = 0; k < kUplinks; ++k) total.at(k) += static_cast<double>(sent.at(k));
  }
  for (const double count : total) EXPECT_NEAR(count, 300, 75) << "of equals, one that was drawn";
}

TEST_F(LbDrill, APortWithALongQueueGetsNothingWhereAnotherIsKnown) {
  fill("s1", 40);
  use({"s1", "s2", "s3", "s4"});
  send(8);
  const std::uint32_t before = waiting("s1");
  std::size_t total = 0;
  for (int i = 0; i < 100; ++i) {
    for (const std::size_t count : send(4)) total += count;
  }
  EXPECT_EQ(total, 400u) << "whatever is drawn, a shorter queue is remembered";
  EXPECT_EQ(waiting("s1"), before);
  EXPECT_GT(h.counter("lb", "drill_remembered"), 0u);
  h.block_device("s1", false);
}

TEST_F(LbDrill, QueuesAreComparedByBytes) {
  fill("s1", 12);
  fill("s2", 6, 4000);
  ASSERT_EQ(waiting("s1"), 12u);
  ASSERT_EQ(waiting("s2"), 6u);
  use({"s1", "s2"});
  send(20, 16);
  EXPECT_GE(waiting("s1"), 12u + 18) << "fewer bytes wait there, in more packets; twice nothing else may be drawn";
  for (const char* port : {"s1", "s2"}) h.block_device(port, false);
}

TEST_F(LbDrill, PortsThatAreDownOrExcludedGetNothing) {
  send(20);
  h.set_link("s2", false);
  ASSERT_EQ(h.exclude("s3", true), "");
  const auto sent = send(40);
  EXPECT_EQ(sent[1] + sent[2], 0u);
  EXPECT_EQ(sent[0] + sent[3], 40u);
  for (const char* port : {"s1", "s4"}) h.set_link(port, false);
  ASSERT_EQ(h.exclude("s3", false), "");
  EXPECT_EQ(send(5)[2], 5u);
  h.set_link("s3", false);
  send(5);
  EXPECT_EQ(h.dropped(pipeline::DropReason::egress_down), 5u);
}

class DrillOfABurst : public ::testing::TestWithParam<const char*> {
 protected:
  // A leaf with a second group, of other uplinks.
  static std::string leaf() {
    std::string yaml =
        leaf_yaml(1, {.uplinks = kUplinks, .lb = std::string("{ policy: drill, drill: { ") + GetParam() + " } }"});
    const std::string all = kToOthers;
    const std::size_t at = yaml.find(all) + all.size();
    const std::size_t second = yaml.find(", ", at) + 2;
    const std::string others = yaml.substr(second, yaml.find(']', at) - second);
    return yaml.insert(at - all.size(), "  - { prefix: 10.0.7.0/24, via: [" + others + "] }\n");
  }
  // PSNs of what left through each uplink, of a burst of which every so many packets go to the second group.
  static std::vector<std::uint32_t> spread(Harness& leaf, std::uint32_t round) {
    std::vector<Bytes> burst;
    for (std::uint32_t psn = 0; psn < 4 + round % 29; ++psn) {
      FrameBuilder frame = data(psn).payload(static_cast<std::uint16_t>(64 * (1 + psn * round % 60)));
      if (round % 3 != 0 && psn / (2 + round % 11) % 3 == 1) frame.ipv4("10.0.1.2", "10.0.7.2");
      burst.push_back(frame.build());
    }
    leaf.inject("h1", burst);
    return left_through_uplinks(leaf);
  }
};
INSTANTIATE_TEST_SUITE_P(Rules, DrillOfABurst,
                         ::testing::Values("d: 2, m: 1", "d: 2, m: 0", "d: 1, m: 1", "d: 3, m: 1", "d: 16, m: 0"));

// Where a port is down, even one that does not count, DRILL asks for each member whether it is up, packet by packet.
// That way and the short one choose alike, whatever waits.
TEST_P(DrillOfABurst, IsSpreadAsItsPacketsWouldBeOneByOne) {
  Harness quick{weft::testing::all_stages(), leaf()};
  Harness slow{weft::testing::all_stages(), leaf()};
  slow.set_link("h2", false);
  for (Harness* leaf : {&quick, &slow}) leaf->block_device("s1", true);
  std::size_t sent = 0;
  for (std::uint32_t round = 0; round < 150; ++round) {
    const auto psns = spread(quick, round);
    ASSERT_EQ(psns, spread(slow, round)) << round;
    sent += psns.size();
  }
  EXPECT_GT(sent, 2000u);
  EXPECT_EQ(quick.counter("lb", "drill_remembered"), slow.counter("lb", "drill_remembered"));
  for (Harness* leaf : {&quick, &slow}) leaf->block_device("s1", false);
}

// Groups that share a slot forget what they remembered. Which of them do depends on their members alone, and not on
// where a switch has stored them.
TEST(LbDrillOfManyGroups, IsTheSameInEverySwitchOfOneSeed) {
  std::string yaml = leaf_yaml(1, {.uplinks = kUplinks, .lb = "{ policy: drill }"});
  const std::string all = kToOthers;
  const std::size_t at = yaml.find(all), begin = at + all.size();
  const std::string list = yaml.substr(begin, yaml.find(']', begin) - begin);
  std::array<std::string, kUplinks> via;
  std::size_t from = 0;
  for (std::string& one : via) {
    const std::size_t end = std::min(list.find(", ", from), list.size());
    one = list.substr(from, end - from);
    from = end + 2;
  }
  std::string routes;
  std::vector<std::string> destinations;
  for (unsigned set = 0; set < 1u << kUplinks; ++set) {
    if (std::popcount(set) < 2) continue;
    std::string members;
    for (unsigned i = 0; i < kUplinks; ++i) {
      if ((set >> i & 1) != 0) members += (members.empty() ? "" : ", ") + via.at(i);
    }
    const std::string prefix = "10.0." + std::to_string(20 + set);
    routes += "  - { prefix: " + prefix + ".0/24, via: [" + members + "] }\n";
    destinations.push_back(prefix + ".2");
  }
  yaml.insert(at, routes);

  std::vector<std::unique_ptr<Harness>> leaves;
  for (int i = 0; i < 6; ++i) leaves.push_back(std::make_unique<Harness>(weft::testing::all_stages(), yaml));
  const auto spread = [&](Harness& leaf, std::uint32_t round) {
    std::vector<Bytes> burst;
    for (std::uint32_t psn = 0; psn < 32; ++psn) {
      FrameBuilder frame = data(psn).payload(static_cast<std::uint16_t>(64 * (1 + psn * round % 30)));
      burst.push_back(frame.ipv4("10.0.1.2", destinations[psn * 7 % destinations.size()].c_str()).build());
    }
    leaf.inject("h1", burst);
    return left_through_uplinks(leaf);
  };
  for (std::uint32_t round = 0; round < 20; ++round) {
    const auto psns = spread(*leaves[0], round);
    EXPECT_EQ(psns.size(), 32u);
    for (std::size_t i = 1; i < leaves.size(); ++i) ASSERT_EQ(spread(*leaves[i], round), psns) << round;
  }
}

class LbDrillWithALongMemory : public LbDrill {
 protected:
  LbDrillWithALongMemory() : LbDrill(", drill: { d: 1, m: 2 }") {}
};

TEST_F(LbDrillWithALongMemory, BothShortQueuesAreRemembered) {
  for (const char* port : {"s1", "s2"}) fill(port, 40);
  use({"s1", "s2", "s3", "s4"});
  // Both others have been drawn.
  for (int i = 0; i < 60; ++i) send(1);
  h.block_device("s3", true);
  const std::uint32_t before = waiting("s1") + waiting("s2");
  for (int i = 0; i < 60; ++i) send(1);
  EXPECT_EQ(waiting("s1") + waiting("s2"), before);
  EXPECT_LE(waiting("s3"), 1u) << "the other one of the two is shorter then";
  for (const char* port : {"s1", "s2", "s3"}) h.block_device(port, false);
}

class LbDrillWithoutMemory : public LbDrill {
 protected:
  LbDrillWithoutMemory() : LbDrill(", drill: { d: 1, m: 0 }") {}
};

TEST_F(LbDrillWithoutMemory, OneSampleIsRandom) {
  std::array<std::size_t, kUplinks> total{};
  for (int i = 0; i < 40; ++i) {
    const auto sent = send(32);
    for (unsigned k = 0; k < kUplinks; ++k) total.at(k) += sent.at(k);
  }
  for (const std::size_t count : total) EXPECT_NEAR(static_cast<double>(count), 320, 80);
  EXPECT_EQ(h.counter("lb", "drill_remembered"), 0u);
}

}  // namespace
}  // namespace weft::stages::testing
