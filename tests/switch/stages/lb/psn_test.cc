// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config.h"
#include "switch/stages/lb/stage.h"
#include "switch/tables/ecmp_hash.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

class SenderLeaf {
 public:
  explicit SenderLeaf(LeafSetup setup = {})
      : uplinks_(setup.uplinks), h(weft::testing::all_stages(), leaf_yaml(1, setup)) {}

  /// The uplink that a packet of the sender takes, 0 for the first one; the number of uplinks for none.
  unsigned way(const FrameBuilder& frame) {
    h.inject("h1", frame.build());
    unsigned taken = uplinks_;
    for (unsigned i = 0; i < uplinks_; ++i) {
      if (!h.take("s" + std::to_string(i + 1)).empty()) taken = i;
    }
    return taken;
  }
  unsigned way(std::uint32_t psn) { return way(data(psn)); }
  /// What ecmp would choose for the flow of the data packets.
  [[nodiscard]] unsigned base(unsigned paths) const {
    const tables::EcmpHash hash(7);
    const std::uint64_t addresses = std::uint64_t{0x0a000102} << 32 | 0x0a000302;
    return tables::EcmpHash::member(hash.v4(addresses, tables::EcmpHash::ports_word(50000, 4791, 17)), paths);
  }

 private:
  unsigned uplinks_;

 public:
  Harness h;
};

TEST(LbPsn, ThePathIsThatOfEquation1) {
  for (const unsigned n : {2u, 3u, 5u}) {
    SenderLeaf leaf({.uplinks = n});
    for (const std::uint32_t psn : {0u, 1u, 2u, 3u, 4u, 77u, 0xfffffeu, 0xffffffu}) {
      ASSERT_EQ(leaf.way(psn), (psn % n + leaf.base(n)) % n) << n << " paths, PSN " << psn;
    }
  }
}

TEST(LbPsn, UnknownQueuePairsGoAsWithEcmp) {
  SenderLeaf leaf({.uplinks = 3, .qps = ""});
  for (std::uint32_t psn = 0; psn < 9; ++psn) EXPECT_EQ(leaf.way(psn), leaf.base(3));
}

TEST(LbPsn, APairThatAnAgentHasToldOfIsSprayedFromItsFirstPacketOn) {
  SenderLeaf leaf({.uplinks = 3, .qps = ""});
  tell_as_agent(leaf.h);
  for (std::uint32_t psn = 0; psn < 9; ++psn) EXPECT_EQ(leaf.way(psn), (psn % 3 + leaf.base(3)) % 3);
}

FrameBuilder response(Opcode opcode, std::uint32_t psn) {
  auto frame = data(psn).bth(opcode, kReceiverQp, Psn(psn));
  if (opcode != Opcode::RC_RDMA_READ_RESPONSE_MIDDLE) frame.payload(0);
  return frame;
}

TEST(LbPsn, AcksTakeAllPathsInTurnWhateverTheirPsn) {
  SenderLeaf leaf({.uplinks = 3});
  for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(leaf.way(response(Opcode::RC_ACKNOWLEDGE, 16 * i)), i % 3);
  leaf.h.set_link("s1", false);
  std::array<unsigned, 3> taken{};
  for (unsigned i = 0; i < 4; ++i) ++taken[leaf.way(response(Opcode::RC_ACKNOWLEDGE, i))];
  EXPECT_THAT(taken, ::testing::ElementsAre(0, 2, 2));
}

TEST(LbPsn, AcksShareUnequalPathsByTheirWeights) {
  SenderLeaf leaf({.uplinks = 2, .lb = "{ policy: psn, weights: { s1: 3 } }"});
  std::array<unsigned, 2> taken{};
  for (unsigned i = 0; i < 8; ++i) ++taken[leaf.way(response(Opcode::RC_ACKNOWLEDGE, i))];
  EXPECT_THAT(taken, ::testing::ElementsAre(6, 2));
}

TEST(LbPsn, ResponsesWithDataAndTheAcksThatFollowThemGoAsWithEcmp) {
  for (const Opcode opcode : {Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, Opcode::RC_ATOMIC_ACKNOWLEDGE}) {
    SenderLeaf leaf({.uplinks = 3});
    for (std::uint32_t psn = 0; psn < 4; ++psn) EXPECT_EQ(leaf.way(response(opcode, psn)), leaf.base(3));
    for (std::uint32_t psn = 4; psn < 9; ++psn) {
      EXPECT_EQ(leaf.way(response(Opcode::RC_ACKNOWLEDGE, psn)), leaf.base(3)) << "an ACK must not overtake data";
    }
  }
}

