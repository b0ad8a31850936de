// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the client says when the other end is not a weft that answers; service_test.cc has the calls that work.
#include "switch/api/client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "switch/api/channel.h"
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

// True if the peer closes the connection within the time; what it sends is read.
bool hangs_up_within(int fd, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd poll_for{fd, POLLIN, 0};
    if (left.count() <= 0 || poll(&poll_for, 1, static_cast<int>(left.count())) == 0) return false;
    char bytes[512];
    if (read(fd, bytes, sizeof bytes) <= 0) return true;
  }
}

TEST(ChannelTest, AServerMayTakeItsTimeForTheHandshake) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listening, 8), 0);
  ASSERT_EQ(getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size), 0);

  const auto channel = plain_channel("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  channel->GetState(true);
  const int accepted = accept(listening, nullptr, nullptr);
  EXPECT_FALSE(hangs_up_within(accepted, std::chrono::milliseconds{500}));
  close(accepted);
  close(listening);
}

}  // namespace
}  // namespace weft::api
