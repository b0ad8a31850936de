// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Receivers that keep no early packets, behind switches that spray and filter NACKs.
#include <gtest/gtest.h>

#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

// Two paths, one of them longer: what is sprayed is overtaken for certain.
const std::string kUnequalPaths = R"(
topology:
  kind: explicit
  link_gbps: 100
  delay_ns: 1000
  switches: [a, short, long, b]
  hosts: [{ name: x, switch: a }, { name: y, switch: b }]
  links: [{ a: a, b: short }, { a: a, b: long, delay_ns: 20000 }, { a: short, b: b }, { a: long, b: b }]
switch: { lb: psn, nack_filter: { guard_us: 200 } }
nic: { transport: gbn, rto_us: 500, cc: { kind: none } }
workload: { kind: ring, bytes: 16000000 }
)";

double milliseconds(const nlohmann::ordered_json& report) {
  EXPECT_TRUE(report["summary"]["complete"].get<bool>());
  return report["summary"]["completion_ms"].get<double>();
}

std::uint64_t found(const nlohmann::ordered_json& report) {
  return report["summary"]["stages"]["nack_filter"]["receivers_in_order"].get<std::uint64_t>();
}

TEST(GoBackN, IsFoundOutAndTakesOnePath) {
  const auto ecmp = run_text(kUnequalPaths, {{"switch.lb", "ecmp"}});
  const auto sighted = run_text(kUnequalPaths);
  EXPECT_EQ(found(sighted), 2u);
  EXPECT_LT(milliseconds(sighted), 2 * milliseconds(ecmp));
}

TEST(GoBackN, CrawlsWhereNobodyLooksForIt) {
  const Override few{"workload.bytes", "1000000"};
  const auto sighted = run_text(kUnequalPaths, {few});
  const auto blind = run_text(kUnequalPaths, {few, {"switch.nack_filter", "{guard_us: 200, detect_gbn: false}"}});
  EXPECT_EQ(found(blind), 0u);
  EXPECT_GT(milliseconds(blind), 10 * milliseconds(sighted));
}

// What does keep early packets is never taken for it, whatever is lost.
TEST(GoBackN, NobodyElseIsTakenForIt) {
  for (const char* transport : {"nic_sr", "irn"}) {
    for (const char* faults : {"[]", "[{loss: 0.001}]", "[{loss: 0.02}]"}) {
      SCOPED_TRACE(std::string(transport) + " " + faults);
      for (const char* seed : {"1", "2", "3"}) {
        const auto report =
            run_text(kUnequalPaths,
                     {{"nic.transport", transport}, {"faults", faults}, {"seed", seed}, {"workload.bytes", "4000000"}});
        EXPECT_EQ(found(report), 0u);
        EXPECT_TRUE(report["summary"]["complete"].get<bool>());
      }
    }
  }
}

}  // namespace
}  // namespace weft::sim
