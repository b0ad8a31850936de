// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Congestion control by delay and by telemetry, whole RNICs over whole switches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

const std::string kPair = R"(
topology: { kind: leaf_spine, leaves: 2, spines: 1, hosts_per_leaf: 1, link_gbps: 100, delay_ns: 1000 }
switch: { lb: ecmp }
nic: { transport: gbn, cc: { kind: none } }
workload: { kind: ring, bytes: 4000000 }
)";
const std::string kIncast = R"(
topology: { kind: leaf_spine, leaves: 2, spines: 1, hosts_per_leaf: 4, link_gbps: 100, delay_ns: 1000 }
switch: { lb: ecmp }
nic: { transport: gbn, window: 8192, cc: { kind: none } }
workload: { kind: incast, bytes: 8000000 }
)";

nlohmann::ordered_json summary(const std::string& text, const std::string& cc) {
  const auto report = run_text(text, {{"nic.cc", "{" + cc + "}"}});
  EXPECT_TRUE(report["summary"]["complete"].get<bool>()) << cc;
  EXPECT_EQ(report["summary"]["drops"], 0) << cc;
  return report["summary"];
}

// Every change of each queue pair, to the microsecond, and looking changes nothing.
TEST(RateChanges, AreThoseOfEveryQueuePair) {
  const auto plain = run_text(kIncast, {{"nic.cc", "{ kind: dcqcn }"}});
  const auto traced = run_text(kIncast, {{"nic.cc", "{ kind: dcqcn }"}, {"rates_every_us", "1"}});
  EXPECT_FALSE(plain.contains("rate_changes"));
  EXPECT_EQ(traced["summary"]["completion_ms"], plain["summary"]["completion_ms"]);
  EXPECT_EQ(traced["summary"]["ecn_marks"], plain["summary"]["ecn_marks"]);
  std::map<int, std::vector<double>> rates;  // by sender
  double before = 0;
  for (const auto& change : traced["rate_changes"]) {
    const double at = change["at_us"].get<double>();
    EXPECT_GE(at, before);
    EXPECT_EQ(at, std::floor(at));
    before = at;
    rates[change["from"].get<int>()].push_back(change["gbps"].get<double>());
  }
  ASSERT_EQ(rates.size(), 7u);
  int ended = 0;  // with the last ones ends the run, before they are looked at again
  for (const auto& [from, seen] : rates) {
    EXPECT_EQ(seen.front(), 100) << from;
    ended += seen.back() == 0 ? 1 : 0;
    EXPECT_LT(*std::min_element(seen.begin(), seen.end() - 1), 50) << from;
    for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_NE(seen[i], seen[i - 1]) << from;
  }
  EXPECT_GT(ended, 0);
}

// Round trips of a path without queues are below T_low and below the target.
TEST(DelayControl, AnIdlePathIsUsedAtTheRateOfItsLine) {
  const double alone = summary(kPair, "kind: none")["completion_ms"].get<double>();
  EXPECT_NEAR(summary(kPair, "kind: timely")["completion_ms"].get<double>(), alone, 0.01 * alone);
  EXPECT_NEAR(summary(kPair, "kind: swift")["completion_ms"].get<double>(), alone, 0.01 * alone);
}

// Seven senders towards one receiver: without congestion control queues grow until they are paused.
TEST(DelayControl, KeepsQueuesShortAndTheReceiverBusy) {
  const auto none = summary(kIncast, "kind: none");
  ASSERT_GT(none["pfc_pauses"].get<int>(), 100);
  for (const char* cc : {"kind: timely", "kind: swift"}) {
    const auto found = summary(kIncast, cc);
    EXPECT_EQ(found["pfc_pauses"], 0) << cc;
    EXPECT_LT(found["ecn_marks"].get<int>(), none["ecn_marks"].get<int>() / 2) << cc;
  }
  // TIMELY's step of 10 Mbit/s is one for lines of 10 Gbit/s: it takes long to come back.
  EXPECT_LT(summary(kIncast, "kind: swift")["completion_ms"].get<double>(), 1.05 * none["completion_ms"].get<double>());
}

// The window aims at 95 % of the line, 40 bytes of each packet are the telemetry, and so is every packet's ACK, which
// takes 3 % of the other direction. No more than a line's bytes in the shortest round trip are under way, and the
// others are a little longer.
TEST(Hpcc, AnIdlePathIsUsedUpToEta) {
  const double alone = summary(kPair, "kind: none")["completion_ms"].get<double>();
  const double found = summary(kPair, "kind: hpcc")["completion_ms"].get<double>();
  EXPECT_GT(found, 1.06 * alone);
  EXPECT_LT(found, 1.16 * alone);
}

