// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/stage.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "switch/base/time.h"
#include "switch/config/config.h"
#include "switch/stages/parse/stage.h"
#include "switch/stages/stages.h"
#include "tests/support/harness.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using pipeline::Batch;
using pipeline::Context;
using stages::RdmaTrackShared;
using stages::RdmaTrackStage;

constexpr Qpn kQpA{0x101}, kQpB{0x202};

// A later stage: forwards between two ports, and asks rdma_track about every packet in both halves.
class Asker : public pipeline::Stage {
 public:
  explicit Asker(const stages::QpTracker& tracker) : tracker_(tracker) {}

  void ingress(Context&, Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      pipeline::meta(batch.packet[i]).out_port = pipeline::meta(batch.packet[i]).in_port ^ 1;
      note(batch.packet[i]);
    }
  }
  void egress(Context&, pipeline::PortIndex, Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) note(batch.packet[i]);
  }

  struct Answer {
    bool known, has_peer;
    std::uint32_t dest_qp, peer_qp;
  };
  std::vector<Answer> answers;

 private:
  void note(const rte_mbuf* m) {
    const stages::QpView view = stages::qp_of(tracker_, m);
    answers.push_back({static_cast<bool>(view), view.peer != nullptr, view ? view.entry->dest_qp().value() : 0,
                       view.peer != nullptr ? view.peer->dest_qp().value() : 0});
  }
  const stages::QpTracker& tracker_;
};

pipeline::Registry asker_registry() {
  pipeline::Registry registry;
  registry.add(stages::parse_stage_type());
  registry.add(stages::rdma_track_stage_type());
  pipeline::StageType asker;
  asker.name = "asker";
  asker.summary = "Asks.";
  asker.has_egress = true;
  asker.needs = {"qp"};
  asker.provides = {"forward"};
  asker.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<Asker>(build.capability<stages::TrackedQps>().tracker(build.worker));
  };
  registry.add(asker);
  return registry;
}

std::string yaml(const std::string& options, const std::string& forward = "asker") {
  return "name: tor\n"
         "ports:\n"
         "  - { name: p1, type: \"null\" }\n"
         "  - { name: p2, type: \"null\" }\n"
         "pipeline:\n"
         "  - parse\n"
         "  - rdma_track: " +
         options + "\n  - " + forward + "\n";
}

// Rows of `qps` by destination QPN.
std::map<std::uint32_t, nlohmann::json> rows_of(const Harness& h) {
  std::map<std::uint32_t, nlohmann::json> out;
  for (const auto& row : h.rows("qps")) out[row["dest_qp"].get<std::uint32_t>()] = row;
  return out;
}

class RdmaTrack : public ::testing::Test {
 protected:
  explicit RdmaTrack(const std::string& options = "{ max_qps: 100 }") : registry_(asker_registry()) {
    h = std::make_unique<Harness>(registry_, yaml(options));
  }
  void connect() {
    h->inject("p1", cm(kA, kB, req(1, kQpA, Psn(50))).build());
    h->inject("p2", cm(kB, kA, rep(2, 1, kQpB, Psn(70))).build());
    h->inject("p1", cm(kA, kB, rtu(1, 2)).build());
  }
  pipeline::Registry registry_;
  std::unique_ptr<Harness> h;
};

