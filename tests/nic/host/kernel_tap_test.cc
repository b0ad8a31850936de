// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/kernel_tap.h"

#include <gmock/gmock.h>
#include <net/if.h>
#include <poll.h>

#include <vector>

#include "nic/host/neighbours.h"
#include "switch/wire/headers.h"
#include "tests/nic/host/namespace.h"

namespace weft::nic {
namespace {

using testing::run;

const auto kMac = wire::MacAddress::from_u64(0x020000004711);

class KernelTapTest : public testing::InNamespace {
 protected:
  void open() {
    ASSERT_EQ(tap.open("tap%d", kMac, 4200), "");
    ASSERT_EQ(tap.add_address(*wire::IpPrefix::parse("10.80.0.1/24")), "");
    ASSERT_EQ(tap.add_address(*wire::IpPrefix::parse("fd80::1/64")), "");
  }
  /// The next ARP frame that the kernel sends; it says other things too. Empty when there is none.
  std::vector<std::uint8_t> next_arp() {
    std::vector<std::uint8_t> frame(2000);
    pollfd p{tap.descriptor(), POLLIN, 0};
    while (poll(&p, 1, 5000) == 1) {
      const std::size_t bytes = tap.take(frame);
      if (bytes == 42 && frame[12] == 0x08 && frame[13] == 0x06) {
        frame.resize(bytes);
        return frame;
      }
    }
    return {};
  }
  KernelTap tap;
};

TEST_F(KernelTapTest, IsAnInterfaceWithThisMacMtuAndTheseAddresses) {
  open();
  const auto info = find_interface(tap.name());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->mac, kMac);
  EXPECT_EQ(info->mtu, 4200u);
  EXPECT_THAT(usable_interfaces(), ::testing::Contains(tap.name()));
  EXPECT_EQ(info->addresses[0].to_string(), "10.80.0.1");
  EXPECT_EQ(info->addresses[1].to_string(), "fd80::1");
  EXPECT_EQ(find_route(*wire::IpAddress::parse("10.80.0.5"))->interface, info->index);
  EXPECT_EQ(find_route(*wire::IpAddress::parse("fd80::5"))->interface, info->index);
}

TEST_F(KernelTapTest, GoesWithTheObject) {
  std::string name;
  {
    KernelTap one;
    ASSERT_EQ(one.open("tap%d", kMac, 1500), "");
    name = one.name();
    EXPECT_NE(if_nametoindex(name.c_str()), 0u);
  }
  EXPECT_EQ(if_nametoindex(name.c_str()), 0u);
}

TEST_F(KernelTapTest, MistakesAreSaid) {
  open();
  EXPECT_THAT(tap.add_address(*wire::IpPrefix::parse("10.80.0.1/24")), ::testing::HasSubstr("exists"));
  EXPECT_THAT(KernelTap().open("here0", kMac, 1500), ::testing::HasSubstr("making the interface here0"));
  EXPECT_THAT(KernelTap().open("a-name-that-is-too-long", kMac, 1500), ::testing::HasSubstr("too long"));
}

TEST_F(KernelTapTest, TheKernelAsksThroughItForItsNeighbours) {
  open();
  ask_for_neighbour(if_nametoindex(tap.name().c_str()), *wire::IpAddress::parse("10.80.0.5"));
  const auto arp = next_arp();
  ASSERT_EQ(arp.size(), 42u);
  EXPECT_EQ(arp[21], 1) << "a request";
  EXPECT_EQ(arp[41], 5);
}

TEST_F(KernelTapTest, TheKernelAnswersWhoAsksForItsAddress) {
  open();
  std::vector<std::uint8_t> request{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,  9,  8, 6,
                                    0,    1,    8,    0,    6,    4,    0, 1, 2, 0, 0,  0,  0, 9,
                                    10,   80,   0,    5,    0,    0,    0, 0, 0, 0, 10, 80, 0, 1};
  tap.give(request);
  const auto arp = next_arp();
  ASSERT_EQ(arp.size(), 42u);
  EXPECT_EQ(arp[21], 2) << "an answer";
  EXPECT_TRUE(std::equal(kMac.bytes.begin(), kMac.bytes.end(), arp.begin() + 22));
}

}  // namespace
}  // namespace weft::nic
