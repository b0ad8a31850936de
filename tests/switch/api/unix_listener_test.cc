// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/unix_listener.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace weft::api {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kNow{0};
constexpr std::chrono::milliseconds kLong{3'600'000};
constexpr int kPatienceMs = 30'000;  // a bound on hanging, not an expectation

// Waits for the end of a connection.
bool ends(int fd) {
  pollfd wait{fd, POLLIN, 0};
  char byte = 0;
  return poll(&wait, 1, kPatienceMs) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

class UnixListenerTest : public testing::Test {
 protected:
  // Accepted connections stay open and silent, as those of an owner that hangs.
  void serve(const ListenerLimits& limits) {
    ASSERT_EQ(listener.open(path), std::nullopt);
    listener.serve([this](int fd) { accepted.set_value(fd); }, limits);
  }

  int connect() const {
    const Connection connection = connect_unix(path, std::chrono::milliseconds{kPatienceMs});
    EXPECT_GE(connection.fd, 0);
    return connection.fd;
  }

  int take() {
    const int fd = accepted.get_future().get();
    accepted = {};
    return fd;
  }

  const TemporaryDirectory directory;
  const std::string path = directory.file("s");
  std::promise<int> accepted;
  UnixListener listener;
};

TEST_F(UnixListenerTest, GivesAwayConnectionsThatWork) {
  serve({kLong, 8});
  const int client = connect();
  const int server = take();
  ASSERT_EQ(send(client, "a", 1, 0), 1);
  pollfd wait{server, POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, kPatienceMs), 1);
  char byte = 0;
  EXPECT_EQ(recv(server, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'a');
  close(client);
  close(server);
}

TEST_F(UnixListenerTest, CutsAConnectionAtItsAgeThoughItsOwnerHangs) {
  serve({std::chrono::milliseconds{1}, 8});
  const int client = connect();
  const int server = take();
  EXPECT_TRUE(ends(client));
  EXPECT_TRUE(ends(server));
  close(client);
  close(server);
}

TEST_F(UnixListenerTest, CutsConnectionsWhenItStops) {
  serve({kLong, 8});
  const int client = connect();
  const int server = take();
  listener.stop(kNow);
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(connect_unix(path, kNow).error, ENOENT);
  close(client);
  close(server);
}

TEST_F(UnixListenerTest, AStopWithoutGraceOverridesOneWithMuch) {
  serve({kLong, 8});
  const int client = connect();
  const int server = take();
  listener.stop(kLong);
  pollfd wait{client, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 0), 0) << "it still lives";
  listener.stop(kNow);
  EXPECT_TRUE(ends(client));
  close(client);
  close(server);
}

TEST_F(UnixListenerTest, TurnsAwayMoreThanItsLimitUntilOneLeaves) {
  serve({kLong, 1});
  const int first = connect();
  const int first_server = take();
  const int second = connect();
  EXPECT_TRUE(ends(second));
  close(first);
  EXPECT_TRUE(ends(first_server)) << "both sides end together";
  const int third = connect();
  const int third_server = take();
  for (const int fd : {first_server, second, third, third_server}) close(fd);
}

TEST_F(UnixListenerTest, MayStopWithoutEverHavingServed) {
  ASSERT_EQ(listener.open(path), std::nullopt);
  listener.stop(kNow);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(UnixListenerTest, NamesThePathThatItCannotOpen) {
  ASSERT_EQ(listener.open(path), std::nullopt);
  UnixListener second;
  EXPECT_THAT(second.open(path).value_or(""), HasSubstr("another weft-switch answers on " + path));
}

}  // namespace
}  // namespace weft::api
