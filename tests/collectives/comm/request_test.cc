// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/request.h"

#include <gtest/gtest.h>

#include <array>

#include "collectives/comm/combine.h"

namespace weft::inc::comm {
namespace {

class Check : public ::testing::Test {
 protected:
  [[nodiscard]] Call call(Collective collective, std::size_t send, std::size_t receive) {
    return {collective, &memory[send], &memory[receive], 10, DataType::fp32, Op::sum, 0};
  }
  [[nodiscard]] static bool names(const std::string& why, const char* what) {
    return why.find(what) != std::string::npos;
  }
  std::array<std::uint8_t, 1000> memory{};
};

TEST_F(Check, BuffersAreInPlaceOrDoNotOverlap) {
  EXPECT_EQ(check(call(Collective::allreduce, 0, 0), 0, 4), "");
  EXPECT_EQ(check(call(Collective::allreduce, 0, 40), 0, 4), "");
  EXPECT_TRUE(names(check(call(Collective::allreduce, 0, 39), 0, 4), "overlap"));
  EXPECT_TRUE(names(check(call(Collective::allreduce, 4, 0), 0, 4), "overlap"));
  // Four blocks at one side; in place is the rank's own.
  EXPECT_EQ(check(call(Collective::reduce_scatter, 0, 80), 2, 4), "");
  EXPECT_TRUE(names(check(call(Collective::reduce_scatter, 0, 80), 1, 4), "overlap"));
  EXPECT_EQ(check(call(Collective::allgather, 80, 0), 2, 4), "");
  EXPECT_TRUE(names(check(call(Collective::allgather, 80, 0), 3, 4), "overlap"));
  EXPECT_EQ(check(call(Collective::reduce, 0, 4), 1, 4), "") << "no root, no receive buffer";
  EXPECT_TRUE(names(check(call(Collective::reduce, 0, 4), 0, 4), "overlap"));
}

TEST_F(Check, NullPointersAndNumbersThatAreNone) {
  Call c = call(Collective::allreduce, 0, 0);
  c.send = nullptr;
  EXPECT_TRUE(names(check(c, 0, 4), "send buffer"));
  c.count = 0;
  EXPECT_EQ(check(c, 0, 4), "");
  c = call(Collective::reduce, 0, 0);
  c.receive = nullptr;
  EXPECT_TRUE(names(check(c, 0, 4), "receive buffer"));
  EXPECT_EQ(check(c, 1, 4), "");
  c.root = 4;
  EXPECT_TRUE(names(check(c, 1, 4), "root"));
  c = call(Collective::allreduce, 0, 0);
  c.op = Op::band;
  EXPECT_TRUE(names(check(c, 0, 4), "operation"));
  c.op = static_cast<Op>(200);
  EXPECT_TRUE(names(check(c, 0, 4), "operation"));
  c.type = static_cast<DataType>(77);
  EXPECT_TRUE(names(check(c, 0, 4), "type"));
  c = call(Collective::allgather, 0, 0);
  c.count = SIZE_MAX / 4;
  EXPECT_TRUE(names(check(c, 0, 4), "too large"));
}

TEST(Combine, HalvesAreAddedInSinglePrecision) {
  std::vector<std::uint16_t> a(1300, 0x3c00), b(1300, 0x4000);  // 1 and 2
  combine(DataType::fp16, Op::sum, a.data(), b.data(), a.size() * 2);
  EXPECT_EQ(a, std::vector<std::uint16_t>(1300, 0x4200));  // 3
  std::vector<std::uint64_t> x(7, 5), y(7, 6);
  combine(DataType::uint64, Op::max, x.data(), y.data(), 56);
  EXPECT_EQ(x, y);
}

}  // namespace
}  // namespace weft::inc::comm
