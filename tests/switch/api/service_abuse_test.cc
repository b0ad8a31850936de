// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Clients that break the protocol, beside one that keeps it and must not notice.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "switch/api/client.h"
#include "switch/api/service.h"
#include "switch/api/unix_listener.h"
#include "switch/api/unix_socket.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"
#include "tests/switch/api/http2_bytes.h"

namespace weft::api {
namespace {

using namespace http2;  // NOLINT: every line below is made of its words
using testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience{30'000};  // a bound on hanging, not an expectation

class ServiceAbuseTest : public testing::Test {
 protected:
  void SetUp() override {
    backend.add("ports", {{{"switch", "tor1"}, {"port", "h1"}}});
    ASSERT_EQ(service.start(path, backend), std::nullopt);
    ASSERT_EQ(client.connect(path, kPatience), std::nullopt);
  }
  void TearDown() override {
    for (const int fd : open) close(fd);
    EXPECT_EQ(works(), "yes") << "after all of it";
  }

  // A connection without gRPC behind it, open until the test ends.
  int connection() {
    open.push_back(connect_unix(path, kPatience).fd);
    return open.back();
  }

  // Sends what the other side takes.
  static void offer(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
        continue;
      }
      pollfd wait{fd, POLLOUT, 0};
      if (errno != EAGAIN || poll(&wait, 1, 2'000) != 1 || (wait.revents & POLLERR) != 0) return;
    }
  }

  // What the service sends until it has said `end` or closes.
  static std::string answer(int fd, std::string_view end) {
    std::string got;
    char part[4096];
    pollfd wait{fd, POLLIN, 0};
    while (got.find(end) == std::string::npos && poll(&wait, 1, static_cast<int>(kPatience.count())) == 1) {
      const ssize_t n = recv(fd, part, sizeof part, 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) break;
      if (n > 0) got.append(part, static_cast<std::size_t>(n));
    }
    return got;
  }

  std::string works() {
    ProcessInfo info;
    const auto error = client.about(info);
    return error ? error->message : "yes";
  }

  const TemporaryDirectory directory;
  const std::string path = directory.file("weft.sock");
  FakeBackend backend;
  Service service;
  Client client;
  std::vector<int> open;
};

TEST_F(ServiceAbuseTest, BytesByHandAreAnsweredWhenTheyAreRight) {
  const int fd = connection();
  offer(fd, opening() + call(1, "Show") + frame(kData, kEndStream, 1, message(show_request("ports"))));
  EXPECT_THAT(answer(fd, "grpc-status"), HasSubstr(R"({"switch":"tor1","port":"h1"})"));
}

TEST_F(ServiceAbuseTest, WhoFindsAllConnectionsTakenIsToldThat) {
  for (std::size_t i = 0; i < ListenerLimits{}.connections; ++i) connection();
  Client late;
  ASSERT_EQ(late.connect(path, kPatience), std::nullopt);
  ProcessInfo info;
  const auto error = late.about(info);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, CallError::Kind::refused);
  EXPECT_EQ(error->message,
            "the process on " + path + " has as many connections as it takes; try again: each ends within a minute");
}

TEST_F(ServiceAbuseTest, RequestsThatAreCutOffAnywhereDisturbNobody) {
  const std::string whole = opening() + call(1, "Show") + frame(kData, kEndStream, 1, message(show_request("ports")));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const int fd = connect_unix(path, kPatience).fd;
    offer(fd, std::string_view(whole).substr(0, size));
    if (size % 2 == 0) {
      close(fd);
    } else {
      open.push_back(fd);
    }
    if (size % 16 == 0) {
      EXPECT_EQ(works(), "yes") << size << " bytes";
    }
  }
}

TEST_F(ServiceAbuseTest, CallsThatAreInterleavedByteByByteAreBothAnswered) {
  const int fd = connection();
  const std::string ports = message(show_request("ports"));
  const std::string zebra = message(show_request("zebra"));
  ASSERT_EQ(ports.size(), zebra.size());
  offer(fd, opening() + call(1, "Show") + call(3, "Show"));
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::uint8_t flags = i + 1 == ports.size() ? kEndStream : 0;
    offer(fd, frame(kData, flags, 1, ports.substr(i, 1)) + frame(kData, flags, 3, zebra.substr(i, 1)));
  }
  std::string got = answer(fd, "unknown table");
  if (got.find("h1") == std::string::npos) got += answer(fd, "h1");
  EXPECT_THAT(got, HasSubstr(R"({"switch":"tor1","port":"h1"})"));
  EXPECT_THAT(got, HasSubstr("unknown table"));
}

