// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What policies of stage lb do to transfers.
#include <gtest/gtest.h>

#include "tests/support/effort.h"
#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

const std::string kRings = R"(
topology: { kind: leaf_spine, leaves: 4, spines: 4, hosts_per_leaf: 4, link_gbps: 100, delay_ns: 1000 }
nic: { transport: ideal, cc: { kind: none } }
workload: { kind: ring, bytes: 600000, groups: 4 }
)";

double milliseconds(const nlohmann::ordered_json& report) {
  EXPECT_TRUE(report["summary"]["complete"].get<bool>());
  return report["summary"]["completion_ms"].get<double>();
}

std::uint64_t counted(const nlohmann::ordered_json& report, const char* what) {
  return report["summary"]["stages"]["lb"][what].get<std::uint64_t>();
}

TEST(LoadBalancing, DrillIsAsGoodAsRandomAndBetterThanHashingWhereOrderCostsNothing) {
  const auto ecmp = run_text(kRings, {{"switch.lb", "ecmp"}});
  const auto random = run_text(kRings, {{"switch.lb", "random"}});
  const auto drill = run_text(kRings, {{"switch.lb", "drill"}});
  EXPECT_LT(milliseconds(drill), 0.8 * milliseconds(ecmp));
  EXPECT_LE(milliseconds(drill), 1.02 * milliseconds(random));
  EXPECT_GT(counted(drill, "drill_remembered"), 0u);
}

// DCQCN makes the pauses: RNICs that send at the rate of the link make none.
TEST(LoadBalancing, LetFlowBreaksNoOrderWithAGapAboveTheSkewAndDoesBelow) {
  const std::vector<Override> slowed{
      {"nic.transport", "nic_sr"}, {"nic.cc.kind", "dcqcn"}, {"workload.bytes", "1000000"}, {"switch.lb", "letflow"}};
  const auto with_gap = [&](const std::string& us) {
    std::vector<Override> how = slowed;
    how.push_back({"switch.lb_options", "{letflow: {gap_us: " + us + "}}"});
    return run_text(kRings, how);
  };
  const auto calm = with_gap("100");
  EXPECT_EQ(counted(calm, "flowlets"), 32u) << "one for each direction of a queue pair";
  EXPECT_EQ(calm["summary"]["nacks_sent"], 0);
  const auto eager = with_gap("1");
  EXPECT_GT(counted(eager, "flowlets_moved"), 100u);
  EXPECT_GT(eager["summary"]["nacks_sent"].get<std::uint64_t>(), 0u);
  milliseconds(eager);
}

// What spraying does to the order is undone at the receiver's ToR, whose RNICs then have nothing to report.
TEST(LoadBalancing, PacketsThatAreSprayedArriveInOrderBehindAReorderBuffer) {
  const auto sprayed = [](const std::string& reorder) {
    const std::string pipeline = "[parse, rdma_track, " + reorder + " l3, {lb: {policy: random}}]";
    return run_text(kRings, {{"nic.transport", "nic_sr"}, {"switch.pipeline", pipeline}});
  };
  const auto bare = sprayed("");
  const auto ordered = sprayed("{reorder: {uplinks: [uplinks]}},");
  EXPECT_GT(bare["summary"]["nacks_sent"].get<std::uint64_t>(), 100u);
  EXPECT_GT(bare["summary"]["out_of_order"].get<std::uint64_t>(), 1000u);
  EXPECT_EQ(ordered["summary"]["out_of_order"], 0);
  EXPECT_EQ(ordered["summary"]["nacks_sent"], 0);
  EXPECT_EQ(ordered["summary"]["retransmit_ratio"], 0);
  EXPECT_LT(milliseconds(ordered), milliseconds(bare));
  EXPECT_GT(ordered["summary"]["stages"]["reorder"]["packets_held"].get<std::uint64_t>(), 1000u);
  EXPECT_EQ(ordered["summary"]["stages"]["reorder"]["expired"], 0);
  // Four leaves have a buffer each: the fullest one holds less than all of them, and no less than their mean.
  const auto of_all = ordered["summary"]["stages"]["reorder"]["peak_packets"].get<std::uint64_t>();
  const auto of_one = ordered["summary"]["stages_most"]["reorder"]["peak_packets"].get<std::uint64_t>();
  EXPECT_LT(of_one, of_all);
  EXPECT_GE(4 * of_one, of_all);
  EXPECT_FALSE(ordered["summary"]["stages_most"]["reorder"].contains("packets_held")) << "no level, but a count";
}

