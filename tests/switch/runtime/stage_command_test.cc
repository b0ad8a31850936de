// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Commands of stages in a whole process: what they reach, and that nobody waits for one that takes long.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "collectives/stage/stages.h"
#include "switch/config/config.h"
#include "switch/runtime/eal.h"
#include "switch/runtime/runtime.h"
#include "switch/stages/stages.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/runtime/process_eal.h"

namespace weft {
namespace {

using config::Schema;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::atomic<bool> waiting{false};
std::atomic<bool> release{false};

// While `hold_worker` says so, worker 1 does not come to the end of a burst.
std::atomic<bool> hold_worker{false};
std::atomic<bool> worker_held{false};

class ToyStage : public pipeline::Stage {
 public:
  explicit ToyStage(std::uint16_t worker) : worker_(worker) {}
  [[nodiscard]] bool takes_mail() const override { return true; }
  [[nodiscard]] bool has_mail() const override { return worker_ == 1 && hold_worker; }
  void on_mail(pipeline::Context&) override {
    while (hold_worker) {
      worker_held = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  int value = 0;

 private:
  std::uint16_t worker_;
};

// A stage of a test: `put` changes its instances, `wait` lasts until the test lets it go.
pipeline::StageType toy_stage() {
  pipeline::StageType type;
  type.name = "toy";
  type.summary = "A stage of a test.";
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<ToyStage>(build.worker);
  };
  pipeline::StageCommand put{
      .verb = "put",
      .summary = "Puts a number into every instance.",
      .arguments = Schema::map({
          Schema::Key::required_key("value", Schema::integer(0, 9), "The number."),
          Schema::Key::with_default("twice", Schema::boolean(), config::Value(false), "Twice it."),
      }),
      .run = {}};
  put.run = [](pipeline::StageAccess& stage, const config::Value& arguments, std::string& error) {
    Json rows = Json::array();
    const int value = static_cast<int>(arguments["value"].integer()) * (arguments["twice"].boolean() ? 2 : 1);
    if (value == 9) error = "nine is too much";
    for (std::uint16_t w = 0; w < stage.workers() && error.empty(); ++w) {
      int before = 0;
      if (!stage.on_worker(w, [&](pipeline::Stage& instance) {
            before = std::exchange(static_cast<ToyStage&>(instance).value, value);
          })) {
        error = "replaced";
      }
      rows.push_back({{"worker", w}, {"before", before}});
    }
    return rows;
  };
  pipeline::StageCommand wait{.verb = "wait", .summary = "Waits.", .arguments = Schema(), .run = {}};
  wait.run = [](pipeline::StageAccess& stage, const config::Value&, std::string& error) {
    waiting = true;
    while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!stage.on_worker(0, [](pipeline::Stage&) {})) error = "replaced";
    return Json::array();
  };
  pipeline::StageCommand who{.verb = "who",
                             .summary = "Says who asks.",
                             .arguments = Schema::map({Schema::Key::optional_key("peer", Schema::string(), "Who.")}),
                             .run = {}};
  who.run = [](pipeline::StageAccess&, const config::Value& arguments, std::string&) {
    return Json::array({{{"peer", arguments.has("peer") ? Json(arguments["peer"].string()) : Json()}}});
  };
  type.commands = {put, wait, who};
  return type;
}

const pipeline::Registry& registry() {
  static const pipeline::Registry kRegistry = [] {
    pipeline::Registry made;
    stages::register_all(made);
    inc::register_stages(made);
    made.add(toy_stage());
    return made;
  }();
  return kRegistry;
}

std::string yaml(const std::string& pipeline, const std::string& more = "") {
  return "eal: { hugepages: off, mbufs: 4096, mbuf_data_room_bytes: 2176, workers: [0, 1] }\n"
         "control: { socket: \"\" }\nidle: sleep\nswitches:\n  - name: tor\n"
         "    ports: [{ name: a, type: \"null\" }, { name: b, type: \"null\" }]\n    pipeline: [" +
         pipeline + "]\n" + more;
}

const auto* const kEal =
    ::testing::AddGlobalTestEnvironment(new testing::ProcessEal([] { return yaml("parse, l2"); }, registry));

class StageCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    waiting = release = hold_worker = worker_held = false;
    std::ofstream(directory_.file("f")) << configuration_;
    config::Diagnostics diagnostics;
    auto config = config::load_config_file(directory_.file("f"), registry(), diagnostics);
    ASSERT_TRUE(config) << diagnostics.to_string();
    std::string error;
    runtime_ = std::make_unique<Runtime>(registry(), std::move(*config), directory_.file("f"),
                                         testing::eal_of_all_tests, error);
    ASSERT_EQ(error, "");
    runtime_->start();
    runner_ = std::thread([this] { runtime_->run({.stop = &stop_}); });
  }
  void TearDown() override {
    release = true;
    hold_worker = false;
    stop_ = true;
    if (runner_.joinable()) runner_.join();
  }

