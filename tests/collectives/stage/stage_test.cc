// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/stage.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "collectives/stage/drops.h"
#include "switch/pipeline/registry.h"
#include "switch/tables/interfaces.h"
#include "switch/wire/builder.h"
#include "tests/collectives/stage/star.h"

namespace weft::inc {
namespace {

using testing::Bytes;
using testing::Collective;
using testing::Forwarding;
using testing::group_yaml;
using testing::port_name;
using testing::Star;
using testing::Verb;

const std::vector<Collective> kMixed{{Primitive::allreduce, 0, 5}, {Primitive::reduce, 2, 7},
                                     {Primitive::broadcast, 1, 6}, {Primitive::barrier, 0, 0},
                                     {Primitive::reduce, 0, 4},    {Primitive::allreduce, 0, 9}};

std::string options(Forwarding f, const std::string& more = "") {
  return "{ groups: [" + group_yaml(f, testing::kGroupId, more) + "] }";
}

// The position is that of inc, so the stage that asks for the order is this one: the switch alone knows no inc.
TEST(IncStageOrder, StandsBehindLbTagWhichTakesTagsOut) {
  const auto mistakes = [](const std::vector<std::string>& names) {
    std::vector<pipeline::StageSpec> stages;
    for (const std::string& name : names) {
      stages.push_back({name, {}, {"leaf.yaml", static_cast<int>(stages.size()) + 1, 5}});
    }
    config::Diagnostics diagnostics;
    pipeline::check_order(weft::testing::all_stages(), stages, diagnostics);
    return diagnostics.to_string();
  };
  EXPECT_EQ(mistakes({"parse", "lb_tag", "inc", "l2"}), "");
  EXPECT_EQ(mistakes({"parse", "inc", "l2"}), "");
  EXPECT_THAT(mistakes({"parse", "inc", "lb_tag", "l2"}),
              ::testing::HasSubstr("leaf.yaml:2:5: stage 'inc' must stand after 'lb_tag': it reads packets without "
                                   "their tag"));
}

class IncStageEverywhere : public ::testing::TestWithParam<Forwarding> {};
INSTANTIATE_TEST_SUITE_P(Forwarding, IncStageEverywhere,
                         ::testing::Values(Forwarding::bridged, Forwarding::bridged_v6, Forwarding::routed_v4,
                                           Forwarding::routed_v6));

TEST_P(IncStageEverywhere, RnicsGetWhatOneMachineWouldHaveAddedUp) {
  for (const Verb verb : {Verb::send, Verb::write_imm}) {
    Star s(GetParam(), options(GetParam()), kMixed, verb);
    ASSERT_EQ(s.run(), "done");
    EXPECT_GT(s.h.counter("inc", "contributions"), 0u);
    EXPECT_GT(s.h.counter("inc", "reused"), 0u);
    EXPECT_EQ(s.h.counter("inc", "duplicates"), 0u) << "nothing is lost, so nothing is repeated";
    EXPECT_EQ(s.h.counter("inc", "sent"), s.received + s.h.dropped_total());
  }
}

TEST_P(IncStageEverywhere, ModeIIIRepairsItself) {
  Star clean(GetParam(), options(GetParam(), "mode: iii"), kMixed, Verb::write_imm);
  ASSERT_EQ(clean.run(), "done");
  EXPECT_EQ(clean.h.counter("inc", "duplicates") + clean.h.counter("inc", "resent"), 0u);
  Star lossy(GetParam(), options(GetParam(), "mode: iii, slots: 3, timeout: 6, acks: arrival"), kMixed);
  Rng rng(7);
  lossy.lose = [&](const Bytes&) { return rng.below(20) == 0; };
  ASSERT_EQ(lossy.run(), "done");
  EXPECT_GT(lossy.h.counter("inc", "resent"), 0u);
  EXPECT_GT(lossy.h.counter("inc", "ahead"), 0u);
  EXPECT_GT(lossy.cnps, 0u);
  EXPECT_LE(lossy.cnps, lossy.h.counter("inc", "rnr_naks"));
}

TEST_P(IncStageEverywhere, ModeIIsARnicLikeOthers) {
  Star clean(GetParam(), options(GetParam(), "mode: i, timeout: 6"), kMixed);
  ASSERT_EQ(clean.run(), "done");
  EXPECT_GT(clean.h.counter("inc", "contributions"), 0u);
  EXPECT_EQ(clean.h.counter("inc", "duplicates") + clean.h.counter("inc", "resent"), 0u);
  Star lossy(GetParam(), options(GetParam(), "mode: i, timeout: 6"), kMixed);
  Rng rng(7);
  lossy.lose = [&](const Bytes&) { return rng.below(20) == 0; };
  ASSERT_EQ(lossy.run(), "done");
  EXPECT_GT(lossy.h.counter("inc", "resent"), 0u);
  EXPECT_GT(lossy.h.counter("inc", "duplicates"), 0u);
}

TEST_P(IncStageEverywhere, ARankThatHasNeverSentIsFound) {
  Star s(GetParam(), options(GetParam()), {{Primitive::reduce, 2, 3}});
  ASSERT_EQ(s.run(), "done");
  const bool asks = testing::is_bridged(GetParam());
  EXPECT_EQ(s.answers, asks ? 1u : 0u);
  EXPECT_EQ(s.h.dropped(IncDrop::inc_no_neighbour) != 0, asks);
}

TEST_P(IncStageEverywhere, LossesAndWrongIcrcsAreRepaired) {
  Star s(GetParam(), options(GetParam()), kMixed);
  Rng rng(7);
  s.lose = [&](const Bytes&) { return rng.below(50) == 0; };
  s.spoil = [&](Bytes& frame) {
    if (rng.below(20) == 0) frame[frame.size() - 5] ^= 0x10;
  };
  ASSERT_EQ(s.run(), "done");
  EXPECT_GT(s.h.dropped(IncDrop::inc_bad_icrc), 0u);
  EXPECT_GT(s.h.counter("inc", "duplicates"), 0u);
}

TEST(IncStage, CommandsThatAskForDeadlinesAnewLoseNoTimer) {
  Star s(Forwarding::bridged, options(Forwarding::bridged, "mode: iii, timeout: 6"), kMixed);
  Rng rng(7);
  std::uint64_t late = 0;
  s.lose = [&](const Bytes&) {
    late += s.h.next_deadline() > s.h.stage<IncStage>("inc").deadline(0) ? 1 : 0;
    if (rng.below(3) == 0) s.h.change<IncStage>("inc", [](IncStage&) {});
    return rng.below(20) == 0;
  };
  ASSERT_EQ(s.run(), "done");
  EXPECT_EQ(late, 0u);
}

TEST(IncStage, AResultIsBuiltOnceForAllWhoGetIt) {
  const std::string big = "{ groups: [{ id: 5, ranks: 4, mtu: 4096, message_packets: 1, window: 1, endpoints: [";
  std::string yaml = big;
  for (std::size_t r = 0; r < 4; ++r) {
    yaml += "{ address: 10.0.0.254, qp: " + std::to_string(100 + r) + ", peer: 10.0.0." + std::to_string(r + 1) +
            ", peer_qp: 17, rank: " + std::to_string(r) + " }, ";
  }
  Star s(Forwarding::bridged, yaml + "] }] }", {});
  ControlMessage m = testing::message(Primitive::allreduce, 0, 4096);
  m.group = 5;
  Bytes kept;
  for (std::size_t r = 0; r < 4; ++r) s.h.inject(port_name(r), s.frame(r, testing::control(wire::Psn(0), m, kept)));
  std::vector<std::uint32_t> values(1024);
  for (std::uint32_t r = 0; r < 4; ++r) {
    for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = i + (1000 << r);
    const Bytes payload = testing::bytes_of(values);
    // The last comes in pieces: the stage has to put it together.
    const Bytes frame = s.frame(r, testing::data(wire::Psn(1), wire::Opcode::RC_SEND_ONLY, payload));
    r == 3 ? s.h.inject_chained(port_name(r), frame, {70, 1000}) : s.h.inject(port_name(r), frame);
  }
  for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = 4 * i + 15000;
  for (std::size_t r = 0; r < 4; ++r) {
    const auto frames = s.h.take(port_name(r));
    ASSERT_EQ(frames.size(), 2u);
    wire::Parsed parsed;
    const Bytes& bytes = frames[1].bytes;
    wire::parse_frame(bytes.data(), static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(bytes.size()),
                      parsed);
    EXPECT_TRUE(wire::icrc_ok(bytes.data(), parsed)) << r;
    nic::Packet p;
    nic::decode(bytes.data(), static_cast<std::uint32_t>(bytes.size()), parsed, p);
    EXPECT_EQ(Bytes(p.payload.data(), p.payload.data() + p.payload.bytes), testing::bytes_of(values)) << r;
  }
  // Of four packets each: the control message, and the sum.
  EXPECT_EQ(s.h.counter("inc", "reused"), 6u);
}

TEST(IncStage, MarksOfContributionsReachTheResult) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  const ControlMessage m = testing::message(Primitive::barrier, 0, 0);
  Bytes kept;
  for (std::size_t r = 0; r < 4; ++r) {
    const wire::Psn psn = testing::star(2).endpoints[r % 2].first_rx;
    s.h.inject(port_name(r), s.frame(r, testing::control(psn, m, kept), r == 2 ? 3 : 2));
  }
  const auto sent = s.h.take("h0");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes[15] & 3, 3) << "CE";
}

