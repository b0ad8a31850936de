// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Kernel interfaces, in network namespaces that the test makes and removes. Needs root.
#include "switch/ports/netdev.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace weft::ports {
namespace {

using testing::HasSubstr;

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Runs f on a thread that has entered the namespace behind `path`.
template <typename F>
void in_namespace(const std::string& path, F&& f) {
  std::thread([&] {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0) << path;
    const int entered = setns(fd, CLONE_NEWNET);
    close(fd);
    ASSERT_EQ(entered, 0);
    f();
  }).join();
}

std::uint32_t ethtool_get(const std::string& interface, std::uint32_t command) {
  ethtool_value value{command, 0xffff};
  ifreq ifr{};
  interface.copy(ifr.ifr_name, IFNAMSIZ - 1);
  ifr.ifr_data = reinterpret_cast<char*>(&value);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(ioctl(fd, SIOCETHTOOL, &ifr), 0) << interface;
  close(fd);
  return value.data;
}

bool offloads_are(const std::string& interface, bool on) {
  for (const std::uint32_t command : {ETHTOOL_GTSO, ETHTOOL_GGSO, ETHTOOL_GGRO, ETHTOOL_GTXCSUM, ETHTOOL_GRXCSUM}) {
    if (command == ETHTOOL_GGRO && on) continue;  // off by default on veth
    if ((ethtool_get(interface, command) != 0) != on) return false;
  }
  return true;
}

// Every test runs in a fresh namespace of its own, named so that `ip` can be used on it.
class NetdevTest : public testing::Test {
 protected:
  static std::string name_of(const char* part) { return "weftnd" + std::to_string(getpid()) + part; }

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root for network namespaces";
    if (!run("ip netns add " + here)) GTEST_SKIP() << "this machine lets nobody add network namespaces";
  }
  void TearDown() override {
    run("ip netns del " + here);
    run("ip netns del " + there);
  }
  [[nodiscard]] std::string ip_here(const std::string& what) const { return "ip -n " + here + " " + what; }
  static std::string path_of(const std::string& name) { return "/run/netns/" + name; }
  // Runs f inside the test's namespace.
  template <typename F>
  void inside(F&& f) const {
    in_namespace(path_of(here), std::forward<F>(f));
  }

  const std::string here = name_of("a");
  const std::string there = name_of("b");
};

TEST_F(NetdevTest, AnInterfaceExistsOnceItIsThere) {
  inside([] { EXPECT_FALSE(Netdev("w0").exists()); });
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([] {
    EXPECT_TRUE(Netdev("w0").exists());
    EXPECT_FALSE(Netdev("w2").exists());
  });
}

TEST_F(NetdevTest, TheMtuIsReadAndSet) {
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([] {
    EXPECT_EQ(Netdev("w0").mtu(), 1500u);
    EXPECT_EQ(Netdev("w0").set_mtu(4200), "");
    EXPECT_EQ(Netdev("w0").mtu(), 4200u);
    EXPECT_EQ(Netdev("w2").mtu(), std::nullopt);
    EXPECT_THAT(Netdev("w0").set_mtu(1'000'000), HasSubstr("cannot set the MTU to 1000000 of interface w0"));
    EXPECT_THAT(Netdev("w2").set_mtu(1500), HasSubstr("No such device"));
  });
}

TEST_F(NetdevTest, NamesTooLongForTheKernelAreErrors) {
  inside([] {
    const Netdev netdev("an-interface-name-that-is-too-long");
    EXPECT_FALSE(netdev.exists());
    EXPECT_NE(netdev.set_mtu(1500), "");
    EXPECT_NE(netdev.set_up(), "");
    EXPECT_FALSE(netdev.running());
  });
}

TEST_F(NetdevTest, TheLinkRunsWhenBothEndsAreUp) {
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([&] {
    const Netdev ours("w0");
    EXPECT_FALSE(ours.running());
    EXPECT_EQ(ours.set_up(), "");
    EXPECT_FALSE(ours.running()) << "the other end is down";
    EXPECT_EQ(Netdev("w1").set_up(), "");
    EXPECT_TRUE(ours.running());
    EXPECT_EQ(ours.set_up(), "");
    ASSERT_TRUE(run(ip_here("link set w1 down")));
    EXPECT_FALSE(ours.running());
    EXPECT_FALSE(Netdev("w2").running());
  });
}

TEST_F(NetdevTest, OffloadsAreSwitchedOff) {
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([] {
    ASSERT_TRUE(offloads_are("w0", true));
    EXPECT_EQ(Netdev("w0").disable_offloads(), "");
    EXPECT_TRUE(offloads_are("w0", false));
    EXPECT_TRUE(offloads_are("w1", true));
    EXPECT_NE(Netdev("w2").disable_offloads(), "");
  });
}

TEST_F(NetdevTest, WhatWasChangedIsPutBack) {
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([] {
    const Netdev netdev("w0");
    const Netdev::Settings before = netdev.settings();
    EXPECT_FALSE(before.up);
    EXPECT_EQ(before.mtu_bytes, 1500u);
    ASSERT_EQ(netdev.set_mtu(4200), "");
    netdev.silence_kernel();
    ASSERT_EQ(netdev.disable_offloads(), "");
    ASSERT_EQ(netdev.set_up(), "");
    const Netdev::Peer peer = netdev.disable_peer_offloads();
    ASSERT_TRUE(offloads_are("w1", false));
    netdev.restore_peer_offloads(peer.before);
    netdev.restore(before);
    const Netdev::Settings after = netdev.settings();
    EXPECT_EQ(after.up, before.up);
    EXPECT_EQ(after.mtu_bytes, before.mtu_bytes);
    EXPECT_EQ(after.offloads, before.offloads);
    EXPECT_EQ(after.ipv6_off, before.ipv6_off);
    EXPECT_TRUE(offloads_are("w1", true));
  });
}

