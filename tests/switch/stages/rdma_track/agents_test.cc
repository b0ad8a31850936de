// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The command by which agents report, with the stage of two workers behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "switch/base/time.h"
#include "switch/config/config.h"
#include "switch/config/schema/document.h"
#include "switch/config/schema/validate.h"
#include "switch/pipeline/set_words.h"
#include "switch/stages/rdma_track/stage.h"
#include "switch/stages/stages.h"

namespace weft::testing {
namespace {

using stages::RdmaTrackShared;
using stages::RdmaTrackStage;
using ::testing::HasSubstr;

const std::string kAgents =
    "agents: [ { host: h1, addresses: [10.0.1.0/24, \"fd00:1::/64\"] }, { host: h2, addresses: [10.0.2.0/24] } ]";

std::optional<pipeline::SwitchInfo> load(const std::string& options, config::Diagnostics& diagnostics) {
  pipeline::Registry registry;
  stages::register_all(registry);
  return config::load_switch(
      "name: tor\nports:\n  - { name: p1, type: \"null\" }\n  - { name: p2, type: \"null\" }\n"
      "pipeline:\n  - parse\n  - rdma_track: { " +
          options + " }\n  - l2\n",
      registry, diagnostics);
}

// Two workers' instances, as the command reaches them.
class TwoWorkers : public pipeline::StageAccess {
 public:
  explicit TwoWorkers(const std::string& options = kAgents) {
    config::Diagnostics diagnostics;
    info_ = *load(options, diagnostics);
    shared_ = std::make_unique<RdmaTrackShared>(build(0));
    for (std::uint16_t w = 0; w < 2; ++w) stages_.push_back(std::make_unique<RdmaTrackStage>(build(w), *shared_));
  }
  pipeline::StageBuild build(std::uint16_t worker) {
    pipeline::StageBuild b{info_.pipeline[1].options, info_, worker, 2};
    b.find_offered = [this](std::type_index type) { return shared_ ? shared_->offered(type) : nullptr; };
    return b;
  }
  [[nodiscard]] const pipeline::SwitchInfo& info() const override { return info_; }
  [[nodiscard]] std::uint16_t workers() const override { return 2; }
  bool on_worker(std::uint16_t worker, const std::function<void(pipeline::Stage&)>& task) override {
    if (replaced) return false;
    task(*stages_[worker]);
    stages_[worker]->apply_news(now);
    return true;
  }
  bool with_shared(const std::function<void(pipeline::StageShared&)>& task) override {
    if (replaced) return false;
    task(*shared_);
    return true;
  }
  // Runs the command; its row, or what is wrong.
  std::string run(const std::vector<std::string>& words) {
    const pipeline::StageCommand command = stages::agent_command();
    config::DocumentNode document(config::DocumentNode::Kind::map);
    std::string error;
    for (const auto& word : words) {
      if (error = pipeline::apply_word(document, word, command.arguments); !error.empty()) return error;
    }
    config::Diagnostics diagnostics;
    const config::Value arguments = config::validate(command.arguments, document, "agent", nullptr, diagnostics);
    if (!diagnostics.ok()) return pipeline::mistakes_of(diagnostics);
    const auto rows = command.run(*this, arguments, error);
    return error.empty() ? rows[0].dump() : error;
  }
  // Rows of `qps` by destination QPN.
  std::map<std::uint32_t, nlohmann::ordered_json> rows() {
    std::map<std::uint32_t, nlohmann::ordered_json> found;
    for (auto& stage : stages_) {
      for (std::uint64_t cursor = 0; cursor != pipeline::StageShared::kEnd;) {
        for (auto& row : stage->rows("qps", cursor, 10)) found[row["dest_qp"].get<std::uint32_t>()] = row;
      }
    }
    return found;
  }
  void reload(const std::string& options) {
    config::Diagnostics diagnostics;
    info_ = *load(options, diagnostics);
    for (std::uint16_t w = 0; w < 2; ++w) {
      stages_[w]->update(build(w));
      stages_[w]->apply_news(now);
    }
  }
  RdmaTrackStage& stage(std::uint16_t worker) { return *stages_[worker]; }
  RdmaTrackShared& shared() { return *shared_; }
  bool replaced = false;
  TimeNs now = kSecond;

