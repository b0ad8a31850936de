// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/kernel_path.h"

#include <gtest/gtest.h>

#include <numeric>

#include "switch/pipeline/pool.h"

namespace weft::kernel {
namespace {

std::vector<std::uint8_t> frame_of(std::size_t bytes) {
  std::vector<std::uint8_t> frame(bytes);
  std::iota(frame.begin(), frame.end(), std::uint8_t{0});
  return frame;
}

TEST(KernelPath, FramesOfAnySizeSurviveTheWayThroughPacketBuffers) {
  const auto pool = pipeline::make_pool("path", 512, 1024, 0);
  ASSERT_TRUE(pool);
  for (const std::size_t bytes : {std::size_t{14}, std::size_t{42}, std::size_t{1500}, std::size_t{9018}}) {
    const auto frame = frame_of(bytes);
    rte_mbuf* m = to_packet(frame, pool.get());
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->pkt_len, bytes);
    rte_mbuf_sanity_check(m, 1);
    std::vector<std::uint8_t> back(9100);
    EXPECT_EQ(to_frame(m, back), bytes);
    back.resize(bytes);
    EXPECT_EQ(back, frame);
    EXPECT_EQ(to_frame(m, std::span(back).first(bytes - 1)), 0u);
    rte_pktmbuf_free(m);
  }
  EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
}

TEST(KernelPath, AFrameThatFindsNoBuffersLeavesNoneBehind) {
  const auto pool = pipeline::make_pool("small", 512, 1024, 0);
  ASSERT_TRUE(pool);
  std::vector<rte_mbuf*> taken;
  while (rte_mempool_avail_count(pool.get()) > 2) taken.push_back(rte_pktmbuf_alloc(pool.get()));
  EXPECT_EQ(to_packet(frame_of(9000), pool.get()), nullptr);
  EXPECT_EQ(rte_mempool_avail_count(pool.get()), 2u);
  for (rte_mbuf* m : taken) rte_pktmbuf_free(m);
}

}  // namespace
}  // namespace weft::kernel
