// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Packets that carry values: nothing happens at another time than where payload is elided, and what arrives is right.
#include "tools/sim/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

const std::string kSixteen = R"(
topology: { kind: leaf_spine, leaves: 4, spines: 4, hosts_per_leaf: 4, link_gbps: 100, delay_ns: 1000 }
switch: { lb: random }
workload: { kind: ring, bytes: 100001, groups: 4 }
nic: { rto_us: 200 }
)";

std::vector<Override> with(std::vector<Override> how, const char* payload) {
  how.push_back({"payload", payload});
  return how;
}

TEST(Payload, ValuesArriveAsTheyWereSentAtTheTimesOfARunWithoutThem) {
  const std::vector<std::vector<Override>> runs{
      {},
      {{"nic.mtu", "4096"}, {"switch.lb", "psn"}, {"switch.nack_filter", "{guard_us: 100}"}},
      {{"nic.transport", "gbn"}, {"faults", "[{loss: 0.003}]"}},
      {{"nic.transport", "nic_sr"}, {"faults", "[{loss: 0.01}]"}},
      {{"nic.transport", "irn"}, {"faults", "[{loss: 0.01}]"}},
      {{"nic.transport", "ideal"}, {"faults", "[{loss: 0.01}]"}},
      {{"nic.mtu", "777"}, {"faults", "[{link: leaf0/spine1, down_at_us: 10, up_at_us: 30}]"}},
      {{"workload.kind", "alltoall"}, {"switch.buffer_mb", "1.2"}},
      {{"nic.ack_every", "4"}},
  };
  for (const auto& how : runs) {
    std::string what;
    for (const Override& o : how) what += o.key + "=" + o.value + " ";
    SCOPED_TRACE(what);
    std::uint64_t transfers = 0, icrc_errors = 0;
    const auto values = run_text(kSixteen, with(how, "values"), [&](Simulation& s) {
      transfers = s.experiment().plan.transfers.size();
      for (const auto& host : s.hosts()) icrc_errors += host->device().counters().icrc_errors;
    });
    const auto elided = run_text(kSixteen, with(how, "elided"));
    EXPECT_TRUE(values["summary"]["complete"].get<bool>());
    EXPECT_EQ(values["payload"]["messages_compared"], transfers);
    EXPECT_EQ(icrc_errors, 0u);
    EXPECT_FALSE(elided.contains("payload"));
    EXPECT_EQ(values["trace_hash"], elided["trace_hash"]);
    EXPECT_EQ(values["summary"], elided["summary"]);
  }
}

TEST(Payload, WhatWasCorruptedOnTheWayIsSentAgain) {
  std::uint64_t icrc_errors = 0;
  const auto report = run_text(R"(
topology: { kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2 }
switch:
  pipeline: [parse, { impair: { rules: [{ name: noise, match: { kind: roce, ack: false }, corrupt: 0.01 }] } }, l3, lb]
workload: { kind: ring, bytes: 1000000 }
nic: { rto_us: 200 }
payload: values
)",
                               {}, [&](Simulation& s) {
                                 for (const auto& host : s.hosts()) {
                                   icrc_errors += host->device().counters().icrc_errors;
                                 }
                               });
  EXPECT_TRUE(report["summary"]["complete"].get<bool>());
  EXPECT_GT(icrc_errors, 0u);
}

// A wrong byte fails the run, whether it is wrong when its message arrives or becomes so later.
TEST(Payload, AWrongByteIsNoticed) {
  Plan plan;
  plan.transfers = {{.from = 0, .to = 1, .bytes = 1000}, {.from = 1, .to = 0, .bytes = 500}};
  const RandomPayload source(7);
  for (const std::uint64_t at : {0u, 499u}) {
    PayloadMemory memory(plan, 2, source);
    std::vector<std::uint8_t> sent(500);
    source.fill(1, sent);
    for (std::uint64_t i = 0; i < sent.size(); ++i) memory.received(1, i) = sent[i];
    memory.check(1);
    EXPECT_EQ(memory.check_all(), "");
    memory.received(1, at) ^= 0x10;
    EXPECT_EQ(memory.check_all(),
              "transfer 1 from host 1 to host 0 has a wrong value at byte " + std::to_string(at) + " of 500");
  }
  PayloadMemory memory(plan, 2, source);
  memory.check(0);
  EXPECT_THAT(memory.check_all(), HasSubstr("transfer 0 from host 0 to host 1 has a wrong value at byte 0 of 1000"));
  EXPECT_EQ(memory.checked(), 1u);
}

void run_with_a_wrong_byte() {
  run_text(kSixteen, with({}, "values"), [](Simulation& s) { s.payload()->received(3, 77) ^= 1; });
}

TEST(Payload, ARunWithAWrongByteDoesNotSettle) {
  EXPECT_NONFATAL_FAILURE(run_with_a_wrong_byte(), "has a wrong value at byte 77");
}

TEST(Payload, TransfersPlacesAndSeedsDiffer) {
  std::vector<std::uint8_t> a(64), b(64), c(64);
  RandomPayload(1).fill(0, a);
  RandomPayload(1).fill(1, b);
  RandomPayload(2).fill(0, c);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_FALSE(std::equal(a.begin(), a.begin() + 32, a.begin() + 32));
}

TEST(Payload, WhatCannotCarryValuesIsRefused) {
  const auto mistake = [](const std::vector<Override>& how) {
    config::Diagnostics diagnostics;
    EXPECT_FALSE(load_experiment(kSixteen, "test.yaml", with(how, "values"), testing::all_stages(), diagnostics));
    return diagnostics.to_string();
  };
  EXPECT_THAT(mistake({{"nic.transport", "udp"}}), HasSubstr("payload: datagrams of 'nic.transport: udp'"));
  EXPECT_THAT(mistake({{"workload.bytes", "300000000"}}), HasSubstr("payload: 'values' keeps every message twice"));
}

}  // namespace
}  // namespace weft::sim