TEST_F(NetdevTest, AnotherInterfaceOfTheSameNameIsLeftAsItIs) {
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([this] {
    const Netdev netdev("w0");
    const Netdev::Settings before = netdev.settings();
    ASSERT_TRUE(run(ip_here("link del w0")) && run(ip_here("link add w0 mtu 2000 type veth peer name w1")));
    ASSERT_NE(netdev.index(), before.index);
    netdev.restore(before);
    EXPECT_EQ(netdev.mtu(), 2000u);
  });
}

TEST_F(NetdevTest, TheKernelsDropsAreThoseOfTheInterface) {
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([this] {
    EXPECT_EQ(Netdev("w0").drops().rx, 0u);
    EXPECT_EQ(Netdev("w2").drops().rx, 0u);
    // Larger than the MTU of the other end, which takes none of them.
    ASSERT_TRUE(run(ip_here("link set w0 mtu 100 up")) && run(ip_here("link set w1 mtu 1500 up")));
    ASSERT_TRUE(run(ip_here("address add 10.0.0.1/24 dev w1")) &&
                run(ip_here("neigh add 10.0.0.2 lladdr 02:00:00:00:00:01 dev w1")));
    run("ip netns exec " + here + " ping -c 2 -i 0.1 -W 1 -s 1000 10.0.0.2");
    EXPECT_GE(Netdev("w0").drops().rx, 2u);
  });
}

TEST_F(NetdevTest, ThePeerInTheSameNamespaceIsFound) {
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1")));
  inside([] {
    const Netdev::Peer peer = Netdev("w0").disable_peer_offloads();
    EXPECT_TRUE(peer.is_veth);
    EXPECT_EQ(peer.name, "w1");
    EXPECT_EQ(peer.error, "");
    EXPECT_TRUE(offloads_are("w1", false));
  });
}

TEST_F(NetdevTest, ThePeerInANamedNamespaceIsFound) {
  ASSERT_TRUE(run("ip netns add " + there));
  // Equal names and indexes on both sides: only the namespace tells them apart.
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w0 netns " + there)));
  inside([] {
    const Netdev::Peer peer = Netdev("w0").disable_peer_offloads();
    EXPECT_TRUE(peer.is_veth);
    EXPECT_EQ(peer.name, "w0");
    EXPECT_EQ(peer.error, "");
    EXPECT_TRUE(offloads_are("w0", true));
  });
  in_namespace(path_of(there), [] { EXPECT_TRUE(offloads_are("w0", false)); });
}

// A child process in a network namespace that has no name.
class NamelessNamespace {
 public:
  NamelessNamespace() {
    int ready[2];
    if (pipe(ready) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      const char result = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
      if (write(ready[1], &result, 1) != 1) _exit(1);
      alarm(60);  // ends by itself whatever happens to the test
      pause();
      _exit(0);
    }
    char result = 'n';
    ok_ = read(ready[0], &result, 1) == 1 && result == 'y';
    close(ready[0]);
    close(ready[1]);
  }
  ~NamelessNamespace() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  NamelessNamespace(const NamelessNamespace&) = delete;
  NamelessNamespace& operator=(const NamelessNamespace&) = delete;
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::string pid() const { return std::to_string(pid_); }
  [[nodiscard]] std::string path() const { return "/proc/" + pid() + "/ns/net"; }

 private:
  pid_t pid_ = 0;
  bool ok_ = false;
};

TEST_F(NetdevTest, ThePeerInANamespaceThatOnlyAProcessHasIsFound) {
  const NamelessNamespace nameless;
  ASSERT_TRUE(nameless.ok());
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w9 netns " + nameless.pid())));
  inside([] {
    const Netdev::Peer peer = Netdev("w0").disable_peer_offloads();
    EXPECT_TRUE(peer.is_veth);
    EXPECT_EQ(peer.name, "w9");
    EXPECT_EQ(peer.error, "");
  });
  in_namespace(nameless.path(), [] { EXPECT_TRUE(offloads_are("w9", false)); });
}

TEST_F(NetdevTest, APeerInANamespaceThatNobodyCanNameIsReported) {
  // The namespace lives on because a file descriptor holds it: no name, and no process is in it.
  auto nameless = std::make_unique<NamelessNamespace>();
  ASSERT_TRUE(nameless->ok());
  const int held = open(nameless->path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w9 netns " + nameless->pid())));
  nameless.reset();
  inside([] {
    const Netdev::Peer peer = Netdev("w0").disable_peer_offloads();
    EXPECT_TRUE(peer.is_veth);
    EXPECT_THAT(peer.error, HasSubstr("neither a name nor a process"));
  });
  close(held);
}

TEST_F(NetdevTest, WhatIsNoVethHasNoPeer) {
  inside([] {
    const Netdev::Peer peer = Netdev("lo").disable_peer_offloads();
    EXPECT_FALSE(peer.is_veth);
    EXPECT_EQ(peer.error, "");
    EXPECT_NE(Netdev("w2").disable_peer_offloads().error, "");
  });
}

TEST_F(NetdevTest, TheCallingThreadStaysInItsNamespace) {
  ASSERT_TRUE(run("ip netns add " + there));
  ASSERT_TRUE(run(ip_here("link add w0 type veth peer name w1 netns " + there)));
  inside([] {
    ASSERT_EQ(Netdev("w0").disable_peer_offloads().error, "");
    EXPECT_TRUE(Netdev("w0").exists());
    EXPECT_FALSE(Netdev("w1").exists());
  });
}

}  // namespace
}  // namespace weft::ports
