// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/control_message.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "switch/base/rng.h"

namespace weft::inc {
namespace {

using Payload = std::array<std::uint8_t, kControlPayloadBytes>;

ControlMessage allreduce() {
  ControlMessage m;
  m.sequence = 0xbeef;
  m.group = 0x01020304;
  m.bytes = 4000;
  return m;
}

std::optional<ControlError> error_of(const ControlMessage& m) {
  ControlMessage out;
  return read_control(control_immediate(m), control_payload(m), out);
}

TEST(ControlMessage, IsOnTheWireAsItsHeaderSays) {
  ControlMessage m = allreduce();
  m.primitive = Primitive::reduce;
  m.op = Op::max;
  m.type = DataType::int32;
  m.root = 0x0a0b;
  EXPECT_EQ(control_immediate(m), 0x1261beefu);
  EXPECT_EQ(control_payload(m), (Payload{1, 2, 3, 4, 0x0a, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0x0f, 0xa0}));
}

TEST(ControlMessage, BarriersMayTakeAndGiveTurns) {
  ControlMessage m;
  m.primitive = Primitive::barrier;
  for (const Turn turn : {Turn::none, Turn::take, Turn::give}) {
    for (const bool refused : {false, true}) {
      m.turn = turn;
      m.refused = refused;
      const bool means_something = !refused || turn == Turn::take;
      ASSERT_EQ(error_of(m), means_something ? std::nullopt : std::optional(ControlError::flags));
      ControlMessage back;
      if (means_something) {
        EXPECT_EQ(read_control(control_immediate(m), control_payload(m), back), std::nullopt);
        EXPECT_EQ(back, m);
      }
    }
  }
  m = allreduce();
  m.turn = Turn::take;
  EXPECT_EQ(error_of(m), ControlError::flags);
}

TEST(ControlMessage, EveryPrimitiveOperationAndTypeThatExistsComesBack) {
  int accepted = 0;
  for (std::size_t primitive = 0; primitive < kPrimitives; ++primitive) {
    for (std::size_t op = 0; op < kOps; ++op) {
      for (std::size_t type = 0; type < kDataTypes; ++type) {
        ControlMessage m = allreduce(), out;
        m.primitive = static_cast<Primitive>(primitive);
        m.op = static_cast<Op>(op);
        m.type = static_cast<DataType>(type);
        if (m.primitive == Primitive::barrier) m.bytes = 0;
        const auto error = read_control(control_immediate(m), control_payload(m), out);
        const bool exists = m.primitive == Primitive::barrier     ? op == 0 && type == 0
                            : m.primitive == Primitive::broadcast ? op == 0
                                                                  : arithmetic(m.type, m.op) != nullptr;
        EXPECT_EQ(!error.has_value(), exists) << primitive << " " << op << " " << type;
        if (error) continue;
        ++accepted;
        EXPECT_EQ(out, m);
      }
    }
  }
  // Two primitives reduce: four operations of four floats, seven of eight integers.
  EXPECT_EQ(accepted, 2 * (4 * 4 + 7 * 8) + 12 + 1);
}

TEST(ControlMessage, WhatIsWrongIsNamed) {
  const ControlMessage good = allreduce();
  EXPECT_EQ(error_of(good), std::nullopt);
  ControlMessage out = good;
  const Payload payload = control_payload(good);
  const std::uint32_t immediate = control_immediate(good);
  EXPECT_EQ(read_control(immediate, {payload.data(), 15}, out), ControlError::length);
  EXPECT_EQ(read_control(immediate, {}, out), ControlError::length);
  EXPECT_EQ(read_control(immediate ^ 1u << 16, payload, out), ControlError::version);
  EXPECT_EQ(read_control(immediate | 4u << 28, payload, out), ControlError::primitive);
  EXPECT_EQ(read_control(immediate | 12u << 20, payload, out), ControlError::type);
  EXPECT_EQ(read_control(immediate | 7u << 24, payload, out), ControlError::op);
  EXPECT_EQ(read_control(immediate | 5u << 24, payload, out), ControlError::op) << "bits of floating point";
  Payload flagged = payload;
  flagged[7] = 1;
  EXPECT_EQ(read_control(immediate, flagged, out), ControlError::flags);
  EXPECT_EQ(out, good) << "nothing is written where nothing was read";

  ControlMessage m = good;
  m.root = 1;
  EXPECT_EQ(error_of(m), ControlError::root);
  m = good;
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{4001}, kMaxInvocationBytes + 4, ~std::uint64_t{3}}) {
    m.bytes = bytes;
    EXPECT_EQ(error_of(m), ControlError::size) << bytes;
  }
  m = {};
  m.primitive = Primitive::barrier;
  EXPECT_EQ(error_of(m), std::nullopt);
  m.bytes = 4;
  EXPECT_EQ(error_of(m), ControlError::size);
  m.bytes = 0;
  m.op = Op::min;
  EXPECT_EQ(error_of(m), ControlError::op);
  for (int e = 0; e <= static_cast<int>(ControlError::size); ++e) {
    EXPECT_NE(to_string(static_cast<ControlError>(e)), "?") << e;
  }
}

TEST(ControlMessage, WhatIsAcceptedHasOneSpelling) {
  Rng rng(20261123);
  int accepted = 0;
  for (int i = 0; i < 300'000; ++i) {
    Payload payload{};
    // Few bits, so that a message is accepted now and then.
    for (const std::size_t at : {3u, 4u, 5u, 13u, 14u, 15u}) payload[at] = static_cast<std::uint8_t>(rng.next());
    if (rng.below(8) == 0) payload[rng.below(payload.size())] = static_cast<std::uint8_t>(rng.next());
    auto immediate = static_cast<std::uint32_t>(rng.next());
    if (rng.below(2) == 0) immediate = (immediate & 0xfff0ffff) | std::uint32_t{kControlVersion} << 16;
    ControlMessage m;
    if (read_control(immediate, payload, m)) continue;
    ++accepted;
    ASSERT_EQ(control_immediate(m), immediate);
    ASSERT_EQ(control_payload(m), payload);
  }
  EXPECT_GT(accepted, 1000);
}

TEST(Primitive, NamesComeBack) {
  for (std::size_t i = 0; i < kPrimitives; ++i) {
    const auto primitive = static_cast<Primitive>(i);
    EXPECT_EQ(primitive_from(to_string(primitive)), primitive);
  }
  EXPECT_EQ(primitive_from("allReduce"), std::nullopt);
  EXPECT_EQ(to_string(static_cast<Primitive>(4)), "?");
}

}  // namespace
}  // namespace weft::inc
