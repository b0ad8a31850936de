// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Collectives that simulated switches add up: production stages, engines and RNICs.
#include <gmock/gmock.h>

#include "tests/support/effort.h"
#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

const std::string kStar = R"(
topology: { kind: leaf_spine, leaves: 1, spines: 0, hosts_per_leaf: 8, link_gbps: 100, delay_ns: 1000 }
nic: { transport: gbn, mtu: 1024, rto_us: 100, cc: { kind: none } }
workload: { kind: inc, operation: allreduce, bytes: 65536, times: 2, group: { rnr_timer: 1, timeout: 5 } }
time_limit_ms: 1000
)";

const std::vector<std::string> kOperations{"allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather"};

// Every operation, in both modes, at one switch, over spines and in a fat tree, with and without losses: results are
// right, and nothing happens at another time than where payload is left out.
TEST(Inc, EveryOperationOverEveryTreeGivesWhatOneMachineWould) {
  const std::vector<std::vector<Override>> networks{
      {},
      {{"topology.leaves", "4"}, {"topology.spines", "2"}, {"topology.hosts_per_leaf", "4"}, {"workload.groups", "2"}},
      {{"topology", "{ kind: fat_tree, k: 4 }"}},
      {{"faults", "[{ link: all, loss: 0.003 }]"}},
      {{"faults", "[{ link: all, loss: 0.003 }]"}, {"nic.transport", "irn"}},
  };
  int combination = 0;
  for (const auto& network : networks) {
    for (const std::string& operation : kOperations) {
      for (const char* mode : {"i", "ii", "iii"}) {
        // Every seventh of them has each network, operation and mode.
        if (testing::kSanitized && combination++ % 7 != 0) continue;
        std::vector<Override> how = network;
        how.push_back({"workload.operation", operation});
        how.push_back({"workload.group.mode", mode});
        if (operation == "barrier") how.push_back({"workload.bytes", "0"});
        std::string what;
        for (const Override& o : how) what += o.key + "=" + o.value + " ";
        // Mode II cannot merge what IRN receivers say of a Broadcast.
        const bool broadcasts = operation == "broadcast" || operation == "allgather";
        if (broadcasts && std::string(mode) == "ii" && what.find("irn") != std::string::npos) continue;
        SCOPED_TRACE(what);
        auto with_values = how;
        with_values.push_back({"payload", "values"});
        const auto values = run_text(kStar, with_values), elided = run_text(kStar, how);
        EXPECT_TRUE(values["summary"]["complete"].get<bool>());
        EXPECT_EQ(values["payload"]["messages_compared"].get<int>() > 0, operation != "barrier");
        EXPECT_EQ(values["trace_hash"], elided["trace_hash"]);
        for (const char* key : {"completion_ms", "goodput_gbps", "packets", "packet_hops", "events", "timeouts"}) {
          EXPECT_EQ(values["summary"][key], elided["summary"][key]) << key;
        }
      }
    }
  }
}

// The buffers of a simulation are hardly longer than the headers that a switch wants in one piece.
TEST(Inc, LastPacketsOfAnySizeReachTheNextSwitch) {
  const std::string two_leaves = "{ kind: leaf_spine, leaves: 2, spines: 1, hosts_per_leaf: 2 }";
  for (int tail = 4; tail <= 256; tail += testing::kSanitized ? 24 : 4) {
    for (const char* mode : {"i", "ii", "iii"}) {
      for (const char* payload : {"elided", "values"}) {
        SCOPED_TRACE(std::to_string(tail) + " " + mode + " " + payload);
        const auto r = run_text(kStar, {{"topology", two_leaves},
                                        {"workload.bytes", std::to_string(1024 + tail)},
                                        {"workload.times", "1"},
                                        {"workload.group.mode", mode},
                                        {"payload", payload},
                                        {"time_limit_ms", "10"}});
        ASSERT_TRUE(r["summary"]["complete"].get<bool>());
      }
    }
  }
}

