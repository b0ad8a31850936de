// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A veth pair in a network namespace that the test's thread makes, and that goes with it. Needs root.
#include "switch/ports/link_events.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace weft::ports {
namespace {

TEST(LinkEvents, EveryChangeOfAnInterfaceIsNoticedOnce) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for network namespaces";
  std::thread([] {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "this machine lets nobody add network namespaces";
    const LinkEvents events;
    EXPECT_FALSE(events.any());
    for (const char* change : {"ip link add w0 type veth peer name w1", "ip link set w0 up", "ip link set w0 mtu 1400",
                               "ip link set w0 down", "ip link set w0 name w2", "ip link del w2"}) {
      ASSERT_EQ(std::system(change), 0) << change;
      EXPECT_TRUE(events.any()) << change;
      EXPECT_FALSE(events.any()) << change;
    }
  }).join();
}

}  // namespace
}  // namespace weft::ports
