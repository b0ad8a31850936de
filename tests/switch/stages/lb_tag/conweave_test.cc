// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// ConWeave at the receiver's leaf.
#include "switch/stages/lb_tag/conweave.h"

#include "tests/switch/stages/lb_tag/weaving.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = ConweaveReply::Kind;

class ConweaveFar : public ::testing::Test {
 protected:
  explicit ConweaveFar(const CongaLeaf& leaf = weaving(2, "{ queue_packets: 2, max_packets: 3, queues: 2 }"))
      : ConweaveFar(conga_yaml(leaf)) {}
  explicit ConweaveFar(const std::string& yaml) : h(weft::testing::all_stages(), yaml) {}

  static FrameBuilder with_psn(std::uint32_t psn, std::uint16_t source_port = 50000) {
    FrameBuilder frame = packet(1, 2, source_port);
    return frame.bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(34), wire::Psn(psn));
  }
  static ConweaveLabel label(const ConweaveTag& tag) { return {.leaf = 1, .path = 3, .tag = tag}; }
  static ConweaveTag rerouted() { return {.epoch = 1, .rerouted = true}; }
  static ConweaveTag tail() { return {.epoch = 1, .tail = true}; }
  // PSNs that have left towards the host, in this order.
  std::vector<std::uint32_t> out() {
    std::vector<std::uint32_t> psns;
    for (const auto& frame : h.take("h1")) psns.push_back(parsed_of(frame.bytes).psn.value());
    return psns;
  }
  std::vector<std::uint32_t> come(const FrameBuilder& frame, const ConweaveTag& tag, unsigned uplink = 1) {
    h.inject("s" + std::to_string(uplink), labelled(frame, label(tag), uplink));
    return out();
  }
  std::vector<ConweaveAnswer> answers(unsigned uplink) {
    std::vector<ConweaveAnswer> all;
    for (const auto& frame : h.take("s" + std::to_string(uplink))) {
      answered_bytes += frame.bytes.size();
      EXPECT_EQ(kind_of(frame.bytes), TagKind::conweave_reply);
      const wire::Parsed parsed = parsed_of(frame.bytes);
      const auto answer = read_answer(tag_header(frame.bytes.data(), parsed));
      EXPECT_EQ(answered_flow(frame.bytes.data(), parsed), FlowKey::of_qp(parsed_of(packet(1, 2).build())));
      EXPECT_TRUE(answer);
      if (answer) all.push_back(*answer);
    }
    return all;
  }
  std::uint64_t counter(const char* name) const { return h.counter("lb_tag", name); }

  Harness h;
  std::uint64_t answered_bytes = 0;  ///< of all that answers() has taken
};

TEST_F(ConweaveFar, ReroutedPacketsWaitForTheTailAndItIsAnswered) {
  EXPECT_THAT(come(with_psn(1), {.epoch = 1, .request = true}), ElementsAre(1));
  EXPECT_THAT(answers(1), ElementsAre(ConweaveAnswer{2, 3, {Kind::rtt, 1}})) << "where the packet came from";
  EXPECT_THAT(come(with_psn(3), rerouted(), 2), IsEmpty());
  EXPECT_EQ(h.held(), 1u);
  EXPECT_EQ(counter("conweave_held"), 1u);
  EXPECT_EQ(h.rows("conweave")[0]["state"], "waits");
  EXPECT_THAT(come(with_psn(2), tail()), ElementsAre(2, 3));
  EXPECT_THAT(answers(1), ElementsAre(ConweaveAnswer{2, 3, {Kind::clear, 1}}));
  EXPECT_EQ(counter("conweave_resumed"), 1u);
  EXPECT_EQ(counter("conweave_held"), 0u);
  EXPECT_EQ(counter("conweave_replies_sent"), 2u);
  EXPECT_EQ(counter("conweave_queues"), 0u);
}

TEST_F(ConweaveFar, OneBurstMayHoldTheTailAndWhatWaitsForIt) {
  h.inject("s1", {labelled(with_psn(3), label(rerouted())), labelled(with_psn(2), label(tail())),
                  labelled(with_psn(4), label(rerouted()))});
  EXPECT_THAT(out(), ElementsAre(2, 3, 4));
}

