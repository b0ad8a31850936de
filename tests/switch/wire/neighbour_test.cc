// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The expected bytes were written by another program.
#include "switch/wire/neighbour.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "switch/wire/parse.h"
#include "tests/support/written.h"

namespace weft::wire {
namespace {

using weft::testing::ip;
using weft::testing::kHost;
using weft::testing::kRouter;

class NeighbourMessages : public weft::testing::WrittenTest {};

TEST_F(NeighbourMessages, ANeighbourSolicitationCarriesTheSourceLinkLayerAddress) {
  const LinkAddresses link{kRouter, MacAddress::from_u64(0x3333ff000002)};
  EXPECT_EQ(written(write_neighbour_solicitation(buffer_, link, ip("2001:db8:1::1"), ip("ff02::1:ff00:2"),
                                                 ip("2001:db8:1::2"))),
            "3333ff00000202000000010086dd6000000000203aff20010db8000100000000000000000001ff020000000000000000"
            "0001ff00000287001b260000000020010db80001000000000000000000020101020000000100");
}

TEST_F(NeighbourMessages, AnAnswerSaysRouterSolicitedAndOverride) {
  EXPECT_EQ(written(write_neighbour_advertisement(
                buffer_, {kRouter, kHost}, ip("2001:db8:1::1"), ip("2001:db8:1::2"),
                NeighbourMessage::kRouter | NeighbourMessage::kOverride | NeighbourMessage::kSolicited)),
            "02aa0000000102000000010086dd6000000000203aff20010db800010000000000000000000120010db8000100000000"
            "00000000000288000971e000000020010db80001000000000000000000010201020000000100");
}

TEST_F(NeighbourMessages, AnAdvertisementToAllNodesIsNotSolicited) {
  const LinkAddresses link{kRouter, MacAddress::from_u64(0x333300000001)};
  EXPECT_EQ(written(write_neighbour_advertisement(buffer_, link, ip("2001:db8:1::1"), ip("ff02::1"),
                                                  NeighbourMessage::kRouter | NeighbourMessage::kOverride)),
            "33330000000102000000010086dd6000000000203aff20010db8000100000000000000000001ff020000000000000000"
            "00000000000188007829a000000020010db80001000000000000000000010201020000000100");
}

/// What a receiver reads of the bytes that were written, after a change.
std::optional<ReceivedNeighbour> read(std::vector<std::uint8_t> frame) {
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  Parsed parsed;
  parse_frame(frame.data(), bytes, bytes, parsed);
  if (!is_neighbour_message(frame.data(), parsed)) return std::nullopt;
  return read_neighbour(frame.data(), bytes, parsed);
}

TEST_F(NeighbourMessages, WhatIsWrittenIsRead) {
  buffer_.resize(kNeighbourBytes);
  write_neighbour_solicitation(buffer_, {kHost, kRouter}, ip("fe80::2"), ip("ff02::1:ff00:1"), ip("fe80::1"));
  auto message = read(buffer_);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->type, Icmpv6Type::neighbour_solicitation);
  EXPECT_EQ(message->source, ip("fe80::2"));
  EXPECT_EQ(message->destination, ip("ff02::1:ff00:1"));
  EXPECT_EQ(message->target, ip("fe80::1"));
  EXPECT_EQ(message->mac, kHost);
  write_neighbour_advertisement(buffer_, {kRouter, kHost}, ip("fe80::1"), ip("fe80::2"), NeighbourMessage::kSolicited);
  message = read(buffer_);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->type, Icmpv6Type::neighbour_advertisement);
  EXPECT_EQ(message->flags, NeighbourMessage::kSolicited);
  EXPECT_EQ(message->target, ip("fe80::1"));
  EXPECT_EQ(message->mac, kRouter);
}

TEST_F(NeighbourMessages, AnyBitThatIsWrongInTheMessageMakesItInvalid) {
  buffer_.resize(kNeighbourBytes);
  write_neighbour_solicitation(buffer_, {kHost, kRouter}, ip("fe80::2"), ip("ff02::1:ff00:1"), ip("fe80::1"));
  for (std::size_t at = sizeof(EthernetHeader) + 7; at < buffer_.size(); ++at) {  // from the hop limit on
    auto frame = buffer_;
    frame[at] ^= 0x10;
    EXPECT_FALSE(read(frame).has_value()) << at;
  }
  buffer_.resize(buffer_.size() - 1);
  EXPECT_FALSE(read(buffer_).has_value()) << "cut off";
}

}  // namespace
}  // namespace weft::wire