TEST(IncStage, AcksHaveTheirOwnDscpWhenTheGroupSaysSo) {
  for (const auto& [more, expected] : {std::pair<std::string, int>{"", 26}, {", ack_dscp: 48", 48}}) {
    Star s(Forwarding::bridged, options(Forwarding::bridged, "mode: iii, acks: arrival" + more), {});
    const ControlMessage m = testing::message(Primitive::barrier, 0, 0);
    Bytes kept;
    s.h.inject("h0", s.frame(0, testing::control(testing::star(2).endpoints[0].first_rx, m, kept)));
    const auto sent = s.h.take("h0");
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].bytes[42], static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE));
    EXPECT_EQ(sent[0].bytes[15] >> 2, expected);
  }
}

TEST(IncStage, WhoeverAsksForAnEndpointsAddressIsAnswered) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  const auto asks = [&](const char* target) {
    return wire::FrameBuilder()
        .eth(testing::host_mac(1), wire::MacAddress::from_u64(0xffffffffffff))
        .arp(1, testing::host_mac(1), *wire::IpAddress::parse("10.0.0.2"), {}, *wire::IpAddress::parse(target))
        .pad_to_minimum()
        .build();
  };
  s.h.inject("h1", asks("10.0.0.254"));
  const auto answer = s.h.take("h1");
  ASSERT_EQ(answer.size(), 1u);
  const auto own = s.h.port("h1").mac;
  EXPECT_EQ(answer[0].bytes, wire::FrameBuilder()
                                 .eth(own, testing::host_mac(1))
                                 .arp(2, own, *wire::IpAddress::parse("10.0.0.254"), testing::host_mac(1),
                                      *wire::IpAddress::parse("10.0.0.2"))
                                 .pad_to_minimum()
                                 .build());
  EXPECT_TRUE(s.h.take("h0").empty());
  s.h.inject("h1", asks("10.0.0.3"));
  EXPECT_EQ(s.h.take("h0").size(), 1u) << "others' addresses are the bridge's business";
}

