// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Runs whose outcome can be computed with a pencil.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

// Frames of 1500 bytes of payload with 58 bytes of headers, and 24 bytes of preamble, FCS and gap.
constexpr double kFrameBits = (1500 + 58 + 24) * 8;
constexpr double kAckBits = (62 + 24) * 8;

const std::string kPair = R"(
topology: { kind: leaf_spine, leaves: 2, spines: 1, hosts_per_leaf: 1, link_gbps: 100, delay_ns: 1000 }
nic: { transport: gbn, mtu: 1500, window: 4096, cc: { kind: none } }
)";

TEST(ClosedForm, OneFlowRunsAtLineRate) {
  const auto report = run_text(kPair + "workload: { kind: incast, bytes: 15000000 }");
  // 10000 packets on the slowest link, then three more hops, and the propagation of four links. The first packet has
  // RETH, the last one ImmDt: 20 bytes on each of four links at most.
  const double ns = 10'000 * kFrameBits / 100 + 3 * kFrameBits / 100 + 4 * 1000;
  const double got = report["summary"]["completion_ms"].get<double>() * 1e6;
  EXPECT_NEAR(got, ns, 20);
  EXPECT_EQ(report["summary"]["drops"], 0);
  EXPECT_EQ(report["summary"]["retransmit_ratio"], 0.0);
  // The acknowledgement of the last packet comes back over four links.
  const double fct = report["transfers"][0]["fct_ns"].get<double>();
  EXPECT_NEAR(fct, got + 4 * (1000 + kAckBits / 100), 20);
  EXPECT_NEAR(report["summary"]["fct_slowdown_mean"].get<double>(), 1.0, 1e-4);
}

TEST(ClosedForm, AnIntegerNanosecondClockKeepsExactRates) {
  // 31.64 ns a packet: a clock that rounded each would be off by a hundredth.
  const auto report = run_text(kPair + "workload: { kind: incast, bytes: 15000000 }", {{"topology.link_gbps", "400"}});
  const double ns = 10'000 * kFrameBits / 400 + 3 * kFrameBits / 400 + 4 * 1000;
  EXPECT_NEAR(report["summary"]["completion_ms"].get<double>() * 1e6, ns, 20);
}

TEST(ClosedForm, LinksMayFrameOtherwise) {
  const auto report =
      run_text(kPair + "workload: { kind: incast, bytes: 15000000 }", {{"topology.overhead_bytes", "100"}});
  const double bits = (1500 + 58 + 100) * 8;
  EXPECT_NEAR(report["summary"]["completion_ms"].get<double>() * 1e6, 10'003 * bits / 100 + 4 * 1000, 20);
  EXPECT_NEAR(report["summary"]["fct_slowdown_mean"].get<double>(), 1.0, 1e-4);
}

// Links take 48 bytes around the payload, as in ns-3; a queue pair is paced by the bytes of its frames still.
TEST(ClosedForm, PacingGoesByFrames) {
  const auto report = run_text(kPair + "workload: { kind: incast, bytes: 15000000 }",
                               {{"topology.overhead_bytes", "-10"}, {"topology.mpu_bytes", "48"}});
  const double frame = (1500 + 58) * 8, bits = (1500 + 48) * 8;
  EXPECT_NEAR(report["summary"]["completion_ms"].get<double>() * 1e6, 10'000 * frame / 100 + 3 * bits / 100 + 4 * 1000,
              30);
  EXPECT_NEAR(report["summary"]["fct_slowdown_mean"].get<double>(), frame / bits, 1e-3);
}

TEST(ClosedForm, TwoFlowsShareALinkEvenly) {
  const std::string text = R"(
topology: { kind: leaf_spine, leaves: 1, spines: 0, hosts_per_leaf: 3, link_gbps: 100, delay_ns: 1000 }
nic: { transport: gbn, mtu: 1500, window: 4096, cc: { kind: none } }
workload: { kind: incast, bytes: 3000000 }
)";
  const auto report = run_text(text);
  const double ns = 2 * 2000 * kFrameBits / 100;
  for (const auto& t : report["transfers"]) EXPECT_NEAR(t["received_ns"].get<double>(), ns, ns * 0.005);
  EXPECT_EQ(report["summary"]["drops"], 0);
}

// Two hosts at line rate over two spines. Hashing either gives each flow a spine of its own, and they are as fast as
// alone, or both the same one, and its link takes all packets one after the other. Spraying by PSN uses both evenly.
class TwoPaths : public ::testing::Test {
 protected:
  static constexpr double kPackets = 2000;
  static constexpr double kFrame = kFrameBits / 100;
  static constexpr double kAlone = kPackets * kFrame + 3 * kFrame + 4 * 1000;
  static constexpr double kShared = 2 * kPackets * kFrame + 3 * kFrame + 4 * 1000;