TEST(LbPsn, AReloadAndOtherOptionsForgetNeitherTheTurnOfAcksNorWhatTheyMustNotOvertake) {
  const auto reload = [](SenderLeaf& leaf) { leaf.h.reload(leaf_yaml(1, {.uplinks = 3})); };
  const auto set = [](SenderLeaf& leaf) { ASSERT_EQ(leaf.h.set("lb", {"weights.s1=1"}), ""); };
  const auto policies = [](SenderLeaf& leaf) {
    ASSERT_EQ(leaf.h.set("lb", {"policy=ecmp"}), "");
    ASSERT_EQ(leaf.h.set("lb", {"policy=psn"}), "");
  };
  const auto check = [](auto&& change, bool keeps_turn) {
    SenderLeaf turn({.uplinks = 3});
    EXPECT_EQ(turn.way(response(Opcode::RC_ACKNOWLEDGE, 0)), 0u);
    change(turn);
    if (keeps_turn) {
      EXPECT_EQ(turn.way(response(Opcode::RC_ACKNOWLEDGE, 1)), 1u);
    }

    SenderLeaf leaf({.uplinks = 3});
    EXPECT_EQ(leaf.way(response(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 0)), leaf.base(3));
    change(leaf);
    for (std::uint32_t psn = 1; psn < 6; ++psn) {
      EXPECT_EQ(leaf.way(response(Opcode::RC_ACKNOWLEDGE, psn)), leaf.base(3)) << "an ACK must not overtake data";
    }
  };
  check(reload, true);
  check(set, true);
  check(policies, false);
}

// The leaf of the receiver has marked a response: until another connection begins, requests keep to one path.
TEST(LbPsn, RequestsToAReceiverThatKeepsNoEarlyPacketsGoAsWithEcmp) {
  SenderLeaf leaf({.uplinks = 3});
  for (std::uint32_t psn = 0; psn < 6; ++psn) ASSERT_EQ(leaf.way(psn), (psn % 3 + leaf.base(3)) % 3);
  FrameBuilder answer_from_above = ack(3);
  answer_from_above.eth(other_mac(0x11), leaf_mac(2)).ttl(62);
  Bytes frame = answer_from_above.build();
  leaf.h.inject("s1", frame);
  ASSERT_EQ(leaf.h.take("h1").size(), 1u);
  ASSERT_EQ(leaf.way(6u), leaf.base(3)) << "no mark, PSN 6 of three paths";
  ASSERT_EQ(leaf.way(7u), (1 + leaf.base(3)) % 3);
  set_in_order_mark(frame.data(), parsed_of(frame), true);
  leaf.h.inject("s1", frame);
  const auto sent = leaf.h.take("h1");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_FALSE(has_in_order_mark(sent[0].bytes.data(), parsed_of(sent[0].bytes))) << "the host does not see it";
  for (std::uint32_t psn = 8; psn < 14; ++psn) EXPECT_EQ(leaf.way(psn), leaf.base(3));
  leaf.h.reload(leaf_yaml(1, {.uplinks = 3}));
  for (std::uint32_t psn = 14; psn < 20; ++psn) EXPECT_EQ(leaf.way(psn), leaf.base(3));
  leaf.way(1u << 20);
  for (std::uint32_t psn = 1u << 20; psn < (1u << 20) + 6; ++psn) {
    EXPECT_EQ(leaf.way(psn), (psn % 3 + leaf.base(3)) % 3) << "a new connection";
  }
}

TEST(LbPsn, WithoutSprayAcksTheyGoAsWithEcmp) {
  SenderLeaf leaf({.uplinks = 3, .lb = "{ policy: psn, spray_acks: false }"});
  for (std::uint32_t psn = 0; psn < 9; ++psn) {
    EXPECT_EQ(leaf.way(response(Opcode::RC_ACKNOWLEDGE, psn)), leaf.base(3));
  }
}

TEST(LbPsn, NaksGoAsWithEcmp) {
  SenderLeaf leaf({.uplinks = 3});
  for (const wire::Syndrome syndrome :
       {wire::Syndrome::nak(wire::NakCode::psn_sequence_error), wire::Syndrome::rnr_nak(5)}) {
    for (std::uint32_t psn = 0; psn < 9; ++psn) {
      EXPECT_EQ(leaf.way(response(Opcode::RC_ACKNOWLEDGE, psn).aeth(syndrome, 3)), leaf.base(3));
    }
  }
}

