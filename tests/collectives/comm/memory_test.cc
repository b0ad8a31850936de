// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/memory.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace weft::inc::comm {
namespace {

/// Counts registrations; has no queue pairs.
class Registrations final : public Transport {
 public:
  std::uint32_t largest_mtu() const override { return 4096; }
  std::unique_ptr<QueuePair> create_qp(const QpSettings&) override { throw TransportError("none here"); }
  std::uint32_t register_memory(const void*, std::size_t) override {
    if (full) throw TransportError("no memory can be locked");
    ++made;
    return *keys.insert(made).first;
  }
  void forget(std::uint32_t key) override { EXPECT_EQ(keys.erase(key), 1u) << "forgotten twice, or never there"; }

  std::set<std::uint32_t> keys;
  std::uint32_t made = 0;
  bool full = false;
};

class MemoryTest : public ::testing::Test {
 protected:
  ~MemoryTest() override {
    memory.reset();
    EXPECT_TRUE(transport.keys.empty()) << "something stays registered";
  }
  void start(std::size_t regions, std::size_t bytes) { memory.emplace(transport, CacheLimits{regions, bytes}); }
  std::uint32_t use_once(std::size_t at, std::size_t bytes) {
    const Memory::Use use = memory->use(&data[at], bytes);
    memory->done(use);
    return use.key;
  }

  Registrations transport;
  std::optional<Memory> memory;
  std::array<std::uint8_t, 4096> data{};
};

TEST_F(MemoryTest, WithoutACacheARequestRegistersAndForgets) {
  memory.emplace(transport);
  EXPECT_NE(use_once(0, 100), use_once(0, 100));
  EXPECT_TRUE(transport.keys.empty());
}

TEST_F(MemoryTest, WhatTheProgramHasRegisteredIsUsedFirst) {
  start(4, 4096);
  memory->add(&data[0], 1000);
  const Memory::Use use = memory->use(&data[100], 900);
  EXPECT_FALSE(use.temporary);
  memory->done(use);
  EXPECT_EQ(memory->cached(), 0u);
  EXPECT_EQ(transport.made, 1u);
  memory->remove(&data[0]);
}

TEST_F(MemoryTest, TheCacheGivesTheSameRegistrationToPartsOfABuffer) {
  start(4, 4096);
  const std::uint32_t key = use_once(0, 1000);
  EXPECT_EQ(use_once(0, 1000), key);
  EXPECT_EQ(use_once(900, 100), key);
  EXPECT_NE(use_once(900, 101), key) << "a byte more than there is";
  EXPECT_EQ(transport.made, 2u);
  EXPECT_EQ(memory->cached_bytes(), 1101u);
}

TEST_F(MemoryTest, TheLongestUnusedGoesFirst) {
  start(2, 4096);
  const std::uint32_t a = use_once(0, 10), b = use_once(100, 10);
  EXPECT_EQ(use_once(0, 10), a);
  use_once(200, 10);
  EXPECT_FALSE(transport.keys.contains(b));
  EXPECT_EQ(use_once(0, 10), a);
  EXPECT_EQ(memory->cached(), 2u);
}

TEST_F(MemoryTest, BytesAreBoundedAndWhatIsTooLargeIsNotKept) {
  start(100, 1000);
  use_once(0, 600);
  use_once(1000, 600);
  EXPECT_EQ(memory->cached_bytes(), 600u);
  use_once(0, 1001);
  EXPECT_EQ(memory->cached_bytes(), 600u) << "it was registered for one use, and nothing had to go for it";
  EXPECT_EQ(transport.keys.size(), 1u);
}

TEST_F(MemoryTest, WhatIsInUseStaysAndOthersAreRegisteredForTheirUse) {
  start(1, 4096);
  const Memory::Use first = memory->use(&data[0], 10), again = memory->use(&data[0], 10);
  const Memory::Use other = memory->use(&data[100], 10);
  EXPECT_EQ(again.key, first.key);
  EXPECT_TRUE(other.temporary);
  memory->done(other);
  memory->done(first);
  use_once(100, 10);
  EXPECT_TRUE(transport.keys.contains(first.key)) << "one request still uses it";
  memory->done(again);
  use_once(100, 10);
  EXPECT_FALSE(transport.keys.contains(first.key));
}

TEST_F(MemoryTest, MemoryThatIsGoneIsForgottenWithAllThatHasAPartOfIt) {
  start(10, 4096);
  const std::uint32_t before = use_once(0, 100), behind = use_once(200, 100), part = use_once(90, 50);
  memory->gone(&data[100], 100);
  EXPECT_TRUE(transport.keys.contains(before));
  EXPECT_TRUE(transport.keys.contains(behind));
  EXPECT_FALSE(transport.keys.contains(part));
  memory->gone(&data[0], data.size());
  EXPECT_EQ(memory->cached(), 0u);
  EXPECT_EQ(memory->cached_bytes(), 0u);
}

TEST_F(MemoryTest, WhatIsGoneWhileARequestUsesItGoesWithThatRequestAndToNoOther) {
  start(10, 4096);
  const Memory::Use use = memory->use(&data[0], 100);
  memory->gone(&data[0], 100);
  EXPECT_TRUE(transport.keys.contains(use.key));
  EXPECT_NE(use_once(0, 100), use.key) << "the pages that are there now";
  memory->done(use);
  EXPECT_FALSE(transport.keys.contains(use.key));
  EXPECT_EQ(memory->cached(), 1u);
}

TEST_F(MemoryTest, ARegistrationThatFailsLeavesTheCacheAsItWas) {
  start(2, 4096);
  use_once(0, 10);
  transport.full = true;
  EXPECT_THROW(use_once(100, 10), TransportError);
  EXPECT_EQ(memory->cached(), 1u);
  EXPECT_EQ(memory->cached_bytes(), 10u);
  EXPECT_NO_THROW(use_once(0, 10));
}

}  // namespace
}  // namespace weft::inc::comm
