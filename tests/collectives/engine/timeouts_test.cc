// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How long a switch waits for ranks that are slow to answer.
#include <gtest/gtest.h>

#include "collectives/engine/inc_engine.h"
#include "tests/collectives/engine/groups.h"

namespace weft::inc {
namespace {

constexpr std::uint32_t kRanks = 2, kCollectives = 20;
/// Longer than the first three timeouts of 4.2 ms, each twice the one before.
constexpr nic::Time kSlow = 30 * nic::kMs;

/// Timeouts of a switch while ranks run AllReduces of one packet, and acknowledge their results after `slow`.
std::uint64_t timeouts(Mode mode, bool adaptive, nic::Time slow) {
  GroupConfig g = testing::star(kRanks);
  g.mode = mode;
  g.slots = 8;
  g.timeout = 10;
  g.adaptive_timeouts = adaptive;
  IncEngine engine(g);
  testing::Sent sent;
  testing::Bytes kept;
  const testing::Bytes payload(testing::kMtu);
  nic::Time now = nic::kMs;
  for (std::uint16_t k = 0; k < kCollectives; ++k) {
    // One message after the other: a window has room for one.
    for (EndpointIndex e = 0; e < kRanks; ++e) {
      const auto m = testing::message(Primitive::allreduce, k, testing::kMtu);
      engine.on_packet(now, e, testing::control(g.endpoints[e].first_rx + 2 * k, m, kept), false, sent);
    }
    for (EndpointIndex e = 0; e < kRanks; ++e) {
      nic::Packet p = testing::data(g.endpoints[e].first_rx + 2 * k + 1, wire::Opcode::RC_SEND_ONLY, payload);
      p.ack_req = true;
      engine.on_packet(now, e, p, false, sent);
    }
    // The control message, and then the data.
    for (std::uint16_t message = 0; message < 2; ++message) {
      const nic::Time answered = now + slow;
      while (engine.next_deadline() < answered) engine.on_timer(now = engine.next_deadline(), sent);
      EXPECT_FALSE(engine.failure().has_value()) << "collective " << k;
      now = answered;
      for (EndpointIndex e = 0; e < kRanks; ++e) {
        const std::uint16_t number = 2 * k + message;
        engine.on_packet(now, e, testing::answer(g.endpoints[e].first_tx + number, wire::Syndrome::ack(), number + 1u),
                         false, sent);
      }
    }
  }
  return engine.counters().timeouts;
}

class Timeouts : public ::testing::TestWithParam<Mode> {};

// Guests whose CPUs are emulated answered a window after more than 4.2 ms. All of it was sent twice, which took them
// longer still, until nothing else came.
TEST_P(Timeouts, ARankThatIsSlowToAnswerIsGivenItsTime) {
  EXPECT_EQ(timeouts(GetParam(), true, nic::kMs), 0u);
  EXPECT_GE(timeouts(GetParam(), false, kSlow), 2 * kRanks * kCollectives);
  EXPECT_LE(timeouts(GetParam(), true, kSlow), 3 * kRanks);
}

INSTANTIATE_TEST_SUITE_P(Modes, Timeouts, ::testing::Values(Mode::i, Mode::iii),
                         [](const auto& mode) { return std::string(name(mode.param)); });

}  // namespace
}  // namespace weft::inc
