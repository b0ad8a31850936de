// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/config.h"

#include <gtest/gtest.h>

#include <string>

#include "switch/config/config.h"
#include "switch/stages/stages.h"
#include "tests/switch/stages/impair/packets.h"

namespace weft::stages {
namespace {

// A switch with the impair stage before or behind l2.
std::string yaml_with(const std::string& impair, bool behind = false) {
  const std::string stage = "  - impair: " + impair + "\n";
  return std::string(R"(name: tor
ports:
  - { name: p1, type: "null" }
  - { name: p2, type: "null", mtu_bytes: 9000 }
pipeline:
  - parse
)") + (behind ? "  - l2\n" + stage : stage + "  - l2\n");
}

struct Loaded {
  std::vector<ImpairRule> rules;
  std::string mistakes;
};

Loaded load(const std::string& impair, bool behind = false) {
  pipeline::Registry registry;
  register_all(registry);
  config::Diagnostics diagnostics;
  const auto info = config::load_switch(yaml_with(impair, behind), registry, diagnostics);
  Loaded out{{}, diagnostics.to_string()};
  if (!info) return out;
  for (const auto& stage : info->pipeline) {
    if (stage.name == "impair") out.rules = make_impair_rules(stage.options, *info);
  }
  return out;
}

ImpairRule rule_of(const std::string& rule) {
  Loaded loaded = load("{ rules: [" + rule + "] }");
  EXPECT_EQ(loaded.mistakes, "");
  return loaded.rules.empty() ? ImpairRule{} : loaded.rules.front();
}

void expect_mistake(const std::string& rule, const std::string& text, bool behind = false) {
  const Loaded loaded = load("{ rules: [" + rule + "] }", behind);
  EXPECT_NE(loaded.mistakes.find(text), std::string::npos) << "found: " << loaded.mistakes;
  EXPECT_NE(loaded.mistakes.find(behind ? ":8:" : ":7:"), std::string::npos) << "no position: " << loaded.mistakes;
}

bool matches(const ImpairRule& rule, const wire::FrameBuilder& frame) {
  return rule.match.matches(TestPacket(frame).fields());
}

TEST(ImpairConfig, HasNoRulesByDefault) {
  const Loaded loaded = load("{}");
  EXPECT_EQ(loaded.mistakes, "");
  EXPECT_TRUE(loaded.rules.empty());
}

TEST(ImpairConfig, ReadsTimesRatesAndCounts) {
  const ImpairRule rule = rule_of(
      "{ name: slow, after: 7, nth: 2, every: 3, limit: 4, delay_us: 1.5, jitter_us: 0.25, keep_order: false, "
      "reorder: { ratio: 1, gap_us: 10 }, rate_mbps: 100, burst_kb: 2, queue_kb: 3 }");
  EXPECT_EQ(rule.name, "slow");
  EXPECT_EQ(rule.after, 7u);
  EXPECT_EQ(rule.nth, 2u);
  EXPECT_EQ(rule.every, 3u);
  EXPECT_EQ(rule.limit, 4u);
  EXPECT_EQ(rule.delay_ns, 1500u);
  EXPECT_EQ(rule.jitter_ns, 250u);
  EXPECT_FALSE(rule.keep_order);
  EXPECT_FALSE(rule.reorder.zero());
  EXPECT_EQ(rule.reorder_gap_ns, 10'000u);
  EXPECT_EQ(rule.rate_mbps, 100u);
  EXPECT_EQ(rule.burst_bytes, 2048u);
  EXPECT_EQ(rule.queue_bytes, 3072u);
}

TEST(ImpairConfig, ARuleWithoutActionsDoesNothing) {
  const ImpairRule rule = rule_of("{}");
  EXPECT_EQ(rule.name, "rule0");
  EXPECT_EQ(rule.every, 1u);
  EXPECT_EQ(rule.limit, ImpairRule::kNoLimit);
  EXPECT_TRUE(rule.loss.zero() && rule.corrupt.zero() && rule.duplicate.zero() && rule.reorder.zero());
  EXPECT_FALSE(rule.burst_loss.has_value());
  EXPECT_EQ(rule.rate_mbps + rule.delay_ns + rule.jitter_ns, 0u);
  EXPECT_TRUE(rule.keep_order);
}

TEST(ImpairConfig, ExcessThatIsDroppedHasNoQueue) {
  EXPECT_EQ(rule_of("{ rate_mbps: 1, excess: drop, queue_kb: 9 }").queue_bytes, 0u);
}

TEST(ImpairConfig, CorruptTakesARatioOrAMap) {
  EXPECT_EQ(rule_of("{ corrupt: 1 }").corrupt_where, CorruptWhere::any);
  EXPECT_FALSE(rule_of("{ corrupt: 1 }").corrupt.zero());
  const char* names[] = {"any", "header", "payload", "icrc"};
  const CorruptWhere places[] = {CorruptWhere::any, CorruptWhere::header, CorruptWhere::payload, CorruptWhere::icrc};
  for (std::size_t i = 0; i < 4; ++i) {
    const ImpairRule rule = rule_of(std::string("{ corrupt: { ratio: 0.5, where: ") + names[i] + " } }");
    EXPECT_EQ(rule.corrupt_where, places[i]);
    EXPECT_FALSE(rule.corrupt.zero());
  }
}

TEST(ImpairConfig, BurstLossLosesAllInBadTimesByDefault) {
  const ImpairRule rule = rule_of("{ burst_loss: { p: 1, r: 0 } }");
  ASSERT_TRUE(rule.burst_loss.has_value());
  GilbertElliott channel = *rule.burst_loss;
  Rng rng(1);
  EXPECT_FALSE(channel.on_packet(rng));
  EXPECT_TRUE(channel.on_packet(rng));
  EXPECT_TRUE(channel.on_packet(rng));
}

TEST(ImpairConfig, ReadsEveryConditionOfAMatch) {
  using wire::Psn;
  const auto ack = acknowledge(17, 5, wire::Syndrome::ack());
  const auto nak = acknowledge(17, 5, wire::Syndrome::nak(wire::NakCode::psn_sequence_error));
  const auto write = write_middle(17, 5).vlan(10).tos(46 << 2 | 3);
  struct Case {
    const char* match;
    wire::FrameBuilder yes, no;
  };
  const Case cases[] = {
      {"kind: arp", wire::FrameBuilder().arp(1, {}, {}, {}, {}), write},
      {"kind: [tcp, roce]", write, wire::FrameBuilder().udp(1, 2)},
      {"src: 10.0.0.0/24", write, write_middle(17, 5).ipv4("10.0.1.1", "10.0.0.2")},
      {"dst: 10.0.0.2/32", write, write_middle(17, 5).ipv4("10.0.0.1", "10.0.0.3")},
      {"dest_qp: 17", write, write_middle(18, 5)},
      {"opcode: RC_ACKNOWLEDGE", ack, write},
      {"opcode: [CNP, RC_RDMA_WRITE_MIDDLE]", write, ack},
      {"psn: 5", write, write_middle(17, 6)},
      {"psn: { first: 16777215, last: 5 }", write, write_middle(17, 6)},
      {"ecn: ce", write, write_middle(17, 5).tos(2)},
      {"ecn: [ect0, ect1]", write_middle(17, 5).tos(2), write},
      {"dscp: 46", write, write_middle(17, 5)},
      {"dscp: [0, 1]", write_middle(17, 5), write},
      {"vlan: 10", write, write_middle(17, 5)},
      {"ack: true", ack, write},
      {"ack: false", write, ack},
      {"aeth: nak", nak, ack},
      {"aeth: [ack, rnr_nak]", ack, nak},
  };
  for (const Case& c : cases) {
    const ImpairRule rule = rule_of(std::string("{ match: { ") + c.match + " } }");
    EXPECT_TRUE(matches(rule, c.yes)) << c.match;
    EXPECT_FALSE(matches(rule, c.no)) << c.match;
  }
}

TEST(ImpairConfig, PortsAreFoundByName) {
  const ImpairRule rule = rule_of("{ match: { ports: [p2] } }");
  TestPacket packet(write_middle(17, 5));
  packet.in_port = 1;
  EXPECT_TRUE(rule.match.matches(packet.fields()));
  packet.in_port = 0;
  EXPECT_FALSE(rule.match.matches(packet.fields()));
}

TEST(ImpairConfig, RefusesAnUnknownPort) {
  expect_mistake("{ match: { ports: [p3] } }", "unknown port 'p3'; did you mean 'p1'?");
  expect_mistake("{ match: { out_ports: [p3] } }", "unknown port 'p3'", true);
}

TEST(ImpairConfig, RefusesAnUnknownOpcodeOrKind) {
  expect_mistake("{ match: { opcode: RC_SEND_FRIST } }", "RC_SEND_FRIST");
  expect_mistake("{ match: { kind: rocee } }", "rocee");
}

TEST(ImpairConfig, RefusesJitterBeyondTheDelay) {
  expect_mistake("{ delay_us: 1, jitter_us: 1.5 }", "jitter_us is larger than delay_us");
}

TEST(ImpairConfig, RefusesABucketThatLargeFramesNeverPass) {
  expect_mistake("{ rate_mbps: 10, burst_kb: 8, excess: drop }", "largest frame of port 'p2'");
  static_cast<void>(rule_of("{ rate_mbps: 10, burst_kb: 8 }"));
  static_cast<void>(rule_of("{ rate_mbps: 10, burst_kb: 9, excess: drop }"));
}

TEST(ImpairConfig, RefusesOutPortsBeforeThePortIsChosen) {
  expect_mistake("{ match: { out_ports: [p1] } }", "out_ports needs stage 'impair' after 'l2': it may choose the port");
  const Loaded loaded = load("{ rules: [{ match: { out_ports: [p1] } }] }", true);
  EXPECT_EQ(loaded.mistakes, "");
  EXPECT_EQ(loaded.rules.size(), 1u);
}

TEST(ImpairConfig, RefusesRatiosBeyondOne) {
  expect_mistake("{ loss: 1.5 }", "loss");
  expect_mistake("{ duplicate: -0.1 }", "duplicate");
}

TEST(ImpairConfig, RefusesUnknownKeys) {
  expect_mistake("{ los: 1 }", "los");
}

}  // namespace
}  // namespace weft::stages