 private:
  pipeline::SwitchInfo info_;
  std::unique_ptr<RdmaTrackShared> shared_;
  std::vector<std::unique_ptr<RdmaTrackStage>> stages_;
};

std::string up(int qpn, const std::string& remote, int remote_qpn, const std::string& local = "10.0.1.1") {
  return R"({"up":true,"local":")" + local + R"(","qpn":)" + std::to_string(qpn) + R"(,"remote":")" + remote +
         R"(","remote_qpn":)" + std::to_string(remote_qpn) + R"(,"process":"nccl","pid":99,"device":"mlx5_1"})";
}
std::vector<std::string> message(int sequence, const std::string& changes, const std::string& more = "begin=false") {
  return {"host=h1", "session=5", "sequence=" + std::to_string(sequence), "changes=[" + changes + "]", more};
}

TEST(Agents, WhatTheyTellIsInTheTableOfTheWorkerThatSeesThePackets) {
  TwoWorkers two;
  std::string changes;
  for (int i = 1; i <= 40; ++i) changes += (i > 1 ? "," : "") + up(100 + i, "10.0.2." + std::to_string(i), 200 + i);
  EXPECT_EQ(two.run(message(1, changes)), R"({"host":"h1","expected":true,"resync":true,"refused":0})");
  EXPECT_EQ(two.run(message(2, changes, "begin=true")), R"({"host":"h1","expected":true,"resync":false,"refused":0})");
  for (std::uint16_t w = 0; w < 2; ++w) {
    const auto& table = two.stage(w).tracker().table();
    EXPECT_GT(table.size(), 0u);
    for (std::uint32_t i = 0; i < table.slots(); ++i) {
      if (table.entry(i).is_free()) continue;
      const auto key = table.key(i);
      EXPECT_EQ(stages::worker_of(table.source(key), table.destination(key), 2), w);
    }
  }
  const auto rows = two.rows();
  ASSERT_EQ(rows.size(), 80u);
  const auto& there = rows.at(201);
  EXPECT_EQ(there["source"], "10.0.1.1");
  EXPECT_EQ(there["peer_qp"], 101);
  EXPECT_EQ(there["pairing"], "agent");
  EXPECT_EQ(there["process"], "nccl");
  EXPECT_EQ(there["pid"], 99);
  EXPECT_EQ(there["device"], "mlx5_1");
  EXPECT_TRUE(there["dest_process"].is_null());
  EXPECT_EQ(rows.at(101)["dest_process"], "nccl");
  EXPECT_EQ(rows.at(101)["dest_device"], "mlx5_1");
  EXPECT_TRUE(rows.at(101)["process"].is_null());
  EXPECT_EQ(two.run(message(3, R"({"up":false,"local":"10.0.1.1","qpn":101})")),
            R"({"host":"h1","expected":true,"resync":false,"refused":0})");
  EXPECT_EQ(two.rows().at(201)["state"], "closed");
  EXPECT_TRUE(two.rows().at(101)["dest_process"].is_null());
}

TEST(Agents, AnIdleSwitchForgetsNothingThatItIsTold) {
  TwoWorkers two;
  for (two.now = 10'000 * kSecond; two.now <= 10'400 * kSecond; two.now += 200 * kSecond) {
    const bool first = two.now == 10'000 * kSecond;
    (void)two.run(message(first ? 1 : 2, up(7, "10.0.2.1", 8), "begin=true"));
    for (std::uint16_t w = 0; w < 2; ++w) {
      auto& tracker = two.stage(w).tracker();
      for (int i = 0; i < 500 && tracker.next_deadline() <= two.now; ++i) tracker.on_timer(two.now);
    }
    EXPECT_EQ(two.rows().size(), 2u);
  }
}

