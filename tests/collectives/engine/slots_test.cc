// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/slots.h"

#include <gtest/gtest.h>

#include "switch/wire/payload_crc.h"
#include "tests/collectives/engine/groups.h"
#include "tests/support/state_hash.h"

namespace weft::inc {
namespace {

using testing::Bytes;
using testing::bytes_of;
using wire::Opcode;

const Arithmetic* sum_of(DataType type) {
  return arithmetic(type, Op::sum);
}

struct Rig {
  explicit Rig(GroupConfig config = testing::star(3))
      : group(std::move(config)), slots(group, SlotMemory(Slots::memory_bytes(group))) {}
  Contribution add(std::uint64_t position, EndpointIndex from, const Bytes& payload, const Arithmetic* how,
                   bool marked = false, bool ack_req = false) {
    nic::Packet p = testing::data(wire::Psn(1), Opcode::RC_SEND_ONLY, payload);
    p.ack_req = ack_req;
    return slots.contribute(position, from, p, 0, marked, how, 3);
  }
  Bytes payload(std::uint64_t position) {
    const Slot& s = slots.at(position);
    const std::uint8_t* from = slots.payload(s);
    return from == nullptr ? Bytes{} : Bytes(from, from + s.bytes);
  }
  std::uint64_t hash() const {
    weft::testing::StateHash h;
    slots.hash_state(h);
    return h.value();
  }

