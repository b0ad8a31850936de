// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the tests of the two halves of a queue pair share: registered memory, a completion queue, time.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "nic/rnic/memory.h"
#include "nic/rnic/work.h"

namespace weft::nic::testing {

inline constexpr std::uint32_t kHalfMtu = 256;
/// Where the memory region lies, for work requests and packets.
inline constexpr std::uint64_t kRegion = 0x1000;

class HalfTest : public ::testing::Test {
 protected:
  void register_memory(std::size_t count, std::uint8_t value) {
    bytes.assign(count, value);
    mr = table.add(Pd{1}, bytes.data(), bytes.size(), Access::all, kRegion);
  }
  std::vector<Wc> completions() {
    std::vector<Wc> out(64);
    out.resize(cq.poll(out));
    return out;
  }

  MemoryTable table;
  Cq cq{256};
  std::vector<std::uint8_t> bytes;
  Mr mr{};
  Time now = 1'000'000;
};

}  // namespace weft::nic::testing
