// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Operate over a socket: what a client asks reaches the operator, and what that says comes back.
#include <gmock/gmock.h>

#include "switch/api/operate_client.h"
#include "switch/api/service.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"

namespace weft::api {
namespace {

using testing::ElementsAre;

class FakeOperator : public Operator {
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

  CaptureRequest capture{};
  TraceRequest trace{};
  RecordRequest record{};
  std::vector<std::string> cleared;
  std::string refusal;
};

class OperateTest : public testing::Test {
 protected:
  class Process : public FakeBackend {
   public:
    Operator* operate() override { return op; }
    Operator* op = nullptr;
  };
  void SetUp() override {
    backend.op = &op;
    ASSERT_EQ(service.start(directory.file("s"), backend), std::nullopt);
    ASSERT_EQ(client.connect(directory.file("s"), std::chrono::seconds(10)), std::nullopt);
    calls = std::make_unique<OperateClient>(client);
  }
  void expect_refused(const std::optional<CallError>& error, const std::string& message) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, CallError::Kind::refused);
    EXPECT_EQ(error->message, message);
  }

  const TemporaryDirectory directory;
  FakeOperator op;
  Process backend;
  Service service;
  Client client;
  std::unique_ptr<OperateClient> calls;
  std::uint64_t session = 0;
};

TEST_F(OperateTest, ACaptureRequestArrivesWhole) {
  CaptureRequest request;
  request.query = {"tor1", {"h1", "h2"}, true, false, {"any"}, {17}, {"CNP"}, {{5, 9}}};
  request.snaplen = 100;
  request.max_packets = 1;
  request.max_bytes = 2;
  request.duration_ms = 3;
  request.buffer_mib = 4;
  ASSERT_EQ(calls->start(request, session), std::nullopt);
  EXPECT_EQ(session, 7U);
  const capture::Query& query = op.capture.query;
  EXPECT_EQ(query.switch_name, "tor1");
  EXPECT_THAT(query.ports, ElementsAre("h1", "h2"));
  EXPECT_TRUE(query.rx && !query.tx);
  EXPECT_THAT(query.drops, ElementsAre("any"));
  EXPECT_THAT(query.dest_qps, ElementsAre(17U));
  EXPECT_THAT(query.opcodes, ElementsAre("CNP"));
  ASSERT_EQ(query.psns.size(), 1U);
  EXPECT_EQ(query.psns[0].first, 5U);
  EXPECT_EQ(query.psns[0].last, 9U);
  EXPECT_EQ(op.capture.snaplen, 100U);
  EXPECT_EQ(op.capture.max_packets, 1U);
  EXPECT_EQ(op.capture.max_bytes, 2U);
  EXPECT_EQ(op.capture.duration_ms, 3U);
  EXPECT_EQ(op.capture.buffer_mib, 4U);
}

TEST_F(OperateTest, ATraceRequestArrivesWhole) {
  TraceRequest request{.query = {.switch_name = "tor2"}, .packets = 3, .duration_ms = 4};
  ASSERT_EQ(calls->start(request, session), std::nullopt);
  EXPECT_EQ(session, 8U);
  EXPECT_EQ(op.trace.query.switch_name, "tor2");
  EXPECT_EQ(op.trace.packets, 3U);
  EXPECT_EQ(op.trace.duration_ms, 4U);
}

TEST_F(OperateTest, ARecordRequestArrivesWhole) {
  const RecordRequest request{.switch_name = "tor1",
                              .ports = {"h1", "tor1/h2"},
                              .queues = {3, 4},
                              .period_ns = 5000,
                              .max_samples = 6,
                              .duration_ms = 7,
                              .buffer_mib = 8};
  ASSERT_EQ(calls->start(request, session), std::nullopt);
  EXPECT_EQ(session, 9U);
  EXPECT_EQ(op.record.switch_name, "tor1");
  EXPECT_THAT(op.record.ports, ElementsAre("h1", "tor1/h2"));
  EXPECT_THAT(op.record.queues, ElementsAre(3U, 4U));
  EXPECT_EQ(op.record.period_ns, 5000U);
  EXPECT_EQ(op.record.max_samples, 6U);
  EXPECT_EQ(op.record.duration_ms, 7U);
  EXPECT_EQ(op.record.buffer_mib, 8U);
}

TEST_F(OperateTest, WhatASessionSaysComesBackByteByByte) {
  SessionPart part;
  ASSERT_EQ(calls->read(7, part), std::nullopt);
  EXPECT_EQ(part.data, std::string("\0\xff\n", 3));
  EXPECT_TRUE(part.ended);
  EXPECT_EQ(part.reason, "enough");
  EXPECT_EQ(part.packets, 5U);
  EXPECT_EQ(part.lost, 6U);
  EXPECT_EQ(part.missed, 9U);
  EXPECT_EQ(calls->stop(7), std::nullopt);
}

TEST_F(OperateTest, RefusalsAreSentences) {
  op.refusal = "unknown port 'x'";
  expect_refused(calls->start(CaptureRequest{}, session), "unknown port 'x'");
  SessionPart part;
  expect_refused(calls->read(9, part), "there is no such session");
  expect_refused(calls->stop(9), "there is no such session");
  std::string text;
  expect_refused(calls->set({"colour", {"a", "b"}, ""}, text), "unknown setting 'colour' 2");
  expect_refused(calls->set({"throw", {}, ""}, text), "weft could not answer: a defect");
}

TEST_F(OperateTest, NumbersOutOfRangeReachNobody) {
  CaptureRequest request;
  request.snaplen = 13;
  expect_refused(calls->start(request, session), "snaplen is 14 to 262144 bytes");
  request.snaplen = 262145;
  expect_refused(calls->start(request, session), "snaplen is 14 to 262144 bytes");
  request.snaplen = 14;
  request.buffer_mib = 257;
  expect_refused(calls->start(request, session), "a buffer has at most 256 MiB");
  TraceRequest trace;
  trace.packets = 10'001;
  expect_refused(calls->start(trace, session), "a trace follows at most 10000 packets");
  trace.packets = 1;
  trace.query.dest_qps.resize(1001);
  expect_refused(calls->start(trace, session), "more than 1000 conditions");
  expect_refused(calls->start(RecordRequest{.queues = {8}}, session), "a port has queues 0 to 7, and no queue 8");
  expect_refused(calls->start(RecordRequest{.period_ns = 999}, session),
                 "samples follow each other after a microsecond to an hour");
  expect_refused(calls->start(RecordRequest{.buffer_mib = 257}, session), "a buffer has at most 256 MiB");
}

TEST_F(OperateTest, ClearNamesItsTables) {
  std::string text;
  ASSERT_EQ(calls->clear({"ports", "drops"}, "tor1", text), std::nullopt);
  EXPECT_THAT(op.cleared, ElementsAre("ports", "drops"));
  EXPECT_EQ(text, "cleared at tor1");
}

TEST_F(OperateTest, AProcessThatCannotBeOperatedSaysSo) {
  backend.op = nullptr;
  std::string text;
  expect_refused(calls->clear({}, "", text),
                 "the process on " + directory.file("s") + " does not know this request: another version?");
}

}  // namespace
}  // namespace weft::api
