// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What waits in `reorder` takes room of the shared buffer, in the priority group that it came in by.
#include "switch/wire/headers.h"
#include "tests/switch/stages/reorder/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr unsigned kLossless = 3;
constexpr std::uint64_t kFrame = 314;  // bytes of a packet of the rig

// Group 3 of each port may have 1000 bytes of its own, 2000 of the shared ones, and 700 of headroom.
std::string qos_of(unsigned shared) {
  return "qos:\n  BUFFER_PROFILE: { small: { size: 1000, static_th: " + std::to_string(shared) +
         ", xoff: 700 } }\n  BUFFER_PG: { \"all|3\": { profile: small } }\n";
}
const std::string kWaits = "{ uplinks: [s1, s2], bound_us: 100 }";

class ReorderRoom : public ReorderTest {
 protected:
  ReorderRoom() : ReorderTest(reorder_yaml(kWaits, qos_of(2000))) { tos = kLossless << 2; }

  std::uint64_t charged(const char* port = "s2") {
    const auto& group = h.state().buffer()->group(h.port(port).index, kLossless);
    return group.bytes.value() + group.headroom.value();
  }
  // Quanta of the PFC frames for the class that have left through a port, in this order.
  std::vector<std::uint16_t> pauses(const char* port = "s2") {
    std::vector<std::uint16_t> quanta;
    for (const auto& frame : h.take(port)) {
      const auto& pfc = wire::header_at<wire::PfcHeader>(frame.bytes.data() + 14);
      EXPECT_EQ(parsed_of(frame.bytes).kind, wire::FrameKind::mac_control);
      EXPECT_TRUE(pfc.enabled(kLossless));
      quanta.push_back(pfc.quanta[kLossless].value());
    }
    return quanta;
  }
};

TEST_F(ReorderRoom, WhatWaitsIsChargedToItsPriorityGroupUntilItGoesOn) {
  come({10});
  EXPECT_EQ(charged("s1") + charged("s2"), 0u);
  EXPECT_THAT(come({12, 13}, 2), IsEmpty());
  EXPECT_EQ(charged(), 2 * kFrame);
  EXPECT_EQ(charged("s1"), 0u);
  EXPECT_THAT(come({11}), ElementsAre(11, 12, 13));
  EXPECT_EQ(charged(), 0u);
  come({15}, 2);
  EXPECT_EQ(charged(), kFrame);
  h.advance_ns(100 * kUs);
  EXPECT_THAT(out(), ElementsAre(15)) << "for its time";
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(h.state().buffer()->shared_used(), 0u);
}

TEST_F(ReorderRoom, HeldBytesPauseThePeerAndLetItGoOn) {
  come({10});
  come({12, 13, 14, 15, 16, 17, 18, 19, 20}, 2);
  EXPECT_THAT(pauses(), IsEmpty());
  come({21}, 2);
  ASSERT_GT(charged(), 3000u);
  EXPECT_THAT(pauses(), ElementsAre(0xffff));
  EXPECT_EQ(come({11}).size(), 11u);
  EXPECT_THAT(pauses(), ElementsAre(0)) << "XON";
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(ReorderRoom, WithoutRoomInTheGroupAPacketGoesOnAtOnceBehindWhatWaitsInFrontOfIt) {
  come({10});
  come({12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 23}, 2);
  EXPECT_EQ(h.held(), 11u);
  EXPECT_EQ(counter("buffer_full"), 0u);
  EXPECT_THAT(come({21}, 2), ElementsAre(12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23));
  EXPECT_EQ(counter("buffer_full"), 1u);
  EXPECT_EQ(counter("overflowed"), 1u);
  EXPECT_EQ(charged(), 0u);
  // It comes into room that the others have just given back, and these keep theirs: the group is beyond its limits by
  // one packet.
  EXPECT_EQ(h.dropped_total(), 0u);
}

class ReorderPortRoom : public ReorderTest {
 protected:
  ReorderPortRoom() : ReorderTest(reorder_yaml("{ uplinks: [s1, s2], bound_us: 100, max_port_kb: 1 }")) {}
};

TEST_F(ReorderPortRoom, MemoryIsBoundedForEachPort) {
  come({10});
  EXPECT_THAT(come({12, 13, 15}, 2), IsEmpty()) << "1 KiB";
  EXPECT_THAT(come({14}, 1), IsEmpty()) << "another port's";
  EXPECT_EQ(counter("peak_port_bytes"), 3 * kFrame);
  EXPECT_THAT(come({17}, 2), ElementsAre(12, 13, 14, 15, 17)) << "in front of it nothing waits any more";
  EXPECT_EQ(counter("port_full"), 1u);
  EXPECT_EQ(counter("overflowed"), 1u);
  EXPECT_EQ(counter("buffer_full"), 0u);
  EXPECT_THAT(come({19, 20, 21}, 2), IsEmpty()) << "the room has been given back";
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(ReorderPortRoom, AReloadTakesTheRoomAlong) {
  come({10});
  come({12, 13, 14}, 2);
  h.reload(reorder_yaml("{ uplinks: [s1, s2], bound_us: 100, max_port_kb: 1 }"));
  EXPECT_THAT(come({16}, 2), ElementsAre(12, 13, 14, 16));
  EXPECT_THAT(come({18, 19, 20}, 2), IsEmpty());
}

TEST_F(ReorderRoom, AReloadChargesWhatWaitsToTheNewMemory) {
  come({10});
  come({12, 13}, 2);
  h.reload(reorder_yaml(kWaits, qos_of(5000)));
  EXPECT_EQ(charged(), 2 * kFrame);
  EXPECT_THAT(come({11}), ElementsAre(11, 12, 13));
  EXPECT_EQ(charged(), 0u);
  come({15}, 2);
  h.reload(reorder_yaml("{ uplinks: [s1, s2], bound_us: 50 }", qos_of(5000)));
  h.advance_ns(1);
  EXPECT_THAT(out(), ElementsAre(15)) << "with other options it goes on";
  EXPECT_EQ(charged(), 0u);
}

TEST_F(ReorderRoom, WhatAStageHeldThatIsGoneIsChargedNoMore) {
  come({10});
  come({12}, 2);
  std::string without = reorder_yaml(kWaits, qos_of(2000));
  without.replace(without.find("  - reorder"), std::string("  - reorder: " + kWaits + "\n").size(), "");
  h.reload(without);
  h.advance_ns(1);
  EXPECT_THAT(out(), ElementsAre(12));
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(h.state().buffer()->shared_used(), 0u);
}

}  // namespace
}  // namespace weft::stages::testing
