// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/interface.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "tests/nic/host/namespace.h"

namespace weft::nic {
namespace {

using testing::run;

class InterfaceTest : public testing::InNamespace {};

TEST_F(InterfaceTest, AnInterfaceHasItsMtuAndItsAddressesTheBestFirst) {
  ASSERT_TRUE(run("ip link set here0 address 02:00:00:00:12:34"));
  const auto info = find_interface("here0");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->mac.to_string(), "02:00:00:00:12:34");
  EXPECT_EQ(info->mtu, 4200u);
  ASSERT_GE(info->addresses.size(), 2u);
  EXPECT_EQ(info->addresses[0].to_string(), "10.78.0.1");
  EXPECT_EQ(info->addresses[1].to_string(), "fd78::1");
  for (std::size_t i = 2; i < info->addresses.size(); ++i) EXPECT_TRUE(info->addresses[i].is_link_local());
}

TEST_F(InterfaceTest, WhatIsNoEthernetInterfaceIsNotFound) {
  EXPECT_FALSE(find_interface("lo"));
  EXPECT_FALSE(find_interface("nosuch"));
  EXPECT_FALSE(find_interface("a name that is too long for one"));
}

TEST_F(InterfaceTest, UsableAreThoseThatAreUpAndHaveAnAddress) {
  ASSERT_TRUE(run("ip link add down0 type veth peer name bare0 && ip addr add 10.79.0.1/24 dev down0"));
  ASSERT_TRUE(run("ip link set bare0 up"));
  EXPECT_THAT(usable_interfaces(), ::testing::ElementsAre("here0"));
}

TEST_F(InterfaceTest, AnInterfaceIsFoundByAnyOfItsAddresses) {
  const auto with = [](const char* text) { return interface_with(*wire::IpAddress::parse(text)); };
  EXPECT_EQ(with("10.78.0.1"), "here0");
  EXPECT_EQ(with("fd78::1"), "here0");
  EXPECT_EQ(with("127.0.0.1"), "lo");
  EXPECT_EQ(with("10.78.0.2"), "") << "it is at the other end";
}

/// What the kernel answers to a datagram to port 4791 of this machine: an error number, 0 for silence.
int answer_to_roce(int family) {
  const Descriptor fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(4791);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(4791);
  v6.sin6_addr = in6addr_loopback;
  const auto* to = family == AF_INET ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  EXPECT_EQ(connect(fd.get(), to, family == AF_INET ? sizeof v4 : sizeof v6), 0);
  char byte = 0;
  EXPECT_EQ(send(fd.get(), &byte, 1, 0), 1);
  // The error is there when send() returns: loopback is answered at once.
  return recv(fd.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno != EAGAIN ? errno : 0;
}

TEST_F(InterfaceTest, TheKernelIsSilentAtTheRocePortOnlyWhileItIsTaken) {
  for (const int family : {AF_INET, AF_INET6}) EXPECT_EQ(answer_to_roce(family), ECONNREFUSED);
  {
    RocePortClaim claim, another;
    EXPECT_EQ(claim.take(), "");
    EXPECT_EQ(another.take(), "") << "several programs may run beside each other";
    for (const int family : {AF_INET, AF_INET6}) EXPECT_EQ(answer_to_roce(family), 0);
  }
  EXPECT_EQ(answer_to_roce(AF_INET), ECONNREFUSED);
}

TEST_F(InterfaceTest, APortThatSomebodyElseHasIsSaid) {
  const Descriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in all{};
  all.sin_family = AF_INET;
  all.sin_port = htons(4791);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&all), sizeof all), 0);
  EXPECT_THAT(RocePortClaim().take(), ::testing::HasSubstr("4791"));
}

}  // namespace
}  // namespace weft::nic