TEST_F(RdmaTrack, ForwardsEveryPacketAsItCame) {
  const std::vector<Bytes> frames{write_from_a(kQpB, 0).build(), ack_from_b(kQpA, 0).build(),
                                  cm(kA, kB, req(1, kQpA, Psn(0))).build(),
                                  wire::FrameBuilder().ipv4(kA, kB).udp(50000, 53).payload(9).build()};
  h->inject("p1", frames);
  const auto out = h->take("p2");
  ASSERT_EQ(out.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(out[i].bytes, frames[i]);
  EXPECT_EQ(h->dropped_total(), 0u);
}

TEST_F(RdmaTrack, ShowsBothDirectionsOfAConnection) {
  connect();
  h->inject("p1", {write_from_a(kQpB, 70).build(), write_from_a(kQpB, 71).build(), write_from_a(kQpB, 71).build()});
  h->inject("p2", {answer_from_b(kQpA, 71, wire::Syndrome::nak(wire::NakCode::remote_access_error)).build()});
  const auto rows = rows_of(*h);
  ASSERT_EQ(rows.size(), 2u);
  const auto& there = rows.at(kQpB.value());
  EXPECT_EQ(there["source"], kA);
  EXPECT_EQ(there["destination"], kB);
  EXPECT_EQ(there["packets"], 3);
  EXPECT_EQ(there["retransmitted"], 1);
  EXPECT_EQ(there["duplicates"], 1);
  EXPECT_EQ(there["last_psn"], 71);
  EXPECT_EQ(there["peer_qp"], kQpA.value());
  EXPECT_EQ(there["pairing"], "cm");
  EXPECT_EQ(there["nak_remote_access"], 0);
  EXPECT_EQ(there["peer_naks"], 1);
  EXPECT_EQ(rows.at(kQpA.value())["nak_remote_access"], 1);
  EXPECT_EQ(h->counter("rdma_track", "cm_req"), 1u);
  EXPECT_EQ(h->counter("rdma_track", "cm_rtu"), 1u);
  EXPECT_EQ(h->counter("rdma_track", "qps_active"), 2u);
  EXPECT_EQ(h->counter("rdma_track", "retransmitted"), 1u);
  EXPECT_EQ(h->counter("rdma_track", "nak_remote_access"), 1u);
  EXPECT_EQ(h->counter("rdma_track", "packets"), 4u);
}

TEST_F(RdmaTrack, LaterStagesFindTheEntryAndItsPeerInBothHalves) {
  connect();
  auto& answers = h->stage<Asker>("asker").answers;
  answers.clear();
  h->inject("p1", {write_from_a(kQpB, 70).build()});
  ASSERT_EQ(answers.size(), 2u);
  for (const auto& answer : answers) {
    EXPECT_TRUE(answer.known && answer.has_peer);
    EXPECT_EQ(answer.dest_qp, kQpB.value());
    EXPECT_EQ(answer.peer_qp, kQpA.value());
  }
  answers.clear();
  h->inject("p1", {cm(kA, kB, rtu(1, 2)).build()});
  EXPECT_FALSE(answers[0].known) << "QP1 has no entry";
}

TEST_F(RdmaTrack, ReadsCmMessagesThatLieInSeveralBuffers) {
  for (const std::size_t head : {64u, 80u, 100u, 200u, 250u}) {
    Harness chained(registry_, yaml("{ max_qps: 100 }"));
    chained.inject_chained("p1", cm(kA, kB, req(1, kQpA, Psn(50))).build(), {head, 40});
    chained.inject_chained("p2", cm(kB, kA, rep(2, 1, kQpB, Psn(70))).build(), {head, 30, 30});
    EXPECT_EQ(rows_of(chained).size(), 2u) << "first buffer of " << head << " bytes";
  }
}

TEST_F(RdmaTrack, ForgetsIdleQueuePairsByItsTimer) {
  connect();
  h->advance_ns(599 * kSecond);
  EXPECT_EQ(h->counter("rdma_track", "qps_active"), 2u);
  h->advance_ns(30 * kSecond);
  EXPECT_EQ(h->counter("rdma_track", "qps_active"), 0u);
  EXPECT_EQ(h->counter("rdma_track", "qps_aged"), 2u);
  EXPECT_TRUE(h->rows("qps").empty());
}

TEST_F(RdmaTrack, ShowsConfiguredPairsBeforeTheirFirstPacket) {
  Harness configured(registry_, yaml("{ qps: [ { a: { address: 10.0.0.1, qpn: 17 }, b: { address: 10.0.0.2, qpn: "
                                     "18 } }, { a: { address: \"fd00::1\", qpn: 19 }, b: { address: \"fd00::2\", "
                                     "qpn: 20 } } ] }"));
  const auto rows = rows_of(configured);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows.at(18)["source"], "10.0.0.1");
  EXPECT_EQ(rows.at(18)["peer_qp"], 17);
  EXPECT_EQ(rows.at(18)["state"], "static");
  EXPECT_EQ(rows.at(19)["source"], "fd00::2");
  EXPECT_EQ(rows.at(19)["pairing"], "config");
  EXPECT_EQ(rows.at(19)["confidence"], 100);
  EXPECT_TRUE(rows.at(19)["last_psn"].is_null());
}

TEST_F(RdmaTrack, ListsALargeTableInPieces) {
  Harness large(registry_, yaml("{ max_qps: 50000 }"));
  for (std::uint32_t i = 0; i < 500; ++i) large.inject("p1", write_from_a(Qpn(2 + i * 100), 0).build());
  auto& stage = large.stage<RdmaTrackStage>("rdma_track");
  std::uint64_t cursor = 0;
  std::map<std::uint32_t, int> seen;
  int calls = 0;
  while (cursor != pipeline::StageShared::kEnd) {
    const auto rows = stage.rows("qps", cursor, 7);
    EXPECT_LE(rows.size(), 7u);
    for (const auto& row : rows) ++seen[row["dest_qp"].get<std::uint32_t>()];
    ASSERT_LT(++calls, 1000);
  }
  EXPECT_EQ(seen.size(), 500u);
  for (const auto& [qp, times] : seen) EXPECT_EQ(times, 1) << qp;
}