// A packet that is lost leaves a gap, which the buffer gives up after its bound: the RNIC sees it and asks.
TEST(LoadBalancing, AGapThatTheReorderBufferGivesUpReachesTheReceiver) {
  for (const char* transport : {"nic_sr", "gbn", "irn"}) {
    SCOPED_TRACE(transport);
    const auto report =
        run_text(kRings, {{"nic.transport", transport},
                          {"nic.rto_us", "4000"},
                          {"faults", "[{link: fabric, loss: 0.0005}]"},
                          {"switch.pipeline",
                           "[parse, rdma_track, {reorder: {uplinks: [uplinks], bound_us: 50}}, l3, {lb: {policy: "
                           "random}}]"}});
    milliseconds(report);
    EXPECT_GT(report["summary"]["drops"].get<std::uint64_t>(), 0u);
    EXPECT_GT(report["summary"]["stages"]["reorder"]["expired"].get<std::uint64_t>(), 0u);
    EXPECT_GT(report["summary"]["out_of_order"].get<std::uint64_t>(), 0u);
    EXPECT_GT(report["summary"]["nacks_sent"].get<std::uint64_t>(), 0u);
    EXPECT_GT(report["summary"]["retransmit_ratio"].get<double>(), 0);
  }
}

// What restores order and what stops NACKs do not stop each other, whichever comes first: a loss is repaired, and not
// by a timeout. RNICs are eager: others ask for a second gap when another packet comes, which behind a buffer that lets
// all go on at once may be never, with or without the filter.
TEST(LoadBalancing, ReorderBuffersStandBesideTheFilterOfNacks) {
  const auto lossy = [](const std::string& stages, const std::string& policy, const std::string& seed) {
    const std::string pipeline = "[parse, " + stages + " l3, {lb: {policy: " + policy + "}}]";
    const auto report = run_text(kRings, {{"nic.transport", "nic_sr"},
                                          {"nic.renack", "eager"},
                                          {"nic.rto_us", "4000"},
                                          {"seed", seed},
                                          {"faults", "[{link: fabric, loss: 0.0005}]"},
                                          {"switch.pipeline", pipeline}});
    milliseconds(report);
    EXPECT_GT(report["summary"]["drops"].get<std::uint64_t>(), 0u);
    EXPECT_GT(report["summary"]["nacks_sent"].get<std::uint64_t>(), 0u);
    EXPECT_EQ(report["summary"]["timeouts"], 0);
    return report["trace_hash"];
  };
  const std::string reorder = "{reorder: {uplinks: [uplinks], bound_us: 50}}, ";
  const std::string filter = "{nack_filter: {uplinks: [uplinks], guard_us: 200}}, ";
  const std::string conweave = "{lb_tag: {uplinks: [uplinks], conweave: {}}}, rdma_track, ";
  for (const char* seed : {"1", "2", "3"}) {
    for (const char* policy : {"psn", "random"}) {
      SCOPED_TRACE(std::string(policy) + ", seed " + seed);
      EXPECT_EQ(lossy("rdma_track, " + filter + reorder, policy, seed),
                lossy("rdma_track, " + reorder + filter, policy, seed));
    }
    SCOPED_TRACE(std::string("conweave, seed ") + seed);
    lossy(conweave + filter, "conweave", seed);
  }
}

// Two racks whose fourth spine is four times slower than the others. Hashing gives it as many flows as the others.
const std::string kAsymmetric = R"(
topology:
  kind: explicit
  link_gbps: 100
  delay_ns: 1000
  switches: [left, right, s1, s2, s3, slow]
  hosts: [{ name: a, switch: left, count: 6 }, { name: b, switch: right, count: 6 }]
  links:
    - { a: left, b: s1 }
    - { a: left, b: s2 }
    - { a: left, b: s3 }
    - { a: left, b: slow, gbps: 25 }
    - { a: right, b: s1 }
    - { a: right, b: s2 }
    - { a: right, b: s3 }
    - { a: right, b: slow, gbps: 25 }
nic: { transport: irn, nack_is_cnp: false, mtu: 1000 }
)";

