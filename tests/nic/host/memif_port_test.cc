// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A port whose server of memif does not do what it should. tests/live/test_inc_memif.py has one that does.
#include "nic/host/memif_port.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "switch/base/rng.h"
#include "switch/base/unix_address.h"
#include "tests/nic/host/namespace.h"
#include "tests/support/temporary_directory.h"

namespace weft::nic {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

enum Message : std::uint16_t { kAck = 1, kHello, kInit, kAddRegion, kAddRing, kConnect, kConnected, kDisconnect };
constexpr std::size_t kMessageBytes = 128;
/// HELLO, four answers ACK (to INIT, ADD_REGION and two ADD_RING), CONNECTED.
constexpr int kAnswers = 6;
/// A ring with 512 slots, as both sides have it in shared memory.
constexpr std::size_t kRingBytes = 128 + 512 * 16;

using Bytes = std::vector<std::uint8_t>;

Bytes message(std::uint16_t type, const std::string& reason = "") {
  Bytes out(kMessageBytes);
  std::memcpy(out.data(), &type, sizeof type);
  std::copy_n(reason.begin(), std::min(reason.size(), kMessageBytes - 6), out.begin() + 6);
  return out;
}

/// A server that a test tells what to say.
class FakeServer {
 public:
  explicit FakeServer(const std::string& path) : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un at;
    EXPECT_TRUE(write_unix_address(path, at));
    unlink(path.c_str());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
  }
  ~FakeServer() { close(); }

  /// The messages of a server that does what it should.
  static Bytes right(int number) { return message(number == 0 ? kHello : number < kAnswers - 1 ? kAck : kConnected); }