TEST(IncStage, WhoeverSolicitsAnEndpointsAddressIsAnswered) {
  using Nd = wire::NeighbourMessage;
  Star s(Forwarding::bridged_v6, options(Forwarding::bridged_v6), {});
  const auto ours = *wire::IpAddress::parse("2001:db8::fe"), host = *wire::IpAddress::parse("2001:db8::2");
  const auto asks = [&](const wire::IpAddress& from, const wire::IpAddress& target) {
    const auto group = tables::solicited_node(target);
    Bytes frame(wire::kNeighbourBytes);
    wire::write_neighbour_solicitation(frame, {testing::host_mac(1), tables::multicast_mac(group)}, from, group,
                                       target);
    return frame;
  };
  const auto answer_to = [&](const wire::IpAddress& to, wire::MacAddress mac, std::uint32_t flags) {
    Bytes frame(wire::kNeighbourBytes);
    wire::write_neighbour_advertisement(frame, {s.h.port("h1").mac, mac}, ours, to, flags);
    return frame;
  };
  s.h.inject("h1", asks(host, ours));
  const auto answer = s.h.take("h1");
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].bytes, answer_to(host, testing::host_mac(1), Nd::kSolicited | Nd::kOverride));
  EXPECT_TRUE(s.h.take("h0").empty());
  s.h.inject("h1", asks(*wire::IpAddress::parse("::"), ours));
  EXPECT_TRUE(s.h.take("h1").empty()) << "a solicitation of nobody's carries no link-layer address (RFC 4861 7.1.1)";
  EXPECT_EQ(s.h.take("h0").size(), 1u);
  s.h.inject("h1", asks(host, *wire::IpAddress::parse("2001:db8::3")));
  EXPECT_EQ(s.h.take("h0").size(), 1u) << "others' addresses are the bridge's business";
}

