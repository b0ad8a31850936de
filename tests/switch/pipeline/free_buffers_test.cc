// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/free_buffers.h"

#include <gtest/gtest.h>
#include <rte_errno.h>
#include <rte_mempool.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "switch/base/spsc_ring.h"
#include "switch/pipeline/pool.h"
#include "tests/support/effort.h"

namespace weft::pipeline {
namespace {

constexpr std::uint32_t kAll = 4096;
constexpr std::uint16_t kRoom = 128 + 64;
constexpr unsigned kBurst = 32;
using Burst = std::array<void*, kBurst>;

// Threads that are no lcores have no cache: they meet the free buffers themselves.
Pool lifo_pool() {
  static int serial = 0;
  return make_pool("free_buffers" + std::to_string(serial++), kAll, kRoom, 0);
}

TEST(FreeBuffers, WhatCameBackLastIsHandedOutFirst) {
  const Pool pool = lifo_pool();
  ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
  Burst first, second, again;
  ASSERT_EQ(rte_mempool_get_bulk(pool.get(), first.data(), kBurst), 0);
  ASSERT_EQ(rte_mempool_get_bulk(pool.get(), second.data(), kBurst), 0);
  rte_mempool_put_bulk(pool.get(), second.data(), kBurst);
  rte_mempool_put_bulk(pool.get(), first.data(), kBurst);
  ASSERT_EQ(rte_mempool_get_bulk(pool.get(), again.data(), kBurst), 0);
  EXPECT_EQ(std::set<void*>(again.begin(), again.end()), std::set<void*>(first.begin(), first.end()));
  rte_mempool_put_bulk(pool.get(), again.data(), kBurst);
}

TEST(FreeBuffers, AllCanBeTakenButNoMore) {
  const Pool pool = lifo_pool();
  ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
  EXPECT_EQ(rte_mempool_avail_count(pool.get()), kAll);
  std::vector<void*> taken(kAll);
  void* none = nullptr;
  EXPECT_EQ(rte_mempool_get_bulk(pool.get(), taken.data(), kAll - 1), 0);
  EXPECT_EQ(rte_mempool_get_bulk(pool.get(), &none, 2), -ENOBUFS) << "a burst is given whole or not at all";
  EXPECT_EQ(rte_mempool_get(pool.get(), &taken.back()), 0);
  EXPECT_EQ(rte_mempool_get(pool.get(), &none), -ENOBUFS);
  EXPECT_EQ(rte_mempool_avail_count(pool.get()), 0u);
  EXPECT_EQ(std::set<void*>(taken.begin(), taken.end()).size(), kAll) << "one was handed out twice";
  rte_mempool_put_bulk(pool.get(), taken.data(), kAll);
  EXPECT_EQ(rte_mempool_avail_count(pool.get()), kAll);
}

// One thread takes buffers and another one gives them back. No buffer has two users, and only those are touched that
// were under way at once.
TEST(FreeBuffers, OneThreadTakesWhatAnotherGivesBack) {
  const Pool pool = lifo_pool();
  ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
  using Ring = SpscRing<void*, 128>;
  const auto ring = std::make_unique<Ring>();
  const std::uint64_t runs = testing::rounds(20'000);
  std::atomic<bool> failed{false};
  std::set<void*> touched;
  std::thread giver([&] {
    Burst burst;
    for (std::uint64_t given = 0; given < runs * kBurst;) {
      const std::uint32_t count = ring->pop(burst.data(), kBurst);
      // The mark is no atomic: ThreadSanitizer sees when a buffer is handed out before it has come back.
      for (std::uint32_t i = 0; i < count; ++i) {
        auto& mark = *static_cast<std::uint64_t*>(burst[i]);
        if (mark != 1) failed = true;
        mark = 0;
      }
      if (count == 0) std::this_thread::yield();
      rte_mempool_put_bulk(pool.get(), burst.data(), count);
      given += count;
    }
  });
  for (std::uint64_t n = 0; n < runs; ++n) {
    Burst burst;
    while (rte_mempool_get_bulk(pool.get(), burst.data(), kBurst) != 0) std::this_thread::yield();
    for (void* buffer : burst) {
      touched.insert(buffer);
      *static_cast<std::uint64_t*>(buffer) = 1;
    }
    for (std::uint32_t sent = 0; sent < kBurst;) {
      const std::uint32_t taken = ring->push(burst.data() + sent, kBurst - sent);
      sent += taken;
      if (taken == 0) std::this_thread::yield();
    }
  }
  giver.join();
  EXPECT_FALSE(failed) << "a buffer was in use twice";
  EXPECT_EQ(rte_mempool_avail_count(pool.get()), kAll);
  EXPECT_LE(touched.size(), Ring::kCapacity + 2 * kBurst);
}

}  // namespace
}  // namespace weft::pipeline
