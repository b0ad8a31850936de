// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The manager's calls to control services, of which some refuse, are slow, silent or not there.
#include "collectives/manager/switch_agents.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "switch/api/service.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"
#include "tests/switch/api/raw_listener.h"

namespace weft::inc::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Outcome::Kind;

/// A process with switches that have groups by number.
class FakeProcess final : public api::FakeBackend {
 public:
  api::CommandResult run_command(const api::CommandRequest& request) override {
    const int running = ++running_;
    most = std::max(most.load(), running);
    api::CommandResult result = answer(request);
    --running_;
    return result;
  }

  std::atomic<int> most{0};  ///< calls at the same time
  std::atomic<int> pause_ms{0};

 private:
  api::CommandResult answer(const api::CommandRequest& request) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    api::CommandResult result;
    const std::lock_guard lock(mutex_);
    std::set<GroupId>& groups = groups_[request.switch_name];
    const std::string& word = request.words.at(0);
    if (request.verb == "create") {
      const auto group = static_cast<GroupId>(std::stoul(word.substr(word.find('=') + 1)));
      if (!groups.insert(group).second) result.error = "there is a group " + std::to_string(group);
    } else if (request.verb == "remove") {
      if (groups.erase(static_cast<GroupId>(std::stoul(word))) == 0) result.error = "no such group";
    } else if (word == "groups") {
      for (const GroupId group : groups) result.rows.push_back({{"group", group}});
    } else if (word == "abilities") {
      if (request.switch_name == "s1") result.error = "an older one, which knows no such table";
      if (request.switch_name != "s1") {
        result.rows.push_back(
            {{"modes", {"i", "iv"}}, {"types", {"fp32", "fp8"}}, {"fan_in", 3}, {"memory_bytes", 4096}});
      }
    } else {
      for (const GroupId group : groups) result.rows.push_back({{"group", group}, {"collectives", 3}, {"for_s", 0.5}});
    }
    return result;
  }

  std::atomic<int> running_{0};
  std::mutex mutex_;
  std::map<std::string, std::set<GroupId>> groups_;
};

/// Switches 0 and 1 are of one process, 2 of another, 3 of one that accepts and says nothing, 4 of none.
class SwitchAgentsTest : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kTime{400};

  SwitchAgentsTest() {
    EXPECT_EQ(first_service.start(directory.file("p0"), first), std::nullopt);
    EXPECT_EQ(second_service.start(directory.file("p1"), second), std::nullopt);
    const std::vector<std::pair<std::string, std::string>> rows{
        {"p0", "s0"}, {"p0", "s1"}, {"p1", "s2"}, {"silent", "s3"}, {"nobody", "s4"}};
    for (const auto& [socket, name] : rows) access.push_back({directory.file(socket), "", {}, name});
    agents.emplace(access, kTime);
  }
  ~SwitchAgentsTest() override { close(silent); }

  static std::vector<Kind> kinds(const std::vector<Outcome>& outcomes) {
    std::vector<Kind> out;
    for (const Outcome& o : outcomes) out.push_back(o.kind);
    return out;
  }

  const api::TemporaryDirectory directory;
  FakeProcess first, second;
  api::Service first_service, second_service;
  int silent = api::listen_on(directory.file("silent"));
  std::vector<SwitchAccess> access;
  std::optional<SwitchAgents> agents;
};

TEST_F(SwitchAgentsTest, EachOrderHasItsOutcome) {
  const std::vector<InstallOrder> orders{{0, 7, "7"}, {1, 7, "7"}, {2, 7, "7"}, {0, 7, "7"}, {4, 7, "7"}};
  const auto outcomes = agents->install(orders);
  EXPECT_THAT(kinds(outcomes), ElementsAre(Kind::done, Kind::done, Kind::done, Kind::refused, Kind::unknown));
  EXPECT_THAT(outcomes[3].text, HasSubstr("there is a group 7"));
  EXPECT_THAT(outcomes[4].text, HasSubstr("cannot reach"));
  const std::vector<policy::NodeId> nodes{0, 2, 4};
  EXPECT_THAT(agents->list(nodes, {}), ElementsAre(std::vector<GroupId>{7}, std::vector<GroupId>{7}, std::nullopt));
  const auto does = agents->activity(nodes);
  ASSERT_TRUE(does[1] && does[1]->size() == 1);
  EXPECT_EQ(does[1]->front().collectives, 3u);
  EXPECT_EQ(does[1]->front().still_ms, 500u);
  EXPECT_EQ(does[2], std::nullopt);
}

