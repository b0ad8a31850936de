// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/stage.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "switch/base/time.h"
#include "switch/stages/impair/drops.h"
#include "switch/stages/l2/stage.h"
#include "switch/wire/builder.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/support/parsed.h"
#include "tests/switch/stages/nack_filter/crossover.h"

namespace weft::stages {
namespace {

using pipeline::DropReason;
using testing::Bytes;
using testing::Crossover;
using testing::Harness;
using testing::parsed_of;
using wire::FrameBuilder;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

Bytes roce(std::uint32_t psn, std::uint32_t qp = 17, std::size_t payload = 64) {
  return FrameBuilder().bth(Opcode::RC_RDMA_WRITE_MIDDLE, Qpn(qp), Psn(psn)).payload(payload).build();
}

std::vector<Bytes> burst_of(std::uint32_t count, std::size_t payload = 64) {
  std::vector<Bytes> out;
  for (std::uint32_t psn = 0; psn < count; ++psn) out.push_back(roce(psn, 17, payload));
  return out;
}

std::uint32_t psn_of(const testing::SentFrame& f) {
  return parsed_of(f.bytes).psn.value();
}

std::size_t bits_that_differ(const Bytes& a, const Bytes& b) {
  std::size_t bits = a.size() == b.size() ? 0 : 1'000'000;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    bits += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(a[i] ^ b[i])));
  }
  return bits;
}

class Switch {
 public:
  explicit Switch(const std::string& rules, const std::string& more = "", testing::HarnessOptions options = {})
      : registry(testing::crossover_registry()),
        h(registry,
          testing::crossover_yaml("  - parse\n  - impair: { rules: [" + rules + "]" +
                                  (more.empty() ? "" : ", " + more) + " }"),
          options) {}

  std::vector<std::uint32_t> psns(const std::string& port = "p2") {
    std::vector<std::uint32_t> out;
    for (const auto& frame : h.take(port)) out.push_back(psn_of(frame));
    return out;
  }
  std::uint64_t counter(const std::string& name) const { return h.counter("impair", name); }

  pipeline::Registry registry;
  Harness h;
};

using Psns = std::vector<std::uint32_t>;

// --- exact rules -------------------------------------------------------------------------------------------------