// --- options -----------------------------------------------------------------------------------------------------

std::string mistakes_of(const std::string& options) {
  pipeline::Registry registry;
  stages::register_all(registry);
  config::Diagnostics diagnostics;
  const auto info = config::load_switch(yaml(options, "l2"), registry, diagnostics);
  EXPECT_EQ(info.has_value(), diagnostics.ok());
  return diagnostics.to_string();
}

TEST(RdmaTrackOptions, HaveDefaults) {
  EXPECT_EQ(mistakes_of("{}"), "");
  EXPECT_EQ(mistakes_of("{ pairing: off, idle_timeout_s: 1, closed_timeout_s: 1, max_qps: 2 }"), "");
}

TEST(RdmaTrackOptions, AreCheckedWithTheirPosition) {
  const auto pair = [](const std::string& a, const std::string& b) {
    return "{ a: { address: " + a + " }, b: { address: " + b + " } }";
  };
  const std::string fine = pair("10.0.0.1, qpn: 17", "10.0.0.2, qpn: 18");
  const std::map<std::string, std::string> wrong{
      {"{ qps: [" + fine + ", " + pair("10.0.0.1, qpn: 17", "10.0.0.3, qpn: 9") + "] }", "in an earlier pair already"},
      {"{ qps: [" + pair("10.0.0.1, qpn: 17", "10.0.0.1, qpn: 17") + "] }", "both ends are the same queue pair"},
      {"{ qps: [" + pair("10.0.0.1, qpn: 17", "\"fd00::2\", qpn: 17") + "] }", "of the same family"},
      {"{ qps: [" + pair("10.0.0.1, qpn: 1", "10.0.0.2, qpn: 17") + "] }", "qpn"},
      {"{ qps: [" + pair("10.0.0.1, qpn: 16777216", "10.0.0.2, qpn: 17") + "] }", "qpn"},
      {"{ max_qps: 2, qps: [" + fine + ", " + pair("10.0.0.1, qpn: 7", "10.0.0.3, qpn: 9") + "] }",
       "4 directions do not fit into max_qps"},
      {"{ max_qps: 1 }", "max_qps"},
      {"{ idle_timeout_s: 0 }", "idle_timeout_s"},
      {"{ pairing: sometimes }", "pairing"}};
  for (const auto& [options, text] : wrong) {
    const std::string found = mistakes_of(options);
    EXPECT_NE(found.find(text), std::string::npos) << options << "\nfound: " << found;
    EXPECT_NE(found.find(":7:"), std::string::npos) << "no position: " << found;
  }
}

TEST(RdmaTrackOptions, PutConfiguredPairsOnTheWorkerThatSeesThem) {
  const pipeline::StageType type = stages::rdma_track_stage_type();
  pipeline::Registry registry = asker_registry();
  config::Diagnostics diagnostics;
  std::string pairs;
  for (int i = 1; i <= 40; ++i) {
    pairs += "{ a: { address: 10.0.0." + std::to_string(i) +
             ", qpn: 17 }, b: { address: 10.0.1.1, qpn: " + std::to_string(100 + i) + " } }, ";
  }
  const auto info = config::load_switch(yaml("{ max_qps: 200, qps: [" + pairs + "] }"), registry, diagnostics);
  ASSERT_TRUE(info) << diagnostics.to_string();
  const config::Value& options = info->pipeline[1].options;
  RdmaTrackShared shared({options, *info, 0, 2});
  std::uint64_t total = 0;
  for (std::uint16_t worker = 0; worker < 2; ++worker) {
    RdmaTrackStage stage({options, *info, worker, 2}, shared);
    const std::uint32_t size = stage.tracker().table().size();
    EXPECT_GT(size, 0u);
    total += size;
    for (std::uint32_t i = 0; i < stage.tracker().table().slots(); ++i) {
      if (stage.tracker().table().entry(i).is_free()) continue;
      const auto key = stage.tracker().table().key(i);
      TrackedFrame frame(wire::FrameBuilder()
                             .ip(stage.tracker().table().source(key), stage.tracker().table().destination(key))
                             .bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(0))
                             .build());
      EXPECT_EQ(pipeline::worker_by_hash(frame.parsed.pair_hash(), 2), worker);
    }
  }
  EXPECT_EQ(total, 80u);
}

}  // namespace
}  // namespace weft::testing
