// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/etcd_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/manager/etcd_replies.h"
#include "tests/collectives/manager/fake_etcd.h"
#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::uint32_t kLeaseS = 2;

class EtcdStoreTest : public testing::Test {
 protected:
  /// A manager's store, which leads or waits for its turn.
  struct Contender {
    EtcdStore store;
    std::atomic<bool> stop = false, lost = false;
    std::mutex mutex;
    std::vector<std::string> said;

    std::optional<std::string> lead() {
      return store.lead(
          [this](const std::string& s) {
            const std::lock_guard lock(mutex);
            said.push_back(s);
          },
          [this] { return stop.load(); }, [this] { lost = true; });
    }
    bool has_said(const std::string& what) {
      const std::lock_guard lock(mutex);
      return std::any_of(said.begin(), said.end(), [&](const auto& s) { return s.find(what) != std::string::npos; });
    }
  };

  std::unique_ptr<Contender> open(const std::string& name) {
    auto out = std::make_unique<Contender>();
    EXPECT_EQ(out->store.open({{one.address, other.address}, {}, "/t", kLeaseS}, name), std::nullopt);
    return out;
  }
  std::unique_ptr<Contender> leader(const std::string& name) {
    auto out = open(name);
    EXPECT_EQ(out->lead(), std::nullopt);
    EXPECT_TRUE(out->store.leads());
    return out;
  }
  static Store::Content content(EtcdStore& store) {
    Store::Content out;
    EXPECT_EQ(store.load(out), std::nullopt);
    return out;
  }
  template <class Condition>
  static bool comes_true(Condition&& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  }

  EtcdData data;
  EtcdMember one{data}, other{data};
};

TEST_F(EtcdStoreTest, WhatIsWrittenOutlivesTheManager) {
  auto first = leader("first");
  EXPECT_THAT(content(first->store).records, IsEmpty());
  EXPECT_EQ(first->store.put(7, 1, "seven"), std::nullopt);
  EXPECT_EQ(first->store.put(3, 2, "three"), std::nullopt);
  EXPECT_EQ(first->store.put(12, 3, "twelve"), std::nullopt);
  EXPECT_EQ(first->store.put(7, 1, "seven, later"), std::nullopt);
  EXPECT_EQ(first->store.put_links("[1]"), std::nullopt);
  EXPECT_EQ(first->store.sync(), std::nullopt);
  EXPECT_EQ(first->store.erase(3), std::nullopt);  // without sync(): it is written nevertheless
  first.reset();
  auto second = leader("second");
  const auto found = content(second->store);
  EXPECT_THAT(found.records, ElementsAre("seven, later", "twelve")) << "in the order of their numbers";
  EXPECT_EQ(found.last_generation, 3u);
  EXPECT_EQ(found.links, "[1]");
}

TEST_F(EtcdStoreTest, OneLeadsAndTheNextOneFollowsAtOnce) {
  auto first = leader("first");
  auto second = open("second");
  std::thread waits([&] { EXPECT_EQ(second->lead(), std::nullopt); });
  EXPECT_TRUE(comes_true([&] { return second->has_said("first leads"); }));
  EXPECT_FALSE(second->store.leads());
  const auto before = std::chrono::steady_clock::now();
  first.reset();
  waits.join();
  EXPECT_TRUE(second->store.leads());
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(kLeaseS)) << "it gave up its lease";
}

TEST_F(EtcdStoreTest, ALeaseIsKept) {
  auto store = leader("first");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500 * kLeaseS));
  EXPECT_TRUE(store->store.leads());
  EXPECT_EQ(store->store.put(1, 1, "x"), std::nullopt);
  EXPECT_EQ(store->store.sync(), std::nullopt);
}

TEST_F(EtcdStoreTest, WhoWasAwayForTooLongChangesNothing) {
  auto stale = leader("stale");
  data.end_leases();
  auto fresh = leader("fresh");
  EXPECT_EQ(fresh->store.put(1, 2, "fresh"), std::nullopt);
  EXPECT_EQ(fresh->store.sync(), std::nullopt);
  // It does not know yet.
  EXPECT_EQ(stale->store.put(1, 1, "stale"), std::nullopt);
  EXPECT_THAT(stale->store.sync().value_or(""), HasSubstr("another manager"));
  EXPECT_TRUE(comes_true([&] { return stale->lost.load(); }));
  EXPECT_FALSE(stale->store.leads());
  EXPECT_THAT(stale->store.put(1, 1, "stale").value_or(""), HasSubstr("another manager"));
  EXPECT_THAT(stale->store.erase(1).value_or(""), HasSubstr("another manager"));
  EXPECT_THAT(content(fresh->store).records, ElementsAre("fresh"));
}

TEST_F(EtcdStoreTest, WithoutTheLeadSwitchesAreLeftAlone) {
  Steps steps;
  FakeSwitches switches{steps};
  auto store = leader("first");
  AgentsOfLeader agents(switches, store->store);
  const RemoveOrder removes[] = {{0, 1}};
  EXPECT_EQ(agents.remove(removes)[0].kind, Outcome::Kind::done);
  data.end_leases();
  EXPECT_TRUE(comes_true([&] { return store->lost.load(); })) << "found out when the lease was to be renewed";
  const auto before = steps.done;
  EXPECT_EQ(agents.remove(removes)[0].kind, Outcome::Kind::unknown);
  const InstallOrder installs[] = {{0, 1, "{}"}};
  EXPECT_EQ(agents.install(installs)[0].kind, Outcome::Kind::not_asked);
  EXPECT_EQ(steps.done, before);
}

