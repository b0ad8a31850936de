// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Packets that the Linux kernel built (data/README.md): what we read in them is not what we wrote ourselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "switch/wire/cm.h"
#include "switch/wire/ib.h"
#include "switch/wire/icrc.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parse.h"

namespace weft::wire {
namespace {

using Frame = std::vector<std::uint8_t>;

// Frames of a capture file in the byte order of this machine.
std::vector<Frame> read_capture(const std::string& name) {
  std::ifstream file(std::string(WEFT_CAPTURES_DIR) + "/" + name + ".pcap", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  constexpr std::size_t kFileHeader = 24, kRecordHeader = 16, kLengthOffset = 8;
  std::vector<Frame> frames;
  for (std::size_t at = kFileHeader; at + kRecordHeader <= bytes.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at + kLengthOffset, sizeof length);
    at += kRecordHeader;
    if (at + length > bytes.size()) break;
    frames.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
  return frames;
}

Parsed parsed(const Frame& frame) {
  Parsed p;
  parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()), p);
  return p;
}

struct CmFrame {
  std::string sender;
  CmMessage message;
};

std::string destination_mac(const Frame& frame) {
  return {frame.begin(), frame.begin() + 6};
}
std::string source_mac(const Frame& frame) {
  return {frame.begin() + 6, frame.begin() + 12};
}

std::vector<CmFrame> cm_messages(const std::vector<Frame>& frames) {
  std::vector<CmFrame> messages;
  for (const Frame& frame : frames) {
    CmFrame m{source_mac(frame), {}};
    const auto mad = mad_in_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed(frame));
    if (mad.empty()) continue;
    EXPECT_EQ(parse_cm(mad, m.message), CmValidity::ok);
    messages.push_back(m);
  }
  return messages;
}

class Captures : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_FALSE(frames_.empty()); }
  std::vector<Frame> frames_ = read_capture(GetParam());
};

TEST_P(Captures, EveryFrameIsValidRoceForBothParsers) {
  for (const Frame& frame : frames_) {
    const Parsed p = parsed(frame);
    EXPECT_EQ(p.kind, FrameKind::roce);
    EXPECT_EQ(p.validity, Validity::ok);
    EXPECT_EQ(p.l3_offset + p.l3_length, frame.size());
    Parsed slow;
    const auto length = static_cast<std::uint32_t>(frame.size());
    parse_frame_slow(frame.data(), length, length, slow);
    EXPECT_EQ(std::memcmp(&p, &slow, sizeof p), 0);
  }
}

TEST_P(Captures, EveryIcrcIsRightAndAnyPayloadBitMatters) {
  for (Frame frame : frames_) {
    const Parsed p = parsed(frame);
    ASSERT_TRUE(icrc_ok(frame.data(), p));
    frame[frame.size() - kIcrcBytes - 1] ^= 1;
    EXPECT_FALSE(icrc_ok(frame.data(), p));
  }
}

INSTANTIATE_TEST_SUITE_P(SoftRoce, Captures,
                         testing::Values("verbs_ipv4", "verbs_ipv6", "connections_ipv4", "connections_ipv6",
                                         "nak_ipv4"),
                         [](const auto& instance) { return instance.param; });

class IpVersions : public testing::TestWithParam<std::string> {};

TEST_P(IpVersions, VerbsUseTheOpcodesOfTheirOperations) {
  std::set<std::uint8_t> seen;
  for (const Frame& frame : read_capture("verbs_" + GetParam())) seen.insert(parsed(frame).opcode);
  std::set<std::uint8_t> expected;
  for (const Opcode o :
       {Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST, Opcode::RC_RDMA_WRITE_FIRST,
        Opcode::RC_RDMA_WRITE_MIDDLE, Opcode::RC_RDMA_WRITE_LAST, Opcode::RC_RDMA_READ_REQUEST,
        Opcode::RC_RDMA_READ_RESPONSE_FIRST, Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, Opcode::RC_RDMA_READ_RESPONSE_LAST,
        Opcode::RC_ACKNOWLEDGE, Opcode::RC_ATOMIC_ACKNOWLEDGE, Opcode::RC_CMP_SWAP, Opcode::RC_FETCH_ADD,
        Opcode::UC_RDMA_WRITE_ONLY, Opcode::UD_SEND_ONLY}) {
    expected.insert(static_cast<std::uint8_t>(o));
  }
  EXPECT_EQ(seen, expected);
}

TEST_P(IpVersions, MessagesOf600BytesAreThreePacketsAtAPathMtuOf256) {
  std::map<std::uint8_t, std::multiset<std::uint16_t>> sizes;
  for (const Frame& frame : read_capture("verbs_" + GetParam())) {
    const Parsed p = parsed(frame);
    sizes[p.opcode].insert(p.payload_bytes);
  }
  const auto five_of = [](std::uint16_t bytes) {
    return std::multiset<std::uint16_t>{bytes, bytes, bytes, bytes, bytes};
  };
  EXPECT_EQ(sizes[static_cast<std::uint8_t>(Opcode::RC_SEND_FIRST)], five_of(256));
  EXPECT_EQ(sizes[static_cast<std::uint8_t>(Opcode::RC_RDMA_WRITE_MIDDLE)], five_of(256));
  EXPECT_EQ(sizes[static_cast<std::uint8_t>(Opcode::RC_RDMA_READ_RESPONSE_LAST)], five_of(88));
  EXPECT_EQ(sizes[static_cast<std::uint8_t>(Opcode::UD_SEND_ONLY)], five_of(30));
}

