// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <map>

#include "switch/stages/lb/stage.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

class LbAdaptive : public ::testing::Test {
 protected:
  LbAdaptive() : h(weft::testing::all_stages(), leaf_yaml(1, {.uplinks = 3, .lb = "{ policy: adaptive }"})) {}
  std::map<std::string, std::size_t> send(std::size_t packets) {
    std::vector<Bytes> burst;
    for (std::uint32_t psn = 0; psn < packets; ++psn) burst.push_back(data(psn).build());
    h.inject("h1", burst);
    std::map<std::string, std::size_t> sent;
    for (const char* port : {"s1", "s2", "s3"}) sent[port] = h.take(port).size();
    return sent;
  }
  Harness h;
};

TEST_F(LbAdaptive, ABurstIsSpreadEvenly) {
  EXPECT_EQ(send(30), (std::map<std::string, std::size_t>{{"s1", 10}, {"s2", 10}, {"s3", 10}}));
}

TEST_F(LbAdaptive, AQueueThatIsLongerGetsNothingUntilTheOthersAreAsLong) {
  // More than the device's line holds wait in the queue of s1.
  h.block_device("s1", true);
  const auto depth = [&] { return h.pipeline().queue_depth(h.port("s1").index); };
  for (const char* port : {"s2", "s3"}) h.set_link(port, false);
  for (int i = 0; i < 4000 && depth() < 12; ++i) send(3);
  for (const char* port : {"s2", "s3"}) h.set_link(port, true);
  ASSERT_GE(depth(), 12u);
  const std::uint32_t before = depth();
  const auto sent = send(20);
  EXPECT_EQ(sent.at("s2"), 10u);
  EXPECT_EQ(sent.at("s3"), 10u);
  EXPECT_EQ(depth(), before);
  h.block_device("s1", false);
}

TEST_F(LbAdaptive, TiesAreBrokenAtRandom) {
  std::map<std::string, std::size_t> total;
  for (int i = 0; i < 900; ++i) {
    for (const auto& [port, count] : send(1)) total[port] += count;
  }
  for (const auto& [port, count] : total) EXPECT_NEAR(static_cast<double>(count), 300, 75) << port;
}

TEST_F(LbAdaptive, PortsThatAreDownGetNothing) {
  h.set_link("s2", false);
  EXPECT_EQ(send(20), (std::map<std::string, std::size_t>{{"s1", 10}, {"s2", 0}, {"s3", 10}}));
  h.set_link("s1", false);
  h.set_link("s3", false);
  send(5);
  EXPECT_EQ(h.dropped(pipeline::DropReason::egress_down), 5u);
}

TEST_F(LbAdaptive, AnExcludedPortGetsNothing) {
  ASSERT_EQ(h.exclude("s2", true), "");
  EXPECT_EQ(send(20), (std::map<std::string, std::size_t>{{"s1", 10}, {"s2", 0}, {"s3", 10}}));
  ASSERT_EQ(h.exclude("s2", false), "");
  EXPECT_EQ(send(30), (std::map<std::string, std::size_t>{{"s1", 10}, {"s2", 10}, {"s3", 10}}));
}

}  // namespace
}  // namespace weft::stages::testing