TEST(IncStage, AnAnswerCarriesTheTagOfTheQuestion) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  const auto target = *wire::IpAddress::parse("10.0.0.254"), host = *wire::IpAddress::parse("10.0.0.2");
  s.h.inject("h1", wire::FrameBuilder()
                       .eth(testing::host_mac(1), wire::MacAddress::from_u64(0xffffffffffff))
                       .vlan(7)
                       .arp(1, testing::host_mac(1), host, {}, target)
                       .pad_to_minimum()
                       .build());
  const auto answer = s.h.take("h1");
  ASSERT_EQ(answer.size(), 1u);
  const auto& frame = answer[0].bytes;
  EXPECT_EQ(wire::header_at<wire::be16>(frame.data() + 12).value(), wire::EtherType::vlan);
  EXPECT_EQ(wire::header_at<wire::be16>(frame.data() + 14).value(), 7u);
  EXPECT_EQ(wire::header_at<wire::be16>(frame.data() + 16).value(), wire::EtherType::arp);
}

TEST(IncStage, PacketsOfNobodyAndOfOthersDisturbNothing) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {{Primitive::allreduce, 0, 3}});
  const auto roce = [](const char* from, const char* to, std::uint32_t qp) {
    return wire::FrameBuilder()
        .eth(testing::host_mac(0), testing::host_mac(1))
        .ipv4(from, to)
        .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(qp), wire::Psn(1))
        .payload(64);
  };
  s.h.inject("h0", roce("10.0.0.1", "10.0.0.254", 99).build());
  s.h.inject("h0", roce("10.0.0.9", "10.0.0.254", 100).build());
  EXPECT_EQ(s.h.dropped(IncDrop::inc_unknown_qp), 2u);
  s.h.inject("h0", wire::FrameBuilder()
                       .ipv4("10.0.0.1", "10.0.0.254")
                       .bth(wire::Opcode::UC_SEND_ONLY, wire::Qpn(100), wire::Psn(1))
                       .payload(64)
                       .build());
  EXPECT_EQ(s.h.dropped(IncDrop::inc_bad_opcode), 1u);
  s.h.inject("h0", roce("10.0.0.1", "10.0.0.2", 100).build());
  EXPECT_EQ(s.h.take("h1").size(), 1u) << "forwarded";
  for (std::size_t r = 0; r < 4; ++r) s.h.take(port_name(r));
  EXPECT_EQ(s.run(), "done");
}

TEST(IncStage, TablesSayWhatIsUnderWayAndExplainNamesWhoIsWaitedFor) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  Bytes kept;
  const ControlMessage m = testing::message(Primitive::barrier, 0, 0);
  for (std::size_t r = 0; r < 3; ++r) {
    s.h.inject(port_name(r), s.frame(r, testing::control(testing::star(2).endpoints[r % 2].first_rx, m, kept)));
  }
  s.h.advance_ns(5'000'000'000);
  const auto groups = s.h.rows("inc_groups");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0]["group"], testing::kGroupId);
  EXPECT_EQ(groups[0]["state"], "running");
  EXPECT_EQ(groups[0]["contributions"], 3);
  EXPECT_EQ(groups[0]["bytes"], 4 * 2 * 256 + 4 * 256);
  EXPECT_EQ(s.h.rows("inc_endpoints").size(), 4u);
  const auto slots = s.h.rows("inc_slots");
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0]["waits_for"], "rank 3 (10.0.0.4)");
  const auto row = s.h.stage<IncStage>("inc").explain(testing::kGroupId);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ((*row)["waits_for"], "rank 3 (10.0.0.4)");
  EXPECT_EQ((*row)["collective"], "barrier #0, packet 0 of 1");
  EXPECT_NEAR((*row)["for_s"].get<double>(), 5, 1);
  EXPECT_EQ(s.h.stage<IncStage>("inc").explain(1), std::nullopt);
}