TEST_F(SwitchAgentsTest, SwitchesSayWhatGroupsCanHaveThere) {
  const std::vector<policy::NodeId> nodes{0, 1, 2, 4};
  // They say nothing of blocks, as older ones do.
  const policy::Abilities says{4096, policy::bit(Mode::i), policy::bit(DataType::fp32), 3, false};
  EXPECT_THAT(agents->abilities(nodes), ElementsAre(says, std::nullopt, says, std::nullopt));
}

TEST_F(SwitchAgentsTest, AGroupThatIsNotThereIsRemoved) {
  ASSERT_EQ(agents->install(std::vector<InstallOrder>{{0, 7, "7"}})[0].kind, Kind::done);
  const std::vector<RemoveOrder> orders{{0, 7}, {0, 8}, {2, 7}, {4, 7}};
  EXPECT_THAT(kinds(agents->remove(orders)), ElementsAre(Kind::done, Kind::done, Kind::done, Kind::unknown));
}

TEST_F(SwitchAgentsTest, ASilentProcessIsAskedOnceAndOthersAnswer) {
  const std::vector<policy::NodeId> nodes{3, 0, 3, 3, 2};
  const auto start = std::chrono::steady_clock::now();
  const auto has = agents->list(nodes, {});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2 * kTime) << "once, not for each";
  EXPECT_THAT(has,
              ElementsAre(std::nullopt, std::vector<GroupId>(), std::nullopt, std::nullopt, std::vector<GroupId>()));
}

TEST_F(SwitchAgentsTest, ThreadsShareAProcessThatIsAskedOneThingAtATime) {
  first.pause_ms = 2;
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto has = agents->list(std::vector<policy::NodeId>{0, 1, 2}, {});
        answered += has[0] && has[1] && has[2] ? 1 : 0;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(answered, 40);
  EXPECT_EQ(first.most, 1);
}

TEST_F(SwitchAgentsTest, WhoWaitsForASlowProcessTooLongHasNoAnswer) {
  first.pause_ms = 300;
  std::vector<std::thread> threads;
  std::atomic<int> none{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] { none += agents->list(std::vector<policy::NodeId>{0}, {})[0] ? 0 : 1; });
  }
  for (auto& t : threads) t.join();
  EXPECT_GE(none, 1) << "the last waits for 900 ms";
  EXPECT_LE(none, 3);
}

TEST_F(SwitchAgentsTest, AProcessThatComesBackAnswers) {
  const std::vector<policy::NodeId> nodes{2};
  ASSERT_TRUE(agents->list(nodes, {})[0]);
  second_service.stop();
  EXPECT_FALSE(agents->list(nodes, {})[0]);
  ASSERT_EQ(second_service.start(directory.file("p1"), second), std::nullopt);
  EXPECT_TRUE(agents->list(nodes, {})[0]);
}

TEST_F(SwitchAgentsTest, ALookWithAPaceAsksOneAfterTheOther) {
  const std::vector<policy::NodeId> nodes{0, 2, 4, 1};
  const auto start = std::chrono::steady_clock::now();
  const auto has = agents->list(nodes, {std::chrono::milliseconds{90}, {}});
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_THAT(has, ElementsAre(std::vector<GroupId>(), std::vector<GroupId>(), std::nullopt, std::vector<GroupId>()));
  EXPECT_GE(took, std::chrono::milliseconds{50}) << "three processes, the last after two thirds of the time";
}

TEST_F(SwitchAgentsTest, SilentProcessesDoNotHoldUpALookWithAPace) {
  const std::vector<policy::NodeId> nodes{3, 0, 2};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(agents->list(nodes, {std::chrono::milliseconds{40}, {}}),
              ElementsAre(std::nullopt, std::vector<GroupId>(), std::vector<GroupId>()));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2 * kTime);
}

TEST_F(SwitchAgentsTest, ALookThatIsToldToStopAsksNoFurther) {
  std::stop_source stop;
  stop.request_stop();
  const std::vector<policy::NodeId> nodes{0, 2};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(agents->list(nodes, {std::chrono::hours{1}, stop.get_token()}), ElementsAre(std::nullopt, std::nullopt));
  std::stop_source later;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    later.request_stop();
  });
  // The first is asked at once.
  EXPECT_THAT(agents->list(nodes, {std::chrono::hours{1}, later.get_token()}), testing::Contains(std::nullopt));
  stopper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes{1});
}

TEST_F(SwitchAgentsTest, NothingToAskTakesNoTime) {
  EXPECT_TRUE(agents->list({}, {}).empty());
  EXPECT_TRUE(agents->install({}).empty());
}

}  // namespace
}  // namespace weft::inc::manager
