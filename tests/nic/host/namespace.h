// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A network namespace for the tests of a program, and a second one behind a veth.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace weft::nic::testing {

/// Runs a command; true when it succeeds.
inline bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Waits until the kernel has noticed the carrier of this veth: it learns of it in a thread of its own, and until then
/// drops what is sent without saying so.
inline bool wait_until_up(const std::string& interface) {
  return run("timeout 20 bash -c \"until ip link show " + interface +
             " | grep -v 'qdisc noop ' | grep -q 'state UP'; do sleep 0.01; done\"");
}

/// Each test is in a namespace of its own, which ends with the process: interface `here0` (10.78.0.1/24, fd78::1/64), a
/// veth whose other end `there0` (10.78.0.2/24) is in the namespace there(). Needs root.
class InNamespace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs root for network namespaces";
    if (!run("ip netns add " + there())) GTEST_SKIP() << "this machine lets nobody add network namespaces";
    ASSERT_TRUE(run("ip link set lo up"));
    ASSERT_TRUE(run("ip link add here0 type veth peer name there0 netns " + there()));
    ASSERT_TRUE(run("ip link set here0 mtu 4200 up"));
    ASSERT_TRUE(run("ip addr add 10.78.0.1/24 dev here0"));
    ASSERT_TRUE(run("ip addr add fd78::1/64 dev here0 nodad"));
    ASSERT_TRUE(run("ip -n " + there() + " link set there0 mtu 4200 up"));
    ASSERT_TRUE(run("ip -n " + there() + " addr add 10.78.0.2/24 dev there0"));
    ASSERT_TRUE(wait_until_up("here0"));
  }
  void TearDown() override { run("ip netns del " + there()); }
  static std::string there() { return "weftnic" + std::to_string(getpid()); }
};

}  // namespace weft::nic::testing
