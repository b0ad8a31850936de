// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the C interface says where there is no network; tests/live/test_inc_comm.py has one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "collectives/comm/weft_inc.h"

extern "C" std::size_t bytes_of_a_double(void);

namespace {

TEST(CInterface, NamesNumbers) {
  EXPECT_EQ(bytes_of_a_double(), 8u);
  EXPECT_STREQ(weft_inc_type_name(WEFT_INC_BF16), "bf16");
  EXPECT_STREQ(weft_inc_op_name(WEFT_INC_BXOR), "bxor");
  EXPECT_STREQ(weft_inc_primitive_name(WEFT_INC_REDUCE_SCATTER), "reduce_scatter");
  EXPECT_STREQ(weft_inc_reason_name(WEFT_INC_REASON_NO_OPERATION), "no_operation");
  EXPECT_STREQ(weft_inc_status_name(WEFT_INC_REFUSED), "refused");
  EXPECT_STREQ(weft_inc_reason_name(static_cast<weft_inc_reason>(WEFT_INC_REASONS)), "?");
  EXPECT_EQ(weft_inc_type_bytes(static_cast<weft_inc_type>(12)), 0u);
}

TEST(CInterface, MemoryThatIsGoneIsOfAContext) {
  int memory = 0;
  EXPECT_EQ(weft_inc_memory_gone(nullptr, &memory, sizeof memory), WEFT_INC_INVALID);
}

/// A program that was built before `memif` was there: nobody looks behind the end of its structure.
TEST(CInterface, OptionsOfAnOlderProgramAreShorter) {
  weft_inc_context* context = nullptr;
  weft_inc_options older{};
  older.size = offsetof(weft_inc_options, memif);
  older.address = "ten";
  older.memif = "/tmp/no-such.sock";
  EXPECT_EQ(weft_inc_open(&older, &context), WEFT_INC_INVALID);
  EXPECT_STREQ(weft_inc_last_error(), "'ten' is no IP address");
  older.size = 0;
  EXPECT_EQ(weft_inc_open(&older, &context), WEFT_INC_INVALID);
  EXPECT_THAT(weft_inc_last_error(), testing::HasSubstr("weft_inc_options.size is 0"));
  EXPECT_EQ(context, nullptr);
}

/// What an older program has of a structure is where it was.
TEST(CInterface, NewFieldsAreBehindTheOldOnes) {
  EXPECT_EQ(offsetof(weft_inc_group_options, duty_per_mille),
            offsetof(weft_inc_group_options, max_bytes) + sizeof(std::uint64_t));
  EXPECT_EQ(offsetof(weft_inc_group_info, turns),
            offsetof(weft_inc_group_info, calls) + sizeof(std::uint64_t) * WEFT_INC_REASONS);
}

TEST(CInterface, RefusesWhatIsNothing) {
  weft_inc_context* context = nullptr;
  EXPECT_EQ(weft_inc_open(nullptr, nullptr), WEFT_INC_INVALID);
  const weft_inc_options nonsense{sizeof nonsense, "ten", nullptr, "", nullptr, 0, 0, nullptr};
  EXPECT_EQ(weft_inc_open(&nonsense, &context), WEFT_INC_INVALID);
  EXPECT_EQ(std::string(weft_inc_last_error()), "'ten' is no IP address");
  const weft_inc_options nowhere{sizeof nowhere, nullptr, "there-is-none", "", nullptr, 0, 0, nullptr};
  EXPECT_EQ(weft_inc_open(&nowhere, &context), WEFT_INC_UNAVAILABLE);
  EXPECT_EQ(std::string(weft_inc_last_error()), "there-is-none is no Ethernet interface that is up");
  const weft_inc_options both{sizeof both, nullptr, "eth0", "", "mlx5_0", 0, 0, nullptr};
  EXPECT_EQ(weft_inc_open(&both, &context), WEFT_INC_INVALID);
  const weft_inc_options patient{sizeof patient, nullptr, nullptr, "", nullptr, 1'000'001, 0, nullptr};
  EXPECT_EQ(weft_inc_open(&patient, &context), WEFT_INC_INVALID);
  const weft_inc_options bare{sizeof bare, "10.0.0.2", nullptr, "", nullptr, 0, 0, "/tmp/no-such.sock"};
  EXPECT_EQ(weft_inc_open(&bare, &context), WEFT_INC_INVALID);
  EXPECT_THAT(weft_inc_last_error(), testing::HasSubstr("10.0.0.2/24"));
  const weft_inc_options nobody{sizeof nobody, "10.0.0.2/24", nullptr, "", nullptr, 0, 0, "/tmp/no-such.sock"};
  EXPECT_EQ(weft_inc_open(&nobody, &context), WEFT_INC_UNAVAILABLE);
  EXPECT_THAT(weft_inc_last_error(), testing::HasSubstr("no server of memif"));
  // Without libibverbs, without a kernel that has RDMA, and with other devices.
  const weft_inc_options unknown{sizeof unknown, nullptr, nullptr, "", "there-is-none", 0, 0, nullptr};
  EXPECT_EQ(weft_inc_open(&unknown, &context), WEFT_INC_UNAVAILABLE);
  EXPECT_THAT(weft_inc_last_error(), testing::ContainsRegex("there-is-none|RDMA devices|libibverbs"));
  EXPECT_EQ(context, nullptr);

  weft_inc_request* request = nullptr;
  EXPECT_EQ(weft_inc_ibarrier(nullptr, &request), WEFT_INC_INVALID);
  EXPECT_EQ(weft_inc_test(&request), WEFT_INC_OK) << "a request that is over";
  EXPECT_EQ(weft_inc_wait(&request, 0), WEFT_INC_OK);
  EXPECT_EQ(weft_inc_test(nullptr), WEFT_INC_INVALID);
  EXPECT_EQ(weft_inc_can(nullptr, WEFT_INC_BARRIER, WEFT_INC_FP32, WEFT_INC_SUM, 0), WEFT_INC_REASON_NOT_READY);
  weft_inc_group_destroy(nullptr);
  weft_inc_memory_deregister(nullptr);
  weft_inc_close(nullptr);
}

}  // namespace