TEST(IncStage, CountsMoreCollectivesThanTheirSequenceCan) {
  std::uint64_t begun = 0;
  for (const std::uint64_t now : {0ull, 3ull, 65'535ull, 65'536ull, 65'536ull, 131'071ull, 131'080ull}) {
    begun = count_on(begun, static_cast<std::uint16_t>(now));
    EXPECT_EQ(begun, now);
  }
}

TEST(IncStage, ActivityCountsWhatIsAddedUpAndNamesTheRanksThatAreWaitedFor) {
  for (const char* mode : {"", "mode: iii", "mode: i, timeout: 6"}) {
    // 5 and 9 packets of 256 bytes are vectors; a barrier has none.
    Star s(Forwarding::bridged, options(Forwarding::bridged, mode),
           {{Primitive::allreduce, 0, 5}, {Primitive::barrier, 0, 0}, {Primitive::allreduce, 0, 9}});
    ASSERT_EQ(s.run(), "done");
    const auto row = s.h.rows("inc_activity")[0];
    EXPECT_EQ(row["completed_bytes"], 14 * 256) << mode;
    EXPECT_EQ(row["collectives"], 3) << mode;
    EXPECT_EQ(row["waits_for_ranks"].size(), 0u) << mode;
    EXPECT_EQ(row["state"], "nothing is under way here") << mode;
  }
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  Bytes kept;
  const ControlMessage m = testing::message(Primitive::barrier, 0, 0);
  for (std::size_t r = 1; r < 3; ++r) {
    s.h.inject(port_name(r), s.frame(r, testing::control(testing::star(2).endpoints[r % 2].first_rx, m, kept)));
  }
  s.h.advance_ns(5'000'000'000);
  const auto row = s.h.rows("inc_activity")[0];
  EXPECT_EQ(row["waits_for_ranks"], (std::vector<int>{0, 3}));
  EXPECT_EQ(row["waits_for"], "rank 0 (10.0.0.1), rank 3 (10.0.0.4)");
  EXPECT_NEAR(row["for_s"].get<double>(), 5, 1);
}

TEST(IncStage, ADisagreementIsToldToAllRanksAndShownWithWhoSaidWhat) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  Bytes kept;
  for (std::size_t r = 0; r < 2; ++r) {
    const ControlMessage m = testing::message(Primitive::allreduce, 0, 256 * (r + 1));
    s.h.inject(port_name(r), s.frame(r, testing::control(testing::star(2).endpoints[r].first_rx, m, kept)));
  }
  for (std::size_t r = 0; r < 2; ++r) {
    std::size_t naks = 0;
    for (const auto& sent : s.h.take(port_name(r))) naks += sent.bytes[12] == 8 && sent.bytes[13] == 0 ? 1 : 0;
    EXPECT_EQ(naks, 1u) << "the others are asked for by ARP: they have not been seen yet";
  }
  EXPECT_EQ(s.h.rows("inc_groups")[0]["failure"],
            "rank 1 (10.0.0.2): ranks began different collectives; it said allreduce sum uint32, 512 bytes #0; "
            "rank 0 (10.0.0.1) said allreduce sum uint32, 256 bytes #0");
  EXPECT_EQ(s.h.counter("inc", "failed"), 1u);
}

TEST(IncStage, AReloadKeepsGroupsThatHaveNotChangedInTheMiddleOfACollective) {
  const std::string same = options(Forwarding::bridged);
  Star s(Forwarding::bridged, same, {{Primitive::allreduce, 0, 30}});
  EXPECT_EQ(s.run(5), "endless");
  s.h.reload(testing::switch_yaml(Forwarding::bridged,
                                  "{ memory_kb: 4096, groups: [" + group_yaml(Forwarding::bridged) + "] }"));
  EXPECT_EQ(s.run(5), "endless");
  EXPECT_EQ(s.h.rows("inc_groups")[0]["generation"], 1);
  s.h.reload(testing::switch_yaml(Forwarding::bridged, options(Forwarding::bridged) + " "));
  ASSERT_EQ(s.run(), "done");
}

TEST(IncStage, AGroupThatHasChangedBeginsAnew) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  s.h.reload(testing::switch_yaml(Forwarding::bridged, options(Forwarding::bridged, "reproducible: true")));
  EXPECT_EQ(s.h.rows("inc_groups")[0]["generation"], 2);
}

