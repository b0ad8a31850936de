// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/batch.h"

#include <gmock/gmock.h>

#include <vector>

#include "switch/base/rng.h"

namespace weft::pipeline {
namespace {

rte_mbuf* pointer(std::uintptr_t n) {
  return reinterpret_cast<rte_mbuf*>(n);
}

Batch batch_of(std::uint16_t size) {
  Batch batch;
  for (std::uint16_t i = 0; i < size; ++i) batch.push(pointer(i + 1u));
  return batch;
}

TEST(Batch, IsFullAtItsCapacity) {
  EXPECT_FALSE(batch_of(Batch::kCapacity - 1).full());
  EXPECT_TRUE(batch_of(Batch::kCapacity).full());
}

TEST(Batch, CompactClosesGapsAndKeepsOrder) {
  Rng rng(11);
  for (int round = 0; round < 2000; ++round) {
    const auto size = static_cast<std::uint16_t>(rng.below(Batch::kCapacity + 1));
    Batch batch = batch_of(size);
    std::vector<rte_mbuf*> expected;
    for (std::uint16_t i = 0; i < size; ++i) {
      if (rng.below(3) == 0) {
        batch.remove(i);
      } else {
        expected.push_back(batch.packet[i]);
      }
    }
    batch.compact();
    ASSERT_EQ(std::vector(batch.packet, batch.packet + batch.size), expected);
    ASSERT_EQ(batch.removed, 0u);
  }
}

TEST(Batch, SaysWhichPacketsThereAre) {
  EXPECT_EQ(batch_of(0).all(), 0u);
  EXPECT_EQ(batch_of(1).all(), 1u);
  EXPECT_EQ(batch_of(63).all(), ~std::uint64_t{0} >> 1);
  EXPECT_EQ(batch_of(64).all(), ~std::uint64_t{0});
}

TEST(Batch, CanLoseTheFirstTheLastAndAll) {
  Batch batch = batch_of(Batch::kCapacity);
  batch.remove(0);
  batch.remove(Batch::kCapacity - 1);
  batch.compact();
  EXPECT_EQ(batch.size, Batch::kCapacity - 2);
  for (std::uint16_t i = 0; i < Batch::kCapacity - 2; ++i) batch.remove(i);
  batch.compact();
  EXPECT_EQ(batch.size, 0);
}

TEST(Batch, WhatDepartsIsVoidWhenPacketsComeOrGo) {
  Batch batch = batch_of(3);
  EXPECT_FALSE(batch.departs);
  batch.depart({.port = 2, .longest = 100, .bytes = 250});
  EXPECT_TRUE(batch.departs);
  batch.push(pointer(4));
  EXPECT_FALSE(batch.departs);
  batch.depart({.port = 2, .longest = 100, .bytes = 350});
  batch.remove(1);
  EXPECT_FALSE(batch.departs);
}

TEST(BatchDeathTest, RemovingAPacketTwiceIsOurOwnMistake) {
  Batch batch = batch_of(2);
  batch.remove(1);
  EXPECT_DEATH(batch.remove(1), "removed");
  EXPECT_DEATH(batch.remove(2), "size");
}

TEST(BatchDeathTest, PushingIntoAFullBatchIsOurOwnMistake) {
  Batch batch = batch_of(Batch::kCapacity);
  EXPECT_DEATH(batch.push(pointer(1)), "kCapacity");
}

}  // namespace
}  // namespace weft::pipeline