TEST(Hpcc, KeepsQueuesNearlyEmptyAndTheReceiverBusy) {
  const auto none = summary(kIncast, "kind: none"), dcqcn = summary(kIncast, "kind: dcqcn");
  for (const char* cc : {"kind: hpcc", "kind: hpcc, max_stage: 0"}) {
    const auto found = summary(kIncast, cc);
    EXPECT_EQ(found["pfc_pauses"], 0) << cc;
    EXPECT_LT(found["ecn_marks"].get<int>(), dcqcn["ecn_marks"].get<int>() / 100) << cc;
    EXPECT_LT(found["completion_ms"].get<double>(), 1.15 * none["completion_ms"].get<double>()) << cc;
    EXPECT_LT(found["completion_ms"].get<double>(), dcqcn["completion_ms"].get<double>()) << cc;
  }
}

// One switch on the way that says nothing would be one whose queue nobody heeds.
TEST(Hpcc, SwitchesOfAGivenPipelineTellToo) {
  const std::string given = "pipeline: [parse, l3, lb: { policy: ecmp }]";
  std::string text = kIncast;
  text.replace(text.find("lb: ecmp"), std::string("lb: ecmp").size(), given);
  const auto report = run_text(text, {{"nic.cc", "{kind: hpcc}"}});
  EXPECT_TRUE(report["summary"]["complete"].get<bool>());
  EXPECT_EQ(report["summary"]["pfc_pauses"], 0);
  EXPECT_EQ(report["summary"]["stages"]["telemetry"]["records"],
            summary(kIncast, "kind: hpcc")["stages"]["telemetry"]["records"]);
}

// Four senders share the uplink of their ToR, which tells them of it itself.
TEST(Hpcc, PortsNearTheSourceTellBeforeTheReceiverDoes) {
  std::string text = kIncast;
  text.replace(text.find("lb: ecmp"), std::string("lb: ecmp").size(),
               "lb: ecmp, pipelines: [ { switch: leaf1, pipeline: [parse, rdma_track: { max_qps: 64, pairing: off }, "
               "telemetry, pnp: { remote: [10.0.0.0/21], telemetry: true }, l3, lb: { policy: ecmp }] } ]");
  const auto report = run_text(text, {{"nic.cc", "{kind: hpcc, near_rtt_us: 4}"}});
  const auto& found = report["summary"];
  EXPECT_TRUE(found["complete"].get<bool>());
  EXPECT_EQ(found["pfc_pauses"], 0);
  const auto& pnp = found["stages"]["pnp"];
  EXPECT_EQ(pnp["records_taken"].get<int>(), found["packets"].get<int>() * 4 / 7) << "of seven senders";
  EXPECT_GT(pnp["mirrors_sent"].get<int>(), 100);
  EXPECT_LT(pnp["mirrors_sent"].get<int>(), pnp["records_taken"].get<int>() / 2);
  EXPECT_EQ(pnp["no_buffer"], 0);
  EXPECT_EQ(pnp["unknown_qp"], 0);
  EXPECT_LT(found["completion_ms"].get<double>(), 1.2 * summary(kIncast, "kind: hpcc")["completion_ms"].get<double>());
}

// Long-haul THEMIS where no CNPs are heeded (section VIII of its paper): what the stages have to go by.
nlohmann::ordered_json with_stage(const std::string& leaf, const std::string& stage, const std::string& cc) {
  std::string text = kIncast;
  text.replace(text.find("lb: ecmp"), std::string("lb: ecmp").size(),
               "lb: ecmp, pipelines: [ { switch: " + leaf +
                   ", pipeline: [parse, rdma_track: { max_qps: 64, pairing: off }, " + stage +
                   ", l3, lb: { policy: ecmp }] } ]");
  const auto report = run_text(text, {{"nic.cc", "{" + cc + "}"}});
  EXPECT_TRUE(report["summary"]["complete"].get<bool>()) << stage;
  EXPECT_EQ(report["summary"]["drops"], 0) << stage;
  return report["summary"];
}

