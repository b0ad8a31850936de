// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/daemon_messages.h"

#include <gtest/gtest.h>

#include "collectives/comm/handle.h"

namespace weft::inc::comm {
namespace {

std::vector<DaemonMessage> all_kinds() {
  CreateGroup create{1, GroupMode::iii, true, 1024, 4, 8, {}, {}};
  create.members = {{*wire::IpAddress::parse("10.0.0.1"), 17, 1, 2}, {*wire::IpAddress::parse("fd00::2"), 18, 3, 4}};
  GroupCreated created{"none", "links_taken", "It is so.", 7, 1ull << 40, 4, 5000, {}, false, {}};
  created.endpoints = {{*wire::IpAddress::parse("10.0.0.254"), 100}, {*wire::IpAddress::parse("fd00::fe"), 101}};
  return {create,
          HoldGroup{7, 42, 3, 5000},
          LeaveGroup{7, 42, true},
          created,
          GroupHeld{7, 42, true},
          GroupGone{7, UINT64_MAX},
          ExplainGroup{7, 42},
          GroupExplained{7, 42, "leaf1: rank 0 said so"}};
}

TEST(DaemonMessages, AreReadAsTheyWereWritten) {
  for (const DaemonMessage& m : all_kinds()) EXPECT_EQ(read_message(write_message(m)), m) << "kind " << m.index();
}

// Libraries that know nothing of turns read all other groups.
TEST(DaemonMessages, TurnsAreSaidWhereThereAreSome) {
  GroupCreated made;
  made.refusal = "none";
  made.endpoints.resize(2);
  const auto without = write_message(made);
  made.turns = true;
  const auto with = write_message(made);
  EXPECT_EQ(with.size(), without.size() + 1);
  EXPECT_EQ(read_message(with), DaemonMessage(made));
}

// Nor do daemons and libraries that know nothing of rhythms have to read one of others.
TEST(DaemonMessages, RhythmsAreSaidWhereThereAreSome) {
  CreateGroup asks;
  asks.members.resize(2);
  const auto plain = write_message(asks);
  asks.rhythm = {0, 0, 5};
  const auto with = write_message(asks);
  EXPECT_EQ(with.size(), plain.size() + 12);
  EXPECT_EQ(read_message(with), DaemonMessage(asks));
  auto zeros = plain;
  zeros.resize(plain.size() + 12);
  EXPECT_FALSE(read_message(zeros)) << "a message has one form";
  zeros.back() = 1;
  zeros.pop_back();
  EXPECT_FALSE(read_message(zeros)) << "a byte is missing";

  GroupCreated made;
  made.refusal = "none";
  made.turns = true;
  const auto turns = write_message(made);
  made.offset_ns = 0;
  const auto staggered = write_message(made);
  EXPECT_EQ(staggered.size(), turns.size() + 8);
  EXPECT_EQ(read_message(staggered), DaemonMessage(made));
  EXPECT_FALSE(read_message(std::span(staggered).first(turns.size() + 7)));
}

TEST(DaemonMessages, MissingAndMoreBytesAreMistakes) {
  for (const DaemonMessage& m : all_kinds()) {
    auto bytes = write_message(m);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_FALSE(read_message(std::span(bytes).first(n))) << "kind " << m.index() << ", " << n << " bytes";
    }
    bytes.push_back(0);
    EXPECT_FALSE(read_message(bytes)) << "kind " << m.index();
    bytes.pop_back();
    bytes[0] = kDaemonVersion + 1;
    EXPECT_FALSE(read_message(bytes)) << "kind " << m.index();
  }
}

TEST(DaemonMessages, ValuesThatMeanNothingAreMistakes) {
  auto kinds = all_kinds();
  auto bytes = write_message(kinds[0]);
  bytes[6] = kGroupModes;
  EXPECT_FALSE(read_message(bytes)) << "a mode";
  bytes = write_message(kinds[0]);
  bytes[7] = 2;
  EXPECT_FALSE(read_message(bytes)) << "a flag";
  bytes = write_message(kinds[4]);
  bytes.back() = 2;
  EXPECT_FALSE(read_message(bytes)) << "a flag";
  std::get<CreateGroup>(kinds[0]).rank = 2;
  EXPECT_FALSE(read_message(write_message(kinds[0]))) << "a rank that is no member";
  std::get<CreateGroup>(kinds[0]).members.resize(kMaxGroupRanks + 1);
  EXPECT_FALSE(read_message(write_message(kinds[0]))) << "too many members";
  bytes = {kDaemonVersion, 8};
  EXPECT_FALSE(read_message(bytes)) << "a kind";
}

TEST(DaemonMessages, ALongSentenceIsCut) {
  const GroupCreated created{"no_tree", "", std::string(5000, 'x'), 0, 0, 0, 0, {}, false, {}};
  const auto read = read_message(write_message(created));
  ASSERT_TRUE(read);
  EXPECT_EQ(std::get<GroupCreated>(*read).sentence, std::string(1000, 'x'));
}

}  // namespace
}  // namespace weft::inc::comm
