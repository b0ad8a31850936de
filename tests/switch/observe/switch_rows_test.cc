// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/switch_rows.h"

#include <gtest/gtest.h>
#include <rte_cycles.h>

#include <nlohmann/json.hpp>

#include "tests/switch/pipeline/rig.h"

namespace weft {
namespace {

using pipeline::kNoPort;

TEST(WorkerRows, SayWhereAWorkerRunsAndWhatItsTimeWentInto) {
  const std::uint64_t second = rte_get_tsc_hz();
  const std::vector<RunningWorker> workers{
      {.cpu = 4, .numa_node = 0, .usage = {}},
      {.cpu = 9,
       .numa_node = 1,
       .usage = {.loops = 10,
                 .busy_loops = 3,
                 .sleeps = 2,
                 .cycles = 3 * second,
                 .busy_cycles = second,
                 .received = 600,
                 .handed_in = 400,
                 .handed_out = 7,
                 .rings_full = 5}},
  };
  const auto rows = worker_rows(workers, {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["idle_s"], 0.0);
  EXPECT_EQ(rows[0]["busy_percent"], 0.0);
  EXPECT_EQ(rows[0]["cycles_per_packet"], 0.0);
  const auto& row = rows[1];
  EXPECT_EQ(row["worker"], 1);
  EXPECT_EQ(row["cpu"], 9);
  EXPECT_EQ(row["numa_node"], 1);
  EXPECT_EQ(row["busy_percent"], 33.3);
  EXPECT_EQ(row["idle_s"], 2.0);
  EXPECT_EQ(row["sleeps"], 2);
  EXPECT_EQ(row["handed_out"], 7);
  EXPECT_EQ(row["rings_full"], 5);
  EXPECT_NEAR(row["cycles_per_packet"].get<double>(), static_cast<double>(second) / 1000, 0.1);
  EXPECT_EQ(row["top_drops"], "");
}

TEST(WorkerRows, NameTheReasonsForWhichMostPacketsEndedOnAWorkerTheMostFrequentFirst) {
  // Ports 0, 2 and 4 are worker 0's, and so is the flow 0; port 1 and the flow of all ones are worker 1's.
  constexpr std::uint32_t kOther = 0xffffffff;
  pipeline::Rig rig({{"parse", pipeline::parse_label()}, {"forward", pipeline::forward()}},
                    {.ports = 6, .workers = 2, .mtu_bytes = 100});
  rig.state->set_link(2, false);
  rig.receive(0, {{1, 0, kNoPort}, {2, 0, 2}, {3, 0, 2}, {4, 0, 2}, {5, 0, kNoPort}});
  rte_mbuf* large = rig.packet({6, 0, 4}, 200);
  rig.pipelines[0]->receive(rig.now, 0, &large, 1);
  rig.receive(1, {{7, kOther, kNoPort}});
  rig.run_until_quiet();
  const RunningSwitch running{*rig.state, {}, rig.pipelines};
  const std::vector<RunningWorker> workers(2);
  const auto rows = worker_rows(workers, std::span(&running, 1));
  EXPECT_EQ(rows[0]["top_drops"], "egress_down 3, no_egress 2, egress_mtu 1");
  EXPECT_EQ(rows[1]["top_drops"], "no_egress 1");
  // Of all switches together.
  const std::vector<RunningSwitch> twice{running, running};
  EXPECT_EQ(worker_rows(workers, twice)[1]["top_drops"], "no_egress 2");
}

}  // namespace
}  // namespace weft
