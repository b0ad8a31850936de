// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/daemon/manager_calls.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/manager/inc.grpc.pb.h"
#include "switch/api/rpc_server.h"
#include "tests/support/temporary_directory.h"

namespace weft::inc::daemon {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

/// Makes any group. It may take its time to destroy one.
class SlowManager final : public v1::IncManager::Service {
 public:
  grpc::Status CreateGroup(grpc::ServerContext*, const v1::CreateGroupRequest* request,
                           v1::CreateGroupReply* reply) override {
    note("create");
    {
      const std::lock_guard lock(mutex_);
      options_ = request->options();
    }
    const bool staggers = request->options().job() != 0;
    reply->set_turns(staggers);
    reply->set_staggered(staggers);
    reply->set_offset_ns(400'000);
    reply->set_refusal("none");
    reply->set_group(7);
    return grpc::Status::OK;
  }
  grpc::Status DestroyGroup(grpc::ServerContext*, const v1::DestroyGroupRequest* request,
                            v1::DestroyGroupReply*) override {
    const std::string group = std::to_string(request->group());
    note("destroy " + group);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return answers_; });
    said_.push_back("destroyed " + group);
    changed_.notify_all();
    return grpc::Status::OK;
  }

  grpc::Status RenewLease(grpc::ServerContext*, const v1::RenewLeaseRequest* request, v1::RenewLeaseReply*) override {
    note("renew " + std::to_string(request->group()));
    return grpc::Status::OK;
  }

  void answer() {
    const std::lock_guard lock(mutex_);
    answers_ = true;
    changed_.notify_all();
  }
  /// False: not within ten seconds.
  bool wait_for(const std::string& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [&] { return std::count(said_.begin(), said_.end(), what) > 0; });
  }
  v1::GroupOptions options() {
    const std::lock_guard lock(mutex_);
    return options_;
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

 private:
  void note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    said_.push_back(what);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> said_;
  v1::GroupOptions options_;  ///< of the last group
  bool answers_ = false;
};

/// The sockets that this process has, with both ends of its connections.
std::set<std::string> sockets() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry, gone);
    if (to.starts_with("socket:")) out.insert(to);
  }
  return out;
}

class ManagerCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(server.start(path, std::nullopt, {}, manager), std::nullopt);
    calls.emplace(ManagerPlace{path, "", {}}, [] {});
  }
  void TearDown() override {
    manager.answer();
    calls.reset();
    server.stop();
  }

  /// What the next call for a group comes to: none within ten seconds is nothing.
  comm::GroupCreated answer_to(const comm::CreateGroup& request) {
    calls->create(1, request);
    for (int i = 0; i < 1000; ++i) {
      for (const CallResult& result : calls->results()) return std::get<Created>(result).answer;
      std::this_thread::sleep_for(10ms);
    }
    return {};
  }
  std::string create() { return answer_to({}).refusal; }
  /// Of a manager that is not there now.
  void expect_that_the_next_manager_is_asked() {
    EXPECT_EQ(create(), "no_manager");
    api::RpcServer next;
    ASSERT_EQ(next.start(path, std::nullopt, {}, manager), std::nullopt);
    EXPECT_EQ(create(), "none");
    manager.answer();
    calls.reset();
    next.stop();
  }

  api::TemporaryDirectory directory;
  std::string path = directory.file("s");
  SlowManager manager;
  api::RpcServer server;
  std::optional<ManagerCalls> calls;
};

TEST_F(ManagerCallsTest, AGroupThatIsNotDestroyedKeepsNobodyWaiting) {
  calls->destroy({3, 1});
  ASSERT_TRUE(manager.wait_for("destroy 3"));
  calls->create(1, {});
  EXPECT_TRUE(manager.wait_for("create"));
  EXPECT_THAT(manager.said(), ElementsAre("destroy 3", "create"));
}

TEST_F(ManagerCallsTest, WhatAGroupHadIsThereForTheNextOne) {
  calls->destroy({3, 1});
  calls->destroy({4, 1});
  calls->create(1, {});
  ASSERT_TRUE(manager.wait_for("destroy 3"));
  std::this_thread::sleep_for(ManagerCalls::kDestroyedFirst / 5);
  manager.answer();
  EXPECT_TRUE(manager.wait_for("create"));
  EXPECT_THAT(manager.said(), ElementsAre("destroy 3", "destroyed 3", "destroy 4", "destroyed 4", "create"));
}

TEST_F(ManagerCallsTest, TheRhythmOfAGroupGoesToTheManagerAndItsTimeComesBack) {
  comm::CreateGroup request;
  EXPECT_EQ(answer_to(request).offset_ns, std::nullopt);
  request.rhythm = {400, 1000, 5};
  const comm::GroupCreated made = answer_to(request);
  EXPECT_EQ(manager.options().duty_per_mille(), 400u);
  EXPECT_EQ(manager.options().period_us(), 1000u);
  EXPECT_EQ(manager.options().job(), 5u);
  EXPECT_TRUE(made.turns);
  EXPECT_EQ(made.offset_ns, 400'000u);
}

TEST_F(ManagerCallsTest, CallsFollowEachOtherOnOneConnection) {
  ASSERT_EQ(create(), "none");
  const std::set<std::string> before = sockets();
  ASSERT_EQ(create(), "none");
  EXPECT_EQ(sockets(), before);
}

TEST_F(ManagerCallsTest, TheFirstGroupFindsAConnection) {
  calls->greet();
  const auto greetings = [&] { return std::ranges::count(manager.said(), "renew 0"); };
  for (int i = 0; i < 1000 && greetings() < 2; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(greetings(), 2);
  const std::set<std::string> before = sockets();
  ASSERT_EQ(create(), "none");
  calls->renew({7, 1}, {0});
  ASSERT_TRUE(manager.wait_for("renew 7"));
  EXPECT_EQ(sockets(), before);
}

TEST_F(ManagerCallsTest, AManagerThatIsNotThereYetIsAskedAgain) {
  server.stop();
  calls->greet();
  expect_that_the_next_manager_is_asked();
}

TEST_F(ManagerCallsTest, AManagerThatWasStartedAgainIsAsked) {
  ASSERT_EQ(create(), "none");
  server.stop();
  expect_that_the_next_manager_is_asked();
}

}  // namespace
}  // namespace weft::inc::daemon