TEST_F(ConweaveFar, ATailThatIsLostIsNotWaitedForLong) {
  EXPECT_THAT(come(with_psn(3), rerouted()), IsEmpty());
  h.advance_ns(215 * kUs);
  EXPECT_THAT(out(), IsEmpty());
  h.advance_ns(1 * kUs);
  EXPECT_THAT(out(), ElementsAre(3));
  EXPECT_EQ(counter("conweave_flushed"), 1u);
}

TEST_F(ConweaveFar, WhatHasNoRoomOrNoQueueGoesOn) {
  come(with_psn(2), rerouted());
  come(with_psn(3), rerouted());
  EXPECT_THAT(come(with_psn(4), rerouted()), ElementsAre(2, 3, 4));
  EXPECT_EQ(counter("conweave_overflowed"), 1u);
  EXPECT_EQ(counter("conweave_given_up"), 2u);
  for (const std::uint16_t port : {1, 2}) EXPECT_THAT(come(with_psn(9, port), rerouted()), IsEmpty());
  EXPECT_THAT(come(with_psn(9, 3), rerouted()), ElementsAre(9));
  EXPECT_EQ(counter("conweave_no_queue"), 1u);
  EXPECT_EQ(counter("conweave_peak_queues"), 2u);
}

TEST_F(ConweaveFar, ReadRequestsDoNotWait) {
  come(with_psn(2), rerouted());
  FrameBuilder read = with_psn(3);
  read.payload(0).bth(wire::Opcode::RC_RDMA_READ_REQUEST, wire::Qpn(34), wire::Psn(3)).reth(0, 1, 4096);
  EXPECT_THAT(come(read, rerouted()), ElementsAre(2, 3));
}

TEST_F(ConweaveFar, AtomicsDoNotWait) {
  come(with_psn(2), rerouted());
  FrameBuilder atomic = with_psn(3);
  atomic.payload(0).bth(wire::Opcode::RC_FETCH_ADD, wire::Qpn(34), wire::Psn(3)).atomic(0, 1, 1);
  EXPECT_THAT(come(atomic, rerouted()), ElementsAre(2, 3)) << "nor does what it would overtake";
}

TEST_F(ConweaveFar, RequestsOfUcQueuePairsWaitAsThoseOfRc) {
  const auto unreliable = [](std::uint32_t psn) {
    FrameBuilder frame = with_psn(psn);
    return frame.bth(wire::Opcode::UC_SEND_MIDDLE, wire::Qpn(34), wire::Psn(psn));
  };
  EXPECT_THAT(come(unreliable(1), {.epoch = 1}), ElementsAre(1));
  EXPECT_THAT(come(unreliable(3), rerouted(), 2), IsEmpty());
  EXPECT_THAT(come(unreliable(2), tail()), ElementsAre(2, 3));
  EXPECT_EQ(counter("conweave_resumed"), 1u);
}

TEST_F(ConweaveFar, AnAnswerOfAnUnknownKindIsCountedAndEndsHere) {
  Bytes answer = answer_to(packet(2, 1).build(), {1, 0, {Kind::rtt, 0}});
  const std::size_t flags = parsed_of(answer).l4_offset + sizeof(wire::UdpHeader) + offsetof(LbTagHeader, flags);
  answer[flags] |= ConweaveContent::kReplyKind;
  h.inject("s1", by_spine(answer));
  EXPECT_EQ(counter("unknown_version"), 1u);
  EXPECT_EQ(counter("conweave_stray_replies"), 0u);
  EXPECT_EQ(h.take("h1").size(), 0u);
}

