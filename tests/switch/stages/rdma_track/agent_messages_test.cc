// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/agent_messages.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::testing {
namespace {

using stages::AgentChange;
using stages::read_agent_changes;

const std::string kUp =
    R"({"up": true, "local": "10.0.0.1", "qpn": 17, "remote": "10.0.0.2", "remote_qpn": 18, "transport": "uc",
        "mtu": 1024, "sq_psn": 7, "rq_psn": 9, "process": "ib_send_bw", "pid": 4711, "device": "mlx5_0"})";

std::string error_of(const std::string& text) {
  std::vector<AgentChange> changes;
  return read_agent_changes(text, changes);
}
// What is wrong with kUp when a part of it is another.
std::string error_with(const std::string& from, const std::string& to) {
  std::string text = "[" + kUp + "]";
  text.replace(text.find(from), from.size(), to);
  return error_of(text);
}

TEST(AgentMessages, AConnectedQueuePairHasAllThatWasTold) {
  std::vector<AgentChange> changes;
  ASSERT_EQ(read_agent_changes("[" + kUp + R"(, {"up": false, "local": "fd00::1", "qpn": 2, "more": []}])", changes),
            "");
  ASSERT_EQ(changes.size(), 2u);
  const auto& qp = changes[0].qp;
  EXPECT_TRUE(changes[0].up);
  EXPECT_EQ(qp.local.to_string() + " " + qp.remote.to_string(), "10.0.0.1 10.0.0.2");
  EXPECT_EQ(qp.qpn, wire::Qpn(17));
  EXPECT_EQ(qp.remote_qpn, wire::Qpn(18));
  EXPECT_EQ(qp.transport, tables::QpTransport::uc);
  EXPECT_EQ(qp.pmtu_code, 3);
  EXPECT_EQ(qp.first_sent, wire::Psn(7));
  EXPECT_EQ(qp.first_due, wire::Psn(9));
  EXPECT_EQ(qp.process + " " + qp.device, "ib_send_bw mlx5_0");
  EXPECT_EQ(qp.pid, 4711u);
  EXPECT_FALSE(changes[1].up);
  EXPECT_EQ(changes[1].qp.local.to_string(), "fd00::1");
}

TEST(AgentMessages, WhatIsNotToldIsNotKnown) {
  std::vector<AgentChange> changes;
  ASSERT_EQ(read_agent_changes(R"([{"up": true, "local": "10.0.0.1", "qpn": 17, "remote": "10.0.0.2",
                                    "remote_qpn": 18}])",
                               changes),
            "");
  EXPECT_EQ(changes[0].qp.transport, tables::QpTransport::rc);
  EXPECT_EQ(changes[0].qp.pmtu_code, 0);
  EXPECT_EQ(changes[0].qp.first_sent, std::nullopt);
  EXPECT_EQ(changes[0].qp.process, "");
}

TEST(AgentMessages, MistakesAreNamed) {
  EXPECT_EQ(error_of("{}"), "expected a JSON list");
  EXPECT_EQ(error_of("[1"), "expected a JSON list");
  EXPECT_EQ(error_of("[1]"), "a change is no object");
  EXPECT_EQ(error_of("[{}]"), "up: expected true or false");
  EXPECT_EQ(error_with("\"10.0.0.1\"", "\"10.0.0\""), "local: expected an IP address");
  EXPECT_EQ(error_with("17", "1"), "qpn: expected a number from 2 to 16777215");
  EXPECT_EQ(error_with("17", "-17"), "qpn: expected a number from 2 to 16777215");
  EXPECT_EQ(error_with("\"10.0.0.2\"", "\"fd00::1\""), "local and remote differ in their family");
  EXPECT_EQ(error_with("\"uc\"", "\"ud\""), "transport: expected rc or uc");
  EXPECT_EQ(error_with("1024", "1000"), "mtu: expected 256, 512, 1024, 2048 or 4096");

  EXPECT_EQ(error_with("\"sq_psn\": 7", "\"sq_psn\": 7.5"), "sq_psn: expected a number from 0 to 16777215");
  EXPECT_EQ(error_with("mlx5_0", std::string(65, 'x')), "device: expected a text of at most 64 bytes");
  std::string many = "[";
  for (int i = 0; i < 257; ++i) many += i == 0 ? "0" : ",0";
  EXPECT_EQ(error_of(many + "]"), "more than 256 changes");
}

TEST(AgentMessages, NamesHaveNothingThatATerminalObeys) {
  std::vector<AgentChange> changes;
  std::string text = "[" + kUp + "]";
  text.replace(text.find("ib_send_bw"), 10, "a\\u001b[2Jb");
  ASSERT_EQ(read_agent_changes(text, changes), "");
  EXPECT_EQ(changes[0].qp.process, "a?[2Jb");
}

}  // namespace
}  // namespace weft::testing