// Sends PSNs 0 to 9 of QP 17 three times and expects that only the first copy of PSN 5 is missing.
void expect_only_the_first_psn_5_lost(Switch& s) {
  for (int round = 0; round < 3; ++round) {
    s.h.inject("p1", burst_of(10));
    const Psns expected = round == 0 ? Psns{0, 1, 2, 3, 4, 6, 7, 8, 9} : Psns{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    EXPECT_EQ(s.psns(), expected) << "round " << round;
  }
}

TEST(ImpairStage, DropsTheFirstPacketWithThePsnAndLetsTheRetransmissionPass) {
  Switch s("{ match: { dest_qp: 17, psn: 5 }, nth: 1, loss: 1 }");
  expect_only_the_first_psn_5_lost(s);
  EXPECT_EQ(s.h.dropped(ImpairDrop::impair_loss), 1u);
  EXPECT_EQ(s.counter("lost"), 1u);
}

// Canary: the same expectation must fail when the stage does nothing. Otherwise the test above proves nothing.
TEST(ImpairStage, TheExpectationOfALossFailsWhenNothingIsLost) {
  static Switch* s = nullptr;
  Switch idle("");
  s = &idle;
  EXPECT_NONFATAL_FAILURE(expect_only_the_first_psn_5_lost(*s), "round 0");
}

TEST(ImpairStage, RulesOfOnePortLeaveTheOtherAlone) {
  Switch s("{ match: { ports: [p1] }, loss: 1 }");
  s.h.inject("p1", burst_of(3));
  s.h.inject("p2", burst_of(3));
  EXPECT_TRUE(s.psns("p2").empty());
  EXPECT_EQ(s.psns("p1"), (Psns{0, 1, 2}));
}

TEST(ImpairStage, BehindTheBridgeRulesCanNameTheEgressPort) {
  pipeline::Registry registry;
  registry.add(parse_stage_type());
  registry.add(impair_stage_type());
  registry.add(l2_stage_type());
  Harness h(registry, R"(
name: tor
ports: [{ name: p1, type: "null" }, { name: p2, type: "null" }, { name: p3, type: "null" }]
pipeline:
  - parse
  - l2
  - impair: { rules: [{ match: { out_ports: [p2] }, delay_us: 3 }] }
)");
  const auto mac = [](std::uint64_t host) { return wire::MacAddress::from_u64(0x020000000000 + host); };
  const auto frame = [&](std::uint64_t from, std::uint64_t to) {
    return FrameBuilder().eth(mac(from), mac(to)).udp(1, 2).payload(50).build();
  };
  for (std::uint64_t host = 1; host <= 3; ++host) h.inject("p" + std::to_string(host), frame(host, host % 3 + 1));
  h.advance_ns(10 * kUs);
  for (const char* port : {"p1", "p2", "p3"}) static_cast<void>(h.take(port));

  h.inject("p1", {frame(1, 2), frame(1, 3)});
  EXPECT_EQ(h.held(), 1u);
  EXPECT_EQ(h.take("p3").size(), 1u);
  h.advance_ns(3 * kUs);
  EXPECT_EQ(h.take("p2").size(), 1u);
}

TEST(ImpairStage, DoesNothingWithoutRules) {
  Switch s("");
  s.h.inject("p1", burst_of(64));
  EXPECT_EQ(s.psns().size(), 64u);
  EXPECT_EQ(s.h.held(), 0u);
}

TEST(ImpairStage, EqualSeedsGiveEqualTracesAndOthersDoNot) {
  const auto trace = [](std::uint64_t seed) {
    Switch s(
        "{ loss: 0.2, duplicate: 0.2, corrupt: 0.1, delay_us: 3, jitter_us: 3, reorder: { ratio: 0.1, gap_us: 9 } }",
        "", {.seed = seed});
    std::vector<std::pair<TimeNs, Bytes>> out;
    for (int i = 0; i < 20; ++i) {
      s.h.inject("p1", burst_of(32));
      s.h.advance_ns(5 * kUs);
    }
    s.h.advance_ns(100 * kUs);
    for (auto& frame : s.h.take("p2")) out.emplace_back(frame.at, std::move(frame.bytes));
    return out;
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

// --- time --------------------------------------------------------------------------------------------------------

TEST(ImpairStage, DelayedPacketsLeaveExactlyInTime) {
  Switch s("{ delay_us: 12.5 }");
  const TimeNs start = s.h.now();
  s.h.inject("p1", burst_of(3));
  EXPECT_EQ(s.h.held(), 3u);
  EXPECT_EQ(s.h.pipeline().next_deadline(), start + 12'500);
  s.h.advance_ns(12'499);
  EXPECT_TRUE(s.h.take("p2").empty());
  s.h.advance_ns(1'000'000);
  const auto out = s.h.take("p2");
  ASSERT_EQ(out.size(), 3u);
  for (const auto& frame : out) EXPECT_EQ(frame.at, start + 12'500);
  EXPECT_EQ(s.counter("delayed"), 3u);
}

TEST(ImpairStage, JitterKeepsTheOrderUnlessToldOtherwise) {
  for (const bool keep : {true, false}) {
    Switch s(std::string("{ delay_us: 10, jitter_us: 10, keep_order: ") + (keep ? "true" : "false") + " }");
    for (std::uint32_t psn = 0; psn < 300; ++psn) {
      s.h.inject("p1", roce(psn));
      s.h.advance_ns(100);
    }
    s.h.advance_ns(20 * kUs);
    const Psns out = s.psns();
    ASSERT_EQ(out.size(), 300u);
    EXPECT_EQ(std::is_sorted(out.begin(), out.end()), keep);
  }
}

TEST(ImpairStage, AReorderedPacketIsOvertakenByThoseOfTheGap) {
  Switch s("{ nth: 2, reorder: { ratio: 1, gap_us: 2.5 } }");
  for (std::uint32_t psn = 0; psn < 8; ++psn) {
    s.h.inject("p1", roce(psn));
    s.h.advance_ns(kUs);
  }
  EXPECT_EQ(s.psns(), (Psns{0, 2, 3, 1, 4, 5, 6, 7}));
  EXPECT_EQ(s.counter("reordered"), 1u);
  EXPECT_EQ(s.counter("delayed"), 0u);
}

// The worker comes back late: with a packet, and before it has looked at its timers.
void receive_late(Switch& s, TimeNs late, const Bytes& frame) {
  rte_mbuf* m = rte_pktmbuf_alloc(s.h.pool());
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
  s.h.pipeline().receive(s.h.now() + late, 0, &m, 1);
}

TEST(ImpairStage, PacketsThatAreDueGoBeforeThoseThatArriveEvenWhenTheTimerIsLate) {
  Switch s("{ match: { psn: { first: 100, last: 200 } }, delay_us: 1 }");
  s.h.inject("p1", {roce(100), roce(101)});
  receive_late(s, 5 * kUs, roce(0));
  s.h.advance_ns(5 * kUs);
  EXPECT_EQ(s.psns(), (Psns{100, 101, 0}));
}

TEST(ImpairStage, RateLetsPacketsOutAtTheirPace) {
  // Frames of 126 bytes at 1008 Mbit/s: one a microsecond, after a burst of 8 (1024 bytes).
  Switch s("{ rate_mbps: 1008, burst_kb: 1, queue_kb: 64 }");
  const TimeNs start = s.h.now();
  s.h.inject("p1", burst_of(40, 68));
  s.h.advance_ns(100 * kUs);
  const auto out = s.h.take("p2");
  ASSERT_EQ(out.size(), 40u);
  ASSERT_EQ(out[0].bytes.size(), 126u);
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(psn_of(out[i]), i);
    const std::uint64_t millibits = (i + 1) * 126 * 8000;
    const std::uint64_t excess = millibits > 1024 * 8000 ? millibits - 1024 * 8000 : 0;
    EXPECT_EQ(out[i].at, start + (excess + 1007) / 1008) << i;
  }
}

TEST(ImpairStage, ExcessIsDroppedWhenTold) {
  Switch s("{ rate_mbps: 8, burst_kb: 5, excess: drop }");
  s.h.inject("p1", burst_of(60, 68));
  EXPECT_EQ(s.psns().size(), 40u);  // 5120 / 126
  EXPECT_EQ(s.h.dropped(ImpairDrop::impair_rate), 20u);
  EXPECT_EQ(s.counter("limited"), 20u);
}

TEST(ImpairStage, HoldsNoMorePacketsThanItMay) {
  Switch s("{ delay_us: 5 }", "max_held: 10");
  s.h.inject("p1", burst_of(25));
  EXPECT_EQ(s.h.held(), 10u);
  EXPECT_EQ(s.h.dropped(ImpairDrop::impair_queue_full), 15u);
  EXPECT_EQ(s.counter("delayed"), 10u);
  s.h.advance_ns(5 * kUs);
  EXPECT_EQ(s.psns(), (Psns{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ImpairStage, ReleasesMorePacketsAtOnceThanABurstHolds) {
  Switch s("{ delay_us: 5 }");
  for (int i = 0; i < 4; ++i) s.h.inject("p1", burst_of(64));
  s.h.advance_ns(5 * kUs);
  EXPECT_EQ(s.psns().size(), 256u);
}

// The queue of a port holds 1024 packets, and a port sends a burst per round.
TEST(ImpairStage, AfterAPausePacketsLeaveInOrderAndNoFasterThanAPortSends) {
  Switch s("{ match: { psn: { first: 0, last: 9999 } }, delay_us: 5 }");
  Psns expected;
  for (std::uint32_t psn = 0; psn < 1500; ++psn) {
    s.h.inject("p1", roce(psn));
    expected.push_back(psn);
  }
  for (std::uint32_t psn = 10'000; psn < 10'008; ++psn) {
    receive_late(s, 9 * kUs, roce(psn));
    expected.push_back(psn);
  }
  s.h.advance_ns(9 * kUs);
  EXPECT_EQ(s.psns(), expected);
  EXPECT_EQ(s.h.dropped(DropReason::egress_queue_full), 0u);
}

TEST(ImpairStage, FlushLetsHeldPacketsGoInOrder) {
  Switch s("{ match: { psn: 0 }, delay_us: 50 }, { delay_us: 20 }");
  s.h.inject("p1", burst_of(3));
  s.h.pipeline().flush_stages(s.h.now());
  EXPECT_EQ(s.counter("delayed"), 3u);
  s.h.advance_ns(0);
  EXPECT_EQ(s.h.held(), 0u);
  EXPECT_EQ(s.psns(), (Psns{1, 2, 0}));
}

// --- copies ------------------------------------------------------------------------------------------------------

TEST(ImpairStage, ACopyLeavesRightBehindItsPacket) {
  Switch s("{ match: { psn: { first: 1, last: 2 } }, duplicate: 1 }");
  s.h.inject("p1", burst_of(4));
  EXPECT_EQ(s.psns(), (Psns{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(s.h.totals().replicated.value(), 2u);
  EXPECT_EQ(s.counter("duplicated"), 2u);
}

TEST(ImpairStage, AFullBurstOfCopiesKeepsItsOrder) {
  for (const std::size_t payload : {64, 1500, 4096}) {
    Switch s("{ duplicate: 1 }, { duplicate: 1 }");
    const auto burst = burst_of(64, payload);
    s.h.inject("p1", burst);
    const auto out = s.h.take("p2");
    ASSERT_EQ(out.size(), 256u);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i].bytes, burst[i / 4]) << i;
  }
}

TEST(ImpairStage, OnePacketMakesABoundedNumberOfCopies) {
  Switch s(
      "{ duplicate: 1 }, { duplicate: 1 }, { duplicate: 1 }, { duplicate: 1 }, { duplicate: 1 }, { duplicate: 1 }");
  s.h.inject("p1", roce(1));
  EXPECT_EQ(s.h.take("p2").size(), 16u);
  EXPECT_GT(s.counter("not_duplicated"), 0u);
}

TEST(ImpairStage, ALostPacketMayLeaveACopyBehind) {
  Switch s("{ duplicate: 1 }, { nth: 1, loss: 1 }");
  s.h.inject("p1", {roce(1)});
  EXPECT_EQ(s.psns(), (Psns{1}));
  EXPECT_EQ(s.h.dropped(ImpairDrop::impair_loss), 1u);
}

TEST(ImpairStage, WithoutBuffersThereAreNoCopiesAndThePacketPasses) {
  Switch s("{ duplicate: 1 }", "", {.buffers = 8});
  s.h.inject("p1", burst_of(8));
  EXPECT_EQ(s.psns().size(), 8u);
  EXPECT_EQ(s.counter("not_duplicated"), 8u);
  EXPECT_EQ(s.counter("duplicated"), 0u);
}

// --- corruption --------------------------------------------------------------------------------------------------

TEST(ImpairStage, CorruptionFlipsOneBitAndMakesTheIcrcWrong) {
  for (const std::string where : {"any", "header", "payload", "icrc"}) {
    for (const std::size_t payload : {64, 1500, 4096}) {
      Switch s("{ corrupt: { ratio: 1, where: " + where + " } }");
      const Bytes good = roce(5, 17, payload);
      const wire::RoceLayout layout = wire::roce_layout(good.data(), parsed_of(good));
      for (int i = 0; i < 100; ++i) s.h.inject("p1", good);
      const auto out = s.h.take("p2");
      ASSERT_EQ(out.size(), 100u);
      for (const auto& frame : out) {
        ASSERT_EQ(bits_that_differ(good, frame.bytes), 1u) << where;
        const std::uint8_t* data = frame.bytes.data();
        ASSERT_NE(wire::icrc_full(data, layout), wire::load_icrc(data + layout.icrc)) << where;
      }
      EXPECT_EQ(s.counter("corrupted"), 100u);
    }
  }
}

TEST(ImpairStage, CorruptionLeavesTheSharedBytesOfACopyAlone) {
  // The copy shares the payload; of each pair of packets that reach the second rule, one is corrupted.
  for (const std::string which : {"every: 2", "every: 2, after: 1"}) {
    Switch s("{ duplicate: 1 }, { " + which + ", corrupt: { ratio: 1, where: payload } }");
    const Bytes good = roce(5, 17, 4096);
    std::size_t whole = 0;
    // From both sides in turn: a packet that was replaced by a copy still leaves on the other side.
    for (int i = 0; i < 20; ++i) {
      s.h.inject(i % 2 == 0 ? "p1" : "p2", good);
      const auto out = s.h.take(i % 2 == 0 ? "p2" : "p1");
      ASSERT_EQ(out.size(), 2u);
      for (const auto& frame : out) {
        const std::size_t bits = bits_that_differ(good, frame.bytes);
        ASSERT_LE(bits, 1u);
        whole += bits == 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(whole, 40 - s.counter("corrupted"));
    EXPECT_GE(s.counter("corrupted"), 19u);
  }
}

TEST(ImpairStage, CorruptionWithoutABufferForAnOwnCopyDropsThePacket) {
  // One buffer holds the packet, three its copy; none is left for payload bytes of the packet's own.
  Switch s("{ duplicate: 1 }, { nth: 1, corrupt: { ratio: 1, where: payload } }", "",
           {.data_room_bytes = 4300 + 128, .buffers = 4});
  s.h.inject("p1", roce(5, 17, 4096));
  EXPECT_EQ(s.h.dropped(DropReason::out_of_mbufs), 1u);
  const auto out = s.h.take("p2");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].bytes, roce(5, 17, 4096));
}

TEST(ImpairStage, LaterStagesSeeTheHeadersThatWereCorrupted) {
  Switch s("{ corrupt: { ratio: 1, where: header } }");
  for (int i = 0; i < 300; ++i) s.h.inject("p1", roce(5));
  const auto out = s.h.take("p2");
  const auto& seen = s.h.stage<Crossover>("crossover").seen;
  ASSERT_EQ(out.size(), 300u);
  ASSERT_EQ(seen.size(), 300u);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const wire::Parsed expected = parsed_of(out[i].bytes);
    ASSERT_EQ(std::memcmp(&expected, &seen[i], sizeof expected), 0) << i;
    changed += expected.psn != Psn(5) || expected.dest_qp != Qpn(17) ? 1 : 0;
  }
  EXPECT_GT(changed, 0u);
}

TEST(ImpairStage, ALaterRuleSeesTheHeadersThatWereCorrupted) {
  Switch s("{ corrupt: { ratio: 1, where: header } }, { match: { dest_qp: 17, psn: 5 }, loss: 1 }");
  for (int i = 0; i < 300; ++i) s.h.inject("p1", roce(5));
  for (const auto& frame : s.h.take("p2")) {
    const wire::Parsed p = parsed_of(frame.bytes);
    EXPECT_TRUE(p.kind != wire::FrameKind::roce || p.dest_qp != Qpn(17) || p.psn != Psn(5));
  }
  EXPECT_GT(s.h.dropped(ImpairDrop::impair_loss), 100u);
  EXPECT_LT(s.h.dropped(ImpairDrop::impair_loss), 300u);
}

// --- rules at run time, table ------------------------------------------------------------------------------------

TEST(ImpairStage, NewRulesHoldForNewPacketsAndLetHeldOnesGo) {
  Switch s("{ delay_us: 5 }, { loss: 1 }");
  s.h.inject("p1", roce(1));
  // The second one would take the held packet, which had come past the first of the old rules.
  ImpairRule first;
  first.match.psn(Psn(2), Psn(2));
  first.loss = Ratio::from_double(1);
  ImpairRule second;
  second.match.psn(Psn(1), Psn(1));
  second.loss = Ratio::from_double(1);
  ImpairRule third;
  ImpairUnit rules({first, second, third});
  auto& stage = s.h.stage<ImpairStage>("impair");
  stage.set_rules(rules);
  EXPECT_EQ(rules.size(), 2u) << "the old rules come back";
  EXPECT_EQ(stage.rules().size(), 3u);
  s.h.inject("p1", {roce(2), roce(3)});
  EXPECT_EQ(s.psns(), (Psns{3}));
  s.h.advance_ns(5 * kUs);
  EXPECT_EQ(s.psns(), (Psns{1}));
}

TEST(ImpairStage, TheTableShowsWhatEachRuleDid) {
  Switch s(
      "{ name: fifth, match: { psn: 5 }, loss: 1 }, { match: { psn: 6 }, duplicate: 1, delay_us: 1 }, "
      "{ match: { psn: 7 }, corrupt: 1 }, { match: { psn: 8 }, reorder: { ratio: 1, gap_us: 1 } }, "
      "{ match: { psn: 9 }, rate_mbps: 1, burst_kb: 5, excess: drop }");
  s.h.inject("p1", burst_of(10));
  for (int i = 0; i < 60; ++i) s.h.inject("p1", roce(9));
  s.h.advance_ns(10 * kUs);
  const auto row = [](int rule, const char* name, int matched, int lost, int duplicated, int delayed, int reordered,
                      int corrupted, int limited) {
    return nlohmann::ordered_json{{"rule", rule},
                                  {"name", name},
                                  {"matched", matched},
                                  {"lost", lost},
                                  {"duplicated", duplicated},
                                  {"delayed", delayed},
                                  {"reordered", reordered},
                                  {"corrupted", corrupted},
                                  {"limited", limited}};
  };
  EXPECT_EQ(s.h.rows("impair"),
            (nlohmann::ordered_json{row(0, "fifth", 1, 1, 0, 0, 0, 0, 0), row(1, "rule1", 1, 0, 1, 2, 0, 0, 0),
                                    row(2, "rule2", 1, 0, 0, 0, 0, 1, 0), row(3, "rule3", 1, 0, 0, 0, 1, 0, 0),
                                    row(4, "rule4", 61, 0, 0, 0, 0, 0, 61 - 41)}));
}

TEST(ImpairStage, TheTableCanBeReadInPieces) {
  Switch s("{ loss: 0 }, { loss: 0 }, { loss: 0 }");
  const auto& stage = s.h.stage<ImpairStage>("impair");
  std::uint64_t cursor = 0;
  EXPECT_EQ(stage.rows("impair", cursor, 2).size(), 2u);
  EXPECT_EQ(cursor, 2u);
  EXPECT_EQ(stage.rows("impair", cursor, 2).size(), 1u);
  EXPECT_EQ(cursor, pipeline::StageShared::kEnd);
}

// Everything at once, over chained and plain packets: the harness asserts conservation and that no buffer leaked.
TEST(ImpairStage, NoPacketIsLostSightOfUnderAMixtureOfFaults) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Switch s(
        "{ loss: 0.05, corrupt: 0.3, duplicate: 0.3, delay_us: 4, jitter_us: 4, keep_order: false }, "
        "{ burst_loss: { p: 0.1, r: 0.3 }, rate_mbps: 20000, burst_kb: 8, queue_kb: 64, duplicate: 0.1 }, "
        "{ corrupt: 0.2, reorder: { ratio: 0.2, gap_us: 7 } }",
        "max_held: 100", {.seed = seed});
    Rng rng(seed);
    for (int i = 0; i < 200; ++i) {
      std::vector<Bytes> burst;
      for (std::uint64_t n = 1 + rng.below(64); n > 0; --n) {
        burst.push_back(roce(static_cast<std::uint32_t>(n), 17, 1 + rng.below(4096)));
      }
      s.h.inject("p1", burst);
      s.h.expect_conservation();
      ASSERT_LE(s.h.held(), 100u);
      s.h.advance_ns(rng.below(5000));
      static_cast<void>(s.h.take("p2"));
    }
    for (const char* name : {"lost", "limited", "corrupted", "duplicated", "delayed", "reordered"}) {
      EXPECT_GT(s.counter(name), 0u) << name;
    }
    EXPECT_GT(s.h.dropped(ImpairDrop::impair_queue_full), 0u);
  }
}

}  // namespace
}  // namespace weft::stages
