// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/suggest.h"

#include <gtest/gtest.h>

namespace weft::config {
namespace {

TEST(Suggest, FindsSlipsOfThePenAndForgottenUnits) {
  const std::vector<std::string> keys{"mtu_bytes", "rate_mbps", "queue_packets", "access_vlan"};
  EXPECT_EQ(closest("mtu", keys), "mtu_bytes");
  EXPECT_EQ(closest("mtu_byte", keys), "mtu_bytes");
  EXPECT_EQ(closest("mtu-bytes", keys), "mtu_bytes");
  EXPECT_EQ(closest("MTU_BYTES", keys), "mtu_bytes");
  EXPECT_EQ(closest("rtae_mbps", keys), "rate_mbps");
  EXPECT_EQ(closest("rate_gbps", keys), "rate_mbps");
  EXPECT_EQ(closest("colour", keys), "");
  EXPECT_EQ(closest("", keys), "");
  EXPECT_EQ(closest("x", keys), "");
}

TEST(Suggest, QuotesShortenAndNeverPassControlCharactersOn) {
  EXPECT_EQ(quote("a\x1b[2Jb"), "'a?[2Jb'");
  EXPECT_EQ(quote("a b~"), "'a b~'");
  EXPECT_EQ(quote(std::string(50, 'a')), "'" + std::string(40, 'a') + "...'");
  EXPECT_EQ(quote("\xc3\xa9"), "'\xc3\xa9'");
}

}  // namespace
}  // namespace weft::config