/// A group of four ranks, whose first packets have PSNs that are so much further on than those of Star's.
GroupSpec spec(std::uint32_t id, const std::string& address, std::uint32_t later = 0) {
  GroupSpec g;
  g.config = testing::star(4);
  g.config.id = id;
  g.config.window = 2;
  g.config.slots = 4;
  for (std::uint32_t r = 0; r < 4; ++r) {
    g.config.endpoints[r] = testing::star(2).endpoints[r % 2];
    g.config.endpoints[r].first_rx = g.config.endpoints[r].first_rx + later;
    g.config.endpoints[r].rank = static_cast<std::uint16_t>(r);
    g.edges.push_back({*wire::IpAddress::parse(address), wire::Qpn(100 + r),
                       *wire::IpAddress::parse(testing::host_address(Forwarding::bridged, r)), wire::Qpn(17), 50000});
  }
  return g;
}

void use_new_table(Star& s) {
  auto table = s.h.shared<IncShared>("inc").table(0);
  s.h.change<IncStage>("inc", [&](IncStage& stage) { stage.exchange_table(table); });
}

TEST(IncStage, GroupsAreMadeAndEndWhileOthersRun) {
  Star s(Forwarding::bridged, "{ memory_kb: 8 }", {{Primitive::allreduce, 0, 3}});
  auto& shared = s.h.shared<IncShared>("inc");
  std::uint32_t generation = 0;
  EXPECT_EQ(shared.create(spec(testing::kGroupId, "10.0.0.254"), true, generation), "");
  EXPECT_EQ(generation, 1u);
  EXPECT_EQ(shared.create(spec(testing::kGroupId, "10.0.0.253"), true, generation), "there is a group 77 already");
  EXPECT_EQ(shared.create(spec(2, "10.0.0.254"), true, generation),
            "group 77 has the endpoint 10.0.0.254 qp 100 with the peer 10.0.0.1 already");
  EXPECT_EQ(shared.create(spec(3, "10.0.0.253"), true, generation), "");
  EXPECT_EQ(shared.create(spec(4, "10.0.0.252"), true, generation),
            "group 4 needs 3072 bytes for 4 slots, and of memory_kb the longest free range has 2048");
  use_new_table(s);
  EXPECT_EQ(s.h.counter("inc", "groups"), 2u);
  ASSERT_EQ(s.run(), "done");
  EXPECT_EQ(shared.remove(3, generation + 1), nullptr) << "another generation";
  EXPECT_NE(shared.remove(3, generation), nullptr);
  EXPECT_EQ(shared.remove(3), nullptr);
  use_new_table(s);
  EXPECT_EQ(shared.create(spec(5, "10.0.0.252"), true, generation), "");
  EXPECT_EQ(shared.pool().free_bytes(), 8192u - 2 * 3072);
  // A reload keeps what commands have made.
  s.h.reload(testing::switch_yaml(Forwarding::bridged, "{ memory_kb: 9 }"));
  EXPECT_EQ(s.h.rows("inc_groups").size(), 2u);
}

TEST(IncStage, WhatIsOfferedIsShownAndNothingElseIsTaken) {
  const auto abilities = [](Star& s) {
    nlohmann::ordered_json rows;
    std::uint64_t cursor = 0;
    s.h.change<IncStage>("inc", [&](IncStage& stage) { rows = stage.rows("inc_abilities", cursor, 8); });
    return rows.at(0);
  };
  Star all(Forwarding::bridged, "{}", {});
  EXPECT_EQ(abilities(all)["modes"], nlohmann::ordered_json({"i", "ii", "iii"}));
  EXPECT_EQ(abilities(all)["fan_in"], 64);
  Star s(Forwarding::bridged, "{ modes: [i, iii], fan_in: 2 }", {});
  EXPECT_EQ(abilities(s)["modes"], nlohmann::ordered_json({"i", "iii"}));
  EXPECT_EQ(abilities(s)["fan_in"], 2);
  std::uint32_t generation = 0;
  EXPECT_EQ(s.h.shared<IncShared>("inc").create(spec(5, "10.0.0.254"), true, generation),
            "group 5: mode ii is not offered here; `modes` are i, iii");
}