TEST_F(ServiceAbuseTest, MessagesThatClaimFourGigabytesTakeNothingFromOthers) {
  for (int i = 0; i < 20; ++i) {
    const int fd = connection();
    offer(fd, opening() + call(1, "Show"));
    // As much of it as flow control lets through.
    offer(fd, frame(kData, 0, 1, std::string("\0\xff\xff\xff\xff", 5) + std::string(16'000, 'x')));
    offer(fd, frame(kData, 0, 1, std::string(16'000, 'x')) + frame(kData, 0, 1, std::string(16'000, 'x')));
    EXPECT_EQ(works(), "yes");
  }
}

TEST_F(ServiceAbuseTest, RequestsThatAreNoProtobufAreRefusedOneByOne) {
  for (const std::string& bytes : {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\x0a\x7f"),
                                   std::string("\x0a\x02\xff\xfe"), std::string(1, '\0')}) {
    const int fd = connection();
    offer(fd, opening() + call(1, "Show") + frame(kData, kEndStream, 1, message(bytes)));
    EXPECT_THAT(answer(fd, "grpc-status"), HasSubstr("grpc-status"));
    EXPECT_EQ(works(), "yes");
  }
}

TEST_F(ServiceAbuseTest, NumbersAtTheEndsOfTheirRangeAreAnswered) {
  for (const std::uint64_t rows : {std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    std::string first;
    ShowSummary summary;
    const auto error = client.show(
        {"ports", "tor1", rows}, [&](const std::string& row) { first = row; }, summary);
    EXPECT_FALSE(error) << rows;
    EXPECT_EQ(first, R"({"switch":"tor1","port":"h1"})");
  }
  ShowSummary summary;
  const auto error = client.show(
      {std::string(60'000, 'x'), "", 0}, [](const std::string&) {}, summary);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, CallError::Kind::refused);
}

TEST_F(ServiceAbuseTest, AThousandCallsThatNeverEndOnOneConnectionLeaveOthersTheirs) {
  const int fd = connection();
  offer(fd, opening());
  for (std::uint32_t i = 0; i < 1000; ++i) offer(fd, call(1 + 2 * i, "Show"));
  EXPECT_EQ(works(), "yes");
  // All of them end at once now and keep every thread busy for a moment, in which a client asks again by itself.
  close(fd);
  open.pop_back();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(works(), "yes") << i;
}

TEST_F(ServiceAbuseTest, HeadersWithoutEndAreCut) {
  const int fd = connection();
  offer(fd, opening() + call(1, "Show", 0));
  const std::string more(16'000, 'a');
  for (int i = 0; i < 200; ++i) offer(fd, frame(9, 0, 1, more));  // CONTINUATION
  EXPECT_EQ(works(), "yes");
}

TEST_F(ServiceAbuseTest, OneClientWorksWhileTenSendGarbage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 10; ++t) {
    threads.emplace_back([this, t, seed] {
      std::mt19937 random(seed + t);
      for (int i = 0; i < 20; ++i) {
        std::string bytes = i % 3 == 0 ? "" : opening();
        if (i % 3 == 2) bytes += call(1, "Show");
        for (unsigned n = random() % 20'000; n > 0; --n) bytes += static_cast<char>(random());
        const int fd = connect_unix(path, kPatience).fd;
        offer(fd, bytes);
        close(fd);
      }
    });
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(works(), "yes");
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft::api