  /// Takes the next client, in a thread. `say` gives the server's next message; an empty one closes the connection.
  void serve(std::function<Bytes(int)> say) {
    join();
    thread_ = std::thread([this, say = std::move(say)] { run(say); });
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// The client is served, and will be told nothing more.
  void close() {
    join();
    peer_ = Descriptor();
    forget_memory();
  }

  /// All memory that the client has shared.
  [[nodiscard]] std::span<std::uint8_t> memory() const { return {memory_, bytes_}; }
  [[nodiscard]] int memory_descriptor() const { return shared_.empty() ? -1 : shared_[0].get(); }
  /// The ring from the server to the client, whose fields are those of memif.
  template <class T>
  T& of_ring(std::size_t offset) {
    return *reinterpret_cast<T*>(memory_ + kRingBytes + offset);
  }
  std::uint16_t& tail() { return of_ring<std::uint16_t>(64); }
  void wake() {
    const std::uint64_t one = 1;
    EXPECT_EQ(write(shared_.at(2).get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

 private:
  void run(const std::function<Bytes(int)>& say) {
    pollfd wait{listener_.get(), POLLIN, 0};
    if (poll(&wait, 1, 5000) != 1) return;
    peer_ = Descriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    forget_memory();
    for (int number = 0; number < kAnswers; ++number) {
      if (number > 0 && !hear()) break;
      const Bytes text = say(number);
      if (text.empty()) {
        peer_ = Descriptor();
        return;
      }
      static_cast<void>(send(peer_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0);
    }
  }
  bool hear() {
    pollfd wait{peer_.get(), POLLIN, 0};
    if (poll(&wait, 1, 5000) != 1) return false;
    Bytes text(kMessageBytes);
    iovec data{text.data(), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr m{};
    m.msg_iov = &data;
    m.msg_iovlen = 1;
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    if (recvmsg(peer_.get(), &m, MSG_CMSG_CLOEXEC) <= 0) return false;
    if (const cmsghdr* head = CMSG_FIRSTHDR(&m); head != nullptr && head->cmsg_type == SCM_RIGHTS) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
      shared_.emplace_back(fd);
      if (shared_.size() == 1) map(fd);
    }
    return true;
  }
  void map(int fd) {
    struct stat is {};
    ASSERT_EQ(fstat(fd, &is), 0);
    bytes_ = static_cast<std::size_t>(is.st_size);
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(at, MAP_FAILED);
    memory_ = static_cast<std::uint8_t*>(at);
  }
  void forget_memory() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
    memory_ = nullptr;
    bytes_ = 0;
    shared_.clear();
  }

  Descriptor listener_, peer_;
  std::thread thread_;
  std::vector<Descriptor> shared_;  ///< memory, and events of the rings to the server and to the client
  std::uint8_t* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

class MemifPortTest : public testing::InNamespace {
 protected:
  void SetUp() override {
    testing::InNamespace::SetUp();
    if (IsSkipped()) return;
    server = std::make_unique<FakeServer>(path);
  }
  std::string open(MemifPort& port) const {
    return port.open({path, 0, "memif%d", *wire::IpPrefix::parse(kAddress), 4200});
  }
  /// What becomes of a port whose server says this.
  std::string opened(std::function<Bytes(int)> say) {
    server->serve(std::move(say));
    std::string problem;
    {
      MemifPort port;
      problem = open(port);
    }
    server->join();
    return problem;
  }
  /// Runs the port until the condition holds; false: it does not within five seconds.
  bool run_until(MemifPort& port, const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      for (const auto& frame : port.receive()) EXPECT_LE(frame.size(), 4224u);
      port.wait(1'000'000);
    }
    return condition();
  }

  static constexpr const char* kAddress = "10.81.0.1/24";
  api::TemporaryDirectory directory;
  std::string path = directory.file("memif.sock");
  std::unique_ptr<FakeServer> server;
};

TEST_F(MemifPortTest, AServerThatClosesInTheMiddleIsAnError) {
  for (int at = 0; at < kAnswers; ++at) {
    const auto problem = opened([at](int number) { return number == at ? Bytes{} : FakeServer::right(number); });
    EXPECT_THAT(problem,
                AnyOf(HasSubstr("the server closed the connection"), HasSubstr("cannot speak with the server")))
        << "message " << at;
  }
  EXPECT_EQ(opened(FakeServer::right), "") << "the same server, when it does what it should";
}

TEST_F(MemifPortTest, NonsenseIsAnError) {
  Rng draw(1);
  for (int round = 0; round < 300; ++round) {
    const int at = round % kAnswers;
    Bytes nonsense(1 + draw.below(kMessageBytes + 100));
    for (auto& byte : nonsense) byte = static_cast<std::uint8_t>(draw.below(256));
    // What has the type of the right message is the right message.
    if (nonsense.size() > 1) nonsense[1] |= 0x80;
    EXPECT_NE(opened([&](int number) { return number == at ? nonsense : FakeServer::right(number); }), "");
  }
}

TEST_F(MemifPortTest, ARefusalIsToldWithItsReason) {
  const auto refuse = [](const std::string& reason) {
    return [reason](int number) { return number == 1 ? message(kDisconnect, reason) : FakeServer::right(number); };
  };
  EXPECT_THAT(opened(refuse("no such interface")), HasSubstr("the server refuses: no such interface"));
  const std::string endless(500, 'x');
  EXPECT_LE(opened(refuse(endless)).size(), path.size() + 30 + kMessageBytes) << "a reason without an end";
}

TEST_F(MemifPortTest, ASilentServerIsAnErrorInTime) {
  server->serve([](int number) {
    if (number == 2) std::this_thread::sleep_for(2500ms);
    return number == 2 ? Bytes{} : FakeServer::right(number);
  });
  MemifPort port;
  EXPECT_THAT(open(port), HasSubstr("the server does not answer"));
}

TEST_F(MemifPortTest, MemoryThatIsWrittenAtRandomHarmsNobody) {
  server->serve(FakeServer::right);
  MemifPort port;
  ASSERT_EQ(open(port), "");
  server->join();
  EXPECT_NE(ftruncate(server->memory_descriptor(), 4096), 0) << "memory that a server could take away";
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    Rng draw(2);
    const auto memory = server->memory();
    const auto* tail = reinterpret_cast<const std::uint8_t*>(&server->tail());
    while (!stop) {
      // Mostly the rings, and what they say of frames; not how many there are, for which the port ends it.
      const std::size_t reach = draw.below(8) == 0 ? memory.size() : 2 * kRingBytes;
      std::uint8_t* at = memory.data() + draw.below(reach);
      const auto value = static_cast<std::uint8_t>(draw.below(4) == 0 ? draw.below(256) : 0);
      if (at != tail && at != tail + 1) __atomic_store_n(at, value, __ATOMIC_RELAXED);
    }
  });
  // The kernel has something to send meanwhile.
  EXPECT_TRUE(testing::run("(ping -c 100 -i 0.002 -W 1 10.81.0.77 &)"));
  Rng draw(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto more = static_cast<std::uint16_t>(draw.below(64));
    __atomic_store_n(&server->tail(), static_cast<std::uint16_t>(server->tail() + more), __ATOMIC_RELEASE);
    for (const auto& got : port.receive()) EXPECT_LE(got.size(), 4224u);
    static_cast<void>(port.ready());
    port.flush();
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(port.link_up());
  EXPECT_GT(port.counters().rx_truncated, 0u) << "lengths that no frame has";
}

TEST_F(MemifPortTest, AServerThatSaysMoreThanThereCanBeIsLost) {
  server->serve(FakeServer::right);
  MemifPort port;
  ASSERT_EQ(open(port), "");
  server->join();
  ASSERT_TRUE(port.link_up());
  server->tail() = 600;
  server->wake();
  EXPECT_TRUE(run_until(port, [&] { return !port.link_up(); }));
  port.send({});
  EXPECT_EQ(port.counters().tx_errors, 1u);
}

TEST_F(MemifPortTest, AServerThatComesBackIsFound) {
  server->serve(FakeServer::right);
  MemifPort port;
  ASSERT_EQ(open(port), "");
  server->close();
  EXPECT_TRUE(run_until(port, [&] { return !port.link_up(); }));
  // At first it says nothing, which keeps others of the program waiting for a moment only.
  server->serve([](int) {
    std::this_thread::sleep_for(400ms);
    return Bytes{};
  });
  std::this_thread::sleep_for(1100ms);
  const auto before = std::chrono::steady_clock::now();
  port.wait(1'000'000);
  for (int i = 0; i < 40; ++i) port.receive();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 300ms);
  EXPECT_FALSE(port.link_up());
  server->serve(FakeServer::right);
  EXPECT_TRUE(run_until(port, [&] { return port.link_up(); }));
}

}  // namespace
}  // namespace weft::nic