  GroupConfig group;
  Slots slots;
};

using Numbers = std::vector<std::uint32_t>;

TEST(Slots, TheLastContributionMakesTheSum) {
  Rig r;
  const Arithmetic* const how = sum_of(DataType::uint32);
  EXPECT_EQ(r.add(5, 0, bytes_of(Numbers{1, 10}), how), Contribution::partial);
  EXPECT_EQ(r.add(5, 2, bytes_of(Numbers{2, 20}), how), Contribution::partial);
  EXPECT_FALSE(r.slots.find(5)->full);
  EXPECT_EQ(r.add(5, 1, bytes_of(Numbers{4, 40}), how), Contribution::complete);
  EXPECT_TRUE(r.slots.find(5)->full);
  EXPECT_EQ(r.payload(5), bytes_of(Numbers{7, 70}));
  EXPECT_EQ(r.slots.find(4), nullptr);
}

TEST(Slots, NothingIsAddedTwice) {
  Rig r;
  const Arithmetic* const how = sum_of(DataType::uint32);
  EXPECT_EQ(r.add(0, 0, bytes_of(Numbers{1}), how), Contribution::partial);
  EXPECT_EQ(r.add(0, 0, bytes_of(Numbers{1}), how), Contribution::duplicate);
  EXPECT_EQ(r.add(0, 1, bytes_of(Numbers{2}), how), Contribution::partial);
  EXPECT_EQ(r.add(0, 2, bytes_of(Numbers{4}), how), Contribution::complete);
  EXPECT_EQ(r.add(0, 1, bytes_of(Numbers{2}), how), Contribution::duplicate);
  EXPECT_EQ(r.payload(0), bytes_of(Numbers{7}));
}

// What a slot that does not know its position gets wrong: a packet that was under way for a whole lap.
TEST(Slots, APacketOfTheLapBeforeNeverTouchesTheSlot) {
  Rig r;
  const Arithmetic* const how = sum_of(DataType::uint32);
  for (EndpointIndex e = 0; e < 3; ++e) r.add(1, e, bytes_of(Numbers{1}), how);
  EXPECT_EQ(r.add(3, 0, bytes_of(Numbers{5}), how), Contribution::partial) << "the same slot, one lap later";
  EXPECT_EQ(r.add(1, 2, bytes_of(Numbers{1}), how), Contribution::stale);
  EXPECT_EQ(r.add(3, 1, bytes_of(Numbers{5}), how), Contribution::partial) << "nobody's arrival is left over";
  EXPECT_EQ(r.add(3, 2, bytes_of(Numbers{5}), how), Contribution::complete);
  EXPECT_EQ(r.payload(3), bytes_of(Numbers{15}));
}

TEST(Slots, MarksAndAckRequestsAreThoseOfAnyContribution) {
  for (EndpointIndex marked = 0; marked < 3; ++marked) {
    Rig r;
    for (EndpointIndex e = 0; e < 3; ++e) {
      r.add(0, e, bytes_of(Numbers{1}), sum_of(DataType::uint32), e == marked, e == (marked + 1) % 3);
    }
    EXPECT_TRUE(r.slots.at(0).marked && r.slots.at(0).ack_req) << int{marked};
  }
  Rig r;
  for (EndpointIndex e = 0; e < 3; ++e) r.add(0, e, bytes_of(Numbers{1}), sum_of(DataType::uint32));
  EXPECT_FALSE(r.slots.at(0).marked || r.slots.at(0).ack_req);
}

TEST(Slots, ContributionsMustBeCutAlike) {
  Rig r;
  const Arithmetic* const how = sum_of(DataType::uint32);
  const Bytes two = bytes_of(Numbers{1, 2}), one = bytes_of(Numbers{1});
  EXPECT_EQ(r.add(0, 0, two, how), Contribution::partial);
  EXPECT_EQ(r.add(0, 1, one, how), Contribution::different);
  nic::Packet p = testing::data(wire::Psn(1), Opcode::RC_SEND_LAST, two);
  EXPECT_EQ(r.slots.contribute(0, 1, p, 0, false, how, 3), Contribution::different);
  p.opcode = Opcode::RC_SEND_ONLY;
  EXPECT_EQ(r.slots.contribute(0, 1, p, 64, false, how, 3), Contribution::different) << "another place in memory";
  EXPECT_EQ(r.slots.contribute(0, 1, p, 0, false, how, 3), Contribution::partial);
}

// --- packets that are added before their CRC is known
// -----------------------------------------------------------------

struct CheckedRig : Rig {
  using Rig::Rig;
  const CheckedLoops* how = checked_loops(DataType::uint32, Op::sum, Overflow::wrap);
  Bytes full(std::uint32_t each) const { return bytes_of(Numbers(group.mtu / 4, each)); }
  Checked check(std::uint64_t position, EndpointIndex from, const Bytes& payload, bool right = true) {
    const nic::Packet p = testing::data(wire::Psn(1), Opcode::RC_SEND_ONLY, payload);
    const std::uint32_t crc = wire::payload_crc(payload);
    return slots.add_checked(position, from, p, 0, *how, right ? crc : ~crc);
  }
  Contribution take(std::uint64_t position, EndpointIndex from, const Bytes& payload) {
    const nic::Packet p = testing::data(wire::Psn(1), Opcode::RC_SEND_ONLY, payload);
    return slots.contribute(position, from, p, 0, false, sum_of(DataType::uint32), 3, true);
  }
};

TEST(CheckedSlots, TheSumIsThatOfPacketsThatWereCheckedBefore) {
  CheckedRig r;
  if (r.how == nullptr) GTEST_SKIP() << "this CPU has no such instructions";
  // Both ways, mixed, for some laps: payloads move in the memory.
  for (std::uint64_t position = 0; position < 8; ++position) {
    for (EndpointIndex e = 0; e < 3; ++e) {
      const Bytes payload = r.full(static_cast<std::uint32_t>(1000 * position + (1u << e)));
      const auto expected = e == 2 ? Contribution::complete : Contribution::partial;
      if ((position >> e & 1) != 0) {
        EXPECT_EQ(r.add(position, e, payload, sum_of(DataType::uint32)), expected);
      } else {
        EXPECT_EQ(r.check(position, e, payload), Checked::added);
        EXPECT_EQ(r.take(position, e, payload), expected);
      }
    }
    EXPECT_EQ(r.payload(position), r.full(static_cast<std::uint32_t>(3000 * position + 7)));
  }
}

TEST(CheckedSlots, APacketThatIsWrongChangesNothing) {
  CheckedRig r;
  if (r.how == nullptr) GTEST_SKIP() << "this CPU has no such instructions";
  std::uint64_t before = r.hash();
  EXPECT_EQ(r.check(0, 0, r.full(1), false), Checked::wrong) << "the first of a slot";
  EXPECT_EQ(r.hash(), before);
  for (EndpointIndex e = 0; e < 3; ++e) {
    EXPECT_EQ(r.check(0, e, r.full(1)), Checked::added);
    static_cast<void>(r.take(0, e, r.full(1)));
    before = r.hash();
    EXPECT_EQ(r.check(0, (e + 1) % 3, r.full(9), false), e == 2 ? Checked::unfit : Checked::wrong);
    EXPECT_EQ(r.check(2, 0, r.full(9), false), e == 2 ? Checked::wrong : Checked::unfit) << "a lap ahead";
    EXPECT_EQ(r.hash(), before);
  }
  EXPECT_EQ(r.payload(0), r.full(3));
}

TEST(CheckedSlots, WhatIsNotPlainlyAddedHasToBeCheckedFirst) {
  CheckedRig r;
  if (r.how == nullptr) GTEST_SKIP() << "this CPU has no such instructions";
  EXPECT_EQ(r.check(0, 0, bytes_of(Numbers{1, 2})), Checked::unfit) << "short";
  EXPECT_EQ(r.check(3, 0, r.full(1)), Checked::added);
  EXPECT_EQ(r.take(3, 0, r.full(1)), Contribution::partial);
  EXPECT_EQ(r.check(3, 0, r.full(1)), Checked::unfit) << "a duplicate";
  EXPECT_EQ(r.check(1, 1, r.full(1)), Checked::unfit) << "of the lap before";
  EXPECT_EQ(r.check(5, 1, r.full(1)), Checked::unfit) << "of the next lap, when this one is not complete";
  const Bytes payload = r.full(1);
  nic::Packet p = testing::data(wire::Psn(1), Opcode::RC_SEND_LAST, payload);
  EXPECT_EQ(r.slots.add_checked(3, 1, p, 0, *r.how, 0), Checked::unfit) << "another opcode";
  p = testing::data(wire::Psn(1), Opcode::RC_SEND_ONLY, {});
  p.payload.set(nullptr, 256);
  EXPECT_EQ(r.slots.add_checked(3, 1, p, 0, *r.how, 0), Checked::unfit) << "elided";
  GroupConfig g = testing::star(3);
  g.reproducible = true;
  CheckedRig kept_apart(g);
  EXPECT_EQ(kept_apart.check(0, 0, r.full(1)), Checked::unfit);
}

TEST(CheckedSlots, SumsOfHalvesInTheSameSlotsAreLeftAlone) {
  CheckedRig r;
  if (r.how == nullptr) GTEST_SKIP() << "this CPU has no such instructions";
  const std::vector<std::uint16_t> ones(r.group.mtu / 2, 0x3c00), threes(r.group.mtu / 2, 0x4200);
  const auto add_halves = [&](EndpointIndex e) { r.add(2, e, bytes_of(ones), sum_of(DataType::fp16)); };
  for (const std::uint64_t position : {1, 0}) {
    EXPECT_EQ(r.check(position, 0, r.full(1)), Checked::added);
    static_cast<void>(r.take(position, 0, r.full(1)));
  }
  add_halves(0);
  add_halves(1);
  EXPECT_EQ(r.check(4, 0, r.full(1), false), Checked::unfit) << "the lap before is not complete";
  add_halves(2);
  EXPECT_EQ(r.check(4, 0, r.full(1), false), Checked::wrong);
  EXPECT_EQ(r.payload(2), bytes_of(threes));
  // Nor do they touch the other slot's sum, which has moved behind the last slot.
  for (EndpointIndex e = 1; e < 3; ++e) {
    EXPECT_EQ(r.check(1, e, r.full(1)), Checked::added);
    static_cast<void>(r.take(1, e, r.full(1)));
  }
  EXPECT_EQ(r.payload(1), r.full(3));
}

TEST(Slots, SumsOfHalvesAreRoundedOnce) {
  Rig r;
  const Arithmetic* const how = sum_of(DataType::fp16);
  // 2048 + 1 is no half; 2048 + 1 + 1 is.
  const std::vector<std::uint16_t> big{0x6800}, small{0x3c00}, sum{0x6801};
  for (const auto& [e, value] : {std::pair{0, &big}, {1, &small}, {2, &small}}) {
    r.add(0, static_cast<EndpointIndex>(e), bytes_of(*value), how);
  }
  EXPECT_EQ(r.payload(0), bytes_of(sum));
}

// (1e8 + 1) - 1e8 is 0 in fp32, and 1e8 - 1e8 + 1 is 1: the order shows.
TEST(Slots, ReproducibleSumsDoNotDependOnTheOrderOfArrival) {
  const std::vector<std::vector<float>> values{{1e8f}, {-1e8f}, {1.0f}};
  const auto sum = [&](bool reproducible, std::vector<int> order) {
    GroupConfig g = testing::star(3);
    g.reproducible = reproducible;
    Rig r(g);
    for (const int e : order) {
      r.add(0, static_cast<EndpointIndex>(e), bytes_of(values[static_cast<std::size_t>(e)]), sum_of(DataType::fp32));
    }
    return r.payload(0);
  };
  EXPECT_NE(sum(false, {0, 1, 2}), sum(false, {0, 2, 1})) << "or nothing is tested";
  std::vector<int> order{0, 1, 2};
  do {
    EXPECT_EQ(sum(true, order), bytes_of(std::vector<float>{1.0f}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Slots, AResultTakesThePlaceOfTheSum) {
  Rig r;
  for (EndpointIndex e = 0; e < 3; ++e) r.add(0, e, bytes_of(Numbers{1}), sum_of(DataType::uint32));
  const Bytes result = bytes_of(Numbers{100});
  r.slots.replace(0, testing::data(wire::Psn(9), Opcode::RC_SEND_ONLY, result), 0, true);
  EXPECT_EQ(r.payload(0), result);
  EXPECT_TRUE(r.slots.at(0).result && r.slots.at(0).marked);
  EXPECT_EQ(r.add(0, 1, bytes_of(Numbers{1}), sum_of(DataType::uint32)), Contribution::duplicate);
}

TEST(Slots, ControlMessagesAreKeptAsTheyAre) {
  Rig r;
  const Bytes payload = bytes_of(Numbers{1, 2, 3, 4});
  for (EndpointIndex e = 0; e < 3; ++e) r.add(0, e, payload, nullptr);
  EXPECT_EQ(r.payload(0), payload);
}

TEST(Slots, ElidedPayloadIsCountedAndHasNoValues) {
  GroupConfig g = testing::star(3);
  for (const bool memory : {false, true}) {
    Slots slots(g, memory ? SlotMemory(Slots::memory_bytes(g)) : SlotMemory());
    nic::Packet p = testing::data(wire::Psn(1), Opcode::RC_SEND_ONLY, {});
    p.payload.set(nullptr, 256);
    EXPECT_EQ(slots.contribute(0, 0, p, 0, false, sum_of(DataType::fp32), 2), Contribution::partial);
    EXPECT_EQ(slots.contribute(0, 1, p, 0, false, sum_of(DataType::fp32), 2), Contribution::complete);
    EXPECT_EQ(slots.at(0).bytes, 256u);
    EXPECT_EQ(slots.payload(slots.at(0)), nullptr);
  }
}

TEST(Slots, ACopyHasMemoryOfItsOwnUnlessItWasBorrowed) {
  Rig r;
  const Arithmetic* const how = sum_of(DataType::uint32);
  r.add(0, 0, bytes_of(Numbers{1}), how);
  Rig copy = r;
  EXPECT_EQ(copy.hash(), r.hash());
  EXPECT_TRUE(copy.slots == r.slots);
  copy.add(0, 1, bytes_of(Numbers{2}), how);
  EXPECT_NE(copy.hash(), r.hash());
  EXPECT_FALSE(copy.slots == r.slots);
  r.add(0, 1, bytes_of(Numbers{3}), how);
  EXPECT_NE(copy.hash(), r.hash()) << "the sum";
  std::vector<std::byte> region(Slots::memory_bytes(r.group));
  Slots a(r.group, SlotMemory(std::span(region)));
  const Slots b = a;
  const Bytes one = bytes_of(Numbers{1});
  a.contribute(0, 0, testing::data(wire::Psn(1), Opcode::RC_SEND_ONLY, one), 0, false, how, 3);
  EXPECT_EQ(region[0], std::byte{1}) << "where the pool of the switch has it";
}

}  // namespace
}  // namespace weft::inc
