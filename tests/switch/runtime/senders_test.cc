// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/senders.h"

#include <gmock/gmock.h>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

pipeline::SwitchInfo with_ports(unsigned count) {
  pipeline::SwitchInfo info;
  info.name = "tor";
  for (unsigned i = 0; i < count; ++i) {
    pipeline::PortInfo& port = info.ports.emplace_back();
    port.name = "p" + std::to_string(i);
    port.index = static_cast<pipeline::PortIndex>(i);
  }
  return info;
}

TEST(Senders, EveryWorkerSendsWhereTheDeviceHasAQueueForEach) {
  const auto info = with_ports(2);
  EXPECT_EQ(why_owner_sends(info, info.ports[0], 2, 2), "");
  EXPECT_EQ(why_owner_sends(info, info.ports[0], 16, 2), "");
  EXPECT_NE(why_owner_sends(info, info.ports[0], 1, 2), "");
  EXPECT_EQ(why_owner_sends(info, info.ports[0], 1, 1), "");
}

TEST(Senders, OnePlaceDecidesWhatQueuesAndEmulatedLinksSend) {
  auto info = with_ports(3);
  info.ports[0].rate_mbps = 1000;
  info.ports[1].delay_ns = 5;
  EXPECT_NE(why_owner_sends(info, info.ports[0], 8, 2), "");
  EXPECT_NE(why_owner_sends(info, info.ports[1], 8, 2), "");
  EXPECT_EQ(why_owner_sends(info, info.ports[2], 8, 2), "");
  info.qos.emplace();
  EXPECT_NE(why_owner_sends(info, info.ports[2], 8, 2), "");
}

TEST(Senders, EachReasonIsSaidOnceWithThePorts) {
  auto info = with_ports(4);
  info.ports[2].rate_mbps = 1000;
  const std::uint16_t queues[] = {2, 1, 2, 2};
  EXPECT_THAT(describe_senders(info, queues, 2),
              ElementsAre("tor: every worker sends itself through p0, p3",
                          "tor: the owner alone sends through p1: the device has fewer transmit queues than there are "
                          "workers",
                          "tor: the owner alone sends through p2: a rate or delay is emulated"));
  EXPECT_THAT(describe_senders(info, queues, 1), IsEmpty());
}

TEST(Senders, ManyPortsAreCounted) {
  const auto info = with_ports(20);
  const std::vector<std::uint16_t> queues(20, 8);
  EXPECT_THAT(describe_senders(info, queues, 4),
              ElementsAre("tor: every worker sends itself through p0, p1, p2, p3, p4, p5, p6, p7 and 12 more"));
}

}  // namespace
}  // namespace weft