  static nlohmann::ordered_json run(const std::vector<Override>& how) {
    const std::string flows = ::testing::TempDir() + "weft_closed_form_two_paths.txt";
    std::ofstream(flows) << "0 2 3000000 0\n1 3 3000000 0\n";
    auto report = run_text(R"(
topology: { kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2, link_gbps: 100, delay_ns: 1000 }
switch: { buffer_mb: 32, ecn: disabled }
nic: { transport: ideal, mtu: 1500, window: 4096, cc: { kind: none } }
workload: { kind: flows, file: )" +
                               flows + " }\n",
                           how);
    EXPECT_EQ(report["summary"]["pfc_pauses"], 0);
    return report;
  }
  // From the senders' leaf.
  static double packets_over(const nlohmann::ordered_json& report, const std::string& spine) {
    for (const auto& path : report["paths"]) {
      if (path["from"] == "leaf0" && path["to"] == spine) return path["packets"].get<double>();
    }
    ADD_FAILURE() << "no path over " << spine;
    return 0;
  }
  static double ns(const nlohmann::ordered_json& report) {
    return report["summary"]["completion_ms"].get<double>() * 1e6;
  }
};

TEST_F(TwoPaths, HashedFlowsAreAloneOrShare) {
  int alone = 0, shared = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const auto report = run({{"seed", std::to_string(seed)}, {"switch.lb", "ecmp"}});
    const double first = packets_over(report, "spine0"), second = packets_over(report, "spine1");
    ASSERT_EQ(first + second, 2 * kPackets);
    if (first == second) {
      ++alone;
      EXPECT_NEAR(ns(report), kAlone, 20);
    } else {
      ++shared;
      EXPECT_EQ(std::max(first, second), 2 * kPackets);
      EXPECT_NEAR(ns(report), kShared, 40);
    }
  }
  EXPECT_GT(alone, 0);
  EXPECT_GT(shared, 0);
}

TEST_F(TwoPaths, SprayedFlowsHaveBothLinks) {
  const auto report = run({{"switch.lb", "psn"}});
  EXPECT_EQ(packets_over(report, "spine0"), kPackets);
  EXPECT_EQ(packets_over(report, "spine1"), kPackets);
  // Two packets for one spine that come at the same time wait for each other.
  EXPECT_GE(ns(report), kAlone - 20);
  EXPECT_LE(ns(report), kAlone + 2 * kFrame + 20);
}

TEST(ClosedForm, ARingAllReduceTakesItsIdealTime) {
  const std::string text = R"(
topology: { kind: leaf_spine, leaves: 4, spines: 1, hosts_per_leaf: 1, link_gbps: 100, delay_ns: 1000 }
nic: { transport: gbn, mtu: 1500, window: 4096, ack_every: 1000, cc: { kind: none } }
workload: { kind: ring_allreduce, bytes: 6000000 }
)";
  const auto report = run_text(text);
  // 2 (n - 1) steps of 1000 packets, each with its own way through four links. ACKs would take a twentieth of each
  // link: there is one for each step.
  const double step = 1000 * kFrameBits / 100 + 3 * kFrameBits / 100 + 4 * 1000;
  EXPECT_NEAR(report["summary"]["completion_ms"].get<double>() * 1e6, 6 * step, 6 * (20 + kAckBits / 100));
}

// Two senders at line rate into one port: each may send half of the time, and is paused the other half.
TEST(ClosedForm, PausesLastAsLongAsTheExcess) {
  const std::string text = R"(
topology: { kind: leaf_spine, leaves: 1, spines: 0, hosts_per_leaf: 3, link_gbps: 100, delay_ns: 1000 }
switch: { buffer_mb: 2, ecn: disabled }
nic: { transport: gbn, mtu: 1500, window: 4096, ack_every: 1000, cc: { kind: none } }
workload: { kind: incast, bytes: 15000000 }
)";
  double paused_ns = 0;
  const auto report = run_text(text, {}, [&](Simulation& simulation) {
    const auto& pipeline = simulation.switches()[0]->pipeline();
    for (const PortIndex port : {1, 2}) {
      paused_ns += static_cast<double>(pipeline.class_queues(port)->sender().counters().paused_ns[3].value());
    }
  });
  EXPECT_EQ(report["summary"]["drops"], 0);
  EXPECT_EQ(report["summary"]["retransmit_ratio"], 0.0);
  EXPECT_GT(report["summary"]["pfc_pauses"].get<int>(), 10);
  const double ns = 2 * 10'000 * kFrameBits / 100;
  EXPECT_NEAR(report["summary"]["completion_ms"].get<double>() * 1e6, ns, ns * 0.005);
  EXPECT_NEAR(paused_ns, ns, ns * 0.08);
  EXPECT_NEAR(report["summary"]["pfc_paused_ms"].get<double>() * 1e6, paused_ns, 1);
  // Who was told so: the two senders, half of the times each.
  const auto& told = report["pauses"];
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0]["by"], "leaf0");
  EXPECT_EQ(told[0]["told"], "host1");
  EXPECT_EQ(told[1]["told"], "host2");
  const int first = told[0]["pauses"].get<int>(), second = told[1]["pauses"].get<int>();
  EXPECT_EQ(first + second, report["summary"]["pfc_pauses"].get<int>());
  EXPECT_NEAR(first, second, 1);
  // And when: in every millisecond of the run, both as often.
  for (const auto& one : told) {
    ASSERT_EQ(one["by_ms"].size(), static_cast<std::size_t>(ns / 1e6) + 1);
    int sum = 0;
    for (std::size_t i = 0; i < one["by_ms"].size(); ++i) {
      EXPECT_EQ(one["by_ms"][i][0], i);
      EXPECT_NEAR(one["by_ms"][i][1].get<int>(), told[0]["by_ms"][i][1].get<int>(), 1);
      sum += one["by_ms"][i][1].get<int>();
    }
    EXPECT_EQ(sum, one["pauses"].get<int>());
  }
}

