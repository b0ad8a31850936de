// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/channel.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "switch/api/client.h"
#include "switch/api/service.h"
#include "switch/api/unix_socket.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"
#include "tests/switch/api/http2_bytes.h"
#include "tests/switch/api/raw_listener.h"

namespace weft::api {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr std::chrono::milliseconds kPatience{30'000};  // a bound on hanging, not an expectation

/// Between a client and a service; keeps what both say.
class Relay {
 public:
  Relay(const std::string& from, const std::string& to) : listener_(listen_on(from)), to_(to) {
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    if (thread_.joinable()) thread_.join();
    close(listener_);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  /// Returns when one of them has closed the connection.
  void wait() { thread_.join(); }

  std::string client_says, service_says;

 private:
  void run() {
    pollfd comes{listener_, POLLIN, 0};
    if (poll(&comes, 1, static_cast<int>(kPatience.count())) != 1) return;
    const std::array<int, 2> ends{accept(listener_, nullptr, nullptr), connect_unix(to_, kPatience).fd};
    std::array<pollfd, 2> wait{pollfd{ends[0], POLLIN, 0}, pollfd{ends[1], POLLIN, 0}};
    while (poll(wait.data(), wait.size(), static_cast<int>(kPatience.count())) > 0) {
      if (wait[0].revents != 0 && !pass(ends[0], ends[1], client_says)) break;
      if (wait[1].revents != 0 && !pass(ends[1], ends[0], service_says)) break;
    }
    for (const int end : ends) close(end);
  }
  static bool pass(int from, int to, std::string& kept) {
    char part[65536];
    const ssize_t n = recv(from, part, sizeof part, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN;
    kept.append(part, static_cast<std::size_t>(n));
    for (ssize_t sent = 0; sent < n;) {
      const ssize_t more = send(to, part + sent, static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
      pollfd room{to, POLLOUT, 0};
      if (more < 0 && (errno != EAGAIN || poll(&room, 1, static_cast<int>(kPatience.count())) != 1)) return false;
      sent += std::max<ssize_t>(more, 0);
    }
    return n > 0;
  }

  int listener_;
  std::string to_;
  std::thread thread_;
};

/// What client and service say to each other during so many calls.
struct Talk {
  explicit Talk(int calls) {
    const TemporaryDirectory directory;
    FakeBackend backend;
    Service service;
    EXPECT_EQ(service.start(directory.file("service"), backend), std::nullopt);
    Relay relay(directory.file("relay"), directory.file("service"));
    {
      Client connected;
      ProcessInfo info;
      EXPECT_EQ(connected.connect(directory.file("relay"), kPatience), std::nullopt);
      for (int call = 0; call < calls; ++call) EXPECT_EQ(connected.about(info), std::nullopt);
    }
    relay.wait();
    client = http2::frames_of(relay.client_says.substr(http2::kPreface.size()));
    server = http2::frames_of(relay.service_says);
  }
  std::vector<http2::Frame> client, server;
};

TEST(ChannelTest, NeitherSidePingsToMeasureThePath) {
  const auto is_ping = [](const http2::Frame& f) { return f.type == http2::kPing && (f.flags & http2::kAck) == 0; };
  const auto is_data = [](const http2::Frame& f) { return f.type == http2::kData; };
  const Talk talk(20);
  for (const auto& frames : {talk.client, talk.server}) {
    EXPECT_GE(std::count_if(frames.begin(), frames.end(), is_data), 20);
    EXPECT_EQ(std::count_if(frames.begin(), frames.end(), is_ping), 0);
  }
}

TEST(ChannelTest, TheWindowOfAnAnswerIsAMegabyte) {
  const Talk talk(1);
  ASSERT_THAT(talk.client, Not(IsEmpty()));
  ASSERT_EQ(talk.client.front().type, http2::kSettings);
  EXPECT_THAT(http2::settings_of(talk.client.front()), Contains(Pair(http2::kInitialWindowSize, 1u << 20)));
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

TEST(ChannelTest, AnAnswerThatSaysNoIsAnAnswer) {
  using enum grpc::StatusCode;
  for (const auto code : {UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED}) {
    EXPECT_TRUE(went_unanswered({code, ""})) << code;
  }
  for (const auto code : {OK, INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED}) {
    EXPECT_FALSE(went_unanswered({code, ""})) << code;
  }
}

}  // namespace
}  // namespace weft::api
