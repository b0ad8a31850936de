// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Why a packet took its path, as every policy tells a trace.
#include <map>
#include <memory>
#include <regex>
#include <string>

#include "switch/pipeline/tap.h"
#include "tests/switch/stages/lb_tag/reporting.h"

namespace weft::stages::testing {
namespace {

// Follows every packet, and keeps what the stage said that chose its port.
class Listener final : public pipeline::Tracer {
 public:
  void received(TimeNs, pipeline::PortIndex, rte_mbuf* const*, std::uint16_t) noexcept override {}
  void sending(TimeNs, pipeline::PortIndex, rte_mbuf* const*, std::uint16_t) noexcept override {}
  void sent(std::uint16_t, std::uint16_t) noexcept override {}
  void dropped(TimeNs, const rte_mbuf*, pipeline::DropReason) noexcept override {}
  [[nodiscard]] int find(const rte_mbuf*) const noexcept override { return 0; }
  [[nodiscard]] bool open(int) const noexcept override { return true; }
  void enter(int, pipeline::TracePlace) noexcept override {}
  void note(int, const pipeline::TraceEvent& event) noexcept override {
    if (event.reason.rule != nullptr) chosen = event;
    others += event.reason.rule == nullptr ? 1u : 0u;
  }
  void moved(int, rte_mbuf*) noexcept override {}
  void close(int) noexcept override {}

  pipeline::TraceEvent chosen{};
  unsigned others = 0;  ///< events without a reason
};

class LbExplains : public ::testing::Test {
 protected:
  void start(const std::string& lb, const std::string& tag = "") {
    const std::string yaml = conga_yaml({.number = 1, .tag = tag, .lb = "{ policy: " + lb + " }"});
    const std::string known =
        "rdma_track: { qps: [{ a: { address: 10.0.1.2, qpn: 17 }, "
        "b: { address: 10.0.2.2, qpn: 34 } }] }";
    h = std::make_unique<Harness>(weft::testing::all_stages(),
                                  std::regex_replace(yaml, std::regex("rdma_track"), known));
    h->pipeline().set_tracer(&listener);
    ASSERT_TRUE(h->pipeline().add_tap(listener));
  }
  pipeline::PathReason reason_of(const FrameBuilder& frame) {
    listener.chosen = {};
    h->inject("h1", frame.build());
    EXPECT_EQ(upwards(*h).size(), 1u);
    return listener.chosen.reason;
  }
  std::map<std::string, std::uint64_t> paths(const pipeline::PathReason& reason) const {
    std::map<std::string, std::uint64_t> found;
    for (std::uint32_t i = 0; i < reason.count; ++i) {
      for (unsigned uplink = 1; uplink <= kUplinks; ++uplink) {
        const std::string name = "s" + std::to_string(uplink);
        if (h->port(name).index == reason.path[i].port) found[name] = reason.path[i].value;
      }
    }
    return found;
  }

  Listener listener;
  std::unique_ptr<Harness> h;
};

TEST_F(LbExplains, PoliciesThatCompareNothingNameTheirRule) {
  const std::map<std::string, std::string> rules{{"ecmp", "hash of the flow"},
                                                 {"random", "at random"},
                                                 {"letflow", "path of its flowlet, which was drawn at random"},
                                                 {"psn", "PSN"}};
  for (const auto& [lb, rule] : rules) {
    start(lb);
    const auto reason = reason_of(packet(1, 2));
    ASSERT_NE(reason.rule, nullptr) << lb;
    EXPECT_EQ(reason.rule, rule) << lb;
    EXPECT_EQ(reason.count, 0u) << lb;
    EXPECT_GT(listener.others, 3u) << "other stages say nothing";
  }
}

TEST_F(LbExplains, PsnSaysWhatItDoesNotSpray) {
  start("psn");
  EXPECT_STREQ(reason_of(packet(1, 3)).rule, "hash of the flow") << "a queue pair that nobody has told of";
  const FrameBuilder ack = packet(1, 2).bth(wire::Opcode::RC_ACKNOWLEDGE, wire::Qpn(34), wire::Psn(7));
  EXPECT_STREQ(reason_of(FrameBuilder(ack).payload(0).aeth(wire::Syndrome::ack(), 1)).rule, "ACKs in turn");
}

TEST_F(LbExplains, AdaptiveAndDrillShowTheQueuesThatAreUp) {
  for (const char* lb : {"adaptive", "drill, drill: { d: 1, m: 1 }"}) {
    start(lb);
    h->block_device("s1", true);
    for (unsigned uplink = 2; uplink <= kUplinks; ++uplink) h->set_link("s" + std::to_string(uplink), false);
    const auto waiting = [&] { return h->pipeline().queue_depth(h->port("s1").index); };
    for (int i = 0; i < 8000 && waiting() < 3; ++i) h->inject("h1", packet(1, 2).build());
    ASSERT_GE(waiting(), 3u);
    h->set_link("s2", true);
    const bool bytes = std::string(lb) != "adaptive";
    const std::uint64_t each = packet(1, 2).build().size();
    const std::uint64_t before = waiting() * (bytes ? each : 1);
    listener.chosen = {};
    h->inject("h1", packet(1, 2).build());
    const auto& reason = listener.chosen.reason;
    EXPECT_STREQ(reason.values, bytes ? "bytes in all" : "packets");
    EXPECT_EQ(paths(reason), (std::map<std::string, std::uint64_t>{{"s1", before}, {"s2", 0}})) << lb;
    h->block_device("s1", false);
  }
}

TEST_F(LbExplains, CongaShowsTheMetrics) {
  start("conga");
  const auto reason = reason_of(packet(1, 2));
  EXPECT_STREQ(reason.values, "metrics now");
  EXPECT_EQ(paths(reason).size(), kUplinks);
}

TEST_F(LbExplains, ConweaveShowsWhichOtherPathsMayBeTaken) {
  start("conweave", ", conweave: {}");
  EXPECT_STREQ(reason_of(packet(1, 2)).rule, "path of its epoch; others that may be taken");
  EXPECT_STREQ(reason_of(packet(1, 2).bth(wire::Opcode::CNP, wire::Qpn(34), wire::Psn(0)).payload(16)).rule,
               "hash of the flow");
}

TEST_F(LbExplains, GemmaShowsTheScoresOfPathsWithoutThePacketItself) {
  start("gemma", ", gemma: {}");
  auto reason = reason_of(packet(1, 2));
  EXPECT_STREQ(reason.rule, "path of its flow");
  EXPECT_STREQ(reason.values, "scores in bytes");
  std::map<std::string, std::uint64_t> expected;
  for (unsigned uplink = 1; uplink <= kUplinks; ++uplink) expected["s" + std::to_string(uplink)] = 0;
  EXPECT_EQ(paths(reason), expected);
  h->inject("s2", report_of({{2, 51'200}}));
  h->advance_ns(5 * kUs);
  expected["s2"] = 51'200;
  EXPECT_EQ(paths(reason_of(packet(1, 2))), expected);
}

}  // namespace
}  // namespace weft::stages::testing
