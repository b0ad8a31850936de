// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The expected bytes were written by another program.
#include "switch/stages/l3/messages.h"

#include <gtest/gtest.h>

#include "tests/support/written.h"

namespace weft::stages {
namespace {

using wire::IpAddress;
using wire::MacAddress;

using weft::testing::ip;
using weft::testing::kHost;
using weft::testing::kRouter;

class L3Messages : public weft::testing::WrittenTest {};

TEST_F(L3Messages, AnIcmpErrorGoesAroundItsQuote) {
  const std::size_t bytes = icmp_quote_offset(false) + 28;
  for (std::size_t i = 0; i < 28; ++i) buffer_[icmp_quote_offset(false) + i] = static_cast<std::uint8_t>(0x40 + i);
  write_icmp_error({buffer_.data(), bytes}, {kRouter, kHost}, ip("10.0.1.1"), ip("10.0.1.2"), {11, 0, 0});
  EXPECT_EQ(written(bytes),
            "02aa00000001020000000100080045c0003800004000400124030a0001010a0001020b00bab700000000404142434445"
            "464748494a4b4c4d4e4f505152535455565758595a5b");
}

TEST_F(L3Messages, AnIcmpv6ErrorGoesAroundItsQuote) {
  const std::size_t bytes = icmp_quote_offset(true) + 48;
  for (std::size_t i = 0; i < 48; ++i) buffer_[icmp_quote_offset(true) + i] = static_cast<std::uint8_t>(0x60 + i);
  write_icmp_error({buffer_.data(), bytes}, {kRouter, kHost}, ip("2001:db8:1::1"), ip("2001:db8:1::2"), {2, 0, 1500});
  EXPECT_EQ(written(bytes),
            "02aa0000000102000000010086dd6c00000000383a4020010db800010000000000000000000120010db8000100000000"
            "000000000002020068ef000005dc606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f8081"
            "82838485868788898a8b8c8d8e8f");
}

TEST(L3MessagesLimits, AnErrorWithTheLongestQuoteIsAsLongAsTheRfcsAllow) {
  EXPECT_EQ(icmp_quote_offset(false) - 14 + icmp_quote_limit(false), 576u);
  EXPECT_EQ(icmp_quote_offset(true) - 14 + icmp_quote_limit(true), 1280u);
}

}  // namespace
}  // namespace weft::stages
