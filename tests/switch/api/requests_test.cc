// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Requests over a socket: what a client asks reaches the process, and what that says comes back.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "switch/api/client.h"
#include "switch/api/service.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"

namespace weft::api {
namespace {

using testing::ElementsAre;

class Process : public FakeBackend {
 public:
  SessionStart start_capture(const CaptureRequest& request) override {
    capture = request;
    return refusal.empty() ? SessionStart{7, ""} : SessionStart{0, refusal};
  }
  SessionStart start_trace(const TraceRequest& request) override {
    trace = request;
    return {8, ""};
  }
  SessionStart start_record(const RecordRequest& request) override {
    record = request;
    return {9, ""};
  }
  SessionPart read_session(std::uint64_t id) override {
    if (id == 7) return {std::string("\0\xff\n", 3), true, "enough", 5, 6, 9, ""};
    return {"", false, "", 0, 0, 0, "there is no such session"};
  }
  bool stop_session(std::uint64_t id) override { return id == 7; }
  Outcome clear(const std::vector<std::string>& tables, const std::string& switch_name) override {
    cleared = tables;
    return {"cleared at " + switch_name, ""};
  }
  Outcome set(const SetRequest& request) override {
    if (request.name == "throw") throw std::runtime_error("a defect");
    return {"", "unknown setting '" + request.name + "' " + std::to_string(request.words.size())};
  }

  std::vector<CommandInfo> commands() const override {
    return {{"inc", "group", "Makes a group.", {{"type", "object"}}}};
  }
  CommandResult run_command(const CommandRequest& request) override {
    command = request;
    if (request.verb == "slow") {
      while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CommandResult result;
    if (request.verb == "wrong") result.error = "unknown command 'wrong' of inc";
    result.rows.push_back({{"switch", "tor1"}, {"group", 5}});
    result.done = "made";
    return result;
  }

  CommandRequest command{};
  std::atomic<bool> release{false};
  CaptureRequest capture{};
  TraceRequest trace{};
  RecordRequest record{};
  std::vector<std::string> cleared;
  std::string refusal;
};

class RequestsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(service.start(directory.file("s"), backend), std::nullopt);
    ASSERT_EQ(client.connect(directory.file("s"), std::chrono::seconds(10)), std::nullopt);
  }
  void expect_refused(const std::optional<CallError>& error, const std::string& message) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, CallError::Kind::refused);
    EXPECT_EQ(error->message, message);
  }

  const TemporaryDirectory directory;
  Process backend;
  Service service;
  Client client;
  std::uint64_t session = 0;
};

TEST_F(RequestsTest, ACaptureRequestArrivesWhole) {
  CaptureRequest request;
  request.query = {"tor1", {"h1", "h2"}, true, false, {"any"}, {17}, {7, 8}, {"CNP"}, {{5, 9}}};
  request.snaplen = 100;
  request.max_packets = 1;
  request.max_bytes = 2;
  request.duration_ms = 3;
  request.buffer_mib = 4;
  ASSERT_EQ(client.start(request, session), std::nullopt);
  EXPECT_EQ(session, 7U);
  const capture::Query& query = backend.capture.query;
  EXPECT_EQ(query.switch_name, "tor1");
  EXPECT_THAT(query.ports, ElementsAre("h1", "h2"));
  EXPECT_TRUE(query.rx && !query.tx);
  EXPECT_THAT(query.drops, ElementsAre("any"));
  EXPECT_THAT(query.dest_qps, ElementsAre(17U));
  EXPECT_THAT(query.groups, ElementsAre(7U, 8U));
  EXPECT_THAT(query.opcodes, ElementsAre("CNP"));
  ASSERT_EQ(query.psns.size(), 1U);
  EXPECT_EQ(query.psns[0].first, 5U);
  EXPECT_EQ(query.psns[0].last, 9U);
  EXPECT_EQ(backend.capture.snaplen, 100U);
  EXPECT_EQ(backend.capture.max_packets, 1U);
  EXPECT_EQ(backend.capture.max_bytes, 2U);
  EXPECT_EQ(backend.capture.duration_ms, 3U);
  EXPECT_EQ(backend.capture.buffer_mib, 4U);
}

TEST_F(RequestsTest, ATraceRequestArrivesWhole) {
  TraceRequest request{.query = {.switch_name = "tor2"}, .packets = 3, .duration_ms = 4};
  ASSERT_EQ(client.start(request, session), std::nullopt);
  EXPECT_EQ(session, 8U);
  EXPECT_EQ(backend.trace.query.switch_name, "tor2");
  EXPECT_EQ(backend.trace.packets, 3U);
  EXPECT_EQ(backend.trace.duration_ms, 4U);
}

TEST_F(RequestsTest, ARecordRequestArrivesWhole) {
  const RecordRequest request{.switch_name = "tor1",
                              .ports = {"h1", "tor1/h2"},
                              .queues = {3, 4},
                              .period_ns = 5000,
                              .max_samples = 6,
                              .duration_ms = 7,
                              .buffer_mib = 8};
  ASSERT_EQ(client.start(request, session), std::nullopt);
  EXPECT_EQ(session, 9U);
  EXPECT_EQ(backend.record.switch_name, "tor1");
  EXPECT_THAT(backend.record.ports, ElementsAre("h1", "tor1/h2"));
  EXPECT_THAT(backend.record.queues, ElementsAre(3U, 4U));
  EXPECT_EQ(backend.record.period_ns, 5000U);
  EXPECT_EQ(backend.record.max_samples, 6U);
  EXPECT_EQ(backend.record.duration_ms, 7U);
  EXPECT_EQ(backend.record.buffer_mib, 8U);
}