// ReduceScatter fills the links one way and AllGather the other: side by side they take much less than one after the
// other (EPIC, figure 14), when all their roots go at once. Each has an eighth of its data, and ACKs, the other way.
TEST(Inc, ReduceScatterAndAllGatherFillBothDirections) {
  const auto time = [](const std::vector<Override>& more) {
    std::vector<Override> how{
        {"workload.bytes", "1048576"}, {"workload.group_per_root", "true"}, {"payload", "values"}};
    how.insert(how.end(), more.begin(), more.end());
    const auto r = run_text(kStar, how);
    EXPECT_TRUE(r["summary"]["complete"].get<bool>());
    EXPECT_GT(r["payload"]["messages_compared"].get<int>(), 0);
    return r["summary"]["completion_ms"].get<double>();
  };
  const double scatter = time({{"workload.operation", "reducescatter"}});
  const double gather = time({{"workload.operation", "allgather"}});
  const double both = time({{"workload.operation", "reducescatter"}, {"workload.beside", "allgather"}});
  EXPECT_LT(both, 0.65 * (scatter + gather));
  EXPECT_GE(both, std::max(scatter, gather));
}

// EPIC's equation (2): two hops of propagation, a packet's time at each of three, and the vector's. The rest is the
// control message, headers, and the ACK.
TEST(Inc, TimesAreThoseOfTheClosedForm) {
  constexpr double kHop = 1000, kBytes = 1 << 20, kPacket = 1024, kHeaders = 14 + 20 + 8 + 12 + 4 + 24;
  const auto wire_ns = [](double bytes) { return bytes * 8 / 100; };
  for (const char* mode : {"ii", "iii"}) {
    const auto r = run_text(kStar, {{"workload.operation", "reduce"},
                                    {"workload.bytes", "1048576"},
                                    {"workload.times", "1"},
                                    {"workload.window", "64"},
                                    {"workload.group.mode", mode}});
    const double packets = kBytes / kPacket, one = wire_ns(kPacket + kHeaders);
    const double vector = packets * one, hops = 2 * kHop + one;
    const double measured = r["summary"]["completion_ms"].get<double>() * 1e6;
    EXPECT_GT(measured, vector + hops) << mode;
    EXPECT_LT(measured, vector + hops + 2 * kHop + 4 * one) << mode;
  }
}

// Each level adds two hops and two packet times, and takes no throughput away.
TEST(Inc, DeepTreesAreAsFastAsShallowOnes) {
  constexpr const char* kTree42 =
      "{ kind: explicit, link_gbps: 100, delay_ns: 1000, switches: [r, m0, m1, l0, l1, l2, l3], "
      "hosts: [{name: a, switch: l0, count: 2}, {name: b, switch: l1, count: 2}, {name: c, switch: l2, count: 2}, "
      "{name: d, switch: l3, count: 2}], links: [{a: m0, b: r}, {a: m1, b: r}, {a: l0, b: m0}, {a: l1, b: m0}, "
      "{a: l2, b: m1}, {a: l3, b: m1}] }";
  for (const char* mode : {"ii", "iii"}) {
    const auto r = run_text(kStar, {{"topology", kTree42},
                                    {"workload.operation", "allreduce"},
                                    {"workload.bytes", "1048576"},
                                    {"workload.times", "1"},
                                    {"workload.window", "32"},
                                    {"workload.group.mode", mode}});
    const double one = (1024 + 82) * 8 / 100.0;
    const double formula = 6 * 1000 + 1025 * one + 6 * one;  // equation (2)
    EXPECT_GT(r["summary"]["completion_ms"].get<double>() * 1e6, formula) << mode;
    EXPECT_LT(r["summary"]["completion_ms"].get<double>() * 1e6, 1.15 * formula) << mode;
  }
}