TEST_F(ConweaveFar, AnotherPolicyLeavesWhatWaitsInOrder) {
  come(with_psn(3), rerouted());
  come(with_psn(4), rerouted());
  for (const char* policy : {"policy=ecmp", "policy=drill", "policy=conga", "policy=conweave"}) {
    EXPECT_EQ(h.set("lb", {policy}), "");
    EXPECT_EQ(h.held(), 2u) << policy;
  }
  EXPECT_THAT(h.set("lb", {"policy=gemma"}), HasSubstr("policy gemma: lb_tag needs its option 'gemma'"));
  EXPECT_EQ(h.held(), 2u);
  EXPECT_THAT(come(with_psn(2), tail()), ElementsAre(2, 3, 4));
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(ConweaveFar, WhatIsNoRequestDoesNotWaitWhoeverPutATagOnIt) {
  const auto with = [](wire::Opcode opcode) {
    FrameBuilder frame = with_psn(3);
    frame.bth(opcode, wire::Qpn(34), wire::Psn(3));
    return frame;
  };
  EXPECT_THAT(come(with(wire::Opcode::RC_RDMA_READ_RESPONSE_MIDDLE), rerouted()), ElementsAre(3));
  EXPECT_EQ(come(with(wire::Opcode::CNP).payload(16), rerouted()).size(), 1u);
  for (const wire::Syndrome syndrome :
       {wire::Syndrome::ack(), wire::Syndrome::nak(wire::NakCode::psn_sequence_error)}) {
    EXPECT_THAT(come(with(wire::Opcode::RC_ACKNOWLEDGE).payload(0).aeth(syndrome, 1), rerouted()), ElementsAre(3));
  }
  EXPECT_EQ(counter("conweave_held_packets"), 0u);
}

TEST_F(ConweaveFar, MarksAreToldOncePerInterval) {
  FrameBuilder marked = with_psn(1);
  marked.ecn(wire::Ecn::ce);
  come(marked, {.epoch = 1});
  come(marked, {.epoch = 1});
  EXPECT_THAT(answers(1), ElementsAre(ConweaveAnswer{2, 3, {Kind::notify, 1}}));
  h.advance_ns(8 * kUs);
  come(marked, {.epoch = 1});
  EXPECT_EQ(answers(1).size(), 1u);
  EXPECT_EQ(counter("conweave_notifies_sent"), 2u);
  come(with_psn(2), {.epoch = 2, .request = true});
  EXPECT_EQ(answers(1).size(), 1u);
  EXPECT_EQ(counter("conweave_bytes_sent"), answered_bytes) << "NOTIFYs and replies alike";
}

TEST_F(ConweaveFar, ATagOfNobodyHoldsNothing) {
  h.inject("s1", labelled(with_psn(2), {.leaf = 3, .path = 0, .tag = rerouted()}));
  EXPECT_THAT(out(), ElementsAre(2));
  EXPECT_EQ(counter("unknown_leaf"), 1u);
  EXPECT_EQ(counter("taken_off"), 1u);
  EXPECT_EQ(answers(1).size(), 0u);
}

TEST_F(ConweaveFar, AReloadKeepsWhatWaitsAndOtherOptionsLetItGoOn) {
  come(with_psn(3), rerouted());
  h.reload(conga_yaml(weaving(2, "{ queue_packets: 2, max_packets: 3, queues: 2 }")));
  EXPECT_EQ(h.held(), 1u);
  EXPECT_THAT(come(with_psn(2), tail()), ElementsAre(2, 3));
  come(with_psn(9, 7), rerouted());
  h.reload(conga_yaml(weaving(2, "{ queue_packets: 3 }")));
  h.advance_ns(1);
  EXPECT_THAT(out(), ElementsAre(9));
  EXPECT_EQ(h.held(), 0u);
}

class ConweavePortRoom : public ConweaveFar {
 protected:
  ConweavePortRoom() : ConweaveFar(weaving(2, "{ max_port_kb: 1 }")) {}
};

TEST_F(ConweavePortRoom, MemoryIsBoundedForEachPort) {
  for (const std::uint32_t psn : {2u, 3u, 4u}) EXPECT_THAT(come(with_psn(psn), rerouted()), IsEmpty());
  EXPECT_THAT(come(with_psn(9, 7), rerouted(), 2), IsEmpty()) << "another port's";
  EXPECT_THAT(come(with_psn(5), rerouted()), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(counter("conweave_port_full"), 1u);
  EXPECT_EQ(counter("conweave_overflowed"), 1u);
  EXPECT_EQ(counter("conweave_peak_port_bytes"), 3 * with_psn(2).build().size());
  EXPECT_EQ(counter("conweave_held"), 1u);
}

// With qos, priority group 3 of each port has room for one packet and for another in its headroom.
class ConweaveRoom : public ConweaveFar {
 protected:
  static std::string yaml(const std::string& options = "{}") {
    return conga_yaml(weaving(2, options)) +
           "qos:\n  BUFFER_PROFILE: { small: { size: 400, static_th: 0, xoff: 400 } }\n"
           "  BUFFER_PG: { \"all|3\": { profile: small } }\n";
  }
  ConweaveRoom() : ConweaveFar(yaml()) {}

  std::vector<std::uint32_t> rerouted_packet(std::uint32_t psn, std::uint16_t source_port = 50000) {
    FrameBuilder frame = with_psn(psn, source_port);
    return come(frame.tos(3 << 2), rerouted());
  }
  std::uint64_t charged() {
    const auto& group = h.state().buffer()->group(h.port("s1").index, 3);
    return group.bytes.value() + group.headroom.value();
  }
};

TEST_F(ConweaveRoom, WhatWaitsIsChargedToItsPriorityGroupWithoutTheTag) {
  const std::uint64_t bytes = with_psn(2).build().size();
  EXPECT_THAT(rerouted_packet(2), IsEmpty());
  EXPECT_EQ(charged(), bytes);
  EXPECT_THAT(rerouted_packet(3), IsEmpty());
  EXPECT_EQ(charged(), 2 * bytes);
  const auto pauses = h.take("s1");
  ASSERT_EQ(pauses.size(), 1u);
  EXPECT_EQ(parsed_of(pauses[0].bytes).kind, wire::FrameKind::mac_control) << "the spine is asked to stop";
  EXPECT_THAT(rerouted_packet(4), ElementsAre(2, 3)) << "three have room nowhere: admission drops one";
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(counter("conweave_buffer_full"), 1u);
  EXPECT_EQ(counter("conweave_overflowed"), 1u);
  EXPECT_EQ(h.dropped(pipeline::DropReason::headroom_full), 1u);
  EXPECT_EQ(h.dropped_total(), 1u);
}

TEST_F(ConweaveRoom, AReloadChargesWhatWaitsToTheNewMemory) {
  rerouted_packet(2);
  const std::uint64_t before = charged();
  h.reload(yaml());
  EXPECT_EQ(h.held(), 1u);
  EXPECT_EQ(charged(), before);
  h.reload(yaml("{ queue_packets: 3 }"));
  h.advance_ns(1);
  EXPECT_THAT(out(), ElementsAre(2));
  EXPECT_EQ(charged(), 0u);
}

class ConweaveWithout : public ConweaveFar {
 protected:
  ConweaveWithout() : ConweaveFar({.number = 2, .lb = "{ policy: ecmp }"}) {}
};

TEST_F(ConweaveWithout, ALeafWithoutItGivesHostsTheirPacketsAndDoesNotAnswer) {
  EXPECT_THAT(come(with_psn(3), {.epoch = 1, .rerouted = true}), ElementsAre(3));
  EXPECT_THAT(come(with_psn(2), {.epoch = 1, .tail = true}), ElementsAre(2));
  EXPECT_EQ(answers(1).size(), 0u);
  const Bytes plain = packet(2, 1).build();
  const Bytes out = answer_to(plain, {1, 0, {Kind::rtt, 0}});
  h.inject("s1", by_spine(out));
  EXPECT_EQ(counter("conweave_stray_replies"), 1u);
  EXPECT_EQ(h.take("h1").size(), 0u);
}

TEST(ConweaveOptions, MistakesAreNamed) {
  EXPECT_EQ(mistakes(conga_yaml(weaving(1))), "");
  EXPECT_THAT(mistakes(conga_yaml({.lb = "{ policy: conweave }"})),
              ::testing::ContainsRegex(":[0-9]+:[0-9]+: policy conweave: lb_tag needs its option 'conweave'"));
  EXPECT_THAT(mistakes(conga_yaml(weaving(1, "{ max_flows: 6 }"))), HasSubstr("max_flows must be a multiple of 4"));
  EXPECT_THAT(mistakes(conga_yaml(weaving(1, "{ expiry_us: 8 }"))), HasSubstr("expiry_us must be above reply_us, 8"));
  EXPECT_THAT(mistakes(conga_yaml(weaving(1, "{ bound_us: 15 }"))),
              HasSubstr("bound_us must be at least extra_us, 16"));
  EXPECT_THAT(mistakes(conga_yaml(weaving(1, "{ reply_u: 8 }"))), HasSubstr("did you mean 'reply_us'"));
  std::string spine = conga_yaml(weaving(1));
  const std::size_t at = spine.find("  - lb_tag:");
  spine.replace(at, spine.find('\n', at) - at, "  - lb_tag: { conweave: {}, link_mbps: 1000 }");
  EXPECT_THAT(mistakes(spine), HasSubstr("conweave: only a switch with 'leaf' has edges"));
}

}  // namespace
}  // namespace weft::stages::testing
