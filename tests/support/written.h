// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// For tests of functions that write messages of ARP, neighbour discovery and ICMP into a buffer.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/wire/addresses.h"

namespace weft::testing {

inline const wire::MacAddress kRouter = wire::MacAddress::from_u64(0x020000000100);
inline const wire::MacAddress kHost = wire::MacAddress::from_u64(0x02aa00000001);

/// An address that is known to be right.
inline wire::IpAddress ip(const char* text) {
  return *wire::IpAddress::parse(text);
}

inline std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const auto b : bytes) {
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text;
}

/// A buffer full of rubbish: writers must not rely on zeros.
class WrittenTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string written(std::size_t bytes) const { return hex({buffer_.data(), bytes}); }
  std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(256, 0xee);
};

}  // namespace weft::testing