TEST(RttEcho, SendersLearnTheRoundTripToTheirOwnSwitch) {
  for (const std::string cc : {"kind: timely, near_echo: 1", "kind: swift, near_target_us: 20"}) {
    const auto found = with_stage("leaf1", "pnp: { remote: [10.0.0.0/21], rtt_echo: true }", cc);
    const auto& pnp = found["stages"]["pnp"];
    EXPECT_GT(pnp["echoes_sent"].get<int>(), 100) << cc;
    EXPECT_LT(pnp["echoes_sent"].get<int>(), found["packets"].get<int>() * 4 / 7)
        << "four of seven senders ask, " << cc;
    EXPECT_EQ(pnp["no_buffer"], 0) << cc;
    EXPECT_EQ(pnp["unknown_qp"], 0) << cc;
    EXPECT_EQ(found["pfc_pauses"], 0) << cc;
  }
}

// Annulus: four of seven senders share the uplink of their ToR, which tells them how congested it is. What a CNP does
// that does not say so is the same with the near loop and without.
TEST(Annulus, SendersSlowDownByHowCongestedTheirOwnSwitchIs) {
  const std::string pnp = "pnp: { remote: [10.0.0.0/21], trigger: qcn, cnp_interval_us: 0";
  const auto heard = with_stage("leaf1", pnp + " }", "kind: dcqcn, near_qcn: 1");
  const auto deaf = with_stage("leaf1", pnp + " }", "kind: dcqcn");
  const auto silent = with_stage("leaf1", pnp + ", qcn_feedback: false }", "kind: dcqcn, near_qcn: 1");
  for (const auto& found : {heard, deaf, silent}) {
    EXPECT_GT(found["stages"]["pnp"]["cnps_sent"].get<int>(), 20);
    EXPECT_EQ(found["stages"]["pnp"]["no_buffer"], 0);
    EXPECT_EQ(found["stages"]["pnp"]["unknown_qp"], 0);
  }
  EXPECT_EQ(silent["completion_ms"], deaf["completion_ms"]);
  EXPECT_EQ(silent["stages"]["pnp"], deaf["stages"]["pnp"]);
  // DCQCN halves its rate for the first CNP, however short the queue, and waits long before it comes back.
  EXPECT_LT(heard["stages"]["pnp"]["cnps_sent"].get<int>(), deaf["stages"]["pnp"]["cnps_sent"].get<int>() / 2);
  EXPECT_LT(heard["ecn_marks"].get<int>(), deaf["ecn_marks"].get<int>() / 2);
  EXPECT_LT(heard["completion_ms"].get<double>(), 0.9 * deaf["completion_ms"].get<double>());
}

// BiCC: what is under way to the receiver of an incast is bounded at the leaf that all but its own rack come through,
// and the rest waits there.
TEST(Bicc, AnIncastWaitsAtTheEdge) {
  const auto found = with_stage("leaf0", "bicc: { remote: [10.0.8.0/21], in_flight_kb: 40 }", "kind: dcqcn");
  const auto& bicc = found["stages"]["bicc"];
  EXPECT_GT(bicc["packets_held"].get<int>(), 100);
  EXPECT_EQ(bicc["unknown_qp"], 0);
  EXPECT_EQ(bicc["flushed"], 0);
  EXPECT_EQ(bicc["written_off"], 0);
  EXPECT_EQ(bicc["held_bytes"], 0);
  EXPECT_EQ(found["nacks_sent"], 0);
}

// The queue to the receiver is behind its leaf, and tells so whichever way the RNICs find rates.
TEST(Trp, TheEdgeOfTheReceiverSeesCongestionWithoutCnps) {
  for (const auto& [signals, cc] : {std::pair{"signals: [telemetry], signal_queue_kb: 50", "kind: hpcc"},
                                    std::pair{"signals: [rtt], signal_rtt_us: 20", "kind: timely"}}) {
    const auto found = with_stage("leaf0", std::string("trp: { remote: [10.0.8.0/21], ") + signals + " }", cc);
    const auto& trp = found["stages"]["trp"];
    EXPECT_GT(trp["signals_seen"].get<int>(), 4) << cc;
    EXPECT_EQ(trp["cnps_seen"], 0) << cc;
    EXPECT_GE(trp["flows_throttled"].get<int>(), 4) << cc;
    EXPECT_GT(trp["packets_held"].get<int>(), 10) << cc;
    EXPECT_EQ(found["nacks_sent"], 0) << cc;
  }
}

}  // namespace
}  // namespace weft::sim