TEST_P(IpVersions, CmMessagesAreTheSameWhenWeBuildThem) {
  int messages = 0;
  for (const Frame& frame : read_capture("connections_" + GetParam())) {
    const auto mad = mad_in_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed(frame));
    if (mad.empty()) continue;
    CmMessage message;
    ASSERT_EQ(parse_cm(mad, message), CmValidity::ok);
    EXPECT_THAT(build_cm(message), testing::ElementsAreArray(mad.begin(), mad.end()));
    ++messages;
  }
  EXPECT_EQ(messages, 12);
}

TEST_P(IpVersions, ConnectionsGoThroughAllStepsOfCm) {
  std::multiset<CmAttribute> kinds;
  for (const CmFrame& m : cm_messages(read_capture("connections_" + GetParam()))) kinds.insert(m.message.attribute());
  const std::multiset<CmAttribute> expected{CmAttribute::req,  CmAttribute::req,      CmAttribute::rep,
                                            CmAttribute::rep,  CmAttribute::rtu,      CmAttribute::rtu,
                                            CmAttribute::dreq, CmAttribute::dreq,     CmAttribute::drep,
                                            CmAttribute::drep, CmAttribute::sidr_req, CmAttribute::sidr_rep};
  EXPECT_EQ(kinds, expected);
}

// The PSN in a REQ or REP is the one with which the receiver of that message begins (12.6.5, 12.6.8): its first request
// goes to the QPN and with the PSN that it was told.
TEST_P(IpVersions, FirstRequestsUseTheQpnAndPsnThatCmAgreedOn) {
  const std::vector<Frame> frames = read_capture("connections_" + GetParam());
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> agreed;  // (host, QPN of that host) -> PSN
  for (const CmFrame& m : cm_messages(frames)) {
    const auto learn = [&](const auto& body) {
      agreed[{m.sender, body.local_qpn.value()}] = body.starting_psn.value();
    };
    if (const auto* req = std::get_if<CmReq>(&m.message.body)) learn(*req);
    if (const auto* rep = std::get_if<CmRep>(&m.message.body)) learn(*rep);
  }
  EXPECT_EQ(agreed.size(), 4U);
  for (const Frame& frame : frames) {
    const Parsed p = parsed(frame);
    if (transport_of(p.opcode) != Transport::rc || !opcode_info(p.opcode).is_request()) continue;
    const auto first = agreed.find({destination_mac(frame), p.dest_qp.value()});
    if (first == agreed.end()) continue;
    EXPECT_EQ(p.psn.value(), first->second);
    agreed.erase(first);
  }
  EXPECT_THAT(agreed, testing::IsEmpty());
}

TEST_P(IpVersions, RequestsNameTheAddressesOfTheirPackets) {
  int requests = 0;
  for (const CmFrame& m : cm_messages(read_capture("connections_" + GetParam()))) {
    const auto* req = std::get_if<CmReq>(&m.message.body);
    if (req == nullptr) continue;
    const auto cma = parse_cma(req->private_data);
    ASSERT_TRUE(cma.has_value());
    EXPECT_EQ(cma->source, gid_address(req->primary.local_gid));
    EXPECT_EQ(cma->destination, gid_address(req->primary.remote_gid));
    EXPECT_EQ(cma->destination.to_string(), GetParam() == "ipv4" ? "10.9.0.2" : "fd09::2");
    EXPECT_EQ(CmaServiceId::decode(req->service_id).port_space, CmaServiceId::kTcp);
    ++requests;
  }
  EXPECT_EQ(requests, 2);
}

INSTANTIATE_TEST_SUITE_P(SoftRoce, IpVersions, testing::Values("ipv4", "ipv6"),
                         [](const auto& instance) { return instance.param; });

TEST(NakCapture, TheOneNakNamesTheLostPacketWhichThenComesAgain) {
  std::map<std::uint32_t, int> times;
  std::vector<std::uint32_t> naks;
  for (const Frame& frame : read_capture("nak_ipv4")) {
    const Parsed p = parsed(frame);
    if (opcode_info(p.opcode).is_request()) ++times[p.psn.value()];
    if (p.opcode == static_cast<std::uint8_t>(Opcode::RC_ACKNOWLEDGE) && Syndrome(p.syndrome).is_nak()) {
      EXPECT_EQ(Syndrome(p.syndrome), Syndrome::nak(NakCode::psn_sequence_error));
      naks.push_back(p.psn.value());
    }
  }
  ASSERT_EQ(naks.size(), 1U);
  EXPECT_EQ(times[naks[0]], 2);
  EXPECT_EQ(times[naks[0] - 1], 1);
}

}  // namespace
}  // namespace weft::wire