TEST(IncStage, MemoryIsThatOfTheSwitchAndWhoHoldsIt) {
  Star s(Forwarding::bridged, options(Forwarding::bridged), {});
  Bytes kept;
  const ControlMessage m = testing::message(Primitive::barrier, 0, 0);
  s.h.inject("h0", s.frame(0, testing::control(testing::star(2).endpoints[0].first_rx, m, kept)));
  auto rows = s.h.rows("inc_memory");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["of"], "switch");
  EXPECT_EQ(rows[0]["memory_bytes"], 4096 * 1024);
  EXPECT_EQ(rows[0]["bytes"], 4 * 2 * 256 + 4 * 256);
  EXPECT_EQ(rows[0]["longest_free_bytes"], 4096 * 1024 - rows[0]["bytes"].get<int>());
  EXPECT_EQ(rows[1]["of"], "group " + std::to_string(testing::kGroupId));
  EXPECT_EQ(rows[1]["bytes"], rows[0]["bytes"]);
  EXPECT_EQ(rows[1]["slots_in_use"], 1);
  ASSERT_NE(s.h.shared<IncShared>("inc").remove(testing::kGroupId), nullptr);
  use_new_table(s);
  rows = s.h.rows("inc_memory");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["bytes"], 0);
}

TEST(IncStage, PacketsOfAGroupThatIsOverDoNotReachTheOneThatHasItsMemory) {
  Star s(Forwarding::bridged, "{ memory_kb: 3 }", {});
  auto& shared = s.h.shared<IncShared>("inc");
  constexpr std::uint32_t kLater = 1000;
  Bytes kept;
  const ControlMessage m = testing::message(Primitive::allreduce, 0, 256);
  const auto payload = [](std::uint32_t value) { return testing::bytes_of(std::vector<std::uint32_t>(64, value)); };
  const auto first = [](std::size_t r) { return testing::star(2).endpoints[r % 2].first_rx; };
  const auto send = [&](std::size_t r, std::uint32_t later, std::uint32_t value) {
    s.h.inject(port_name(r),
               s.frame(r, testing::data(first(r) + later + 1, wire::Opcode::RC_SEND_ONLY, payload(value))));
  };
  std::uint32_t generation = 0;
  const std::byte* memory = nullptr;
  for (const std::uint32_t later : {0u, kLater}) {
    ASSERT_EQ(shared.create(spec(testing::kGroupId, "10.0.0.254", later), true, generation), "");
    use_new_table(s);
    for (std::size_t r = 0; r < 4; ++r)
      s.h.inject(port_name(r), s.frame(r, testing::control(first(r) + later, m, kept)));
    if (later != 0) break;
    for (std::size_t r = 0; r < 3; ++r) send(r, 0, 7);
    const auto group = shared.remove(testing::kGroupId, generation);
    memory = group->memory->data();
    use_new_table(s);
  }
  EXPECT_EQ(generation, 2u);
  EXPECT_EQ(s.h.rows("inc_groups")[0]["contributions"], 4) << "the control messages";
  for (std::size_t r = 0; r < 4; ++r) {
    s.h.take(port_name(r));
    send(r, 0, 7);
  }
  EXPECT_EQ(s.h.rows("inc_groups")[0]["contributions"], 4);
  EXPECT_EQ(s.h.rows("inc_groups")[0]["state"], "running");
  for (std::size_t r = 0; r < 4; ++r) send(r, kLater, 1000);
  const auto sent = s.h.take("h0");
  ASSERT_FALSE(sent.empty());
  const Bytes result = payload(4000);
  EXPECT_TRUE(std::equal(result.begin(), result.end(), sent.back().bytes.end() - 4 - 256)) << "nothing of the sevens";
  const auto group = shared.remove(testing::kGroupId, generation);
  EXPECT_EQ(group->memory->data(), memory);
}

}  // namespace
}  // namespace weft::inc
