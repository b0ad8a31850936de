// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/opcodes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weft::wire {
namespace {

/// A row of the table as the operation names of IBTA 9.2 imply it.
struct Expected {
  bool known = false;
  std::string name = "UNKNOWN";
  unsigned header_bytes = 0;
};

constexpr const char* kOperations[32] = {"SEND_FIRST",
                                         "SEND_MIDDLE",
                                         "SEND_LAST",
                                         "SEND_LAST_IMM",
                                         "SEND_ONLY",
                                         "SEND_ONLY_IMM",
                                         "RDMA_WRITE_FIRST",
                                         "RDMA_WRITE_MIDDLE",
                                         "RDMA_WRITE_LAST",
                                         "RDMA_WRITE_LAST_IMM",
                                         "RDMA_WRITE_ONLY",
                                         "RDMA_WRITE_ONLY_IMM",
                                         "RDMA_READ_REQUEST",
                                         "RDMA_READ_RESPONSE_FIRST",
                                         "RDMA_READ_RESPONSE_MIDDLE",
                                         "RDMA_READ_RESPONSE_LAST",
                                         "RDMA_READ_RESPONSE_ONLY",
                                         "ACKNOWLEDGE",
                                         "ATOMIC_ACKNOWLEDGE",
                                         "CMP_SWAP",
                                         "FETCH_ADD",
                                         nullptr,
                                         "SEND_LAST_INV",
                                         "SEND_ONLY_INV"};

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// From the transport (top three bits) and the operation (low five bits) alone.
Expected expected_row(unsigned raw) {
  if (raw == 0x81) return {true, "CNP", 12 + 16};
  const unsigned transport = raw >> 5, operation = raw & 31;
  if (kOperations[operation] == nullptr) return {};
  const std::string op = kOperations[operation];
  const bool rc = transport == 0;
  const bool uc = transport == 1 && operation <= 11;
  const bool ud = transport == 3 && (op == "SEND_ONLY" || op == "SEND_ONLY_IMM");
  if (!rc && !uc && !ud) return {};
  unsigned bytes = 12;
  if (ud) bytes += 8;
  if (op == "RDMA_WRITE_FIRST" || op == "RDMA_READ_REQUEST" || contains(op, "WRITE_ONLY")) bytes += 16;
  if (contains(op, "_IMM") || contains(op, "_INV")) bytes += 4;
  if (contains(op, "ACKNOWLEDGE") || (contains(op, "RESPONSE") && !contains(op, "MIDDLE"))) bytes += 4;
  if (contains(op, "ATOMIC_ACK")) bytes += 8;
  if (op == "CMP_SWAP" || op == "FETCH_ADD") bytes += 28;
  return {true, std::string(rc ? "RC_" : uc ? "UC_" : "UD_") + op, bytes};
}

TEST(OpcodeTable, EveryRowIsWhatItsOperationImplies) {
  unsigned known = 0;
  for (unsigned raw = 0; raw < 256; ++raw) {
    const Expected e = expected_row(raw);
    const OpcodeInfo& row = opcode_info(static_cast<std::uint8_t>(raw));
    EXPECT_EQ(row.known(), e.known) << raw;
    EXPECT_EQ(opcode_name(static_cast<std::uint8_t>(raw)), e.name) << raw;
    EXPECT_EQ(row.header_bytes, e.header_bytes) << e.name;
    known += row.known() ? 1 : 0;
  }
  EXPECT_EQ(known, 23u + 12u + 2u + 1u);
}

TEST(OpcodeTable, PlaceRoleAndPayloadFollowFromTheName) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const Expected e = expected_row(raw);
    if (!e.known) continue;
    const OpcodeInfo& row = opcode_info(static_cast<std::uint8_t>(raw));
    const std::string& n = e.name;
    const bool cnp = n == "CNP";
    const bool response = contains(n, "RESPONSE") || contains(n, "ACKNOWLEDGE");
    EXPECT_EQ(row.is_response(), response) << n;
    EXPECT_EQ(row.is_request(), !response && !cnp) << n;
    EXPECT_EQ(row.role == OpcodeRole::notification, cnp) << n;
    const MessagePart part = contains(n, "FIRST")    ? MessagePart::first
                             : contains(n, "MIDDLE") ? MessagePart::middle
                             : contains(n, "LAST")   ? MessagePart::last
                                                     : MessagePart::only;
    EXPECT_EQ(row.part, part) << n;
    const bool data = contains(n, "SEND") || contains(n, "WRITE") || contains(n, "RESPONSE");
    EXPECT_EQ(row.may_carry_payload(), data) << n;
    EXPECT_EQ(row.payload == PayloadRule::required, data && part != MessagePart::only) << n;
    EXPECT_EQ(row.starts_message(), part == MessagePart::first || part == MessagePart::only) << n;
    EXPECT_EQ(row.ends_message(), part == MessagePart::last || part == MessagePart::only) << n;
  }
}

TEST(OpcodeTable, HeaderOffsetsFollowTheWireOrder) {
  EXPECT_EQ(opcode_info(Opcode::RC_ACKNOWLEDGE).offset_of(HeaderMask::aeth), 12u);
  EXPECT_EQ(opcode_info(Opcode::RC_ATOMIC_ACKNOWLEDGE).offset_of(HeaderMask::atomic_ack_eth), 16u);
  EXPECT_EQ(opcode_info(Opcode::RC_RDMA_WRITE_ONLY_IMM).offset_of(HeaderMask::reth), 12u);
  EXPECT_EQ(opcode_info(Opcode::RC_RDMA_WRITE_ONLY_IMM).offset_of(HeaderMask::immdt), 28u);
  EXPECT_EQ(opcode_info(Opcode::UD_SEND_ONLY_IMM).offset_of(HeaderMask::immdt), 20u);
  EXPECT_EQ(opcode_info(Opcode::RC_SEND_LAST_INV).offset_of(HeaderMask::ieth), 12u);
}

TEST(OpcodeTable, AnAethAlwaysFollowsTheBth) {
  for (const OpcodeInfo& row : kOpcodeTable) {
    if (row.has(HeaderMask::aeth)) {
      EXPECT_EQ(row.offset_of(HeaderMask::aeth), sizeof(Bth));
    }
  }
}

TEST(OpcodeTable, NoRowHasLongerHeadersThanTheStatedMaximum) {
  std::size_t longest = 0;
  for (const OpcodeInfo& row : kOpcodeTable) longest = std::max<std::size_t>(longest, row.header_bytes);
  EXPECT_EQ(longest, kMaxRoceHeaderBytes);
}

TEST(OpcodeTable, EveryNameFindsItsOpcodeAndOthersFindNone) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    if (!opcode_info(opcode).known()) continue;
    const auto found = opcode_from_name(opcode_name(opcode));
    ASSERT_TRUE(found) << raw;
    EXPECT_EQ(static_cast<std::uint8_t>(*found), raw);
  }
  for (const char* name : {"", "UNKNOWN", "rc_send_only", "RC_SEND_ONLY "})
    EXPECT_FALSE(opcode_from_name(name)) << name;
}

TEST(OpcodeTable, TransportIsTheTopThreeBits) {
  EXPECT_EQ(transport_of(0x04), Transport::rc);
  EXPECT_EQ(transport_of(0x24), Transport::uc);
  EXPECT_EQ(transport_of(0x64), Transport::ud);
  EXPECT_EQ(transport_of(0x81), Transport::cnp);
  EXPECT_EQ(transport_of(0xa4), Transport::xrc);
}

}  // namespace
}  // namespace weft::wire
