// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Runs an experiment given as text, and checks that every packet is accounted for.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/all_stages.h"
#include "tools/sim/packet_memory.h"
#include "tools/sim/simulation.h"
#include "tools/sim/summary.h"

namespace weft::sim {

/// @param look  what else a test wants to see of a run that has ended
inline nlohmann::ordered_json run_text(const std::string& text, const std::vector<Override>& overrides = {},
                                       const std::function<void(Simulation&)>& look = {}, RunOptions options = {}) {
  config::Diagnostics diagnostics;
  const auto experiment = load_experiment(text, "test.yaml", overrides, testing::all_stages(), diagnostics);
  EXPECT_TRUE(experiment.has_value()) << diagnostics.to_string();
  if (!experiment) return {};
  // Never freed: static objects end after DPDK has.
  static rte_mempool* const kHeaders = make_packet_pool(1u << 17).release();
  static rte_mempool* const kFrames = make_packet_pool(1u << 15, frame_room(4096)).release();
  rte_mempool* pool = estimate_memory(*experiment).room > kHeaderRoom ? kFrames : kHeaders;
  Simulation simulation(*experiment, testing::all_stages(), pool, diagnostics, options);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.to_string();
  RunFacts facts;
  facts.complete = simulation.run([] { return false; });
  facts.wall_s = 1;
  auto report = report_of(simulation, facts);
  if (look) look(simulation);
  EXPECT_EQ(simulation.settle(), "");
  return report;
}

}  // namespace weft::sim
