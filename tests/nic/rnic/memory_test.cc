// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace weft::nic {
namespace {

TEST(MemoryTable, ResolvesWithinBoundsRightsAndDomain) {
  MemoryTable t;
  std::uint8_t bytes[100];
  const Mr mr = t.add(Pd{1}, bytes, sizeof bytes, Access::remote_read, 5000);
  EXPECT_EQ(t.resolve(Pd{1}, mr.key, 5000, 100, Access::remote_read)->data, bytes);
  EXPECT_EQ(t.resolve(Pd{1}, mr.key, 5099, 1, Access::remote_read)->data, bytes + 99);
  EXPECT_TRUE(t.resolve(Pd{1}, mr.key, 5100, 0, Access::remote_read));
  EXPECT_FALSE(t.resolve(Pd{1}, mr.key, 5100, 1, Access::remote_read));
  EXPECT_FALSE(t.resolve(Pd{1}, mr.key, 4999, 1, Access::remote_read));
  EXPECT_FALSE(t.resolve(Pd{1}, mr.key, 5001, ~0ull, Access::remote_read)) << "lengths that wrap";
  EXPECT_FALSE(t.resolve(Pd{1}, mr.key, 5000, 1, Access::remote_write));
  EXPECT_FALSE(t.resolve(Pd{2}, mr.key, 5000, 1, Access::remote_read));
  EXPECT_FALSE(t.resolve(Pd{1}, mr.key + 1, 5000, 1, 0));
  EXPECT_FALSE(t.resolve(Pd{1}, 0, 5000, 1, 0));
  EXPECT_FALSE(t.resolve(Pd{1}, 0xffffffff, 5000, 1, 0));
}

TEST(MemoryTable, ARemovedKeyStaysInvalidWhenItsPlaceIsUsedAgain) {
  MemoryTable t;
  std::uint8_t bytes[8];
  const Mr first = t.add(Pd{1}, bytes, 8, Access::all, 0);
  EXPECT_TRUE(t.remove(first.key));
  EXPECT_FALSE(t.remove(first.key));
  const Mr second = t.add(Pd{1}, bytes, 8, Access::all, 0);
  EXPECT_NE(first.key, second.key);
  EXPECT_FALSE(t.resolve(Pd{1}, first.key, 0, 8, 0));
  EXPECT_TRUE(t.invalidate(Pd{1}, second.key));
  EXPECT_FALSE(t.invalidate(Pd{1}, second.key));
  EXPECT_FALSE(t.resolve(Pd{1}, second.key, 0, 8, 0));
}

TEST(ScatterList, WritesAndGathersAcrossPieces) {
  MemoryTable t;
  std::uint8_t bytes[100] = {};
  const Mr mr = t.add(Pd{1}, bytes, 100, Access::all, 0);
  const Sge sge[] = {{10, 4, mr.key}, {0, 0, 12345}, {50, 6, mr.key}};
  ScatterList list;
  ASSERT_TRUE(list.resolve(t, Pd{1}, sge, Access::local_write)) << "keys of empty pieces are not looked at";
  EXPECT_EQ(list.length(), 10u);
  const std::uint8_t data[] = {1, 2, 3, 4, 5, 6};
  list.write(2, data, 6);
  EXPECT_EQ(bytes[12], 1);
  EXPECT_EQ(bytes[13], 2);
  EXPECT_EQ(bytes[50], 3);
  EXPECT_EQ(bytes[53], 6);
  Payload p;
  list.gather(3, 3, p);
  ASSERT_EQ(p.count, 2);
  EXPECT_EQ(p.pieces[0].data, bytes + 13);
  EXPECT_EQ(p.pieces[1].data, bytes + 50);
  EXPECT_EQ(p.pieces[1].bytes, 2u);
}

}  // namespace
}  // namespace weft::nic