TEST_F(RequestsTest, WhatASessionSaysComesBackByteByByte) {
  SessionPart part;
  ASSERT_EQ(client.read(7, part), std::nullopt);
  EXPECT_EQ(part.data, std::string("\0\xff\n", 3));
  EXPECT_TRUE(part.ended);
  EXPECT_EQ(part.reason, "enough");
  EXPECT_EQ(part.packets, 5U);
  EXPECT_EQ(part.lost, 6U);
  EXPECT_EQ(part.missed, 9U);
  EXPECT_EQ(client.stop(7), std::nullopt);
}

TEST_F(RequestsTest, RefusalsAreSentences) {
  backend.refusal = "unknown port 'x'";
  expect_refused(client.start(CaptureRequest{}, session), "unknown port 'x'");
  SessionPart part;
  expect_refused(client.read(9, part), "there is no such session");
  expect_refused(client.stop(9), "there is no such session");
  std::string text;
  expect_refused(client.set({"colour", {"a", "b"}, ""}, text), "unknown setting 'colour' 2");
  expect_refused(client.set({"throw", {}, ""}, text), "weft could not answer: a defect");
}

TEST_F(RequestsTest, NumbersOutOfRangeReachNobody) {
  CaptureRequest request;
  request.snaplen = 13;
  expect_refused(client.start(request, session), "snaplen is 14 to 262144 bytes");
  request.snaplen = 262145;
  expect_refused(client.start(request, session), "snaplen is 14 to 262144 bytes");
  request.snaplen = 14;
  request.buffer_mib = 257;
  expect_refused(client.start(request, session), "a buffer has at most 256 MiB");
  TraceRequest trace;
  trace.packets = 10'001;
  expect_refused(client.start(trace, session), "a trace follows at most 10000 packets");
  trace.packets = 1;
  trace.query.dest_qps.resize(1001);
  expect_refused(client.start(trace, session), "more than 1000 conditions");
  expect_refused(client.start(RecordRequest{.queues = {8}}, session), "a port has queues 0 to 7, and no queue 8");
  expect_refused(client.start(RecordRequest{.period_ns = 999}, session),
                 "samples follow each other after a microsecond to an hour");
  expect_refused(client.start(RecordRequest{.buffer_mib = 257}, session), "a buffer has at most 256 MiB");
}

TEST_F(RequestsTest, ClearNamesItsTables) {
  std::string text;
  ASSERT_EQ(client.clear({"ports", "drops"}, "tor1", text), std::nullopt);
  EXPECT_THAT(backend.cleared, ElementsAre("ports", "drops"));
  EXPECT_EQ(text, "cleared at tor1");
}

TEST_F(RequestsTest, ACommandArrivesWholeAndItsRowsComeBack) {
  std::vector<CommandInfo> commands;
  ASSERT_EQ(client.commands(commands), std::nullopt);
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].stage + " " + commands[0].verb + ": " + commands[0].summary, "inc group: Makes a group.");
  EXPECT_EQ(commands[0].arguments["type"], "object");
  CommandResult result;
  ASSERT_EQ(client.run_command({"inc", "group", {"id=5", "name=a b"}, "tor1"}, result), std::nullopt);
  EXPECT_EQ(backend.command.stage, "inc");
  EXPECT_EQ(backend.command.verb, "group");
  EXPECT_THAT(backend.command.words, ElementsAre("id=5", "name=a b"));
  EXPECT_EQ(backend.command.switch_name, "tor1");
  EXPECT_EQ(result.rows.dump(), R"([{"switch":"tor1","group":5}])");
  EXPECT_EQ(result.done, "made");
  expect_refused(client.run_command({"inc", "wrong", {}, ""}, result), "unknown command 'wrong' of inc");
  expect_refused(client.run_command({"inc", "group", std::vector<std::string>(1001, "a=1"), ""}, result),
                 "more than 1000 arguments");
}

TEST_F(RequestsTest, ATableOfQosSaysWhatItNeeds) {
  ShowSummary summary;
  expect_refused(client.show(
                     {"queues", "", 0}, [](const std::string&) {}, summary),
                 "table 'queues' needs a switch with `qos`");
}

TEST_F(RequestsTest, WhileCommandsTakeTheirTimeOtherCallsAreAnswered) {
  backend.add("ports", numbered_rows(3));
  std::vector<std::thread> slow;
  for (int i = 0; i < 3; ++i) {
    slow.emplace_back([this] {
      Client other;
      CommandResult result;
      if (other.connect(directory.file("s"), std::chrono::seconds(20))) return;
      if (const auto error = other.run_command({"inc", "slow", {}, ""}, result)) {
        EXPECT_EQ(error->message, "too many commands run at the same time; try again");
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    Client other;
    ASSERT_EQ(other.connect(directory.file("s"), std::chrono::seconds(2)), std::nullopt);
    ShowSummary summary;
    std::size_t rows = 0;
    EXPECT_EQ(other.show(
                  {"ports", "", 0}, [&](const std::string&) { ++rows; }, summary),
              std::nullopt);
    EXPECT_EQ(rows, 3U);
  }
  backend.release = true;
  for (auto& thread : slow) thread.join();
}

}  // namespace
}  // namespace weft::api
