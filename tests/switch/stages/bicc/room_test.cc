// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What waits in `bicc` takes room of the shared buffer, in the priority group that it came in by.
#include "tests/switch/stages/bicc/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr unsigned kLossless = 3;
const std::string kOneUnderWay = kRemote + ", in_flight_kb: 1";

// Group 3 of each port may have 1000 bytes of its own, 4000 of the shared ones, and 1500 of headroom.
std::string room_yaml(const std::string& bicc, const std::string& in = "in") {
  return yaml(bicc, in) +
         "qos:\n  BUFFER_PROFILE: { small: { size: 1000, static_th: 4000, xoff: 1500 } }\n"
         "  BUFFER_PG: { \"all|3\": { profile: small } }\n";
}

class BiccRoom : public BiccStageTest {
 protected:
  explicit BiccRoom(const std::string& options = kOneUnderWay) : BiccStageTest(room_yaml(options), Whole{}) {}

  std::uint64_t charged(const char* port = "wan") {
    const auto& group = h.state().buffer()->group(h.port(port).index, kLossless);
    return group.bytes.value() + group.headroom.value();
  }
  void come(std::uint32_t first, std::uint32_t last) {
    std::vector<Bytes> burst;
    for (std::uint32_t psn = first; psn <= last; ++psn) {
      burst.push_back(data(psn).tos(kLossless << 2).build());
      bytes = burst.back().size();
    }
    h.inject("wan", burst);
  }
  // Opcodes of MAC control that went back to the senders: one frame for each change.
  std::vector<std::uint16_t> pauses() {
    std::vector<std::uint16_t> quanta;
    for (const auto& frame : h.take("wan")) {
      if (parsed_of(frame.bytes).kind != wire::FrameKind::mac_control) continue;
      quanta.push_back(wire::header_at<wire::PfcHeader>(frame.bytes.data() + 14).quanta[kLossless].value());
    }
    return quanta;
  }
  std::uint64_t bytes = 0;  ///< of a packet of come()
};

// One packet is under way. The others are held until the receiver acknowledges what is before them.
TEST_F(BiccRoom, WhatIsHeldIsChargedToItsPriorityGroupUntilItGoesOn) {
  come(0, 3);
  ASSERT_EQ(h.held(), 3u);
  EXPECT_THAT(psns(), ElementsAre(0));
  EXPECT_EQ(charged(), 3 * bytes);
  EXPECT_EQ(charged("in"), 0u);
  h.inject("in", ack(0).build());
  EXPECT_EQ(h.held(), 2u);
  EXPECT_THAT(psns(), ElementsAre(1));
  EXPECT_EQ(charged(), 2 * bytes);
  h.advance_ns(3000 * kUs);
  EXPECT_THAT(psns(), ElementsAre(2, 3));
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(h.state().buffer()->shared_used(), 0u);
}

TEST_F(BiccRoom, HeldBytesPauseTheSendersAndLetThemGoOn) {
  come(0, 0);
  EXPECT_THAT(psns(), ElementsAre(0));
  come(1, 4);
  EXPECT_THAT(pauses(), IsEmpty());
  come(5, 5);
  EXPECT_EQ(h.held(), 5u);
  EXPECT_THAT(pauses(), ElementsAre(0xffff));
  h.advance_ns(6000 * kUs);
  EXPECT_THAT(psns(), SizeIs(5));
  const auto sent = pauses();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back(), 0) << "XON";
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(BiccRoom, WithoutRoomInTheGroupTheDestinationGetsAllInOrder) {
  come(0, 0);
  EXPECT_THAT(psns(), ElementsAre(0));
  come(1, 8);
  const auto gone = psns();
  EXPECT_GT(counter("flushed"), 0u);
  EXPECT_EQ(gone.size() + h.held() + h.dropped_total(), 8u);
  for (std::size_t i = 1; i < gone.size(); ++i) EXPECT_LT(gone[i - 1], gone[i]);
  EXPECT_EQ(charged(), h.held() * bytes);
  h.advance_ns(6000 * kUs);
  EXPECT_EQ(h.held(), 0u);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(h.state().buffer()->shared_used(), 0u);
}

TEST_F(BiccRoom, OffGivesTheRoomBack) {
  come(0, 2);
  EXPECT_EQ(charged(), 2 * bytes);
  EXPECT_EQ(set({"off"}), "");
  EXPECT_THAT(psns(), ElementsAre(0, 1, 2));
  EXPECT_EQ(charged(), 0u);
  EXPECT_NE(set({"charge=false"}), "") << "with a reload alone";
}

TEST_F(BiccRoom, AReloadChargesWhatIsHeldToTheNewMemory) {
  come(0, 2);
  EXPECT_THAT(psns(), ElementsAre(0));
  h.reload(room_yaml(kOneUnderWay));
  EXPECT_EQ(h.held(), 2u);
  EXPECT_EQ(charged(), 2 * bytes);
  h.advance_ns(3000 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  EXPECT_EQ(charged(), 0u);
  come(3, 4);
  EXPECT_THAT(psns(), IsEmpty()) << "the last one is under way";
  h.reload(room_yaml(kRemote));
  EXPECT_THAT(psns(), ElementsAre(3, 4)) << "with other options it goes on";
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(h.state().buffer()->shared_used(), 0u);
}

// Ports are numbered in the order of the configuration: the one that packets came in by gets another number.
TEST_F(BiccRoom, AReloadThatNumbersPortsAnewMovesTheCharge) {
  come(0, 2);
  EXPECT_THAT(psns(), ElementsAre(0));
  std::string other = room_yaml(kOneUnderWay);
  const std::string line = "  - { name: wan, type: \"null\", mtu_bytes: 4200 }\n";
  const std::size_t at = other.find(line);
  ASSERT_NE(at, std::string::npos);
  other.erase(at, line.size());
  other.insert(other.find("ports:\n") + 7, line);
  h.reload(other);
  ASSERT_EQ(h.port("wan").index, 0);
  EXPECT_EQ(h.held(), 2u);
  EXPECT_EQ(charged(), 2 * bytes);
  EXPECT_EQ(charged("in"), 0u);
  h.advance_ns(3000 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(h.state().buffer()->shared_used(), 0u);
}

class BiccWithoutCharge : public BiccRoom {
 protected:
  BiccWithoutCharge() : BiccRoom(kOneUnderWay + ", charge: false") {}
};

TEST_F(BiccWithoutCharge, WhatIsHeldTakesPacketBuffersAlone) {
  come(0, 8);
  EXPECT_EQ(h.held(), 8u);
  EXPECT_EQ(charged(), 0u);
  h.advance_ns(9000 * kUs);
  EXPECT_THAT(psns(), SizeIs(9));
  EXPECT_EQ(counter("flushed"), 0u);
}

}  // namespace
}  // namespace weft::stages::testing
