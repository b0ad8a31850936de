// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/reporter.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/nic/agent/events.h"

namespace weft::testing {
namespace {

using agent::Message;
using agent::QpList;
using agent::Reporter;

class Reports : public ::testing::Test {
 protected:
  void connect(std::uint32_t qpn) { tell(reporter, to_rtr(qpn, "10.0.2.1", 18)); }
  void destroy(std::uint32_t qpn) { tell(reporter, qp_event(WEFT_QP_DESTROY, qpn)); }
  void tell(Reporter& to, const weft_qp_event& event) { to.add(list.on_event(event), now); }
  // Sends what there is, and has it answered.
  const Message* exchange(bool resync = false) {
    const Message* message = reporter.next(now);
    if (message == nullptr) return nullptr;
    last = *message;
    reporter.answered(now, resync);
    return &last;
  }
  QpList list{[](const std::string&, unsigned, unsigned) { return wire::IpAddress::parse("10.0.1.1"); }};
  Reporter reporter{list, {}};
  TimeNs now = 100 * kSecond;
  Message last;
};

TEST_F(Reports, TheFirstMessageIsASnapshotThenComeChangesThenHeartbeats) {
  connect(17);
  const Message* m = exchange();
  ASSERT_NE(m, nullptr);
  EXPECT_TRUE(m->begin && m->end);
  EXPECT_EQ(m->changes.size(), 1u);
  EXPECT_EQ(m->sequence, 1u);
  EXPECT_TRUE(reporter.in_step());
  EXPECT_EQ(reporter.next(now), nullptr);
  connect(19);
  EXPECT_LE(reporter.deadline(), now) << "at once";
  m = exchange();
  EXPECT_FALSE(m->begin || m->end);
  EXPECT_EQ(m->changes.size(), 1u);
  EXPECT_EQ(m->sequence, 2u);
  EXPECT_EQ(reporter.deadline(), now + 2 * kSecond);
  now += 2 * kSecond;
  m = exchange();
  ASSERT_NE(m, nullptr);
  EXPECT_TRUE(m->changes.empty());
  EXPECT_EQ(m->sequence, 3u);
}

TEST_F(Reports, AMessageWithoutAnAnswerComesAgainLaterAndLater) {
  connect(17);
  const Message first = *reporter.next(now);
  EXPECT_EQ(reporter.next(now), nullptr) << "it is under way";
  std::vector<TimeNs> waits;
  for (int i = 0; i < 7; ++i) {
    reporter.failed(now);
    waits.push_back(reporter.deadline() - now);
    EXPECT_EQ(reporter.next(now), nullptr);
    now = reporter.deadline();
    connect(20 + static_cast<std::uint32_t>(i));
    const Message* const again = reporter.next(now);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->sequence, first.sequence);
    EXPECT_EQ(again->changes, first.changes);
  }
  EXPECT_EQ(waits,
            (std::vector<TimeNs>{100 * kMs, 200 * kMs, 400 * kMs, 800 * kMs, 1600 * kMs, 2 * kSecond, 2 * kSecond}));
  reporter.answered(now, false);
  EXPECT_EQ(exchange()->changes.size(), 7u);
}

TEST_F(Reports, ASwitchThatAsksGetsEverythingInParts) {
  (void)exchange();
  for (std::uint32_t i = 0; i < 300; ++i) connect(100 + i);
  EXPECT_EQ(exchange(true)->changes.size(), 128u);
  EXPECT_EQ(reporter.next(now), nullptr) << "not in a circle without rest";
  now = reporter.deadline();
  const Message* m = exchange();
  EXPECT_TRUE(m->begin && !m->end && m->of_snapshot);
  destroy(100);  // has been told already
  destroy(399);  // has not
  m = exchange();
  EXPECT_TRUE(!m->begin && !m->end);
  m = exchange();
  EXPECT_TRUE(!m->begin && m->end);
  EXPECT_EQ(m->changes.size(), 300u - 1 - 2 * 128);
  EXPECT_EQ(exchange()->changes.size(), 2u) << "both ends are told";
  EXPECT_TRUE(reporter.in_step());
}

TEST_F(Reports, EndsOfConnectionsWaitForOthersUnlessAConnectionBegins) {
  Reporter gathering{list, {.gather = kMs}};
  const auto end = [&](std::uint32_t qpn) { tell(gathering, qp_event(WEFT_QP_DESTROY, qpn)); };
  for (const std::uint32_t qpn : {17u, 19u, 21u}) tell(gathering, to_rtr(qpn, "10.0.2.1", 18));
  EXPECT_EQ(gathering.next(now)->changes.size(), 3u);
  gathering.answered(now, false);
  end(17);
  EXPECT_EQ(gathering.next(now), nullptr);
  EXPECT_EQ(gathering.deadline(), now + kMs);
  now += kMs - 1;
  end(19);
  EXPECT_EQ(gathering.next(now), nullptr);
  now += 1;
  const Message* m = gathering.next(now);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->changes.size(), 2u);
  gathering.answered(now, false);
  // The number of a queue pair that has ended is used anew: both are told at once, in order.
  end(21);
  EXPECT_EQ(gathering.next(now), nullptr);
  tell(gathering, to_rtr(21, "10.0.2.1", 20));
  EXPECT_LE(gathering.deadline(), now);
  m = gathering.next(now);
  ASSERT_NE(m, nullptr);
  ASSERT_EQ(m->changes.size(), 2u);
  EXPECT_FALSE(m->changes[0].up);
  EXPECT_TRUE(m->changes[1].up);
  gathering.answered(now, false);
  EXPECT_TRUE(gathering.in_step());
}

