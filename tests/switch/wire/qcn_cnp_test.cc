// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/qcn_cnp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

using Reserved = std::array<std::uint8_t, kCnpReservedBytes>;

TEST(QcnCnp, IsACnpWhoseReservedBytesHoldTheFeedback) {
  for (const bool ipv6 : {false, true}) {
    for (const bool tagged : {false, true}) {
      const RoceAddressing to = roce_addressing(ipv6, tagged);
      std::array<std::uint8_t, kMaxEmittedBytes> plain{}, out{};
      const std::size_t bytes = write_cnp(plain, to, Qpn(17));
      for (const unsigned feedback : {1u, 40u, kMostQcnFeedback}) {
        ASSERT_EQ(write_qcn_cnp(out, to, Qpn(17), feedback), bytes);
        Parsed parsed;
        parse_frame(out.data(), static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes), parsed);
        ASSERT_EQ(parsed.kind, FrameKind::roce);
        EXPECT_EQ(parsed.opcode, static_cast<std::uint8_t>(Opcode::CNP));
        EXPECT_TRUE(icrc_ok(out.data(), parsed));
        const std::size_t reserved = parsed.l4_offset + sizeof(UdpHeader) + sizeof(Bth);
        const Reserved expected{0x22, 0xe9, 0, static_cast<std::uint8_t>(feedback)};
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.data() + reserved));
        EXPECT_EQ(qcn_feedback(std::span(out).subspan(reserved)), feedback);
        EXPECT_EQ(qcn_feedback(std::span(plain).subspan(reserved)), 0u);
        EXPECT_TRUE(std::equal(out.data(), out.data() + reserved, plain.data())) << "all else is that of any CNP";
      }
      EXPECT_EQ(write_qcn_cnp(std::span(out).first(bytes - 1), to, Qpn(17), 1), 0u);
    }
  }
}

TEST(QcnCnp, OtherBytesSayNothing) {
  Reserved ones;
  ones.fill(0xff);
  EXPECT_EQ(qcn_feedback(ones), 0u);
  EXPECT_EQ(qcn_feedback(Reserved{}), 0u);
  EXPECT_EQ(qcn_feedback(Reserved{0, 0, 0, 40}), 0u) << "without the EtherType";
  EXPECT_EQ(qcn_feedback(Reserved{0x22, 0xe9, 0x10, 40}), 0u) << "another version";
  EXPECT_EQ(qcn_feedback(Reserved{0x22, 0xe9, 0, 0x40 | 40}), 0u) << "a reserved bit";
  EXPECT_EQ(qcn_feedback(Reserved{0x22, 0xe9, 0, 0}), 0u) << "a queue that is not congested";
  const Reserved right{0x22, 0xe9, 0, 40};
  EXPECT_EQ(qcn_feedback(right), 40u);
  EXPECT_EQ(qcn_feedback(std::span(right).first(15)), 0u) << "cut off";
  EXPECT_EQ(qcn_feedback({}), 0u);
}

}  // namespace
}  // namespace weft::wire