// ACKs are of another priority than data: a host whose data is paused half of the time answers as if it were not.
TEST(ClosedForm, APausedHostStillAcknowledgesWhatItGets) {
  const std::string flows = ::testing::TempDir() + "weft_closed_form_flows.txt";
  const auto time_of_answered = [&](const std::string& incast) {
    std::ofstream(flows) << "3 1 3000000 0\n" << incast;
    const auto report = run_text(R"(
topology: { kind: leaf_spine, leaves: 1, spines: 0, hosts_per_leaf: 20, link_gbps: 100, delay_ns: 1000 }
switch: { buffer_mb: 6.5, ecn: disabled }
nic: { transport: gbn, mtu: 1500, window: 128, ack_every: 8, cc: { kind: none } }
workload: { kind: flows, file: )" +
                                 flows + R"( }
)");
    EXPECT_EQ(report["summary"]["pfc_pauses"].get<int>() > 0, !incast.empty());
    for (const auto& transfer : report["transfers"]) {
      if (transfer["from"] == 3) return transfer["fct_ns"].get<double>();
    }
    return 0.0;
  };
  const double alone = time_of_answered("");
  EXPECT_GT(alone, 200'000);
  std::string incast;
  for (const int from : {1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}) {
    incast += std::to_string(from) + " 0 400000 0\n";
  }
  EXPECT_NEAR(time_of_answered(incast), alone, alone * 0.02);
}

// Two short flows and a long one, each alone in the network; a fourth one waits for the long one.
TEST(ClosedForm, SlowdownsAreToldBySize) {
  const std::string flows = ::testing::TempDir() + "weft_closed_form_sizes.txt";
  std::ofstream(flows) << "0 1 1000 0\n0 1 1001 0.001\n0 1 1500000 0.002\n2 1 1500000 0.002\n";
  const auto report = run_text(R"(
topology: { kind: leaf_spine, leaves: 1, spines: 0, hosts_per_leaf: 3, link_gbps: 100, delay_ns: 1000 }
nic: { transport: gbn, mtu: 1500, window: 4096, cc: { kind: none } }
workload: { kind: flows, file: )" +
                               flows + R"( }
)");
  const auto& sizes = report["summary"]["fct_slowdown_by_bytes"];
  ASSERT_EQ(sizes.size(), 3u);
  const std::array<std::pair<std::uint64_t, std::uint64_t>, 3> counts{{{1000, 1}, {10'000, 1}, {10'000'000, 2}}};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(sizes[i]["at_most_bytes"], counts[i].first);
    EXPECT_EQ(sizes[i]["transfers"], counts[i].second);
    for (const char* key : {"mean", "p50", "p99", "p999"}) {
      EXPECT_NEAR(sizes[i][key].get<double>(), i == 2 ? 2.0 : 1.0, 0.06) << key << " of " << counts[i].first;
    }
  }
  EXPECT_EQ(report["summary"]["fct_slowdown_p999"], sizes[2]["p999"]);
}

TEST(ClosedForm, WithoutPausesASmallBufferDrops) {
  const std::string text = R"(
topology: { kind: leaf_spine, leaves: 1, spines: 0, hosts_per_leaf: 3, link_gbps: 100, delay_ns: 1000 }
switch: { buffer_mb: 2, ecn: disabled, pfc: false }
nic: { transport: nic_sr, mtu: 1500, window: 4096, rto_us: 200, cc: { kind: none } }
workload: { kind: incast, bytes: 3000000 }
)";
  const auto report = run_text(text);
  EXPECT_TRUE(report["summary"]["complete"].get<bool>());
  EXPECT_GT(report["summary"]["drops"].get<int>(), 0);
}

TEST(ClosedForm, HalvingAndDoublingMovesTheSameBytesInFewerSteps) {
  const std::string text = R"(
topology: { kind: leaf_spine, leaves: 4, spines: 4, hosts_per_leaf: 1, link_gbps: 100, delay_ns: 1000 }
nic: { transport: gbn, mtu: 1500, window: 4096, cc: { kind: none } }
workload: { kind: halving_doubling_allreduce, bytes: 6000000 }
)";
  const auto report = run_text(text);
  std::uint64_t from_first = 0;
  for (const auto& t : report["transfers"]) from_first += t["from"] == 0 ? t["bytes"].get<std::uint64_t>() : 0;
  EXPECT_EQ(from_first, 2u * 6'000'000u * 3 / 4);
  EXPECT_EQ(report["transfers"].size(), 4u * 4u);
}

}  // namespace
}  // namespace weft::sim
