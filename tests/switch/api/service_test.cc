// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/service.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "switch/api/client.h"
#include "switch/api/unix_socket.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"
#include "tests/switch/api/raw_listener.h"

namespace weft::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = CallError::Kind;

constexpr std::chrono::milliseconds kPatience{30'000};  // a bound on hanging, not an expectation

std::string text_of(const std::optional<CallError>& error) {
  return error ? error->message : "no error";
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    backend.add("ports", {{{"switch", "tor1"}, {"port", "h1"}}, {{"switch", "tor1"}, {"port", "h2"}}});
    backend.add("drops", FakeBackend::Rows::array());
    ASSERT_EQ(service.start(path, backend), std::nullopt);
    ASSERT_EQ(client.connect(path, kPatience), std::nullopt);
  }

  std::optional<CallError> show(const Question& question) {
    rows.clear();
    return client.show(
        question, [this](const std::string& row) { rows.push_back(row); }, summary);
  }

  // A connection that speaks no gRPC.
  int raw() const { return connect_unix(path, kPatience).fd; }

  const TemporaryDirectory directory;
  const std::string path = directory.file("run/weft.sock");
  FakeBackend backend;
  Service service;
  Client client;
  std::vector<std::string> rows;
  ShowSummary summary;
};

TEST_F(ServiceTest, AboutTellsTheFactsAndTheSwitches) {
  ProcessInfo info;
  ASSERT_EQ(text_of(client.about(info)), "no error");
  EXPECT_EQ(info.facts.dump(), R"({"version":"0.1.0","pid":4711,"uptime_s":12,"workers":[1,2]})");
  EXPECT_THAT(info.switches, ElementsAre("tor1"));
}

TEST_F(ServiceTest, ListsTheTablesOfTheBackend) {
  std::vector<TableInfo> tables;
  ASSERT_EQ(text_of(client.tables(tables)), "no error");
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].name, "ports");
  EXPECT_EQ(tables[1].summary, "The ports of a fake switch.");
}

TEST_F(ServiceTest, ShowKeepsTheOrderOfRowsAndKeys) {
  ASSERT_EQ(text_of(show({"ports", "", 0})), "no error");
  EXPECT_THAT(rows, ElementsAre(R"({"switch":"tor1","port":"h1"})", R"({"switch":"tor1","port":"h2"})"));
  EXPECT_FALSE(summary.truncated);
  EXPECT_THAT(summary.switches, ElementsAre("tor1"));
}

TEST_F(ServiceTest, AnEmptyTableIsNoError) {
  ASSERT_EQ(text_of(show({"drops", "tor1", 0})), "no error");
  EXPECT_TRUE(rows.empty());
  EXPECT_THAT(summary.switches, ElementsAre("tor1"));
}

TEST_F(ServiceTest, AnUnknownTableIsAnErrorWithAGuessAndTheList) {
  const auto error = show({"port", "", 0});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::refused);
  EXPECT_EQ(error->message, "unknown table 'port'; did you mean 'ports'? Tables: drops, ports.");
  EXPECT_EQ(text_of(show({"zebra", "", 0})), "unknown table 'zebra'. Tables: drops, ports.");
}

TEST_F(ServiceTest, AnUnknownSwitchIsAnErrorWithAGuessAndTheList) {
  EXPECT_EQ(text_of(show({"ports", "tor2", 0})), "unknown switch 'tor2'; did you mean 'tor1'? Switches: tor1.");
}

