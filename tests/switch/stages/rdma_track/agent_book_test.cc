// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/agent_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace weft::testing {
namespace {

using stages::AgentAction;
using stages::AgentBook;
using stages::AgentChange;
using stages::AgentMessage;
using stages::AgentQp;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const wire::IpAddress kA = *wire::IpAddress::parse("10.0.1.1"), kB = *wire::IpAddress::parse("10.0.2.1"),
                      kC = *wire::IpAddress::parse("10.0.3.1");

AgentQp qp(std::uint32_t qpn, const wire::IpAddress& remote, std::uint32_t remote_qpn) {
  AgentQp q;
  q.local = kA;
  q.qpn = wire::Qpn(qpn);
  q.remote = remote;
  q.remote_qpn = wire::Qpn(remote_qpn);
  return q;
}
AgentChange up(std::uint32_t qpn, const wire::IpAddress& remote = kB, std::uint32_t remote_qpn = 100) {
  return {true, qp(qpn, remote, remote_qpn)};
}
AgentChange down(std::uint32_t qpn) {
  return {false, qp(qpn, {}, 0)};
}

class Book : public ::testing::Test {
 protected:
  static std::vector<stages::AgentHost> hosts() {
    return {{"h1", {*wire::IpPrefix::parse("10.0.1.0/24")}}, {"h2", {*wire::IpPrefix::parse("10.0.2.0/24")}}};
  }
  static std::string text(const std::vector<AgentAction>& actions) {
    std::string all;
    for (const AgentAction& a : actions) {
      all += (a.up ? "+" : "-") + std::to_string(a.qp.qpn.value()) + ">" + std::to_string(a.qp.remote_qpn.value()) +
             (a.snapshot ? "s " : " ");
    }
    return all;
  }
  // What a message changes; "resync", or what is wrong.
  std::string tell(AgentMessage message) {
    if (message.host.empty()) message.host = "h1";
    if (message.session == 0) message.session = 5;
    std::vector<AgentAction> actions;
    reply = book.apply(message, actions);
    if (!reply.expected) return "unknown";
    return reply.resync ? "resync" : text(actions);
  }
  AgentBook book{hosts(), 4};
  stages::AgentReply reply;
};

TEST_F(Book, ASessionBeginsWithASnapshotAndGoesOnByNumbers) {
  EXPECT_EQ(tell({.sequence = 1, .changes = {up(7)}}), "resync");
  EXPECT_EQ(tell({.sequence = 2, .begin = true, .end = true, .changes = {up(7)}}), "+7>100s ");
  EXPECT_EQ(tell({.sequence = 3, .changes = {up(8), down(7)}}), "+8>100 -7>100 ");
  EXPECT_EQ(tell({.sequence = 5, .changes = {up(9)}}), "resync") << "4 was not heard";
  EXPECT_EQ(tell({.sequence = 4, .changes = {down(9)}}), "") << "nobody has 9, and nobody shall";
  EXPECT_EQ(tell({.session = 6, .sequence = 5}), "resync") << "the agent has started again";
}

TEST_F(Book, AMessageThatComesTwiceChangesNothingMore) {
  (void)tell({.sequence = 1, .begin = true, .end = true});
  EXPECT_EQ(tell({.sequence = 2, .changes = {up(7)}}), "+7>100 ");
  EXPECT_EQ(tell({.sequence = 2, .changes = {up(7)}}), "+7>100 ") << "the table knows it, and does nothing";
  (void)tell({.sequence = 3, .changes = {down(7)}});
  EXPECT_EQ(tell({.sequence = 2, .changes = {up(7)}}), "") << "what came after it counts";
  EXPECT_EQ(tell({.sequence = 1, .begin = true, .end = true, .changes = {up(7)}}), "");
  EXPECT_EQ(tell({.sequence = 3, .changes = {down(7)}}), "");
  EXPECT_EQ(tell({.sequence = 4, .changes = {up(8)}}), "+8>100 ") << "and it goes on";
  EXPECT_EQ(book.rows()[0].qps, 1u);
}

TEST_F(Book, ASnapshotOverSeveralMessagesEndsWhatItDoesNotName) {
  (void)tell({.sequence = 1, .begin = true, .end = true, .changes = {up(7), up(8), up(9)}});
  EXPECT_EQ(tell({.session = 6, .sequence = 1, .begin = true, .changes = {up(8)}}), "+8>100s ");
  EXPECT_EQ(tell({.session = 6, .sequence = 2, .changes = {up(10)}}), "+10>100s ");
  EXPECT_EQ(tell({.session = 6, .sequence = 3, .end = true}), "-7>100 -9>100 ");
  EXPECT_EQ(book.rows()[0].qps, 2u);
}

TEST_F(Book, AnEndWithoutABeginEndsNothing) {
  (void)tell({.sequence = 1, .begin = true, .end = true, .changes = {up(7)}});
  EXPECT_EQ(tell({.sequence = 2, .end = true}), "");
}

TEST_F(Book, ANumberThatServesAnotherConnectionEndsTheOldOneFirst) {
  (void)tell({.sequence = 1, .begin = true, .end = true, .changes = {up(7)}});
  EXPECT_EQ(tell({.sequence = 2, .changes = {up(7, kC, 33)}}), "-7>100 +7>33 ");
  EXPECT_EQ(tell({.sequence = 3, .changes = {down(7)}}), "-7>33 ");
}

TEST_F(Book, AHostTellsOfItsOwnAddressesOnly) {
  (void)tell({.sequence = 1, .begin = true, .end = true, .changes = {up(7)}});
  EXPECT_EQ(tell({.host = "h9", .sequence = 2, .begin = true, .changes = {down(7)}}), "unknown");
  EXPECT_EQ(tell({.host = "h2", .sequence = 1, .begin = true, .end = true, .changes = {up(8), down(7)}}), "");
  EXPECT_EQ(reply.refused, 2u);
  EXPECT_EQ(tell({.sequence = 2, .changes = {up(8, kA, 9)}}), "") << "to itself";
  EXPECT_EQ(reply.refused, 1u);
  EXPECT_EQ(book.rows()[1].refused, 2u);
}

TEST_F(Book, AFullBookSaysSo) {
  EXPECT_EQ(tell({.sequence = 1, .begin = true, .end = true, .changes = {up(2), up(3), up(4), up(5), up(6)}}),
            "+2>100s +3>100s +4>100s +5>100s ");
  EXPECT_EQ(reply.refused, 1u);
  EXPECT_EQ(book.rows()[0].full, 1u);
  EXPECT_EQ(tell({.sequence = 2, .changes = {down(2), up(6)}}), "-2>100 +6>100 ");
}

// Queue pairs of h2, in its own prefix.
AgentChange of_h2(std::uint32_t qpn) {
  AgentChange change = up(qpn, kC);
  change.qp.local = kB;
  return change;
}

TEST_F(Book, AHostBelowItsShareFindsRoomThatAnotherHadBorrowed) {
  (void)tell({.sequence = 1, .begin = true, .end = true, .changes = {up(2), up(3), up(4), up(5), up(6)}});
  EXPECT_EQ(tell({.host = "h2", .sequence = 1, .begin = true, .end = true, .changes = {of_h2(7)}}), "-5>100 +7>100s ");
  EXPECT_EQ(reply.refused, 0u);
  EXPECT_EQ(tell({.host = "h2", .sequence = 2, .changes = {of_h2(8), of_h2(9)}}), "-4>100 +8>100 ")
      << "half of the room is its share";
  EXPECT_EQ(reply.refused, 1u);
  const auto rows = book.rows();
  EXPECT_EQ(std::tuple(rows[0].qps, rows[0].full, rows[0].evicted), std::tuple(2u, 1u, 2u));
  EXPECT_EQ(std::tuple(rows[1].qps, rows[1].full, rows[1].evicted), std::tuple(2u, 1u, 0u));
  EXPECT_EQ(tell({.sequence = 2, .changes = {up(10), down(5)}}), "") << "a flood takes nobody else's room";
  EXPECT_EQ(reply.refused, 1u) << "and the end of one that was given back is no mistake";
  AgentChange end = of_h2(7);
  end.up = false;
  EXPECT_EQ(tell({.host = "h2", .sequence = 3, .changes = {end}}), "-7>100 ");
  EXPECT_EQ(tell({.sequence = 3, .changes = {up(10)}}), "+10>100 ") << "what nobody asks for is lent again";
}

TEST_F(Book, WithMoreHostsThanRoomWhoComesFirstHasIt) {
  std::vector<stages::AgentHost> many = hosts();
  for (int i = 3; i < 10; ++i) {
    const std::string n = std::to_string(i);
    many.push_back({"h" + n, {*wire::IpPrefix::parse("10.0." + n + ".0/24")}});
  }
  EXPECT_EQ(text(book.set_hosts(many)), "");
  (void)tell({.sequence = 1, .begin = true, .end = true, .changes = {up(2), up(3)}});
  for (int i = 3; i < 6; ++i) {
    const std::string n = std::to_string(i);
    AgentChange change = up(100 + i, kB);
    change.qp.local = *wire::IpAddress::parse("10.0." + n + ".1");
    EXPECT_NE(tell({.host = "h" + n, .sequence = 1, .begin = true, .end = true, .changes = {change}}), "");
  }
  EXPECT_EQ(book.rows()[0].evicted, 1u) << "each has one of the four places";
  EXPECT_EQ(tell({.host = "h2", .sequence = 1, .begin = true, .end = true, .changes = {of_h2(7)}}), "");
  EXPECT_EQ(reply.refused, 1u);
}

TEST_F(Book, WhoMayNotReportAnyMoreLosesWhatItTold) {
  (void)tell({.sequence = 1, .begin = true, .end = true, .changes = {up(7)}});
  EXPECT_EQ(text(book.set_hosts(hosts())), "");
  EXPECT_EQ(tell({.sequence = 2, .changes = {up(8)}}), "+8>100 ") << "its session has gone on";
  EXPECT_EQ(text(book.set_hosts({{"h1", {*wire::IpPrefix::parse("10.0.9.0/24")}}})), "-7>100 -8>100 ");
  EXPECT_EQ(book.rows().size(), 1u);
  EXPECT_EQ(book.rows()[0].qps, 0u);
}

}  // namespace
}  // namespace weft::testing
