// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

const std::string kSixteen = R"(
topology: { kind: leaf_spine, leaves: 4, spines: 4, hosts_per_leaf: 4, link_gbps: 100, delay_ns: 1000 }
switch: { lb: random }
workload: { kind: ring, bytes: 600000, groups: 4 }
)";

TEST(Determinism, TheSameSeedGivesTheSameRunTwice) {
  const auto first = run_text(kSixteen);
  const auto second = run_text(kSixteen);
  EXPECT_EQ(first["trace_hash"], second["trace_hash"]);
  EXPECT_EQ(first.dump(), second.dump());
  EXPECT_TRUE(first["summary"]["complete"].get<bool>());
}

TEST(Determinism, AnotherSeedGivesAnotherRun) {
  EXPECT_NE(run_text(kSixteen)["trace_hash"], run_text(kSixteen, {{"seed", "2"}})["trace_hash"]);
}

TEST(Themis, HasNoSpuriousRetransmissionWhereNothingIsLostAndRandomSprayingHas) {
  const auto random = run_text(kSixteen, {{"workload.bytes", "3000000"}});
  const auto themis = run_text(
      kSixteen,
      {{"workload.bytes", "3000000"}, {"switch.lb", "psn"}, {"switch.nack_filter", "{check: gap, guard_us: 100}"}});
  EXPECT_GT(random["summary"]["spurious_retransmit_ratio"].get<double>(), 0);
  EXPECT_GT(themis["summary"]["nacks_blocked"].get<int>(), 0);
  EXPECT_EQ(themis["summary"]["spurious_retransmit_ratio"], 0.0);
  EXPECT_EQ(themis["summary"]["nacks_false"], 0);
  EXPECT_LT(themis["summary"]["completion_ms"].get<double>(), random["summary"]["completion_ms"].get<double>());
}

// What no later packet of the path can prove, the guard tells.
TEST(Themis, LossesAreToldAndNoTimeoutIsNeededForThoseThatHaveAWitness) {
  const auto report = run_text(kSixteen, {{"workload.bytes", "3000000"},
                                          {"switch.lb", "psn"},
                                          {"switch.nack_filter", "{check: gap, guard_us: 50}"},
                                          {"faults", "[{loss: 0.001}]"}});
  EXPECT_TRUE(report["summary"]["complete"].get<bool>());
  EXPECT_GT(report["summary"]["nacks_valid"].get<int>() + report["summary"]["nacks_compensated"].get<int>(), 0);
  EXPECT_EQ(report["summary"]["nacks_missed_valid"], 0);
}

TEST(Conservation, HoldsWhereLinksLosePacketsAndGoDown) {
  const std::vector<Override> faults{
      {"faults", "[{link: fabric, loss: 0.01}, {link: leaf0/spine1, down_at_us: 20, up_at_us: 60}]"}};
  for (const char* transport : {"gbn", "nic_sr", "irn"}) {
    SCOPED_TRACE(transport);
    auto with = faults;
    with.push_back({"nic.transport", transport});
    with.push_back({"nic.rto_us", "200"});
    const auto report = run_text(kSixteen, with);
    EXPECT_TRUE(report["summary"]["complete"].get<bool>());
    EXPECT_GT(report["summary"]["drops"].get<int>(), 0);
    EXPECT_GT(report["drops_by_reason"]["link_loss"].get<int>(), 0);
  }
}

TEST(PacketMemory, APoolHasAsManyBuffersAsWereAskedFor) {
  for (const std::uint32_t mbufs : {20'000u, 333'333u}) {
    const pipeline::Pool pool = make_packet_pool(mbufs);
    ASSERT_NE(pool, nullptr);
    EXPECT_EQ(rte_mempool_avail_count(pool.get()), mbufs);
  }
}

TEST(Conservation, HoldsWhenARunIsCutOff) {
  const auto report = run_text(kSixteen, {{"time_limit_ms", "0.02"}});
  EXPECT_FALSE(report["summary"]["complete"].get<bool>());
}

}  // namespace
}  // namespace weft::sim