TEST(LbPsn, AcksOfUnknownQueuePairsGoAsWithEcmp) {
  SenderLeaf leaf({.uplinks = 3, .qps = ""});
  for (std::uint32_t psn = 0; psn < 9; ++psn) {
    EXPECT_EQ(leaf.way(response(Opcode::RC_ACKNOWLEDGE, psn)), leaf.base(3));
  }
}

// Copies share payload: changing the source port of one must not touch the ICRC of another.
TEST(LbPsn, EveryCopyOfADuplicatedPacketHasARightIcrc) {
  LeafSetup setup;
  setup.lb = "{ policy: psn, tiers_above: [ { seed: 99, members: 4 } ] }";
  for (const char* icrc : {"incremental", "full"}) {
    std::string yaml = leaf_yaml(1, setup) + "icrc: " + icrc + "\n";
    const std::string parse = "  - parse\n";
    yaml.replace(yaml.find(parse), parse.size(), "  - parse\n  - impair: { rules: [ { duplicate: 1.0 } ] }\n");
    Harness h(weft::testing::all_stages(), yaml);
    int wrong = 0;
    int all = 0;
    for (std::uint32_t psn = 0; psn < 8; ++psn) {
      h.inject("h1", data(psn).payload(1024).build());
      for (const char* port : {"s1", "s2"}) {
        for (const auto& frame : h.take(port)) {
          ++all;
          wrong += wire::icrc_ok(frame.bytes.data(), parsed_of(frame.bytes)) ? 0 : 1;
        }
      }
    }
    EXPECT_EQ(all, 16) << icrc;
    EXPECT_EQ(wrong, 0) << icrc;
  }
}

TEST(LbPsn, APathThatGoesDownLeavesThePathSetAndComesBack) {
  SenderLeaf leaf({.uplinks = 3});
  leaf.h.set_link("s2", false);
  const unsigned left[] = {0, 2};
  for (std::uint32_t psn = 0; psn < 8; ++psn) EXPECT_EQ(leaf.way(psn), left[(psn % 2 + leaf.base(2)) % 2]);
  leaf.h.set_link("s1", false);
  for (std::uint32_t psn = 0; psn < 4; ++psn) EXPECT_EQ(leaf.way(psn), 2u);
  leaf.h.set_link("s3", false);
  EXPECT_EQ(leaf.way(0u), 3u);
  EXPECT_EQ(leaf.h.dropped(pipeline::DropReason::egress_down), 1u);
  for (const char* port : {"s1", "s2", "s3"}) leaf.h.set_link(port, true);
  for (std::uint32_t psn = 0; psn < 8; ++psn) EXPECT_EQ(leaf.way(psn), (psn % 3 + leaf.base(3)) % 3);
}

TEST(LbPsn, AnExcludedPathLeavesThePathSetAndComesBack) {
  SenderLeaf leaf({.uplinks = 3, .lb = "{ policy: psn, weights: { s3: 2 } }"});
  const unsigned all[] = {0, 1, 2, 2};
  for (std::uint32_t psn = 0; psn < 8; ++psn) ASSERT_EQ(leaf.way(psn), all[(psn % 4 + leaf.base(4)) % 4]);
  ASSERT_EQ(leaf.h.exclude("s2", true), "");
  const unsigned left[] = {0, 2, 2};
  for (std::uint32_t psn = 8; psn < 20; ++psn) ASSERT_EQ(leaf.way(psn), left[(psn % 3 + leaf.base(3)) % 3]) << psn;
  ASSERT_EQ(leaf.h.exclude("s3", true), "");
  for (std::uint32_t psn = 20; psn < 24; ++psn) ASSERT_EQ(leaf.way(psn), 0u) << "one path is as with ecmp";
  for (const char* port : {"s2", "s3"}) ASSERT_EQ(leaf.h.exclude(port, false), "");
  for (std::uint32_t psn = 24; psn < 32; ++psn) ASSERT_EQ(leaf.way(psn), all[(psn % 4 + leaf.base(4)) % 4]);
  EXPECT_EQ(leaf.h.dropped_total(), 0u);
}