TEST_F(ServiceTest, StreamsManyRowsInOrder) {
  const int count = static_cast<int>(testing::rounds(100'000));
  backend.add("many", numbered_rows(count));
  int next = 0;
  bool in_order = true;
  const auto check = [&](const std::string& row) {
    in_order = in_order && nlohmann::json::parse(row)["index"] == next++;
  };
  ASSERT_EQ(text_of(client.show({"many", "", 0}, check, summary)), "no error");
  EXPECT_EQ(next, count);
  EXPECT_TRUE(in_order);
}

TEST_F(ServiceTest, TellsThatMoreRowsExist) {
  backend.add("many", numbered_rows(10));
  ASSERT_EQ(text_of(show({"many", "", 3})), "no error");
  EXPECT_EQ(rows.size(), 3U);
  EXPECT_TRUE(summary.truncated);
  ASSERT_EQ(text_of(show({"many", "", 10})), "no error");
  EXPECT_FALSE(summary.truncated);
}

TEST_F(ServiceTest, NeverAsksTheBackendForMoreThanAMillionRows) {
  ASSERT_EQ(text_of(show({"ports", "", 0})), "no error");
  EXPECT_EQ(backend.asked_max_rows, 1'000'000U);
  ASSERT_EQ(text_of(show({"ports", "", ~std::uint64_t{0}})), "no error");
  EXPECT_EQ(backend.asked_max_rows, 1'000'000U);
}

TEST_F(ServiceTest, ABackendThatThrowsDoesNotEndTheService) {
  backend.content["bad"] = [](const std::string&) -> FakeBackend::Rows { throw std::runtime_error("out of ideas"); };
  const auto error = show({"bad", "", 0});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::refused);
  EXPECT_EQ(error->message, "weft could not answer: out of ideas");
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

TEST_F(ServiceTest, BytesThatAreNoUtf8AreReplaced) {
  backend.add("bytes", {{{"switch", "tor1"}, {"text", "a\xff"}}});
  ASSERT_EQ(text_of(show({"bytes", "", 0})), "no error");
  EXPECT_THAT(rows, ElementsAre("{\"switch\":\"tor1\",\"text\":\"a\xef\xbf\xbd\"}"));
}

TEST_F(ServiceTest, TheSocketIsForItsOwnerOnly) {
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

TEST_F(ServiceTest, ASocketThatAnswersIsLeftAloneAndNamed) {
  Service second;
  EXPECT_EQ(second.start(path, backend),
            "another weft-switch answers on " + path + "; stop it, or choose another control socket");
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

TEST_F(ServiceTest, TheSocketOfADeadProcessIsReplaced) {
  const std::string stale = directory.file("stale");
  leave_stale_socket(stale);
  ASSERT_TRUE(std::filesystem::is_socket(stale));
  Service next;
  ASSERT_EQ(next.start(stale, backend), std::nullopt);
  EXPECT_EQ(text_of(client.connect(stale, kPatience)), "no error");
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

TEST_F(ServiceTest, APathMayHoldCharactersThatUrisReserve) {
  const std::string odd = directory.file("a b%41?#:@/s");
  Service other;
  ASSERT_EQ(other.start(odd, backend), std::nullopt);
  EXPECT_TRUE(std::filesystem::is_socket(odd));
  EXPECT_EQ(text_of(client.connect(odd, kPatience)), "no error");
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

TEST_F(ServiceTest, StopRemovesTheSocketAndStartWorksAgain) {
  service.stop();
  EXPECT_TRUE(std::filesystem::is_empty(directory.file("run")));
  const auto error = client.connect(path, kPatience);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::unreachable);
  EXPECT_EQ(error->message, "cannot reach " + path + ": No such file or directory; is weft-switch running?");
  ASSERT_EQ(service.start(path, backend), std::nullopt);
  EXPECT_EQ(text_of(client.connect(path, kPatience)), "no error");
}

TEST_F(ServiceTest, StopCutsAStreamThatNobodyFinishesReading) {
  backend.add("many", numbered_rows(100'000));
  std::size_t received = 0;
  const auto stop_once = [&](const std::string&) {
    if (received++ == 0) service.stop();
  };
  const auto error = client.show({"many", "", 0}, stop_once, summary);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::unreachable);
  EXPECT_LT(received, 100'000U);
}

TEST_F(ServiceTest, AReaderThatLeavesFreesItsPlace) {
  backend.add("many", numbered_rows(20'000));
  for (int i = 0; i < 20; ++i) {
    Client leaver;
    ASSERT_EQ(text_of(leaver.connect(path, kPatience)), "no error");
    struct Enough {};
    EXPECT_THROW(static_cast<void>(leaver.show(
                     {"many", "", 0}, [](const std::string&) { throw Enough{}; }, summary)),
                 Enough);
  }
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

TEST_F(ServiceTest, RefusesAFifthReaderButStillTellsAboutItself) {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  bool open = false;
  backend.content["slow"] = [&](const std::string&) {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
    return FakeBackend::Rows::array();
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      Client reader;
      ShowSummary ignored;
      EXPECT_EQ(text_of(reader.connect(path, kPatience)), "no error");
      EXPECT_EQ(text_of(reader.show(
                    {"slow", "", 0}, [](const std::string&) {}, ignored)),
                "no error");
    });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return inside == 4; });
  lock.unlock();
  EXPECT_THAT(text_of(show({"ports", "", 0})), HasSubstr("too many tables"));
  ProcessInfo info;
  EXPECT_EQ(text_of(client.about(info)), "no error");
  lock.lock();
  open = true;
  changed.notify_all();
  lock.unlock();
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

TEST_F(ServiceTest, CallsWithoutAThreadWaitForOneWithinTheirDeadline) {
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  backend.in_reload = [&opened] { opened.wait(); };
  std::vector<std::thread> callers;
  for (int i = 0; i < 12; ++i) {  // more than the service has threads
    callers.emplace_back([this] {
      Client caller;
      ReloadResult ignored;
      EXPECT_EQ(text_of(caller.connect(path, kPatience)), "no error");
      EXPECT_EQ(text_of(caller.reload(ignored)), "no error");
    });
  }
  Client impatient;
  ASSERT_EQ(text_of(impatient.connect(path, std::chrono::milliseconds(100))), "no error");
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string text = "no error";
  while (text.find("too many calls") == std::string::npos && std::chrono::steady_clock::now() < end) {
    ProcessInfo info;
    text = text_of(impatient.about(info));
  }
  EXPECT_EQ(text, "the process on " + path + " answers too many calls at once; try again");
  gate.set_value();
  for (auto& caller : callers) caller.join();
}

TEST_F(ServiceTest, ARequestOverTheLimitIsRefused) {
  const auto error = show({std::string(std::size_t{1} << 20, 'x'), "", 0});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::refused);
  EXPECT_THAT(error->message, HasSubstr("larger than max"));
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

// Writes what the peer takes, and waits until it has closed or fallen silent with something read.
void offer(int fd, const std::string& bytes) {
  static_cast<void>(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  shutdown(fd, SHUT_WR);
  pollfd wait{fd, POLLIN, 0};
  char answer[4096];
  while (poll(&wait, 1, static_cast<int>(kPatience.count())) > 0 && recv(fd, answer, sizeof answer, 0) > 0) {
  }
  close(fd);
}

TEST_F(ServiceTest, RandomBytesDoNotDisturbIt) {
  constexpr std::uint64_t kSeed = 20'261'121;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings{"\0\0\0\x04\0\0\0\0\0", 9};
  const std::vector<std::string> openings{"", preface, preface + settings,
                                          preface + settings + std::string("\0\0\x20\x01\x04\0\0\0\x01", 9)};
  for (int i = 0; i < 200; ++i) {
    std::string bytes = openings[i % openings.size()];
    const std::size_t length = bytes.size() + random() % 2000;
    while (bytes.size() < length) bytes += static_cast<char>(random());
    offer(raw(), bytes);
  }
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
}

// Asks for a table as a client with an endless flow-control window does, and reads nothing of the answer.
std::string greedy_request(const std::string& table) {
  const auto text = [](const std::string& value) { return std::string(1, static_cast<char>(value.size())) + value; };
  const auto frame = [](char type, char flags, char stream, const std::string& payload) {
    const auto length = static_cast<char>(payload.size());
    return std::string{0, 0, length, type, flags, 0, 0, 0, stream} + payload;
  };
  std::string headers;  // HPACK literals
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{":method", "POST"},
                                                        {":scheme", "http"},
                                                        {":path", "/weft.control.v1.Control/Show"},
                                                        {":authority", "weft"},
                                                        {"te", "trailers"},
                                                        {"content-type", "application/grpc"}}) {
    headers += std::string(1, '\0') + text(name) + text(value);
  }
  const std::string message = "\x0a" + text(table);  // field 1
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
         frame(4, 0, 0, {0, 4, 0x7f, '\xff', '\xff', '\xff'}) +  // SETTINGS_INITIAL_WINDOW_SIZE
         frame(8, 0, 0, {0x7f, '\xff', 0, 0}) +                  // WINDOW_UPDATE of the connection
         frame(1, 4, 1, headers) +                               // HEADERS, END_HEADERS
         frame(0, 1, 1, std::string(4, '\0') + text(message));   // DATA, END_STREAM
}

TEST_F(ServiceTest, StopDoesNotWaitForAClientThatNeverReads) {
  bool asked = false;
  std::mutex mutex;
  std::condition_variable changed;
  backend.content["many"] = [&](const std::string&) {
    const std::lock_guard lock(mutex);
    asked = true;
    changed.notify_all();
    return numbered_rows(50'000);
  };
  const int fd = raw();
  const std::string request = greedy_request("many");
  ASSERT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return asked; });
  lock.unlock();
  // Until the answer fills the buffers of the socket, which hold far less than the table.
  int waiting = 0;
  for (int before = -1; waiting != before || waiting < 100'000;) {
    before = waiting;
    pollfd wait{fd, POLLIN, 0};
    poll(&wait, 1, 50);
    ASSERT_EQ(ioctl(fd, FIONREAD, &waiting), 0);
  }
  service.stop();
  close(fd);
}

TEST_F(ServiceTest, SilentConnectionsDoNotStopOthers) {
  std::vector<int> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(raw());
  ASSERT_EQ(text_of(client.connect(path, kPatience)), "no error");
  EXPECT_EQ(text_of(show({"ports", "", 0})), "no error");
  for (const int fd : silent) close(fd);
}

}  // namespace
}  // namespace weft::api
