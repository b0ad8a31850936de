// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/eal.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_malloc.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace weft {
namespace {

// DPDK's interrupt thread runs on, and looks at what it keeps in such memory.
TEST(Eal, ItsFilesGoAndItsMemoryStaysUntilTheProcessEnds) {
  config::EalConfig config;
  config.hugepages = config::Hugepages::off;
  config.mbufs = 1024;
  const Eal eal = start_eal(config, {});
  ASSERT_EQ(eal.error, "");
  const std::string directory = rte_eal_get_runtime_dir();
  EXPECT_TRUE(std::filesystem::exists(directory));
  auto* word = static_cast<volatile std::uint64_t*>(rte_malloc("test", sizeof(std::uint64_t), 0));
  ASSERT_NE(word, nullptr);
  *word = 42;
  stop_eal();
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_EQ(*word, 42u);
}

}  // namespace
}  // namespace weft
