// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: what a client sends over the socket of the control service. The first byte says how much of the protocol it
// keeps, the second which method it calls. Whatever it is, another client is answered afterwards.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "switch/api/client.h"
#include "switch/api/service.h"
#include "switch/api/unix_socket.h"
#include "tests/switch/api/fake_backend.h"
#include "tests/switch/api/http2_bytes.h"

namespace weft::api {
namespace {

constexpr std::chrono::milliseconds kPatience{20'000};
constexpr int kSilenceMs = 2;  // an answer that takes longer is not waited for
constexpr unsigned kInputsPerLook = 64;

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "not true: %s\n", what.c_str());
  std::abort();
}

/// A service with one switch, and a client that keeps the protocol.
class Fixture {
 public:
  Fixture() : path_(std::filesystem::temp_directory_path() / ("weft-fuzz-" + std::to_string(getpid())) / "s") {
    backend_.add("ports", {{{"switch", "tor1"}, {"port", "h1"}}, {{"switch", "tor1"}, {"port", "h2"}}});
    backend_.add("many", numbered_rows(2000));
    const auto problem = service_.start(path_, backend_);
    require(!problem, problem.value_or(""));
  }
  ~Fixture() {
    service_.stop();
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }

  void offer(std::string_view bytes) {
    const Connection connection = connect_unix(path_, kPatience);
    require(connection.fd >= 0, "the service accepts a connection");
    while (!bytes.empty()) {
      const ssize_t sent = send(connection.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    char answer[4096];
    pollfd wait{connection.fd, POLLIN, 0};
    while (poll(&wait, 1, kSilenceMs) == 1 && recv(connection.fd, answer, sizeof answer, 0) > 0) {
    }
    close(connection.fd);
    if (++inputs_ % kInputsPerLook == 0) look();
  }

  // The client that keeps the protocol.
  void look() {
    Client client;
    const auto refused = client.connect(path_, kPatience);
    require(!refused, refused ? refused->message : "");
    ProcessInfo info;
    const auto error = client.about(info);
    require(!error, error ? error->message : "");
    require(info.switches.size() == 1, "the service knows its switch");
  }

 private:
  std::string path_;
  FakeBackend backend_;
  Service service_;
  unsigned inputs_ = 0;
};

void exercise(std::string_view bytes) {
  static Fixture fixture;
  const auto how = static_cast<std::uint8_t>(bytes[0]) % 5;
  static constexpr std::string_view kMethods[]{"Show", "About", "ListTables", "Unknown"};
  const std::string_view method = kMethods[static_cast<std::uint8_t>(bytes[1]) % std::size(kMethods)];
  const std::string_view rest = bytes.substr(2);
  const std::string call = http2::opening() + http2::call(1, method);
  if (how == 0) {
    fixture.offer(rest);
  } else if (how == 1) {  // frames of HTTP/2
    fixture.offer(http2::opening() + std::string(rest));
  } else if (how == 2) {  // frames within a call
    fixture.offer(call + std::string(rest));
  } else if (how == 3) {  // the bytes of a call's messages
    fixture.offer(call + http2::frame(http2::kData, http2::kEndStream, 1, rest));
  } else {  // a request of protobuf
    fixture.offer(call + http2::frame(http2::kData, http2::kEndStream, 1, http2::message(rest)));
  }
}

}  // namespace
}  // namespace weft::api

// gRPC stays until the process ends, with what it holds.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLargest = 16'000;
  if (size >= 2 && size <= kLargest) {
    weft::api::exercise({reinterpret_cast<const char*>(data), size});
  }
  return 0;
}
