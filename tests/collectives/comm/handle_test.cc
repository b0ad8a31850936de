// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/handle.h"

#include <gtest/gtest.h>

namespace weft::inc::comm {
namespace {

Handle handle(std::uint32_t ranks, const char* address) {
  Handle h{ranks - 1, ranks, {4096, 64, 256}, {}, {}};
  const auto a = *wire::IpAddress::parse(address);
  h.switch_end = {a, 0xffffff, 0xfffffe, 0xabcdef};
  for (Partner p = 0; p < partners(ranks); ++p) h.ends.push_back({a, 100 + p, 0x800000 + p, 77 + p});
  return h;
}

TEST(HandleBytes, AreReadAsTheyWereWritten) {
  for (const std::uint32_t ranks : {1u, 2u, 4u, 1000u, kMaxGroupRanks}) {
    for (const char* address : {"10.1.2.3", "fd00::17"}) {
      const Handle h = handle(ranks, address);
      EXPECT_EQ(read_handle(write_handle(h)), h);
    }
  }
}

TEST(HandleBytes, WhatIsNoneIsRefused) {
  const auto right = write_handle(handle(4, "10.0.0.1"));
  const auto changed = [&](std::size_t at, std::uint8_t to) {
    auto bytes = right;
    bytes[at] = to;
    return read_handle(bytes);
  };
  EXPECT_TRUE(changed(0, right[0]).has_value());
  EXPECT_FALSE(changed(0, 0)) << "magic";
  EXPECT_FALSE(changed(7, 4)) << "rank 4 of 4";
  EXPECT_FALSE(changed(10, 5)) << "1284 ranks";
  EXPECT_FALSE(changed(15, 1)) << "an MTU of 1025";
  EXPECT_FALSE(changed(24, 5)) << "an address family";
  EXPECT_FALSE(changed(26, 1)) << "no IPv4 address";
}

}  // namespace
}  // namespace weft::inc::comm
