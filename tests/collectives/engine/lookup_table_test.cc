// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/lookup_table.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/collectives/engine/groups.h"
#include "tests/support/state_hash.h"

namespace weft::inc {
namespace {

using testing::Bytes;
using wire::Opcode;

// A table, and what the other ends have sent: each endpoint's PSNs count on by themselves, as those of an RNIC do.
struct Rig {
  explicit Rig(GroupConfig config) : group(std::move(config)), table(group) {
    for (const EndpointConfig& e : group.endpoints) next.push_back(e.first_rx);
  }
  Refusal announce(EndpointIndex from, const ControlMessage& m, bool sent_again = false) {
    Bytes kept;
    const wire::Psn psn = sent_again ? next[from] - 1 : next[from];
    if (!sent_again) ++next[from];
    place = {};
    return table.request(from, testing::control(psn, m, kept), place);
  }
  Refusal send(EndpointIndex from, Opcode opcode, std::uint32_t bytes = testing::kMtu) {
    const Bytes payload(bytes);
    place = {};
    const wire::Psn psn = next[from];
    ++next[from];
    return table.request(from, testing::data(psn, opcode, payload), place);
  }

  GroupConfig group;
  LookupTable table;
  std::vector<wire::Psn> next;
  Place place;
};

constexpr std::uint64_t kTwoPackets = 2 * testing::kMtu;

TEST(LookupTable, NumbersThePacketsOfInvocationsThatFollowEachOther) {
  Rig r(testing::star(3));
  for (std::uint16_t sequence = 0; sequence < 3; ++sequence) {
    for (EndpointIndex e = 0; e < 3; ++e) {
      ASSERT_EQ(r.announce(e, testing::message(Primitive::allreduce, sequence, kTwoPackets)), Refusal::none);
      EXPECT_TRUE(r.place.is_control());
      EXPECT_EQ(r.place.position(), 3u * sequence);
      for (std::uint64_t i = 1; i <= 2; ++i) {
        ASSERT_EQ(r.send(e, Opcode::RC_SEND_ONLY), Refusal::none) << int{e} << " " << i;
        EXPECT_EQ(r.place.position(), 3u * sequence + i);
        EXPECT_EQ(r.table.rx_psn(e, r.place) + 1, r.next[e]);
      }
    }
  }
  EXPECT_EQ(r.table.known(), 9u);
  EXPECT_EQ(r.table.next_sequence(), 3);
}

// A rank that receives a Reduce sends nothing in it, and the others receive nothing: their PSNs drift apart.
TEST(LookupTable, FollowsPsnsThatDriftApart) {
  Rig r(testing::star(3));
  const wire::Psn rx0 = r.group.endpoints[0].first_rx, tx0 = r.group.endpoints[0].first_tx,
                  tx1 = r.group.endpoints[1].first_tx, rx1 = r.group.endpoints[1].first_rx;
  ASSERT_EQ(r.announce(1, testing::message(Primitive::reduce, 0, kTwoPackets, 0)), Refusal::none);
  EXPECT_EQ(r.table.senders(*r.place.invocation), 2u);
  EXPECT_EQ(r.table.tx_psn(0, r.place), tx0);
  EXPECT_EQ(r.table.root_endpoint(*r.place.invocation), 0);
  EXPECT_FALSE(r.table.role(0, *r.place.invocation).sends);
  EXPECT_FALSE(r.table.role(1, *r.place.invocation).receives);
  ASSERT_EQ(r.send(1, Opcode::RC_SEND_ONLY), Refusal::none);
  ASSERT_EQ(r.send(1, Opcode::RC_SEND_ONLY), Refusal::none);
  ASSERT_EQ(r.announce(2, testing::message(Primitive::reduce, 0, kTwoPackets, 0)), Refusal::none);
  r.next[2] = r.next[2] + 2;

  // In the AllReduce that follows, endpoint 0 sends its first packet, and the others receive theirs.
  for (EndpointIndex e = 0; e < 3; ++e) {
    ASSERT_EQ(r.announce(e, testing::message(Primitive::allreduce, 1, kTwoPackets)), Refusal::none) << int{e};
    EXPECT_EQ(r.place.position(), 3u);
  }
  EXPECT_EQ(r.table.rx_psn(0, r.place), rx0);
  EXPECT_EQ(r.table.tx_psn(0, r.place), tx0 + 3);
  EXPECT_EQ(r.table.rx_psn(1, r.place), rx1 + 3);
  EXPECT_EQ(r.table.tx_psn(1, r.place), tx1);
}

TEST(LookupTable, APlaceOfAResponseIsThatOfWhatWasSent) {
  Rig r(testing::star(3));
  ASSERT_EQ(r.announce(1, testing::message(Primitive::reduce, 0, kTwoPackets, 0)), Refusal::none);
  ASSERT_EQ(r.announce(0, testing::message(Primitive::allreduce, 1, kTwoPackets)), Refusal::none);
  const wire::Psn tx0 = r.group.endpoints[0].first_tx, tx1 = r.group.endpoints[1].first_tx;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const auto place = r.table.response(0, tx0 + i);
    ASSERT_TRUE(place.has_value()) << i;
    EXPECT_EQ(place->position(), i) << "endpoint 0 receives both";
  }
  EXPECT_FALSE(r.table.response(0, tx0 + 6).has_value()) << "was never sent";
  EXPECT_FALSE(r.table.response(0, tx0 - 1).has_value()) << "before the first";
  EXPECT_EQ(r.table.response(1, tx1)->position(), 3u) << "endpoint 1 receives nothing of the Reduce";
  EXPECT_EQ(r.table.at(4)->index, 1u);
  EXPECT_FALSE(r.table.at(6).has_value());
}

TEST(LookupTable, MessageNumbersAreThoseOfTheSender) {
  GroupConfig g = testing::star(2);
  g.message_packets = 2;
  Rig r(g);
  ASSERT_EQ(r.announce(0, testing::message(Primitive::allreduce, 0, 5 * testing::kMtu)), Refusal::none);
  // The control message, two messages of two packets, and a short one.
  const std::vector<std::uint32_t> expected{1, 1, 2, 2, 3, 4};
  for (std::uint64_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(r.table.rx_msn(0, {r.place.invocation, i}), expected[i]) << i;
    EXPECT_EQ(r.table.ends_message(*r.place.invocation, i), i == 0 || i % 2 == 0 || i == 5) << i;
  }
  r.next[0] = r.next[0] + 5;
  ASSERT_EQ(r.announce(0, testing::message(Primitive::barrier, 1, 0)), Refusal::none);
  EXPECT_EQ(r.table.rx_msn(0, r.place), 5u);
}

TEST(LookupTable, PacketsHaveTheShapeOfTheirPlace) {
  GroupConfig g = testing::star(2);
  g.message_packets = 3;
  const auto refusal = [&](std::vector<std::pair<Opcode, std::uint32_t>> packets) {
    Rig r(g);
    EXPECT_EQ(r.announce(0, testing::message(Primitive::allreduce, 0, 4 * testing::kMtu + 8)), Refusal::none);
    Refusal last = Refusal::none;
    for (const auto& [opcode, bytes] : packets) last = r.send(0, opcode, bytes);
    return last;
  };
  using enum Opcode;
  constexpr std::uint32_t kFull = testing::kMtu;
  const std::vector<std::pair<Opcode, std::uint32_t>> right{{RC_SEND_FIRST, kFull},
                                                            {RC_SEND_MIDDLE, kFull},
                                                            {RC_SEND_LAST, kFull},
                                                            {RC_RDMA_WRITE_FIRST, kFull},
                                                            {RC_RDMA_WRITE_LAST_IMM, 8}};
  for (std::size_t n = 1; n <= right.size(); ++n) {
    EXPECT_EQ(refusal({right.begin(), right.begin() + static_cast<std::ptrdiff_t>(n)}), Refusal::none) << n;
  }
  EXPECT_EQ(refusal({{RC_SEND_ONLY, kFull}}), Refusal::bad_shape) << "a message that is too short";
  EXPECT_EQ(refusal({{RC_SEND_FIRST, kFull - 4}}), Refusal::bad_shape);
  EXPECT_EQ(refusal({{RC_RDMA_READ_REQUEST, 0}}), Refusal::bad_shape);
  EXPECT_EQ(refusal({right[0], right[1], right[2], right[3], {RC_SEND_LAST, 12}}), Refusal::bad_shape);
  EXPECT_EQ(refusal({right[0], right[1], right[2], right[3], right[4], {RC_SEND_ONLY, 8}}), Refusal::bad_control)
      << "behind the last packet there must be a control message";
}

TEST(LookupTable, DataIsRefusedUntilItsControlMessageHasCome) {
  Rig r(testing::star(2));
  const Bytes payload(testing::kMtu);
  Place place;
  EXPECT_EQ(r.table.request(0, testing::data(r.next[0] + 1, Opcode::RC_SEND_ONLY, payload), place),
            Refusal::unknown_invocation);
  ASSERT_EQ(r.announce(1, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  EXPECT_EQ(r.table.request(0, testing::data(r.next[0] + 1, Opcode::RC_SEND_ONLY, payload), place),
            Refusal::unknown_invocation)
      << "known from another rank, which may disagree";
  ASSERT_EQ(r.announce(0, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  EXPECT_EQ(r.table.request(0, testing::data(r.next[0], Opcode::RC_SEND_ONLY, payload), place), Refusal::none);
  EXPECT_EQ(r.announce(0, testing::message(Primitive::allreduce, 0, kTwoPackets), true), Refusal::none)
      << "a control message that comes again";
}

TEST(LookupTable, RanksThatDisagreeAreFoundOut) {
  const ControlMessage good = testing::message(Primitive::reduce, 0, kTwoPackets, 0);
  const auto second = [&](ControlMessage m) {
    Rig r(testing::star(3));
    EXPECT_EQ(r.announce(1, good), Refusal::none);
    return r.announce(2, m);
  };
  EXPECT_EQ(second(good), Refusal::none);
  ControlMessage m = good;
  m.bytes += 4;
  EXPECT_EQ(second(m), Refusal::disagreement);
  m = good;
  m.op = Op::max;
  EXPECT_EQ(second(m), Refusal::disagreement);
  m = good;
  m.type = DataType::int32;
  EXPECT_EQ(second(m), Refusal::disagreement);
  m = good;
  m.root = 1;
  EXPECT_EQ(second(m), Refusal::disagreement);
  m = good;
  m.primitive = Primitive::allreduce;
  m.root = 0;
  EXPECT_EQ(second(m), Refusal::disagreement);
  m = good;
  m.sequence = 1;
  EXPECT_EQ(second(m), Refusal::disagreement) << "it comes at the place of the first";
  m = good;
  m.root = 3;
  EXPECT_EQ(second(m), Refusal::bad_control) << "no such rank";
  m = good;
  m.group = 5;
  EXPECT_EQ(second(m), Refusal::bad_control);

  Rig r(testing::star(3));
  EXPECT_EQ(r.announce(0, good), Refusal::disagreement) << "the root of a Reduce has nothing to send";
  EXPECT_EQ(r.table.known(), 0u);
}

TEST(LookupTable, InvocationsBeginInTheirOrder) {
  Rig r(testing::star(2));
  EXPECT_EQ(r.announce(0, testing::message(Primitive::barrier, 1, 0)), Refusal::unknown_invocation)
      << "the one before may still come";
  EXPECT_EQ(r.announce(1, testing::message(Primitive::barrier, 0xffff, 0)), Refusal::disagreement)
      << "that one is long over";
}

TEST(LookupTable, AsManyMayBeUnderWayAsTheGroupHasRoomFor) {
  GroupConfig g = testing::star(2);
  g.invocations = 2;
  Rig r(g);
  ASSERT_EQ(r.announce(0, testing::message(Primitive::barrier, 0, 0)), Refusal::none);
  ASSERT_EQ(r.announce(0, testing::message(Primitive::barrier, 1, 0)), Refusal::none);
  ASSERT_EQ(r.announce(0, testing::message(Primitive::barrier, 2, 0)), Refusal::too_many);
  r.table.forget_oldest();
  EXPECT_EQ(r.table.live(), 1u);
  r.next[0] = r.next[0] - 1;
  ASSERT_EQ(r.announce(0, testing::message(Primitive::barrier, 2, 0)), Refusal::none);
  EXPECT_EQ(r.place.position(), 2u);
  // The first has gone: what comes late for it is told apart from what is to come.
  r.next[1] = r.group.endpoints[1].first_rx;
  EXPECT_EQ(r.announce(1, testing::message(Primitive::barrier, 0, 0)), Refusal::too_old);
  EXPECT_EQ(r.announce(1, testing::message(Primitive::barrier, 1, 0)), Refusal::none);
}

TEST(LookupTable, ALeafTakesTheResultFromItsParentOnly) {
  Rig r(testing::leaf());
  EXPECT_EQ(r.announce(2, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::unknown_invocation)
      << "a result of what no child has begun";
  r.next[2] = r.group.endpoints[2].first_rx;
  ASSERT_EQ(r.announce(0, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  EXPECT_EQ(r.table.senders(*r.place.invocation), 2u) << "the children";
  ASSERT_EQ(r.announce(2, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  ASSERT_EQ(r.send(2, Opcode::RC_SEND_ONLY), Refusal::none);
  // In a Reduce to a rank behind another switch the parent receives, in one to an own rank it sends.
  r.next[0] = r.next[0] + 2;
  ASSERT_EQ(r.announce(0, testing::message(Primitive::reduce, 1, kTwoPackets, 3)), Refusal::none);
  EXPECT_TRUE(r.table.role(2, *r.place.invocation).receives);
  r.next[0] = r.next[0] + 2;
  ASSERT_EQ(r.announce(0, testing::message(Primitive::reduce, 2, kTwoPackets, 1)), Refusal::none);
  EXPECT_TRUE(r.table.role(2, *r.place.invocation).sends);
  EXPECT_TRUE(r.table.role(1, *r.place.invocation).receives);
}

// Everything that decides is in the hash: tables that were told different things differ.
TEST(LookupTable, TheHashSeesEveryStep) {
  const auto hash = [](const Rig& r) {
    weft::testing::StateHash h;
    r.table.hash_state(h);
    return h.value();
  };
  Rig a(testing::star(2)), b(testing::star(2));
  EXPECT_EQ(hash(a), hash(b));
  ASSERT_EQ(a.announce(0, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  EXPECT_NE(hash(a), hash(b));
  ASSERT_EQ(b.announce(1, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  EXPECT_NE(hash(a), hash(b)) << "who has announced it";
  ASSERT_EQ(a.announce(1, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  ASSERT_EQ(b.announce(0, testing::message(Primitive::allreduce, 0, kTwoPackets)), Refusal::none);
  EXPECT_EQ(hash(a), hash(b));
  EXPECT_TRUE(a.table == b.table);
  a.table.forget_oldest();
  EXPECT_NE(hash(a), hash(b));
}

}  // namespace
}  // namespace weft::inc