TEST_F(EtcdStoreTest, AMemberThatFailsIsReplacedByAnother) {
  auto store = leader("first");
  one.reachable = false;
  EXPECT_EQ(store->store.put(1, 1, "x"), std::nullopt);
  EXPECT_EQ(store->store.sync(), std::nullopt);
  one.reachable = true;
  other.reachable = false;
  EXPECT_EQ(store->store.put(2, 2, "y"), std::nullopt);
  EXPECT_EQ(store->store.sync(), std::nullopt);
  EXPECT_THAT(content(store->store).records, ElementsAre("x", "y"));
}

TEST_F(EtcdStoreTest, WhatCouldNotBeWrittenIsWrittenLaterInItsOrder) {
  auto store = leader("first");
  one.reachable = other.reachable = false;
  EXPECT_EQ(store->store.put(1, 1, "x"), std::nullopt);
  EXPECT_THAT(store->store.sync().value_or(""), HasSubstr("no leader"));
  EXPECT_EQ(store->store.put(1, 1, "y"), std::nullopt);
  EXPECT_EQ(store->store.put(2, 2, "z"), std::nullopt);
  EXPECT_EQ(store->store.erase(2), std::nullopt);
  EXPECT_TRUE(store->store.leads()) << "the lease is good for a while";
  one.reachable = true;
  EXPECT_TRUE(comes_true([&] { return !store->store.sync(); }));
  EXPECT_THAT(content(store->store).records, ElementsAre("y"));
  EXPECT_EQ(content(store->store).last_generation, 2u);
}

TEST_F(EtcdStoreTest, AWriteWhoseAnswerIsLostIsMadeAgain) {
  auto store = leader("first");
  one.answers_writes = other.answers_writes = false;
  EXPECT_EQ(store->store.put(1, 1, "x"), std::nullopt);
  EXPECT_NE(store->store.sync(), std::nullopt);
  one.answers_writes = other.answers_writes = true;
  EXPECT_TRUE(comes_true([&] { return !store->store.sync(); }));
  EXPECT_THAT(content(store->store).records, ElementsAre("x"));
}

TEST_F(EtcdStoreTest, WithoutEtcdTheLeadEndsWithTheLease) {
  auto store = leader("first");
  one.reachable = other.reachable = false;
  EXPECT_TRUE(comes_true([&] { return store->lost.load(); }));
  EXPECT_FALSE(store->store.leads());
}

TEST_F(EtcdStoreTest, ManyWritesTravelTogether) {
  auto store = leader("first");
  one.reachable = other.reachable = false;
  for (GroupId group = 1; group <= 250; ++group) EXPECT_EQ(store->store.put(group, group, "x"), std::nullopt);
  EXPECT_NE(store->store.sync(), std::nullopt);
  const int before = data.transactions();
  one.reachable = true;
  EXPECT_TRUE(comes_true([&] { return !store->store.sync(); }));
  EXPECT_EQ(data.transactions() - before, 3);
  EXPECT_LE(data.largest(), 128) << "more etcd does not take";
  EXPECT_EQ(content(store->store).records.size(), 250u);
}

TEST_F(EtcdStoreTest, SeveralThreadsWaitForTheirWrites) {
  auto store = leader("first");
  std::vector<std::thread> threads;
  for (GroupId t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= 5; ++i) {
        EXPECT_EQ(store->store.put(t, i, std::to_string(t)), std::nullopt);
        EXPECT_EQ(store->store.sync(), std::nullopt);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_THAT(content(store->store).records, ElementsAre("1", "2", "3", "4"));
}

TEST_F(EtcdStoreTest, WhoWaitsCanBeEnded) {
  auto first = leader("first");
  auto second = open("second");
  std::thread waits([&] { EXPECT_EQ(second->lead(), std::nullopt); });
  second->stop = true;
  waits.join();
  EXPECT_FALSE(second->store.leads());
}

TEST_F(EtcdStoreTest, KeysOfANewerVersionAreLeftAlone) {
  etcdserverpb::TxnRequest newer;
  auto& put = *newer.add_success()->mutable_request_put();
  put.set_key("/t/version");
  put.set_value("2");
  data.txn(newer);
  {
    auto store = open("first");
    EXPECT_THAT(store->lead().value_or(""), HasSubstr("newer version"));
  }
  EXPECT_THAT(data.values(), ElementsAre(Pair("/t/version", "2")));
}

TEST_F(EtcdStoreTest, ANumberThatIsNoneIsAnError) {
  auto store = leader("first");
  etcdserverpb::TxnRequest wrong;
  auto& put = *wrong.add_success()->mutable_request_put();
  put.set_key("/t/generation");
  put.set_value("7x");
  data.txn(wrong);
  Store::Content out;
  EXPECT_THAT(store->store.load(out).value_or(""), HasSubstr("no number"));
}

TEST(EtcdReplies, QuestionsWithoutAnAnswerAreErrors) {
  etcdserverpb::TxnResponse reply;
  reply.set_succeeded(true);
  Store::Content out;
  EXPECT_THAT(read_etcd_content(reply, "/t", out).value_or(""), HasSubstr("0 responses to 3 questions"));
  EXPECT_THAT(etcd_version_mistake(reply, "/t").value_or(""), HasSubstr("0 responses to 1 question"));
  for (int i = 0; i < 3; ++i) reply.add_responses()->mutable_response_put();
  EXPECT_EQ(read_etcd_content(reply, "/t", out), std::nullopt) << "ranges without keys";
  EXPECT_THAT(out.records, IsEmpty());
}

}  // namespace
}  // namespace weft::inc::manager
