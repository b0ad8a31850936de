// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/command_stream.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "switch/api/command_streams.h"
#include "switch/api/service.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"

namespace weft::api {
namespace {

constexpr std::chrono::milliseconds kPatience{20'000};  // a bound on hanging, not an expectation

/// Answers with the number of the command, and counts them.
class Agents : public FakeBackend {
 public:
  CommandResult run_command(const CommandRequest& request) override {
    while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CommandResult result;
    if (request.words.at(0) == "throw") throw std::runtime_error("a defect");
    if (request.words.at(0) == "refuse") result.error = "changes: not so";
    result.rows.push_back({{"switch", "tor1"}, {"number", request.words.at(0)}, {"peer", request.peer}});
    ++count;
    return result;
  }
  std::atomic<bool> held{false};
  std::atomic<int> count{0};
};

class CommandStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(service.start(directory.file("s"), backend), std::nullopt);
    ASSERT_EQ(client.connect(directory.file("s"), kPatience), std::nullopt);
  }
  static CommandRequest agent(const std::string& word) { return {"rdma_track", "agent", {word}, ""}; }
  // Its number, or why there is none.
  static std::string answer(CommandStream& stream) {
    CommandResult result;
    std::optional<CallError> error;
    if (!stream.take(kPatience, result, error)) return "nothing";
    return error ? error->message : result.rows.at(0).value("number", "");
  }

  const TemporaryDirectory directory;
  Agents backend;
  Service service;
  Client client;
};

TEST_F(CommandStreamTest, CommandsAreAnsweredInOrderHoweverManyAreUnderWay) {
  const auto stream = client.open_stream();
  for (int i = 0; i < 500; ++i) stream->send(agent(std::to_string(i)));
  for (int i = 0; i < 500; ++i) EXPECT_EQ(answer(*stream), std::to_string(i));
  for (int i = 0; i < 50; ++i) {
    stream->send(agent(std::to_string(i)));
    EXPECT_EQ(answer(*stream), std::to_string(i));
  }
  ProcessInfo info;
  EXPECT_EQ(client.about(info), std::nullopt) << "calls over the same connection";
}

TEST_F(CommandStreamTest, WhoDoesNotWaitHearsNothingYet) {
  backend.held = true;
  const auto stream = client.open_stream();
  stream->send(agent("1"));
  CommandResult result;
  std::optional<CallError> error;
  EXPECT_FALSE(stream->take(std::chrono::milliseconds{0}, result, error));
  EXPECT_FALSE(stream->take(std::chrono::milliseconds{20}, result, error));
  EXPECT_EQ(error, std::nullopt);
  backend.held = false;
  EXPECT_EQ(answer(*stream), "1");
}

TEST_F(CommandStreamTest, ARefusalEndsItAndComesAfterTheAnswersBeforeIt) {
  for (const auto& [word, why] : {std::pair<std::string, std::string>{"refuse", "changes: not so"},
                                  {"throw", "weft could not answer: a defect"}}) {
    const auto stream = client.open_stream();
    backend.count = 0;
    for (const std::string& each : {std::string("1"), word, std::string("3")}) stream->send(agent(each));
    EXPECT_EQ(answer(*stream), "1");
    EXPECT_EQ(answer(*stream), why);
    EXPECT_EQ(answer(*stream), why) << "it stays so";
    EXPECT_LE(backend.count, 2) << "what comes after it does not run";
  }
}

TEST_F(CommandStreamTest, OtherVerbsAreRefused) {
  const auto stream = client.open_stream();
  stream->send({"inc", "slow", {"1"}, ""});
  EXPECT_EQ(answer(*stream), "a stream takes verbs for agents alone, and 'slow' of 'inc' is none");
  EXPECT_EQ(backend.count, 0);
}

TEST_F(CommandStreamTest, WhileOneTakesItsTimeCallsAreAnswered) {
  backend.held = true;
  std::vector<std::unique_ptr<CommandStream>> streams;
  for (int i = 0; i < 12; ++i) {
    streams.push_back(client.open_stream());
    streams.back()->send(agent(std::to_string(i)));
  }
  for (int i = 0; i < 20; ++i) {
    Client other;
    ASSERT_EQ(other.connect(directory.file("s"), kPatience), std::nullopt);
    ProcessInfo info;
    EXPECT_EQ(other.about(info), std::nullopt);
  }
  backend.held = false;
  for (int i = 0; i < 12; ++i) EXPECT_EQ(answer(*streams[static_cast<std::size_t>(i)]), std::to_string(i));
}

TEST_F(CommandStreamTest, StreamsBeyondTheMostEndAtOnceAndLeaveTheOthersTheirs) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<CommandStream>> streams;
  const auto open = [&] {
    if (streams.size() % 10 == 0) {  // a connection takes 16 calls
      clients.push_back(std::make_unique<Client>());
      EXPECT_EQ(clients.back()->connect(directory.file("s"), kPatience), std::nullopt);
    }
    streams.push_back(clients.back()->open_stream());
    streams.back()->send(agent("1"));
    return answer(*streams.back());
  };
  for (std::size_t i = 0; i < CommandStreams::kMost; ++i) ASSERT_EQ(open(), "1") << i;
  EXPECT_EQ(open(), "too many streams of commands are open; try again");
  streams[0]->send(agent("2"));
  EXPECT_EQ(answer(*streams[0]), "2");
  // One that leaves makes room: the service hears of it a moment later.
  streams[1].reset();
  std::string said;
  for (int i = 0; i < 1000 && said != "1"; ++i) said = open();
  EXPECT_EQ(said, "1");
}

TEST_F(CommandStreamTest, TheServiceStopsWhileStreamsAreOpenAndStartsAgain) {
  const auto idle = client.open_stream(), busy = client.open_stream();
  for (const auto* stream : {&idle, &busy}) {
    (*stream)->send(agent("1"));
    ASSERT_EQ(answer(**stream), "1");
  }
  backend.held = true;
  busy->send(agent("2"));
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    backend.held = false;
  });
  service.stop();
  release.join();
  for (const auto* stream : {&idle, &busy}) {
    CommandResult result;
    std::optional<CallError> error;
    (*stream)->send(agent("3"));
    while ((*stream)->take(kPatience, result, error) && !error) {
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, CallError::Kind::unreachable) << error->message;
  }
  ASSERT_EQ(service.start(directory.file("s"), backend), std::nullopt);
  Client again;
  ASSERT_EQ(again.connect(directory.file("s"), kPatience), std::nullopt);
  const auto stream = again.open_stream();
  stream->send(agent("4"));
  EXPECT_EQ(answer(*stream), "4");
}

TEST_F(CommandStreamTest, OneThatGoesWithCommandsUnderWayDisturbsNobody) {
  for (int i = 0; i < 20; ++i) {
    Client leaver;
    ASSERT_EQ(leaver.connect(directory.file("s"), kPatience), std::nullopt);
    const auto stream = leaver.open_stream();
    for (int k = 0; k < i; ++k) stream->send(agent("1"));
  }
  const auto stream = client.open_stream();
  stream->send(agent("2"));
  EXPECT_EQ(answer(*stream), "2");
}

}  // namespace
}  // namespace weft::api
