// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/reporter.h"

#include <gtest/gtest.h>

#include "tests/nic/agent/events.h"

namespace weft::testing {
namespace {

using agent::Message;
using agent::QpList;
using agent::Reporter;

class Reports : public ::testing::Test {
 protected:
  void connect(std::uint32_t qpn) { reporter.add(list.on_event(to_rtr(qpn, "10.0.2.1", 18))); }
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
  EXPECT_EQ(reporter.deadline(), 0u) << "at once";
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
  const Message* const first = reporter.next(now);
  std::vector<TimeNs> waits;
  for (int i = 0; i < 7; ++i) {
    reporter.failed(now);
    waits.push_back(reporter.deadline() - now);
    EXPECT_EQ(reporter.next(now), nullptr);
    now = reporter.deadline();
    connect(20 + static_cast<std::uint32_t>(i));
    EXPECT_EQ(reporter.next(now), first);
    EXPECT_EQ(first->changes.size(), 1u);
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
  EXPECT_TRUE(m->begin && !m->end);
  EXPECT_TRUE(reporter.in_snapshot());
  reporter.add(list.on_event(qp_event(WEFT_QP_DESTROY, 100)));  // has been told already
  reporter.add(list.on_event(qp_event(WEFT_QP_DESTROY, 399)));  // has not
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
  const auto destroy = [&](std::uint32_t qpn) { gathering.add(list.on_event(qp_event(WEFT_QP_DESTROY, qpn))); };
  for (const std::uint32_t qpn : {17u, 19u, 21u}) gathering.add(list.on_event(to_rtr(qpn, "10.0.2.1", 18)));
  EXPECT_EQ(gathering.next(now)->changes.size(), 3u);
  gathering.answered(now, false);
  destroy(17);
  EXPECT_EQ(gathering.next(now), nullptr);
  EXPECT_EQ(gathering.deadline(), now + kMs);
  now += kMs - 1;
  destroy(19);
  EXPECT_EQ(gathering.next(now), nullptr);
  now += 1;
  ASSERT_NE(gathering.next(now), nullptr);
  EXPECT_EQ(gathering.next(now)->changes.size(), 2u);
  gathering.answered(now, false);
  // The number of a queue pair that has ended is used anew: both are told at once, in order.
  destroy(21);
  EXPECT_EQ(gathering.next(now), nullptr);
  gathering.add(list.on_event(to_rtr(21, "10.0.2.1", 20)));
  EXPECT_EQ(gathering.deadline(), 0u);
  const Message* const m = gathering.next(now);
  ASSERT_NE(m, nullptr);
  ASSERT_EQ(m->changes.size(), 2u);
  EXPECT_FALSE(m->changes[0].up);
  EXPECT_TRUE(m->changes[1].up);
  gathering.answered(now, false);
  EXPECT_TRUE(gathering.in_step());
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
    reporter.add(list.on_event(qp_event(WEFT_QP_DESTROY, 100)));
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
  reporter.add(list.on_event(e));
  const std::string with = agent::changes_text(*exchange(), true), without = agent::changes_text(last, false);
  EXPECT_EQ(without, R"([{"up":true,"local":"10.0.1.1","qpn":17,"remote":"10.0.2.1","remote_qpn":18,"transport":"rc",)"
                     R"("mtu":1024,"process":"a\"\u0001\ufffd","pid":50,"device":"mlx5_0"}])");
  EXPECT_NE(with.find(R"("rq_psn":900)"), std::string::npos);
}

}  // namespace
}  // namespace weft::testing
