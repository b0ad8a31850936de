// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/gemma_report.h"

#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "switch/wire/checksum.h"
#include "tests/support/parsed.h"

namespace weft::stages {
namespace {

using Bytes = std::vector<std::uint8_t>;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using weft::testing::parsed_of;

const ReportSender kSender{wire::MacAddress::from_u64(0x020000000007), wire::IpAddress::v4(0x0a010200), 48};

Bytes report(const std::vector<GemmaEntry>& entries) {
  Bytes frame(std::max(report_bytes(entries.size()), wire::kMinFrameBytes));
  EXPECT_EQ(write_report(frame, kSender, entries), frame.size());
  return frame;
}
std::vector<GemmaEntry> read(const Bytes& frame, std::size_t room = kMaxReportEntries) {
  std::vector<GemmaEntry> entries(room);
  const auto found = read_report(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed_of(frame), entries);
  return {found.begin(), found.end()};
}

TEST(GemmaReport, SaysWhatItWasGivenToTheNeighbourAlone) {
  const std::vector<GemmaEntry> entries{{1, 0}, {2, 25'600}, {65535, 256}};
  const Bytes frame = report(entries);
  EXPECT_EQ(frame.size(), 70u);
  const wire::Parsed parsed = parsed_of(frame);
  EXPECT_EQ(parsed.validity, wire::Validity::ok);
  EXPECT_EQ(tag_validity(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed), TagValidity::ok);
  EXPECT_EQ(tag_kind(frame.data(), parsed), TagKind::gemma_report);
  EXPECT_TRUE(is_from_neighbour(parsed));
  EXPECT_EQ(wire::dscp_of(parsed.tos), 48);
  EXPECT_THAT(read(frame), ElementsAreArray(entries));
  const auto& ip = wire::header_at<wire::Ipv4Header>(frame.data() + parsed.l3_offset);
  EXPECT_TRUE(wire::ipv4_checksum_ok(ip));
  EXPECT_EQ(ip.destination.value(), 0xe0000002u);
  EXPECT_TRUE(wire::header_at<wire::EthernetHeader>(frame.data()).destination.is_multicast());
}

TEST(GemmaReport, LengthsAreRoundedUpAndEndSomewhere) {
  EXPECT_THAT(read(report({{1, 1}, {2, 1'000'000'000}})),
              ElementsAre(GemmaEntry{1, 256}, GemmaEntry{2, 0xffff * kReportUnitBytes}));
  EXPECT_EQ(report({{1, 1}}).size(), 62u);
  EXPECT_EQ(report({}).size(), 60u);
}

TEST(GemmaReport, NoMoreIsReadThanThereIsOrFits) {
  const Bytes frame = report({{1, 256}, {2, 256}});
  EXPECT_THAT(read(frame, 1), ElementsAre(GemmaEntry{1, 256}));
  Bytes lies = frame;
  lies[14 + 20 + 8 + 9 + 1] = 3;  // entries
  EXPECT_THAT(read(lies), IsEmpty()) << "its UDP length holds two";
  const Bytes cut(frame.begin(), frame.end() - 1);
  std::array<GemmaEntry, 4> room;
  EXPECT_THAT(read_report(cut.data(), static_cast<std::uint32_t>(cut.size()), parsed_of(frame), room), IsEmpty());
}

TEST(GemmaReport, ARoutedOneIsNotBelieved) {
  Bytes frame = report({{1, 1}});
  frame[14 + 8] = 254;  // TTL
  EXPECT_FALSE(is_from_neighbour(parsed_of(frame)));
}

TEST(GemmaReport, WithoutRoomNothingIsWritten) {
  Bytes frame(61);
  EXPECT_EQ(write_report(frame, kSender, std::vector<GemmaEntry>(1)), 0u);
  EXPECT_EQ(write_report(frame, kSender, std::vector<GemmaEntry>(257)), 0u);
}

}  // namespace
}  // namespace weft::stages
