// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/reorder/stage.h"

#include <nlohmann/json.hpp>

#include "switch/config/config.h"
#include "tests/switch/stages/reorder/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kOptions = "{ uplinks: [s1, s2], bound_us: 100, max_qp_packets: 4 }";

class ReorderStageTest : public ReorderTest {
 protected:
  ReorderStageTest() : ReorderTest(reorder_yaml(kOptions)) {}
};

TEST_F(ReorderStageTest, TheReceiverSeesPacketsInOrder) {
  EXPECT_THAT(come({10, 11}), ElementsAre(10, 11));
  EXPECT_THAT(come({13, 15}, 2), IsEmpty());
  EXPECT_EQ(h.held(), 2u);
  EXPECT_EQ(counter("held"), 2u);
  EXPECT_THAT(come({12, 14, 16}), ElementsAre(12, 13, 14, 15, 16)) << "those of the burst among those that waited";
  EXPECT_EQ(h.held(), 0u);
  EXPECT_EQ(counter("packets_held"), 2u);
  EXPECT_EQ(counter("expired"), 0u);
}

TEST_F(ReorderStageTest, AFlowBeginsWithTheFirstPacketOfAMessage) {
  EXPECT_THAT(come({11, 12}), IsEmpty());
  EXPECT_THAT(come({10}, 2), ElementsAre(10, 11, 12));
  EXPECT_EQ(counter("late"), 0u);
}

TEST_F(ReorderStageTest, ALostPacketIsLeftToTheReceiverAfterTheBound) {
  come({10});
  EXPECT_THAT(come({12, 13}), IsEmpty());
  h.advance_ns(99 * kUs);
  EXPECT_THAT(out(), IsEmpty());
  h.advance_ns(1 * kUs);
  EXPECT_THAT(out(), ElementsAre(12, 13));
  EXPECT_THAT(come({11}), ElementsAre(11)) << "sent again";
  EXPECT_EQ(counter("expired"), 2u);
  EXPECT_EQ(counter("late"), 1u);
}

// The receiver threw 12 and 13 away: its sender goes back to 11, and changes paths meanwhile.
TEST_F(ReorderStageTest, OrderBeginsAnewWhereTheReceiverHasAsked) {
  come({10});
  come({12, 13});
  h.advance_ns(100 * kUs);
  EXPECT_THAT(out(), ElementsAre(12, 13));
  h.inject("h1", nack(11).build());
  EXPECT_THAT(come({13}, 2), IsEmpty()) << "it went on before, and comes ahead of what the receiver wants";
  EXPECT_THAT(come({12}, 1), IsEmpty());
  EXPECT_THAT(come({11}, 1), ElementsAre(11, 12, 13));
  EXPECT_EQ(counter("went_back"), 1u);
  EXPECT_EQ(counter("expired"), 2u);
  EXPECT_THAT(come({15}), IsEmpty());
  h.inject("h1", ack(14).build());
  EXPECT_THAT(out(), ElementsAre(15)) << "14 has come another way";
}

TEST_F(ReorderStageTest, NaksFromTheFabricAreAboutOthers) {
  come({10});
  come({12, 13});
  h.advance_ns(100 * kUs);
  EXPECT_THAT(out(), ElementsAre(12, 13));
  h.inject("s1", nack(11).eth(other_mac(0x11), leaf_mac(2)).build());
  EXPECT_THAT(come({13}, 2), ElementsAre(13));
  EXPECT_EQ(counter("went_back"), 0u);
}