  std::string configuration_ = yaml("parse, toy, impair: { rules: [{ name: lossy, loss: 0.5 }] }, l2");
  api::TemporaryDirectory directory_;
  std::unique_ptr<Runtime> runtime_;
  std::thread runner_;
  std::atomic<bool> stop_{false};
};

TEST_F(StageCommands, ReachTheInstanceOfEveryWorkerAndAnswerRows) {
  EXPECT_EQ(runtime_->run_command({"toy", "put", {"value=4"}, ""}).rows.dump(),
            R"([{"switch":"tor","worker":0,"before":0},{"switch":"tor","worker":1,"before":0}])");
  EXPECT_EQ(runtime_->run_command({"toy", "put", {"value=3", "twice=true"}, "tor"}).rows[1]["before"], 4);
  EXPECT_EQ(runtime_->run_command({"toy", "put", {"value=0"}, "tor"}).rows[0]["before"], 6);
}

TEST_F(StageCommands, MistakesAreSentences) {
  const auto error_of = [&](const api::CommandRequest& request) { return runtime_->run_command(request).error; };
  EXPECT_EQ(error_of({"toy", "putt", {}, ""}), "unknown command 'putt' of toy; did you mean 'put'?");
  EXPECT_EQ(error_of({"tay", "put", {}, ""}), "unknown stage 'tay'; did you mean 'toy'?");
  EXPECT_EQ(error_of({"toy", "put", {}, "ter"}), "unknown switch 'ter'; did you mean 'tor'?");
  EXPECT_EQ(error_of({"l2", "put", {}, ""}), "the stage l2 has no commands");
  EXPECT_EQ(error_of({"toy", "put", {"valu=3"}, ""}), "toy put: unknown key 'valu'; did you mean 'value'?");
  EXPECT_THAT(error_of({"toy", "put", {}, ""}), HasSubstr("value"));
  EXPECT_THAT(error_of({"toy", "put", {"value=10"}, ""}), HasSubstr("from 0 to 9"));
  EXPECT_EQ(error_of({"toy", "put", {"value=9"}, ""}), "tor: nine is too much");
}

TEST_F(StageCommands, AreListedWithTheSchemaOfTheirArguments) {
  std::vector<std::string> names;
  for (const auto& command : runtime_->commands()) {
    names.push_back(command.stage + " " + command.verb);
    if (command.verb != "put") continue;
    EXPECT_EQ(command.arguments["properties"]["value"]["maximum"], 9);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("toy put", "toy wait", "toy who", "impair set"));
}

TEST_F(StageCommands, WhoAsksIsWhatTheConnectionSaysNotTheWords) {
  EXPECT_EQ(runtime_->run_command({"toy", "who", {}, "", "h1,10.0.0.1"}).rows.dump(),
            R"([{"switch":"tor","peer":"h1,10.0.0.1"}])");
  EXPECT_EQ(runtime_->run_command({"toy", "who", {"peer=h2"}, "", "h1"}).rows[0]["peer"], "h1");
  EXPECT_TRUE(runtime_->run_command({"toy", "who", {"peer=h2"}, ""}).rows[0]["peer"].is_null());
}