TEST_F(Reports, AConnectionIsToldOnceWhenItsFirstPsnFollowsSoon) {
  constexpr TimeNs kSettle = 200'000;
  Reporter settling{list, {.settle = kSettle}};
  (void)settling.next(now);
  settling.answered(now, false);
  // With its first PSN: at once, and in one.
  tell(settling, to_rtr(17, "10.0.2.1", 18));
  EXPECT_EQ(settling.next(now), nullptr);
  EXPECT_EQ(settling.deadline(), now + kSettle);
  tell(settling, to_rts(17, 800));
  EXPECT_EQ(settling.deadline(), 0u);
  const Message* m = settling.next(now);
  ASSERT_NE(m, nullptr);
  ASSERT_EQ(m->changes.size(), 1u);
  EXPECT_EQ(m->changes[0].qp.sq_psn, 800u);
  EXPECT_EQ(m->changes[0].qp.rq_psn, 900u);
  settling.answered(now, false);
  // Without it: after a while, and the PSN when it comes. What is told meanwhile does not wait.
  tell(settling, to_rtr(19, "10.0.2.1", 20));
  now += kSettle - 1;
  EXPECT_EQ(settling.next(now), nullptr);
  tell(settling, to_rtr(21, "10.0.2.1", 22));
  now += 1;
  m = settling.next(now);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->changes.size(), 2u);
  settling.answered(now, false);
  tell(settling, to_rts(19, 801));
  m = settling.next(now);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->changes[0].qp.sq_psn, 801u);
  settling.answered(now, false);
  // It has ended before it was told: both are, in order.
  tell(settling, to_rtr(23, "10.0.2.1", 24));
  tell(settling, qp_event(WEFT_QP_DESTROY, 23));
  now += kSettle;
  m = settling.next(now);
  ASSERT_NE(m, nullptr);
  ASSERT_EQ(m->changes.size(), 2u);
  EXPECT_TRUE(m->changes[0].up && !m->changes[1].up);
}

TEST_F(Reports, SeveralMessagesAreUnderWayAndAllComeAgainAfterAFailure) {
  (void)exchange();
  std::vector<Message> sent;
  for (std::uint32_t i = 0; i < Reporter::kMostUnderWay; ++i) {
    EXPECT_FALSE(reporter.is_blocked(now));
    connect(100 + i);
    const Message* const m = reporter.next(now);
    ASSERT_NE(m, nullptr);
    sent.push_back(*m);
    EXPECT_EQ(reporter.next(now), nullptr);
  }
  EXPECT_FALSE(reporter.is_blocked(now)) << "there is nothing more to tell";
  connect(200);
  EXPECT_TRUE(reporter.is_blocked(now));
  EXPECT_EQ(reporter.next(now), nullptr);
  EXPECT_EQ(reporter.deadline(), kNever);
  reporter.answered(now, false);
  EXPECT_FALSE(reporter.is_blocked(now));
  sent.erase(sent.begin());
  reporter.again();
  EXPECT_EQ(reporter.under_way(), 0u);
  for (const Message& each : sent) {
    const Message* const m = reporter.next(now);
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->sequence, each.sequence);
    EXPECT_EQ(m->changes, each.changes);
  }
  EXPECT_EQ(reporter.next(now)->changes[0].qp.qpn, 200u) << "and only then what is new";
}

// A switch that has restarted asks with each answer; the snapshot that is under way already is what it asks for.
TEST_F(Reports, AnswersToWhatWasUnderWayBeforeASnapshotDoNotAskForAnother) {
  (void)exchange();
  for (std::uint32_t i = 0; i < 3; ++i) {
    connect(100 + i);
    ASSERT_NE(reporter.next(now), nullptr);
  }
  reporter.answered(now, true);
  now = reporter.deadline();
  const Message* const begin = reporter.next(now);
  ASSERT_NE(begin, nullptr);
  EXPECT_TRUE(begin->begin && begin->end);
  EXPECT_EQ(begin->changes.size(), 3u);
  for (const bool resync : {true, true, false}) reporter.answered(now, resync);
  EXPECT_TRUE(reporter.in_step());
  EXPECT_EQ(reporter.snapshots(), 2u);
}

TEST_F(Reports, EverythingIsToldAgainNowAndThen) {
  connect(17);
  (void)exchange();
  now += 199 * kSecond;
  EXPECT_FALSE(exchange()->begin);
  now += kSecond;
  EXPECT_TRUE(exchange()->begin);
  EXPECT_EQ(reporter.snapshots(), 2u);
}

TEST_F(Reports, TooManyChangesBecomeASnapshot) {
  (void)exchange();
  (void)reporter.next(now + 3 * kSecond);  // under way, and nobody answers
  for (std::uint32_t i = 0; i < 9000; ++i) {
    connect(100);
    destroy(100);
  }
  connect(17);
  reporter.answered(now, false);
  const Message* m = exchange();
  EXPECT_TRUE(m->begin && m->end);
  EXPECT_EQ(m->changes.size(), 1u);
}

TEST_F(Reports, TextsAreJsonWhateverAProcessIsCalled) {
  weft_qp_event e = to_rtr(17, "10.0.2.1", 18);
  std::memcpy(e.process, "a\"\x01\xff", 5);
  (void)exchange();
  tell(reporter, e);
  const std::string with = agent::changes_text(*exchange());
  last.of_snapshot = true;
  const std::string without = agent::changes_text(last);
  EXPECT_EQ(without, R"([{"up":true,"local":"10.0.1.1","qpn":17,"remote":"10.0.2.1","remote_qpn":18,"transport":"rc",)"
                     R"("mtu":1024,"process":"a\"\u0001\ufffd","pid":50,"device":"mlx5_0"}])");
  EXPECT_NE(with.find(R"("rq_psn":900)"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(with));
}

}  // namespace
}  // namespace weft::testing