// The others wait as long as it takes, by RNR NAKs, and nobody gives up: a rank has 7 retries of 100 us.
TEST(Inc, ARankThatBeginsLateCostsWhatItIsLateBy) {
  for (const char* mode : {"i", "ii", "iii"}) {
    for (const char* operation : {"allreduce", "reduce", "barrier"}) {
      SCOPED_TRACE(std::string(mode) + " " + operation);
      std::vector<Override> how{{"workload.group.mode", mode},
                                {"workload.operation", operation},
                                {"workload.times", "1"},
                                {"payload", "values"}};
      if (std::string(operation) == "barrier") how.push_back({"workload.bytes", "0"});
      const double punctual = run_text(kStar, how)["summary"]["completion_ms"].get<double>();
      how.push_back({"workload.late", "[{ host: 7, by_us: 20000 }, { host: 2, by_us: 500.5 }]"});
      const auto late = run_text(kStar, how)["summary"];
      EXPECT_TRUE(late["complete"].get<bool>());
      EXPECT_GE(late["completion_ms"].get<double>(), 20 + punctual / 2);
      EXPECT_LT(late["completion_ms"].get<double>(), 20 + 3 * punctual);
      const auto by_two = run_text(kStar, how, [](Simulation&) {}, {.threads = 2})["summary"];
      EXPECT_EQ(by_two["completion_ms"], late["completion_ms"]);
    }
  }
}

// Mode II refuses a Broadcast to IRN receivers: the sender hears of it, the others never would.
TEST(Inc, ARunWhoseGroupFailsEnds) {
  const auto r =
      run_text(kStar, {{"workload.operation", "broadcast"}, {"nic.transport", "irn"}, {"time_limit_ms", "0"}});
  EXPECT_FALSE(r["summary"]["complete"].get<bool>());
  EXPECT_EQ(r["summary"]["stages"]["inc"]["failed"], 1);
}

TEST(Inc, TheSameSeedGivesTheSameRunAndAnotherDoesNot) {
  const std::vector<Override> lossy{{"faults", "[{ link: all, loss: 0.01 }]"}, {"workload.group.mode", "iii"}};
  auto other = lossy;
  other.push_back({"seed", "2"});
  const auto a = run_text(kStar, lossy), b = run_text(kStar, lossy), c = run_text(kStar, other);
  EXPECT_EQ(a["trace_hash"], b["trace_hash"]);
  EXPECT_NE(a["trace_hash"], c["trace_hash"]);
}

TEST(Inc, MistakesAreSaid) {
  const auto mistakes = [](const std::vector<Override>& how) {
    config::Diagnostics diagnostics;
    EXPECT_FALSE(load_experiment(kStar, "test.yaml", how, testing::all_stages(), diagnostics).has_value());
    return diagnostics.to_string();
  };
  EXPECT_THAT(mistakes({{"workload.bytes", "6"}}), HasSubstr("bytes: expected a multiple of 4, found 6"));
  EXPECT_THAT(mistakes({{"workload.operation", "allgather"}, {"workload.bytes", "36"}}),
              HasSubstr("bytes: expected a multiple of 32, found 36"));
  EXPECT_THAT(mistakes({{"workload.operation", "barrier"}}), HasSubstr("bytes: expected 0 of a barrier, found 65536"));
  EXPECT_THAT(mistakes({{"nic.mtu", "1500"}}), HasSubstr("collectives need a 'nic.mtu' of 256, 512"));
  EXPECT_THAT(mistakes({{"nic.transport", "ideal"}}), HasSubstr("collectives need a 'nic.transport' of gbn"));
  EXPECT_THAT(mistakes({{"workload.group.mode", "iv"}}), HasSubstr("mode: expected one of i, ii, iii, found 'iv'"));
  EXPECT_THAT(mistakes({{"workload.late", "[{ host: 8, by_us: 1 }]"}}),
              HasSubstr("late: host 8 takes part in no collective"));
  EXPECT_THAT(mistakes({{"workload.late", "[{ host: 1, by_us: 1 }, { host: 1, by_us: 2 }]"}}),
              HasSubstr("late: host 1 is named twice"));
  EXPECT_THAT(mistakes({{"workload.groups", "3"}}), HasSubstr("8 hosts do not make 3 groups"));
}

}  // namespace
}  // namespace weft::sim
