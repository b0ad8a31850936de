// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// DPDK for the tests that make a Runtime.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "switch/config/config.h"
#include "switch/runtime/eal.h"
#include "tests/support/tsan_mempool.h"

namespace weft::testing {

/// What all tests of a program use: a process has no second one.
inline Eal eal_of_all_tests;

/// Starts it before the first test, and ends it after the last one.
class ProcessEal final : public ::testing::Environment {
 public:
  /// @param yaml  makes a configuration, of which `workers` and `eal` are used
  ProcessEal(std::string (*yaml)(), const pipeline::Registry& (*registry)()) : yaml_(yaml), registry_(registry) {}

  void SetUp() override {
    config::Diagnostics diagnostics;
    const auto config = config::load_config(yaml_(), "first", registry_(), diagnostics);
    ASSERT_TRUE(config) << diagnostics.to_string();
    eal_of_all_tests = start_eal(*config, {});
    ASSERT_EQ(eal_of_all_tests.error, "");
    show_mempools_to_tsan();
  }
  void TearDown() override { stop_eal(); }

 private:
  std::string (*yaml_)();
  const pipeline::Registry& (*registry_)();
};

}  // namespace weft::testing
