// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/packet_addresses.h"

#include <gtest/gtest.h>

#include <array>

#include "switch/wire/emit.h"
#include "switch/wire/parse.h"

namespace weft::wire {
namespace {

TEST(PacketAddresses, AreThoseOfTheIpHeader) {
  for (const bool ipv6 : {false, true}) {
    RoceAddressing to;
    to.source = ipv6 ? *IpAddress::parse("fd02::1") : IpAddress::v4(0x0a020001);
    to.destination = ipv6 ? *IpAddress::parse("fd01::1") : IpAddress::v4(0x0a010001);
    std::array<std::uint8_t, kMaxEmittedBytes> frame{};
    const auto bytes = static_cast<std::uint32_t>(write_cnp(frame, to, Qpn(17)));
    Parsed parsed;
    parse_frame(frame.data(), bytes, bytes, parsed);
    EXPECT_EQ(source_address(parsed, frame.data()), to.source);
    EXPECT_EQ(destination_address(parsed, frame.data()), to.destination);

    const PrefixList none{}, source{{*IpPrefix::parse(ipv6 ? "fd02::/32" : "10.2.0.0/16")}},
        destination{{*IpPrefix::parse("192.168.0.0/24"), *IpPrefix::parse(ipv6 ? "fd01::/32" : "10.1.0.0/16")}},
        both{{*IpPrefix::parse(ipv6 ? "fd00::/8" : "10.0.0.0/8")}};
    EXPECT_TRUE(source.contains(to.source));
    EXPECT_FALSE(source.contains(to.destination));
    EXPECT_TRUE(source.left_by(parsed, frame.data()));
    EXPECT_FALSE(source.entered_by(parsed, frame.data()));
    EXPECT_TRUE(destination.entered_by(parsed, frame.data()));
    EXPECT_FALSE(destination.left_by(parsed, frame.data()));
    for (const PrefixList* list : {&none, &both}) {
      EXPECT_FALSE(list->entered_by(parsed, frame.data()));
      EXPECT_FALSE(list->left_by(parsed, frame.data()));
    }
  }
}

}  // namespace
}  // namespace weft::wire
