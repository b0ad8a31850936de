// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "switch/stages/stages.h"
#include "tools/experiment/sweep.h"

namespace weft::sim {
namespace {

using testing::HasSubstr;

class ExperimentFile : public testing::Test {
 protected:
  ExperimentFile() { stages::register_all(registry_); }
  std::string mistakes(const std::string& text, const std::vector<Override>& overrides = {}) {
    config::Diagnostics diagnostics;
    const auto experiment = load_experiment(text, "bad.yaml", overrides, registry_, diagnostics);
    EXPECT_EQ(experiment.has_value(), diagnostics.ok());
    return diagnostics.to_string();
  }
  pipeline::Registry registry_;
};

constexpr const char* kTopology = "topology: { kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2 }\n";
constexpr const char* kWorkload = "workload: { kind: ring, bytes: 1000 }\n";

TEST_F(ExperimentFile, ReportsEveryMistakeAtOnceWithItsPlace) {
  const std::string all = mistakes(
      "topology: { kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 0 }\n"
      "switch: { lbb: ecmp }\n"
      "nic: { transport: tcp, mtu: many }\n"
      "workload: { kind: ring }\n");
  EXPECT_THAT(all, HasSubstr("bad.yaml:1:"));
  EXPECT_THAT(all, HasSubstr("bad.yaml:2:11"));
  EXPECT_THAT(all, HasSubstr("did you mean 'lb'?"));
  EXPECT_THAT(all, HasSubstr("bad.yaml:3:19"));
  EXPECT_THAT(all, HasSubstr("bad.yaml:3:29"));
  EXPECT_THAT(all, HasSubstr("bytes"));
}

TEST_F(ExperimentFile, APipelineIsCheckedAsWeftSwitchChecksIt) {
  const std::string file = std::string(kTopology) + kWorkload;
  EXPECT_EQ(mistakes(file + "switch: { pipeline: [parse, l3, lb] }\n"), "");
  EXPECT_EQ(mistakes(file + "switch: { pipeline: [parse, impair, l3, { lb: { policy: random } }] }\n"), "");
  EXPECT_THAT(mistakes(file + "switch: { pipeline: [parse, l33, lb] }\n"),
              HasSubstr("bad.yaml:3:29: unknown stage 'l33'; did you mean 'l3'?"));
  EXPECT_THAT(mistakes(file + "switch: { pipeline: [parse, lb, l3] }\n"), HasSubstr("lb"));
  EXPECT_THAT(mistakes(file + "switch: { pipeline: [parse, { nack_filter: { uplinks: [uplinks] } }, l3, lb] }\n"),
              HasSubstr("bad.yaml:3:44: stage 'nack_filter' needs rdma_track before it"));
  EXPECT_THAT(mistakes(file + "switch: { lb: random, pipeline: [parse, l3, lb] }\n"),
              HasSubstr("bad.yaml:3:15: lb: belongs into 'pipeline'"));
  EXPECT_THAT(mistakes(file + "switch: { pipeline_above: [parse, l3, lb], lb_above: random }\n"),
              HasSubstr("lb_above: belongs into 'pipeline_above'"));
}

TEST_F(ExperimentFile, RefusesImpossibleTopologies) {
  EXPECT_THAT(
      mistakes(std::string("topology: { kind: leaf_spine, leaves: 2, spines: 0, hosts_per_leaf: 2 }\n") + kWorkload),
      HasSubstr("cannot reach"));
  EXPECT_THAT(mistakes(std::string("topology: { kind: fat_tree, k: 5 }\n") + kWorkload), HasSubstr("even number"));
  EXPECT_THAT(
      mistakes(std::string("topology: { kind: leaf_spine, leaves: 2, spines: 65, hosts_per_leaf: 2 }\n") + kWorkload),
      HasSubstr("at most 64 members"));
  EXPECT_THAT(mistakes(std::string("topology: { kind: explicit, switches: [a, b], hosts: [{ name: h, switch: a }, "
                                   "{ name: i, switch: b }] }\n") +
                       kWorkload),
              HasSubstr("cannot reach"));
}

TEST_F(ExperimentFile, RefusesGroupsThatDoNotFit) {
  EXPECT_THAT(mistakes(std::string(kTopology) + "workload: { kind: ring, bytes: 1000, groups: 3 }\n"),
              HasSubstr("4 hosts do not make 3 groups"));
  EXPECT_THAT(mistakes("topology: { kind: leaf_spine, leaves: 3, spines: 2, hosts_per_leaf: 1 }\n"
                       "workload: { kind: halving_doubling_allreduce, bytes: 1000 }\n"),
              HasSubstr("power of two"));
}

TEST_F(ExperimentFile, RefusesFaultsOfLinksThatDoNotExist) {
  EXPECT_THAT(mistakes(std::string(kTopology) + kWorkload + "faults: [{ link: leaf0/leaf1, loss: 0.1 }]\n"),
              HasSubstr("bad.yaml:3:18: link: expected"));
}

TEST_F(ExperimentFile, GivesSingleSwitchesPacketMemoryOfTheirOwn) {
  config::Diagnostics diagnostics;
  const auto experiment = load_experiment(
      std::string(kTopology) + kWorkload +
          "switch: { buffer_mb: 32, buffers: [{ switch: spine1, buffer_mb: 233 }], unlimited: [leaf0] }\n",
      "buffers.yaml", {}, registry_, diagnostics);
  ASSERT_TRUE(experiment.has_value()) << diagnostics.to_string();
  std::map<std::string, std::uint64_t> pool;
  for (std::uint32_t i = 0; i < experiment->topology.switches().size(); ++i) {
    const auto document = switch_document(experiment->topology, i, experiment->switches, {});
    const auto info = load_switch_document(experiment->topology, i, document, registry_, diagnostics);
    ASSERT_TRUE(info.has_value() && info->qos.has_value()) << diagnostics.to_string();
    pool[experiment->topology.switches()[i].name] = info->qos->pool_bytes;
  }
  EXPECT_EQ(pool["leaf1"], 32'000'000u);
  EXPECT_EQ(pool["spine0"], 32'000'000u);
  EXPECT_EQ(pool["spine1"], 233'000'000u);
  EXPECT_GT(pool["leaf0"], 100'000'000'000u);
  EXPECT_THAT(
      mistakes(std::string(kTopology) + kWorkload + "switch: { buffers: [{ switch: spine9, buffer_mb: 1 }] }\n"),
      HasSubstr("unknown switch 'spine9'"));
}

TEST_F(ExperimentFile, GivesPortsMarksAndBuffersByTheirRate) {
  config::Diagnostics diagnostics;
  const auto experiment = load_experiment(
      "topology: { kind: leaf_spine, leaves: 2, spines: 1, hosts_per_leaf: 1, link_gbps: 400, host_link_gbps: 100, "
      "overhead_bytes: -10, mpu_bytes: 48 }\n" +
          std::string(kWorkload) +
          "switch: { ecn: [{ gbps: 400, kmin_kb: 800, kmax_kb: 6400 }], buffer_profiles: [{ gbps: 400, dynamic_th: -1, "
          "xoff: 150000 }] }\nnic: { cnp_dscp: 3, cc: { cnp_interval_us: 55 } }\n",
      "rates.yaml", {}, registry_, diagnostics);
  ASSERT_TRUE(experiment.has_value()) << diagnostics.to_string();
  EXPECT_EQ(experiment->qp.cnp_dscp, 3);
  EXPECT_EQ(experiment->cc_constants, (std::vector<std::pair<std::string, double>>{{"cnp_interval_us", 55.0}}));
  const auto document = switch_document(experiment->topology, 0, experiment->switches, {});
  const auto info = load_switch_document(experiment->topology, 0, document, registry_, diagnostics);
  ASSERT_TRUE(info.has_value() && info->qos.has_value()) << diagnostics.to_string();
  const qos::PortSettings& to_host = info->qos->ports[0];
  const qos::PortSettings& to_spine = info->qos->ports[1];
  EXPECT_EQ(to_host.wred[3]->mark.min_bytes, 400'000u) << "by speed";
  EXPECT_EQ(to_spine.wred[3]->mark.min_bytes, 800'000u);
  EXPECT_EQ(to_spine.wred[3]->mark.max_bytes, 6'400'000u);
  EXPECT_EQ(to_host.group[3].dynamic_th, -3);
  EXPECT_EQ(to_spine.group[3].dynamic_th, -1);
  EXPECT_EQ(to_spine.group[3].headroom_bytes, 150'000u);
  EXPECT_EQ(to_spine.group[3].reserve_bytes, 4'000u) << "as usual";
  for (const auto& port : info->ports) EXPECT_EQ(port.framing.bytes_of(1058), 1048u);
  EXPECT_THAT(
      mistakes(std::string(kTopology) + kWorkload + "switch: { ecn: [{ gbps: 100, kmin_kb: 2, kmax_kb: 1 }] }\n"),
      HasSubstr("kmax_kb: expected at least kmin_kb"));
}

TEST_F(ExperimentFile, GivesSingleSwitchesPipelinesOfTheirOwn) {
  config::Diagnostics diagnostics;
  const std::string file = std::string(kTopology) + kWorkload;
  const auto experiment =
      load_experiment(file + "switch: { pipelines: [{ switch: spine1, pipeline: [parse, rdma_track, l3, lb] }] }\n",
                      "own.yaml", {}, registry_, diagnostics);
  ASSERT_TRUE(experiment.has_value()) << diagnostics.to_string();
  const std::vector<QpPairPlan> qps{{.a = 0, .b = 2, .qpn_a = 17, .qpn_b = 34}};
  for (std::uint32_t i = 0; i < experiment->topology.switches().size(); ++i) {
    const auto document = switch_document(experiment->topology, i, experiment->switches, qps);
    const auto info = load_switch_document(experiment->topology, i, document, registry_, diagnostics);
    ASSERT_TRUE(info.has_value()) << diagnostics.to_string();
    const bool own = experiment->topology.switches()[i].name == "spine1";
    EXPECT_EQ(info->pipeline[1].name == "rdma_track", own);
    if (!own) continue;
    EXPECT_EQ(info->pipeline[1].options["qps"].list().size(), 1u) << "those of the run";
  }
  const auto twice = [](const char* name) {
    return std::string("switch: { pipelines: [{ switch: spine1, pipeline: [parse, l3, lb] }, { switch: ") + name +
           ", pipeline: [parse, l3, lb] }] }\n";
  };
  EXPECT_EQ(mistakes(file + twice("spine0")), "");
  EXPECT_THAT(mistakes(file + twice("spine1")), HasSubstr("pipelines: switch 'spine1' stands twice"));
  EXPECT_THAT(mistakes(file + twice("spine9")), HasSubstr("unknown switch 'spine9'"));
  EXPECT_THAT(mistakes(file + "switch: { pipelines: [{ switch: spine1, pipeline: [parse, lb, l3] }] }\n"),
              HasSubstr("lb"));
}

// 2000 km: 100 Gbit/s carry 250 MB in a round trip.
TEST_F(ExperimentFile, RefusesAWindowThatALongLinkDoesNotFitInto) {
  const auto file = [](const std::string& delay_ns, const std::string& nic) {
    return "topology:\n  { kind: explicit, link_gbps: 100, delay_ns: 1000, switches: [a, b], hosts: [{ name: a-, "
           "switch: a, "
           "count: 2 }, { name: b-, switch: b, count: 2 }], links: [{ a: a, b: b, gbps: 400, delay_ns: " +
           delay_ns + " }] }\nnic: { transport: gbn, mtu: 1000, " + nic +
           " }\nworkload: { kind: ring, bytes: 1000 }\nswitch: { buffer_mb: 1100 }\n";
  };
  EXPECT_EQ(mistakes(file("10000000", "window: 65536")),
            "bad.yaml:3:43: window: from a-1 to b-0 and back takes 20 ms, and 100 Gbit/s carry 250.1 MB meanwhile: a "
            "window of 65.54 MB would be all that is measured; give at least 250050 packets of 1000 bytes, or say "
            "window_below_bdp: true\n");
  EXPECT_EQ(mistakes(file("10000000", "window: 262144")), "");
  EXPECT_EQ(mistakes(file("10000000", "window: 250050")), "");
  EXPECT_NE(mistakes(file("10000000", "window: 250049")), "");
  EXPECT_EQ(mistakes(file("10000000", "window: 64, window_below_bdp: true")), "");
  EXPECT_THAT(mistakes(file("10000000", "window: 262144, max_inflight_bytes: 1000000")), HasSubstr("a window of 1 MB"));
  // 500 us, and a link that is not as long as between data centres.
  EXPECT_THAT(mistakes(file("500000", "window: 1024")), HasSubstr("at least 12550 packets"));
  EXPECT_EQ(mistakes(file("99999", "window: 64")), "");
}

TEST_F(ExperimentFile, TakesOverridesAndSaysWhichOneIsWrong) {
  const std::string good = std::string(kTopology) + kWorkload;
  EXPECT_EQ(mistakes(good), "");
  EXPECT_EQ(mistakes(good, {{"nic.cc.t_i_us", "55"}, {"faults", "[{loss: 0.1}]"}, {"faults.0.loss", "0.2"}}), "");
  EXPECT_THAT(mistakes(good, {{"nic.cc.t_x_us", "55"}}), HasSubstr("--set nic.cc.t_x_us:1:1"));
  EXPECT_THAT(mistakes(good, {{"topology.leaves", "none"}}), HasSubstr("--set topology.leaves:1:1"));
  EXPECT_THAT(mistakes(good, {{"topology.leaves.more", "1"}}), HasSubstr("nothing under this key"));
}

TEST_F(ExperimentFile, TakesConstantsOfItsKindOfCongestionControlAndNoOthers) {
  const std::string file = std::string(kTopology) + kWorkload;
  const auto of = [&](const std::string& cc) { return mistakes(file + "nic: { cc: { " + cc + " } }\n"); };
  EXPECT_EQ(of("preset: longhaul, t_i_us: 55, r_ai_mbps: 5"), "");
  EXPECT_EQ(of("kind: timely, t_low_us: 50, t_high_us: 50, beta: 0.5"), "");
  EXPECT_EQ(of("kind: swift, base_target_us: 30, beta: 0.5"), "");
  EXPECT_EQ(of("kind: timely, t_d_us: 4"), "bad.yaml:3:36: t_d_us: a constant of dcqcn, not of timely\n");
  EXPECT_EQ(of("kind: none, beta: 0.5"), "bad.yaml:3:32: beta: a constant of timely, swift, not of none\n");
  EXPECT_EQ(of("kind: swift, preset: longhaul"), "bad.yaml:3:35: preset: of dcqcn, not of swift\n");
  EXPECT_EQ(of("kind: timely, t_low_us: 60, t_high_us: 59"),
            "bad.yaml:3:53: t_high_us: expected at least t_low_us (60), found 59\n");
  EXPECT_EQ(of("kind: timely, min_mbps: 100000"),
            "bad.yaml:3:38: min_mbps: expected less than the line's 100000 Mbit/s, found 100000: the rate could not "
            "fall\n");
  EXPECT_THAT(of("kind: timely, t_lo_us: 60"), HasSubstr("did you mean 't_low_us'?"));
  EXPECT_THAT(of("kind: timely, beta: 2"), HasSubstr("bad.yaml:3:34"));
}

TEST_F(ExperimentFile, SweepsEveryCombinationAndKeepsKeysOfOneEntryTogether) {
  config::Diagnostics diagnostics;
  const auto experiment = load_experiment(
      std::string(kTopology) + kWorkload + "sweep: { seed: [1, 2], 'switch.lb,nic.transport': ['ecmp;gbn', ';irn'] }\n",
      "sweep.yaml", {}, registry_, diagnostics);
  ASSERT_TRUE(experiment.has_value()) << diagnostics.to_string();
  const auto points = weft::experiment::sweep_points(experiment->source["sweep"]);
  ASSERT_EQ(points.size(), 4u);
  ASSERT_EQ(points[0].size(), 3u);
  EXPECT_EQ(points[0][0].key + "=" + points[0][0].value, "seed=1");
  EXPECT_EQ(points[0][1].key + "=" + points[0][1].value, "switch.lb=ecmp");
  EXPECT_EQ(points[0][2].key + "=" + points[0][2].value, "nic.transport=gbn");
  ASSERT_EQ(points[3].size(), 2u);
  EXPECT_EQ(points[3][1].key + "=" + points[3][1].value, "nic.transport=irn");
}

TEST_F(ExperimentFile, PutsIncastsBesideFlowsAndLeavesTheseAsTheyAre) {
  const auto transfers = [&](const std::string& more) {
    config::Diagnostics diagnostics;
    const std::string cdf = WEFT_SOURCE_DIR "/bench/papers/cdf/alistorage2019.txt";
    const auto experiment = load_experiment(
        std::string(kTopology) + "workload: { kind: poisson, duration_ms: 1, cdf: " + cdf + more + " }\n",
        "incast.yaml", {}, registry_, diagnostics);
    EXPECT_TRUE(experiment.has_value()) << diagnostics.to_string();
    return experiment ? experiment->plan.transfers : std::vector<Transfer>{};
  };
  const auto bare = transfers("");
  const auto both = transfers(", incast: { senders: 3, bytes: 7777, every_us: 300 }");
  std::map<TimeNs, std::vector<Transfer>> incasts;
  std::vector<std::uint64_t> rest;
  for (const Transfer& transfer : both) {
    if (transfer.bytes == 7777) {
      incasts[transfer.start].push_back(transfer);
    } else {
      rest.push_back(transfer.bytes);
    }
  }
  ASSERT_EQ(incasts.size(), 3u);
  TimeNs at = 0;
  for (const auto& [start, flows] : incasts) {
    EXPECT_EQ(start, at += 300'000);
    ASSERT_EQ(flows.size(), 3u);
    std::set<std::uint32_t> senders;
    for (const Transfer& flow : flows) {
      EXPECT_EQ(flow.to, flows.front().to);
      EXPECT_NE(flow.from, flow.to);
      EXPECT_TRUE(senders.insert(flow.from).second);
    }
  }
  ASSERT_EQ(rest.size(), bare.size());
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], bare[i].bytes);
  EXPECT_THAT(mistakes(std::string(kTopology) + "workload: { kind: poisson, cdf: " WEFT_SOURCE_DIR
                                                "/bench/papers/cdf/alistorage2019.txt, "
                                                "incast: { senders: 4, bytes: 1, every_us: 300 } }\n"),
              HasSubstr("incast: there are 4 hosts"));
}

TEST_F(ExperimentFile, NamesFilesThatCannotBeRead) {
  EXPECT_THAT(mistakes(std::string(kTopology) + "workload: { kind: flows, file: nowhere.txt }\n"),
              HasSubstr("nowhere.txt' cannot be read"));
}

TEST(Sweep, GivesThreadsToALargeRunWhereCpusWouldHaveNothingToDo) {
  using experiment::threads_of;
  EXPECT_EQ(threads_of(16, 100, 100), 1u);  // enough runs for all
  EXPECT_EQ(threads_of(16, 4, 100), 4u);
  EXPECT_EQ(threads_of(16, 100, 2), 8u);  // the memory is enough for two
  EXPECT_EQ(threads_of(16, 1, 100), 16u);
  EXPECT_EQ(threads_of(1, 1, 1), 1u);
  EXPECT_EQ(threads_of(3, 2, 0), 3u);  // it is tried all the same
}

TEST(Memory, AReceiverKeepsNoMorePacketsOutOfOrderThanThereAre) {
  nic::QpConfig qp;
  qp.path_mtu = 1000;
  qp.reorder_window = 1024;
  EXPECT_EQ(reorder_window(qp, 1), 64u);
  EXPECT_EQ(reorder_window(qp, 63), 64u);
  EXPECT_EQ(reorder_window(qp, 64), 128u);  // a full window would make the sender wait
  EXPECT_EQ(reorder_window(qp, 5000), 1024u);
  EXPECT_EQ(reorder_window(qp, std::uint64_t{1} << 62), 1024u);
  qp.max_inflight_bytes = 104'000;
  EXPECT_EQ(reorder_window(qp, 5000), 128u);
  qp.reorder_window = 1;  // go-back-N
  EXPECT_EQ(reorder_window(qp, 5000), 1u);
}

// With a whole window for each queue pair, 30,000 flows of one packet would be said to need 5 GB.
TEST(Memory, ShortFlowsNeedLessThanLongOnes) {
  config::Diagnostics diagnostics;
  pipeline::Registry registry;
  stages::register_all(registry);
  const auto needs = [&](const char* bytes) -> std::uint64_t {
    const auto experiment = load_experiment(
        "topology: { kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 8 }\n"
        "nic: { mtu: 1000, transport: irn }\nworkload: { kind: alltoall, bytes: 16000 }\n",
        "test.yaml", {{"workload.bytes", bytes}}, registry, diagnostics);
    EXPECT_TRUE(experiment.has_value()) << diagnostics.to_string();
    return experiment ? estimate_memory(*experiment).bytes : 0;
  };
  EXPECT_GT(needs("160000000"), needs("16000") + 30'000'000);  // 240 queue pairs
}

TEST(Sweep, LargeIsWhatTakesAMinute) {
  config::Diagnostics diagnostics;
  pipeline::Registry registry;
  stages::register_all(registry);
  const auto large = [&](const char* bytes) {
    const auto experiment = load_experiment(
        "topology: { kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 8 }\nnic: { mtu: 1000 }\n"
        "workload: { kind: ring, bytes: 1000 }\n",
        "test.yaml", {{"workload.bytes", bytes}}, registry, diagnostics);
    EXPECT_TRUE(experiment.has_value()) << diagnostics.to_string();
    return experiment && is_large(*experiment);
  };
  EXPECT_FALSE(large("100000000"));
  EXPECT_TRUE(large("1000000000"));
}

}  // namespace
}  // namespace weft::sim