TEST(LbPsn, ThePolicyChangesWhilePacketsFlow) {
  SenderLeaf leaf({.uplinks = 3, .lb = "{ policy: ecmp }"});
  for (std::uint32_t psn = 0; psn < 6; ++psn) ASSERT_EQ(leaf.way(psn), leaf.base(3));
  ASSERT_EQ(leaf.h.set("lb", {"policy=psn"}), "");
  EXPECT_EQ(leaf.h.rows("lb")[0]["policy"], "psn");
  for (std::uint32_t psn = 6; psn < 12; ++psn) ASSERT_EQ(leaf.way(psn), (psn % 3 + leaf.base(3)) % 3) << psn;
  ASSERT_EQ(leaf.h.set("lb", {"weights.s3=2"}), "");
  const unsigned slots[] = {0, 1, 2, 2};
  for (std::uint32_t psn = 12; psn < 20; ++psn) ASSERT_EQ(leaf.way(psn), slots[(psn % 4 + leaf.base(4)) % 4]);
  ASSERT_EQ(leaf.h.exclude("s1", true), "");
  ASSERT_EQ(leaf.h.set("lb", {"policy=ecmp"}), "");
  const unsigned way = leaf.way(20u);
  EXPECT_NE(way, 0u) << "what is excluded stays so";
  for (std::uint32_t psn = 21; psn < 26; ++psn) ASSERT_EQ(leaf.way(psn), way);
  EXPECT_EQ(leaf.h.counter("lb", "balanced"), 26u);
}

// A packet between l3 and lb names a group of the routes of that burst; a reload or new routes would make it another.
TEST(LbOrder, NoStageThatHoldsPacketsStandsBetweenL3AndLb) {
  const auto mistakes = [](const std::string& pipeline) {
    const std::string yaml =
        "name: leaf\nports: [ { name: h1, type: \"null\" } ]\naddresses: [ { port: h1, address: 10.0.1.1/24 } ]\n"
        "pipeline:\n" +
        pipeline;
    config::Diagnostics diagnostics;
    static_cast<void>(config::load_switch(yaml, weft::testing::all_stages(), diagnostics));
    return diagnostics.to_string();
  };
  const std::string impair = "  - impair: { rules: [ { delay_us: 100 } ] }\n";
  EXPECT_THAT(
      mistakes("  - parse\n  - l3\n" + impair + "  - lb\n"),
      HasSubstr("7:5: stage 'impair' may hold packets, so it cannot stand between 'l3' and 'lb': the group of a "
                "packet belongs to the routes of the moment; expected before 'l3' or after 'lb'"));
  EXPECT_EQ(mistakes("  - parse\n" + impair + "  - l3\n  - lb\n"), "");
  EXPECT_EQ(mistakes("  - parse\n  - l3\n  - lb\n" + impair), "");
}

TEST(LbPsn, APolicyThatDoesNotFitIsRefused) {
  SenderLeaf leaf;
  EXPECT_EQ(leaf.h.set("lb", {"policy=pns"}),
            "policy: expected one of ecmp, random, adaptive, drill, letflow, conga, conweave, gemma, psn, found 'pns'; "
            "did you "
            "mean 'psn'?");
  EXPECT_EQ(leaf.h.set("lb", {"weights.s9=2"}), "weights: the switch has no port 's9'; did you mean 's1'?");
  EXPECT_EQ(leaf.h.set("lb", {"polcy=psn"}), "unknown key 'polcy'; did you mean 'policy'?");
}

TEST(LbPsn, UnequalPathsShareByTheirWeights) {
  SenderLeaf leaf({.uplinks = 2, .lb = "{ policy: psn, weights: { s1: 3 } }"});
  const unsigned slots[] = {0, 0, 0, 1};
  for (std::uint32_t psn = 0; psn < 16; ++psn) EXPECT_EQ(leaf.way(psn), slots[(psn % 4 + leaf.base(4)) % 4]) << psn;
}

TEST(LbPsn, NeedsTheTrackerBeforeIt) {
  config::Diagnostics diagnostics;
  const std::string yaml =
      "name: s\nports: [ { name: p1, type: \"null\" } ]\npipeline: [ parse, l3, lb: { policy: psn } ]\n";
  EXPECT_FALSE(config::load_switch(yaml, weft::testing::all_stages(), diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("3:38: policy psn needs rdma_track before it"));
}

TEST(LbPsn, AWeightOfAPortThatDoesNotExistIsAMistake) {
  config::Diagnostics diagnostics;
  const std::string yaml = leaf_yaml(1, {.lb = "{ policy: psn, weights: { s9: 3 } }"});
  EXPECT_FALSE(config::load_switch(yaml, weft::testing::all_stages(), diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("the switch has no port 's9'"));
}

}  // namespace
}  // namespace weft::stages::testing
