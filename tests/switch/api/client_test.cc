// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the client says when the other end is not a weft that answers; service_test.cc has the calls that work.
#include "switch/api/client.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "tests/support/temporary_directory.h"
#include "tests/switch/api/raw_listener.h"

namespace weft::api {
namespace {

using testing::HasSubstr;
using Kind = CallError::Kind;

class ClientTest : public testing::Test {
 protected:
  void TearDown() override {
    if (listener >= 0) close(listener);
  }

  const TemporaryDirectory directory;
  const std::string path = directory.file("s");
  int listener = listen_on(path);
  Client client;
  ProcessInfo info;
};

TEST_F(ClientTest, AServerThatNeverAnswersIsUnreachable) {
  ASSERT_EQ(client.connect(path, std::chrono::milliseconds{50}), std::nullopt);
  const auto error = client.about(info);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::unreachable);
  EXPECT_EQ(error->message, "no answer on " + path + " within 50 ms; is weft-switch running?");
}

TEST_F(ClientTest, AServerThatHangsUpIsUnreachable) {
  ASSERT_EQ(client.connect(path, std::chrono::seconds{30}), std::nullopt);
  close(accept(listener, nullptr, nullptr));
  const auto error = client.about(info);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::unreachable);
  EXPECT_EQ(error->message, "the connection to " + path + " broke; is weft-switch running?");
}

TEST_F(ClientTest, AStaleSocketIsUnreachable) {
  close(listener);
  listener = -1;
  const auto error = client.connect(path, std::chrono::seconds{30});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::unreachable);
  EXPECT_EQ(error->message, "cannot reach " + path + ": nobody listens; is weft-switch running?");
}

}  // namespace
}  // namespace weft::api