TEST(Agents, NewsWaitForTheTimeAndThePacketsForThem) {
  TwoWorkers two;
  stages::AgentAction action{true, false, {}};
  action.qp.local = *wire::IpAddress::parse("10.0.1.1");
  action.qp.remote = *wire::IpAddress::parse("10.0.2.1");
  action.qp.qpn = wire::Qpn(7);
  action.qp.remote_qpn = wire::Qpn(8);
  EXPECT_EQ(two.stage(0).deadline(0), kNever);
  two.stage(0).take({&action, 1});
  EXPECT_EQ(two.stage(0).deadline(0), 0u);
  two.stage(0).apply_news(kSecond);
  EXPECT_NE(two.stage(0).deadline(0), 0u);
}

TEST(Agents, TheTableOfHostsSaysWhoReports) {
  TwoWorkers two;
  (void)two.run(message(1, up(7, "10.0.2.1", 8) + "," + up(9, "10.0.2.1", 10, "10.0.3.1"), "begin=true"));
  std::uint64_t cursor = 0;
  const auto rows = two.shared().rows("qp_agents", cursor, 10);
  EXPECT_EQ(cursor, pipeline::StageShared::kEnd);
  EXPECT_EQ(rows.dump(), R"([{"host":"h1","qps":1,"messages":1,"resyncs":0,"refused":1,"full":0,"evicted":0},)"
                         R"({"host":"h2","qps":0,"messages":0,"resyncs":0,"refused":0,"full":0,"evicted":0}])");
}

TEST(Agents, WhoIsNotNamedOrSaysNonsenseIsRefused) {
  TwoWorkers two;
  EXPECT_EQ(two.run({"host=h3", "session=5", "sequence=1", "begin=true"}),
            R"({"host":"h3","expected":false,"resync":false,"refused":0})");
  EXPECT_THAT(two.run({"host=h1", "session=5", "sequence=1", "begin=true", "peer=h2,tor"}),
              HasSubstr("the certificate does not name 'h1', but: h2,tor"));
  EXPECT_EQ(two.run({"host=h1", "session=5", "sequence=1", "begin=true", "peer=tor,h1"}),
            R"({"host":"h1","expected":true,"resync":false,"refused":0})");
  EXPECT_THAT(two.run(message(2, "7")), HasSubstr("changes: a change is no object"));
  EXPECT_THAT(two.run({"host=h1", "session=0", "sequence=1"}), HasSubstr("session"));
  two.replaced = true;
  EXPECT_THAT(two.run(message(2, "")), HasSubstr("a reload replaced the stage"));
}

TEST(Agents, AReloadThatTakesAHostAwayEndsWhatItTold) {
  TwoWorkers two;
  std::string changes;
  for (int i = 1; i <= 8; ++i) changes += (i > 1 ? "," : "") + up(100 + i, "10.0.2." + std::to_string(i), 200 + i);
  (void)two.run(message(1, changes, "begin=true"));
  two.reload(kAgents + ", idle_timeout_s: 99");
  EXPECT_EQ(two.rows().at(201)["state"], "open");
  two.reload("agents: [ { host: h2, addresses: [10.0.2.0/24] } ]");
  for (const auto& [qpn, row] : two.rows()) EXPECT_EQ(row["state"], "closed") << qpn;
  EXPECT_THAT(two.run(message(2, changes)), HasSubstr(R"("expected":false)"));
}

TEST(Agents, TheOptionIsCheckedWithItsPosition) {
  const std::map<std::string, std::string> wrong{
      {"agents: [ { host: h1, addresses: [10.0.1.0/24] }, { host: h1, addresses: [10.0.2.0/24] } ]",
       "'h1' is there twice"},
      {"agents: [ { host: h1, addresses: [10.0.0.0/16] }, { host: h2, addresses: [10.0.2.0/24] } ]",
       "10.0.2.0/24 is also 'h1's"},
      {"agents: [ { host: h1, addresses: [] } ]", "addresses"},
      {"agents: [ { host: h1 } ]", "addresses"}};
  for (const auto& [options, text] : wrong) {
    config::Diagnostics diagnostics;
    (void)load(options, diagnostics);
    EXPECT_THAT(diagnostics.to_string(), HasSubstr(text));
    EXPECT_THAT(diagnostics.to_string(), HasSubstr(":7:"));
  }
}

}  // namespace
}  // namespace weft::testing