TEST_F(StageCommands, SetIsOneOfThem) {
  const auto result = runtime_->run_command({"impair", "set", {"lossy", "loss=0.25"}, ""});
  EXPECT_EQ(result.error, "");
  EXPECT_THAT(result.done, HasSubstr("tor: "));
  EXPECT_EQ(runtime_->set({"impair", {"lossy", "off"}, ""}).error, "");
}

TEST_F(StageCommands, ASlowOneStallsNeitherTablesNorSessionsNorOtherCommands) {
  std::thread slow([this] { EXPECT_EQ(runtime_->run_command({"toy", "wait", {}, ""}).error, ""); });
  while (!waiting) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // All of this would wait for `release`, which comes behind it.
  EXPECT_EQ(runtime_->show("ports", "", 100).rows.size(), 2U);
  EXPECT_EQ(runtime_->show("totals", "", 100).rows.size(), 1U);
  EXPECT_EQ(runtime_->show("impair", "", 100).error, "");
  const api::SessionStart session = runtime_->start_capture({});
  EXPECT_EQ(session.error, "");
  EXPECT_TRUE(runtime_->stop_session(session.id));
  EXPECT_EQ(runtime_->set({"impair", {"lossy", "loss=0.125"}, ""}).error, "");
  EXPECT_EQ(runtime_->run_command({"toy", "put", {"value=1"}, ""}).error, "");
  EXPECT_TRUE(runtime_->reload().mistakes.empty());
  release = true;
  slow.join();
}

class StageCommandsOfARouter : public StageCommands {
 protected:
  StageCommandsOfARouter() {
    configuration_ = yaml("parse, toy, l3, lb", "    addresses: [{ port: a, address: 10.0.1.1/24 }]\n");
  }
};

// Other options of lb need new instances, and a worker takes to its own only when it has ended its burst.
TEST_F(StageCommandsOfARouter, NobodyWaitsForASetThatWaitsForAWorker) {
  hold_worker = true;
  while (!worker_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::atomic<bool> is_set{false};
  std::thread slow([&] {
    EXPECT_EQ(runtime_->set({"lb", {"policy=letflow"}, ""}).error, "");
    is_set = true;
  });
  // So that it waits for the worker.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  auto others = std::async(std::launch::async, [&] {
    EXPECT_EQ(runtime_->show("ports", "", 100).rows.size(), 2U);
    EXPECT_EQ(runtime_->show("counters", "", 100).error, "");
    EXPECT_EQ(runtime_->about()["switches"].size(), 1U);
  });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_FALSE(is_set);
  hold_worker = false;
  slow.join();
  others.wait();
  EXPECT_EQ(runtime_->show("flowlets", "", 100).error, "");
}

// While others look at instances without an end, and have workers do it for them.
TEST_F(StageCommandsOfARouter, SetGetsThroughBetweenThoseWhoLook) {
  std::atomic<bool> over{false};
  std::thread looks([&] {
    while (!over) {
      EXPECT_EQ(runtime_->show("counters", "", 100).error, "");
      EXPECT_EQ(runtime_->run_command({"toy", "put", {"value=1"}, ""}).error, "");
    }
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(runtime_->set({"lb", {"policy=letflow"}, ""}).error, "");
    EXPECT_EQ(runtime_->show("flowlets", "", 100).error, "");
    EXPECT_EQ(runtime_->set({"lb", {"policy=ecmp"}, ""}).error, "");
    EXPECT_NE(runtime_->show("flowlets", "", 100).error, "");
  }
  over = true;
  looks.join();
}

TEST_F(StageCommands, AReloadThatReplacesTheStageEndsThem) {
  std::string error;
  std::thread slow([&] { error = runtime_->run_command({"toy", "wait", {}, ""}).error; });
  while (!waiting) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::ofstream(directory_.file("f")) << yaml("parse, toy, l2: { ageing_s: 20 }");
  const auto result = runtime_->reload();
  EXPECT_TRUE(result.applied) << ::testing::PrintToString(result.mistakes);
  release = true;
  slow.join();
  EXPECT_EQ(error, "tor: replaced");
}

}  // namespace
}  // namespace weft
