// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Memory of a switch that several groups have in turns.
#include "collectives/stage/block.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/collectives/stage/star.h"

namespace weft::inc {
namespace {

using testing::Collective;
using testing::Forwarding;
using testing::Star;

constexpr Collective kTakeTurn{Primitive::barrier, 0, 0, Turn::take};
constexpr Collective kGiveTurn{Primitive::barrier, 0, 0, Turn::give};

TEST(Block, IsAsLargeAsTheLargestOfItsGroupsNeeds) {
  auto pool = std::make_shared<MemoryPool>(4096);
  auto block = std::make_shared<Block>(pool->allocate(2048));
  auto large = BlockKey::make(block, 1, 2048), small = BlockKey::make(block, 2, 1000);
  EXPECT_EQ(BlockKey::make(block, 3, 2049), nullptr);
  EXPECT_EQ(large->memory().data(), small->memory().data());
  EXPECT_EQ(small->memory().size(), 1000u);
  EXPECT_EQ(pool->free_bytes(), 2048u);
  large.reset();
  EXPECT_EQ(pool->free_bytes(), 4096u - 1024);
  EXPECT_EQ(BlockKey::make(block, 3, 1025), nullptr);
  small.reset();
  block.reset();
  EXPECT_EQ(pool->largest_bytes(), 4096u);
}

TEST(Block, IsOfWhoComesFirstUntilItIsGivenBackOrItsGroupEnds) {
  auto pool = std::make_shared<MemoryPool>(4096);
  auto block = std::make_shared<Block>(pool->allocate(64));
  auto one = BlockKey::make(block, 1, 64), other = BlockKey::make(block, 2, 64);
  EXPECT_TRUE(one->take());
  EXPECT_FALSE(other->take());
  other->give();
  EXPECT_TRUE(one->has_it()) << "it was not the other's to give";
  one->give();
  EXPECT_TRUE(other->take());
  other.reset();
  EXPECT_EQ(block->owner(), 0u);
  EXPECT_TRUE(one->take());
}

// What one worker wrote the next one sees; a sanitizer sees that nobody writes at the same time.
TEST(Block, WorkersHaveItOneAfterTheOther) {
  auto pool = std::make_shared<MemoryPool>(64);
  auto block = std::make_shared<Block>(pool->allocate(64));
  std::atomic<std::uint64_t> turns{0};
  const auto work = [&](std::uint32_t generation) {
    const auto key = BlockKey::make(block, generation, 64);
    auto* const count = reinterpret_cast<std::uint64_t*>(key->memory().data());
    for (int i = 0; i < 20'000; ++i) {
      if (!key->take()) continue;
      ++*count;
      turns.fetch_add(1, std::memory_order_relaxed);
      key->give();
    }
  };
  *reinterpret_cast<std::uint64_t*>(block->region()->data()) = 0;
  std::thread one(work, 1), other(work, 2);
  one.join();
  other.join();
  EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(block->region()->data()), turns.load());
}

std::string with_block(std::uint32_t id, std::uint32_t first_qp) {
  std::string group = testing::group_yaml(Forwarding::bridged, id, "block: 3");
  for (std::uint32_t r = 0; r < 4; ++r) {
    const std::string from = " qp: " + std::to_string(100 + r);
    group.replace(group.find(from), from.size(), " qp: " + std::to_string(first_qp + r));
  }
  return group;
}

TEST(Block, GroupsOfASwitchThatNameItHaveItInTurns) {
  const std::string options =
      "{ memory_kb: 4, groups: [" + with_block(testing::kGroupId, 100) + ", " + with_block(78, 200) + "] }";
  Star s(Forwarding::bridged, options, {kTakeTurn, {Primitive::allreduce, 0, 3}, kGiveTurn, kTakeTurn});
  EXPECT_EQ(s.h.rows("inc_memory")[0]["bytes"], 3072) << "of both";
  ASSERT_EQ(s.run(), "done");
  const auto first = s.h.rows("inc_groups")[0], second = s.h.rows("inc_groups")[1];
  EXPECT_EQ(first["turns"], 2);
  EXPECT_EQ(first["turns_refused"], 0);
  EXPECT_EQ(first["has_block"], true);
  EXPECT_EQ(first["block"], 3);
  EXPECT_EQ(second["has_block"], false);
  // It ends in its turn.
  auto& shared = s.h.shared<IncShared>("inc");
  EXPECT_NE(shared.remove(testing::kGroupId), nullptr);
  auto table = shared.table(0);
  s.h.change<IncStage>("inc", [&](IncStage& stage) { stage.exchange_table(table); });
  table.reset();
  EXPECT_EQ(s.h.rows("inc_groups").size(), 1u);
  EXPECT_EQ(s.h.rows("inc_memory")[0]["bytes"], 3072) << "of the other one";
  EXPECT_NE(shared.remove(78), nullptr);
  table = shared.table(0);
  s.h.change<IncStage>("inc", [&](IncStage& stage) { stage.exchange_table(table); });
  table.reset();
  EXPECT_EQ(shared.pool().free_bytes(), 4096u);
}

}  // namespace
}  // namespace weft::inc