nlohmann::ordered_json storage_over(const std::string& topology, const std::string& load, const std::string& policy,
                                    const std::string& ms = "2", const std::string& gemma = "{}") {
  const std::string cdf = WEFT_SOURCE_DIR "/bench/papers/cdf/alistorage2019.txt";
  const std::string workload =
      "workload: { kind: poisson, load: " + load + ", duration_ms: " + ms + ", cdf: " + cdf + " }\n";
  // Switches between ToRs know of their own links alone.
  const bool conga = policy == "conga";
  const std::string room = "queue_packets: 4096, max_packets: 16384, max_kb: 16384";
  std::string tag;
  if (conga) tag = "{lb_tag: {uplinks: [uplinks]}}, ";
  if (policy == "conweave") tag = "{lb_tag: {uplinks: [uplinks], conweave: {" + room + "}}}, ";
  std::string above = conga ? "[parse, lb_tag, l3, {lb: {policy: conga}}]" : "[parse, l3, lb]";
  if (policy == "gemma") {
    tag =
        "{lb_tag: {uplinks: [uplinks], link_mbps: 100000, gemma: {}}}, rdma_track, "
        "{reorder: {uplinks: [uplinks], max_qp_packets: 4096, max_packets: 16384, max_kb: 16384}}, ";
    above = "[parse, {lb_tag: {link_mbps: 100000, gemma: {}}}, l3, {lb: {policy: gemma, gemma: " + gemma + "}}]";
  }
  const std::string lb = "{lb: {policy: " + policy + ", gemma: " + gemma + "}}";
  return run_text(topology + workload,
                  {{"switch.pipeline", "[parse, " + tag + "l3, " + lb + "]"}, {"switch.pipeline_above", above}});
}

double slowdown(const nlohmann::ordered_json& report) {
  EXPECT_TRUE(report["summary"]["complete"].get<bool>());
  return report["summary"]["fct_slowdown_mean"].get<double>();
}

std::uint64_t tags(const nlohmann::ordered_json& report, const char* what) {
  return report["summary"]["stages"]["lb_tag"][what].get<std::uint64_t>();
}

// What Conga and Conweave are compared with: simulated once, because it takes seconds under a sanitizer.
double slowdown_of_hashing() {
  static const double result = slowdown(storage_over(kAsymmetric, "0.6", "ecmp"));
  return result;
}

TEST(LoadBalancing, CongaAvoidsTheSlowPathThatHashingDoesNotSee) {
  const auto conga = storage_over(kAsymmetric, "0.6", "conga");
  EXPECT_LT(slowdown(conga), 0.3 * slowdown_of_hashing());
  if (!weft::testing::kSanitized) {
    EXPECT_LT(slowdown(conga), 0.4 * slowdown(storage_over(kAsymmetric, "0.6", "letflow")));
  }
  EXPECT_GT(tags(conga, "feedback"), 1000u);
  EXPECT_EQ(tags(conga, "taken_off"), tags(conga, "put_on")) << "no tag reaches a host";
  EXPECT_EQ(tags(conga, "passed_on"), tags(conga, "put_on"));
  for (const char* what : {"no_room", "forged", "malformed", "unknown_version", "unknown_leaf", "unknown_path"}) {
    EXPECT_EQ(tags(conga, what), 0u) << what;
  }
}

// A packet with a tag is the host's packet all the same: who sees everything knows that it was lost.
TEST(LoadBalancing, NacksForLostPacketsWithTagsAreNotFalse) {
  for (const char* policy : {"conga", "conweave"}) {
    SCOPED_TRACE(policy);
    const std::string tag = policy == std::string("conweave") ? ", conweave: {}" : "";
    const std::string pipeline =
        "[parse, {lb_tag: {uplinks: [uplinks]" + tag + "}}, l3, {lb: {policy: " + policy + "}}]";
    const auto report = run_text(kRings, {{"nic.transport", "nic_sr"},
                                          {"faults", "[{link: fabric, loss: 0.002}]"},
                                          {"switch.pipeline", pipeline},
                                          {"switch.pipeline_above", "[parse, lb_tag, l3, lb]"}});
    milliseconds(report);
    EXPECT_GT(tags(report, "put_on"), 0u);
    EXPECT_GT(report["summary"]["nacks_sent"].get<std::uint64_t>(), 20u);
    EXPECT_LT(report["summary"]["nacks_false"].get<std::uint64_t>(),
              report["summary"]["nacks_sent"].get<std::uint64_t>() / 4);
  }
}

TEST(LoadBalancing, CongaWorksInAFatTree) {
  if (weft::testing::kSanitized)
    GTEST_SKIP() << "takes minutes under a sanitizer, which has seen the code in the leaf-spine";
  const std::string fat_tree = R"(
topology: { kind: fat_tree, k: 4, link_gbps: 100, delay_ns: 1000 }
nic: { transport: irn, nack_is_cnp: false, mtu: 1000 }
)";
  const auto ecmp = storage_over(fat_tree, "0.5", "ecmp");
  const auto conga = storage_over(fat_tree, "0.5", "conga");
  EXPECT_LT(slowdown(conga), slowdown(ecmp));
  EXPECT_EQ(tags(conga, "taken_off"), tags(conga, "put_on"));
  EXPECT_GT(tags(conga, "feedback"), 1000u);
}

