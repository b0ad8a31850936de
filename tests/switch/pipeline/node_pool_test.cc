// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/node_pool.h"

#include <gmock/gmock.h>
#include <rte_errno.h>

#include <string>
#include <vector>

namespace weft::pipeline {
namespace {

using ::testing::ElementsAre;
using Share = NodePools::Share;

constexpr NodePools::Layout kLayout{1024 + 128, 0, false};
// No machine has so many nodes.
constexpr int kNowhere = 31;

std::string serial(const std::string& name) {
  static int number = 0;
  return name + std::to_string(number++);
}

TEST(NodePools, BuffersAreDividedByTheWorkersOfEachNode) {
  EXPECT_THAT(NodePools::shares(1000, std::vector{0}), ElementsAre(Share{0, 1000}));
  EXPECT_THAT(NodePools::shares(1000, std::vector{0, 0, 0}), ElementsAre(Share{0, 1000}));
  EXPECT_THAT(NodePools::shares(1000, std::vector{1, 0, 1, 1}), ElementsAre(Share{1, 750}, Share{0, 250}));
}

TEST(NodePools, RoundingLosesNoBuffer) {
  EXPECT_THAT(NodePools::shares(1000, std::vector{0, 1, 2}), ElementsAre(Share{0, 333}, Share{1, 333}, Share{2, 334}));
  EXPECT_THAT(NodePools::shares(1u << 24, std::vector<int>(64, 3)), ElementsAre(Share{3, 1u << 24}));
}

TEST(NodePools, WorkersOfOneNodeShareAPoolThatHasTheName) {
  const std::string name = serial("node_pools");
  const auto pools = NodePools::make(name, 512, std::vector{0, 0}, kLayout);
  ASSERT_TRUE(pools) << rte_strerror(rte_errno);
  EXPECT_EQ(pools->of_worker(0), pools->of_worker(1));
  EXPECT_EQ(pools->any(), pools->of_worker(0));
  EXPECT_EQ(rte_mempool_lookup(name.c_str()), pools->any());
  EXPECT_TRUE(pools->elsewhere().empty());
}

TEST(NodePools, ANodeWithoutMemoryGetsItsPoolFromAnotherOne) {
  const std::string name = serial("node_pools");
  const auto pools = NodePools::make(name, 900, std::vector{0, kNowhere, 0}, kLayout);
  ASSERT_TRUE(pools) << rte_strerror(rte_errno);
  EXPECT_THAT(pools->elsewhere(), ElementsAre(kNowhere));
  EXPECT_EQ(pools->of_worker(0), pools->of_worker(2));
  EXPECT_NE(pools->of_worker(0), pools->of_worker(1));
  EXPECT_EQ(pools->of_worker(0)->size, 600u);
  EXPECT_EQ(pools->of_worker(1)->size, 300u);
  EXPECT_EQ(rte_mempool_lookup((name + "_0").c_str()), pools->of_worker(0));
}

TEST(NodePools, AllBuffersCountTogether) {
  const auto pools = NodePools::make(serial("node_pools"), 900, std::vector{0, kNowhere}, kLayout);
  ASSERT_TRUE(pools) << rte_strerror(rte_errno);
  EXPECT_EQ(pools->size(), 900u);
  EXPECT_EQ(pools->available(), 900u);
  rte_mbuf* const here = rte_pktmbuf_alloc(pools->of_worker(0));
  rte_mbuf* const there = rte_pktmbuf_alloc(pools->of_worker(1));
  EXPECT_EQ(pools->available(), 898u);
  rte_pktmbuf_free(here);
  EXPECT_EQ(here->pool, pools->of_worker(0)) << "a buffer goes back to where it came from";
  rte_pktmbuf_free(there);
  EXPECT_EQ(pools->available(), 900u);
}

TEST(NodePools, WithoutMemoryAnywhereThereAreNone) {
  EXPECT_FALSE(NodePools::make(serial("node_pools"), 1u << 24, std::vector{0}, kLayout));
  EXPECT_FALSE(NodePools::make(serial("node_pools"), 1u << 24, std::vector{0, kNowhere}, kLayout));
}

}  // namespace
}  // namespace weft::pipeline