TEST_F(ReorderStageTest, OnlyRequestsOfKnownQueuePairsThatComeFromTheFabricWait) {
  come({10});
  EXPECT_THAT(come({12}), IsEmpty());
  const auto passes = [&](const char* port, const FrameBuilder& frame, const char* to) {
    h.inject(port, frame.build());
    EXPECT_EQ(h.take(to).size(), 1u);
    EXPECT_EQ(h.held(), 1u);
  };
  const auto with = [](Opcode opcode) { return data(19, 1).bth(opcode, kReceiverQp, Psn(19)); };
  passes("s1", data(19, 1).bth(Opcode::RC_SEND_MIDDLE, Qpn(99), Psn(19)), "h1");
  for (const Opcode response : {Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, Opcode::UD_SEND_ONLY, Opcode::UC_SEND_MIDDLE}) {
    passes("s1", with(response), "h1");
  }
  for (const wire::Syndrome syndrome :
       {wire::Syndrome::ack(), wire::Syndrome::nak(wire::NakCode::psn_sequence_error), wire::Syndrome::rnr_nak(5)}) {
    passes("s1", with(Opcode::RC_ACKNOWLEDGE).payload(0).aeth(syndrome, 1), "h1");
  }
  passes("s1", with(Opcode::CNP).payload(16), "h1");
  EXPECT_EQ(counter("packets_held"), 1u);
}

TEST_F(ReorderStageTest, AReadRequestDoesNotWaitAndLetsWhatWaitsGoOn) {
  come({10});
  come({12});
  h.inject("s1",
           data(13, 1).payload(0).bth(Opcode::RC_RDMA_READ_REQUEST, kReceiverQp, Psn(13)).reth(0, 1, 4096).build());
  EXPECT_THAT(out(), ElementsAre(12, 13));
  EXPECT_THAT(come({110}), ElementsAre(110)) << "behind the PSNs of its responses";
  EXPECT_EQ(counter("reads"), 1u);
}

TEST_F(ReorderStageTest, WhatHasNoRoomGoesOnBehindWhatWaitsInFrontOfIt) {
  come({10});
  EXPECT_THAT(come({12, 13, 14, 15}), IsEmpty());
  EXPECT_THAT(come({17}), ElementsAre(12, 13, 14, 15, 17));
  EXPECT_EQ(counter("overflowed"), 1u);
  EXPECT_EQ(counter("peak_packets"), 4u);
  const auto rows = h.rows("reorder");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["held"], 0);
  EXPECT_EQ(rows[0]["peak_packets"], 4);
  EXPECT_EQ(rows[0]["bound_us"], 100);
}

TEST_F(ReorderStageTest, AReloadKeepsWhatWaitsAndOtherOptionsLetItGoOn) {
  come({10});
  come({12});
  h.reload(reorder_yaml(kOptions));
  EXPECT_THAT(out(), IsEmpty());
  EXPECT_THAT(come({11}), ElementsAre(11, 12));
  come({14});
  h.reload(reorder_yaml("{ uplinks: [s1, s2], bound_us: 50 }"));
  EXPECT_THAT(out(), ElementsAre(14));
  EXPECT_EQ(h.held(), 0u);
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(ReorderStageTest, AnotherPolicyOfLbLeavesWhatWaitsInOrder) {
  come({10});
  std::uint32_t psn = 11;
  for (const char* policy : {"policy=random", "policy=ecmp", "policy=psn"}) {
    EXPECT_THAT(come({psn + 1}), IsEmpty()) << policy;
    EXPECT_EQ(h.set("lb", {policy}), "");
    EXPECT_EQ(h.held(), 1u) << policy;
    EXPECT_THAT(come({psn + 2}), IsEmpty()) << policy;
    EXPECT_THAT(come({psn}), ElementsAre(psn, psn + 1, psn + 2)) << policy;
    psn += 3;
  }
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST(ReorderStageConfig, MistakesAreNamed) {
  const auto told_about = [](const std::string& options) {
    config::Diagnostics diagnostics;
    static_cast<void>(config::load_switch(reorder_yaml(options), weft::testing::all_stages(), diagnostics));
    return diagnostics.to_string();
  };
  EXPECT_EQ(told_about(kOptions), "");
  EXPECT_THAT(told_about("{ uplinks: [s9] }"), HasSubstr("uplinks: the switch has no port 's9'"));
  EXPECT_THAT(told_about("{ bound_us: 5 }"), HasSubstr("uplinks"));
  EXPECT_THAT(told_about("{ uplinks: [s1], bound_us: 0 }"), HasSubstr("bound_us: expected"));
}

}  // namespace
}  // namespace weft::stages::testing