// Of a leaf-spine and of a fat tree, whose switches in between choose as well.
void expect_gemma_is_better(const std::string& topology, const std::string& load, double than_ecmp,
                            const std::string& options = "{}") {
  const auto ecmp = storage_over(topology, load, "ecmp", "1");
  const auto gemma = storage_over(topology, load, "gemma", "1", options);
  EXPECT_LT(slowdown(gemma), than_ecmp * slowdown(ecmp));
  EXPECT_GT(counted(gemma, "gemma_reroutes"), 50u);
  EXPECT_GT(tags(gemma, "gemma_reports"), 200u);
  EXPECT_LE(tags(gemma, "gemma_reports"), tags(gemma, "gemma_reports_sent"));
  EXPECT_EQ(tags(gemma, "put_on"), 0u);
  for (const char* what :
       {"malformed", "unknown_version", "gemma_unknown_leaves", "gemma_strangers", "gemma_no_buffer"}) {
    EXPECT_EQ(tags(gemma, what), 0u) << what;
  }
  const auto& reorder = gemma["summary"]["stages"]["reorder"];
  EXPECT_GT(reorder["packets_held"].get<std::uint64_t>(), 100u);
  EXPECT_EQ(reorder["held"], 0);
  EXPECT_EQ(reorder["overflowed"], 0);
}

TEST(LoadBalancing, GemmaLeavesTheSlowPathAndPutsInOrderWhatOvertook) {
  expect_gemma_is_better(kAsymmetric, "0.6", 0.4);
}

TEST(LoadBalancing, GemmaWorksInAFatTree) {
  if (weft::testing::kSanitized)
    GTEST_SKIP() << "takes minutes under a sanitizer, which has seen the code in the leaf-spine";
  // With the default guard, which is for larger networks, it is 3 % behind ECMP here.
  expect_gemma_is_better(
      "topology: { kind: fat_tree, k: 4, link_gbps: 100, delay_ns: 1000 }\n"
      "nic: { transport: irn, nack_is_cnp: false, mtu: 1000 }\n",
      "0.5", 1.0, "{guard_us: 8}");
}

// 32 leaves: a report is longer than the headers of any packet.
TEST(LoadBalancing, GemmaReportsInAFatTreeOfManyLeavesToo) {
  const auto gemma = storage_over(
      "topology: { kind: fat_tree, k: 8, link_gbps: 100, delay_ns: 1000 }\n"
      "nic: { transport: irn, nack_is_cnp: false, mtu: 1000 }\n",
      "0.1", "gemma", "0.02");
  EXPECT_EQ(tags(gemma, "gemma_no_buffer"), 0u);
  EXPECT_GT(tags(gemma, "gemma_reports"), 1000u);
}

TEST(LoadBalancing, ConweaveLeavesTheSlowPathAndPutsInOrderWhatOvertook) {
  const auto conweave = storage_over(kAsymmetric, "0.6", "conweave");
  EXPECT_LT(slowdown(conweave), 0.3 * slowdown_of_hashing());
  EXPECT_GT(tags(conweave, "conweave_reroutes"), 100u);
  EXPECT_GT(tags(conweave, "conweave_held_packets"), 1000u);
  EXPECT_EQ(tags(conweave, "conweave_held"), 0u);
  EXPECT_LT(tags(conweave, "conweave_flushed"), tags(conweave, "conweave_held_packets") / 10);
  EXPECT_EQ(
      tags(conweave, "conweave_resumed") + tags(conweave, "conweave_flushed") + tags(conweave, "conweave_given_up"),
      tags(conweave, "conweave_held_packets"));
  EXPECT_EQ(tags(conweave, "taken_off"), tags(conweave, "put_on"));
  const std::uint64_t answers = tags(conweave, "conweave_replies_sent") + tags(conweave, "conweave_notifies_sent");
  EXPECT_EQ(tags(conweave, "conweave_bytes_sent"), answers * wire::kMinFrameBytes) << "answers are no longer than this";
  for (const char* what : {"no_room", "forged", "malformed", "unknown_version", "unknown_leaf", "unknown_path",
                           "conweave_no_queue", "conweave_overflowed", "conweave_flows_full"}) {
    EXPECT_EQ(tags(conweave, what), 0u) << what;
  }
}

}  // namespace
}  // namespace weft::sim
