// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/rtt_echo.h"

#include <gtest/gtest.h>

#include <array>

#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

TEST(RttEcho, IsACnpWithThePsnOfTheRequestAndWithoutBecn) {
  for (const bool ipv6 : {false, true}) {
    for (const bool tagged : {false, true}) {
      const RoceAddressing to = roce_addressing(ipv6, tagged);
      std::array<std::uint8_t, kMaxEmittedBytes> out;
      const std::size_t bytes = write_rtt_echo(out, to, Qpn(17), Psn(0xabcdef));
      ASSERT_EQ(bytes, emitted_bytes(to, Opcode::CNP));
      Parsed parsed;
      parse_frame(out.data(), static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes), parsed);
      ASSERT_EQ(parsed.kind, FrameKind::roce);
      EXPECT_EQ(parsed.opcode, static_cast<std::uint8_t>(Opcode::CNP));
      EXPECT_EQ(parsed.dest_qp, Qpn(17));
      EXPECT_EQ(parsed.psn, Psn(0xabcdef));
      EXPECT_FALSE(parsed.has(ParsedFlag::becn));
      const auto& bth = header_at<Bth>(out.data() + parsed.l4_offset + sizeof(UdpHeader));
      EXPECT_TRUE(is_rtt_echo(bth));
      EXPECT_TRUE(icrc_ok(out.data(), parsed));
      EXPECT_EQ(write_rtt_echo(std::span(out).first(bytes - 1), to, Qpn(17), Psn(0)), 0u);

      ASSERT_EQ(write_cnp(out, to, Qpn(17)), bytes);
      EXPECT_FALSE(is_rtt_echo(bth));
    }
  }
}

}  // namespace
}  // namespace weft::wire
