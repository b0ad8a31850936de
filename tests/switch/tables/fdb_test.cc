// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/fdb.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "switch/base/rng.h"

namespace weft::tables {
namespace {

using pipeline::kNoPort;
using pipeline::PortIndex;
using Learned = Fdb::Learned;

constexpr FdbKey kHost(0x020000000001, 10);

std::vector<Fdb::Entry> all_entries(const Fdb& fdb, std::size_t at_once) {
  std::vector<Fdb::Entry> entries;
  std::size_t cursor = 0;
  while (cursor != fdb.capacity()) {
    for (const auto& e : fdb.list(cursor, at_once)) entries.push_back(e);
  }
  return entries;
}

TEST(FdbKey, HoldsTheAddressAndTheVlan) {
  const FdbKey key(0xa1b2c3d4e5f6, 4094);
  EXPECT_EQ(key.mac().to_string(), "a1:b2:c3:d4:e5:f6");
  EXPECT_EQ(key.vid(), 4094);
  EXPECT_EQ(FdbKey::from_word(key.word()), key);
  EXPECT_NE(FdbKey(1, 2), FdbKey(2, 1));
}

TEST(Fdb, AnAddressIsFoundWhereItWasLearned) {
  Fdb fdb(100);
  EXPECT_EQ(fdb.find(kHost), kNoPort);
  EXPECT_EQ(fdb.learn(kHost, 3, 100), Learned::added);
  EXPECT_EQ(fdb.find(kHost), 3);
  EXPECT_EQ(fdb.find(FdbKey(0x020000000001, 11)), kNoPort);
  EXPECT_EQ(fdb.find(FdbKey(0x020000000002, 10)), kNoPort);
}

TEST(Fdb, AnAddressSeenAgainIsRefreshedAndOneSeenElsewhereMoves) {
  Fdb fdb(100);
  fdb.learn(kHost, 3, 100);
  EXPECT_EQ(fdb.learn(kHost, 3, 100), Learned::refreshed);
  EXPECT_EQ(fdb.learn(kHost, 3, 101), Learned::refreshed);
  EXPECT_EQ(all_entries(fdb, 9).at(0).last_seen_s, 101u);
  EXPECT_EQ(fdb.learn(kHost, 4, 101), Learned::moved);
  EXPECT_EQ(fdb.find(kHost), 4);
  EXPECT_EQ(all_entries(fdb, 9).size(), 1u);
}

TEST(Fdb, AStaticEntryNeitherMovesNorAgesNorIsFlushed) {
  Fdb fdb(100);
  EXPECT_TRUE(fdb.add_static(kHost, 5));
  EXPECT_EQ(fdb.learn(kHost, 3, 100), Learned::is_static);
  EXPECT_EQ(fdb.learn(kHost, 5, 100), Learned::is_static);
  EXPECT_EQ(fdb.find(kHost), 5);
  EXPECT_EQ(fdb.expire(1'000'000, 1), 0u);
  EXPECT_EQ(fdb.flush(5), 0u);
  EXPECT_EQ(fdb.flush(kNoPort), 0u);
  EXPECT_EQ(fdb.find(kHost), 5);
  EXPECT_TRUE(all_entries(fdb, 9).at(0).is_static);
}

TEST(Fdb, AStaticEntryReplacesALearnedOne) {
  Fdb fdb(100);
  fdb.learn(kHost, 3, 100);
  EXPECT_TRUE(fdb.add_static(kHost, 5));
  EXPECT_EQ(fdb.find(kHost), 5);
  EXPECT_EQ(all_entries(fdb, 9).size(), 1u);
}

TEST(Fdb, AnEntryExpiresExactlyAtItsAge) {
  Fdb fdb(100);
  fdb.learn(kHost, 3, 100);
  EXPECT_EQ(fdb.expire(399, 300), 0u);
  EXPECT_EQ(fdb.find(kHost), 3);
  EXPECT_EQ(fdb.expire(400, 300), 1u);
  EXPECT_EQ(fdb.find(kHost), kNoPort);
}

TEST(Fdb, AnEntrySeenByAWorkerWhoseClockIsAheadDoesNotExpire) {
  Fdb fdb(100);
  fdb.learn(kHost, 3, 101);
  EXPECT_EQ(fdb.expire(100, 1), 0u);
  EXPECT_EQ(fdb.find(kHost), 3);
}

TEST(Fdb, FlushTakesTheEntriesOfOnePortOrOfAll) {
  Fdb fdb(100);
  for (std::uint64_t i = 1; i <= 20; ++i) fdb.learn(FdbKey(i, 1), static_cast<PortIndex>(i % 4), 100);
  EXPECT_EQ(fdb.flush(2), 5u);
  for (std::uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(fdb.find(FdbKey(i, 1)) == kNoPort, i % 4 == 2);
  EXPECT_EQ(fdb.flush(kNoPort), 15u);
  EXPECT_TRUE(all_entries(fdb, 9).empty());
}

// What workers remember of the database is answers with a port in them.
TEST(Fdb, TheGenerationChangesWithEveryPortThatWasFoundAndOnlyThen) {
  Fdb fdb(100);
  std::uint32_t last = fdb.generation();
  const auto changed = [&] { return std::exchange(last, fdb.generation()) != fdb.generation(); };
  fdb.learn(kHost, 3, 100);
  EXPECT_FALSE(changed()) << "nobody has found it anywhere else";
  fdb.learn(kHost, 3, 101);
  EXPECT_FALSE(changed());
  fdb.learn(kHost, 4, 101);
  EXPECT_TRUE(changed());
  fdb.expire(102, 300);
  EXPECT_FALSE(changed());
  fdb.flush(9);
  EXPECT_FALSE(changed());
  fdb.flush(4);
  EXPECT_TRUE(changed());
  fdb.add_static(kHost, 5);
  EXPECT_FALSE(changed());
  fdb.add_static(kHost, 6);
  EXPECT_TRUE(changed());
  fdb.learn(kHost, 7, 103);
  EXPECT_FALSE(changed());
}

// Host addresses as they come: random, counting up in the last byte, and counting up in the middle.
std::vector<FdbKey> addresses(int pattern, std::size_t count) {
  std::vector<FdbKey> keys;
  Rng rng(static_cast<std::uint64_t>(pattern));
  for (std::uint64_t i = 0; i < count; ++i) {
    switch (pattern) {
      case 0:
        keys.emplace_back(rng.next() >> 16 & ~(std::uint64_t{1} << 40), 1);
        break;
      case 1:
        keys.emplace_back(0x525400000000 + i, 1);
        break;
      case 2:
        keys.emplace_back(0x020000000001 + (i << 16), 1);
        break;
      default:
        keys.emplace_back(0x020000000001, static_cast<std::uint16_t>(1 + i % 4094));
        break;
    }
  }
  return keys;
}

TEST(Fdb, WhatIsMeantToFitFits) {
  for (const std::size_t count :
       {1u, 2u, 3u, 6u, 7u, 12u, 64u, 102u, 1000u, 6553u, 8192u, 13'107u, 52'428u, 65'536u, 104'857u}) {
    for (int pattern = 0; pattern < (count <= 4094 ? 4 : 3); ++pattern) {
      Fdb fdb(count);
      std::size_t refused = 0;
      const auto keys = addresses(pattern, count);
      for (const FdbKey key : keys) refused += fdb.learn(key, 1, 100) == Learned::full ? 1 : 0;
      EXPECT_EQ(refused, 0u) << count << " addresses of pattern " << pattern << " in " << fdb.capacity() << " slots";
    }
  }
}

TEST(Fdb, AFullTableKeepsWhatItHasAndSaysSo) {
  Fdb fdb(16);
  std::map<std::uint64_t, PortIndex> stored;
  std::size_t refused = 0;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    const auto port = static_cast<PortIndex>(i % 8);
    if (fdb.learn(FdbKey(i, 1), port, 100) == Learned::full) {
      ++refused;
    } else {
      stored[i] = port;
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_LE(stored.size(), fdb.capacity());
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    EXPECT_EQ(fdb.find(FdbKey(i, 1)), stored.contains(i) ? stored.at(i) : kNoPort);
  }
  EXPECT_FALSE(fdb.add_static(FdbKey(0xffff, 1), 3) && fdb.find(FdbKey(0xffff, 1)) != 3);
  fdb.flush(kNoPort);
  EXPECT_EQ(fdb.learn(FdbKey(999, 1), 2, 101), Learned::added);
}

TEST(Fdb, TheListShowsEveryEntryOnceInPiecesOfAnySize) {
  Fdb fdb(200);
  std::map<std::uint64_t, PortIndex> model;
  for (std::uint64_t i = 1; i <= 150; ++i) {
    fdb.learn(FdbKey(i, 7), static_cast<PortIndex>(i % 5), static_cast<std::uint32_t>(i));
    model[FdbKey(i, 7).word()] = static_cast<PortIndex>(i % 5);
  }
  for (const std::size_t at_once : {1u, 3u, 16u, 1000u}) {
    std::map<std::uint64_t, PortIndex> listed;
    for (const auto& e : all_entries(fdb, at_once)) {
      EXPECT_TRUE(listed.emplace(e.key.word(), e.port).second) << "listed twice";
      EXPECT_EQ(e.last_seen_s, e.key.word() >> 16);
      EXPECT_FALSE(e.is_static);
    }
    EXPECT_EQ(listed, model);
  }
}

TEST(Fdb, AgreesWithAMapUnderRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    struct Known {
      PortIndex port;
      bool is_static;
      std::uint32_t seen;
    };
    Rng rng(seed);
    Fdb fdb(400);
    std::map<std::uint64_t, Known> model;
    std::uint32_t now_s = 1000;
    for (int i = 0; i < 20'000; ++i) {
      const FdbKey key(1 + rng.below(150), static_cast<std::uint16_t>(1 + rng.below(2)));
      const auto port = static_cast<PortIndex>(rng.below(6));
      const auto known = model.find(key.word());
      switch (rng.below(100)) {
        case 0:
          ASSERT_TRUE(fdb.add_static(key, port));
          model[key.word()] = {port, true, 0};
          break;
        case 1: {
          const std::size_t removed = fdb.flush(port);
          ASSERT_EQ(removed,
                    std::erase_if(model, [&](const auto& e) { return !e.second.is_static && e.second.port == port; }));
          break;
        }
        case 2: {
          const std::size_t removed = fdb.expire(now_s, 50);
          ASSERT_EQ(removed, std::erase_if(model, [&](const auto& e) {
                      return !e.second.is_static && now_s - e.second.seen >= 50;
                    }));
          break;
        }
        case 3:
          now_s += static_cast<std::uint32_t>(rng.below(20));
          break;
        default:
          if (rng.below(2) == 0) {
            ASSERT_EQ(fdb.find(key), known == model.end() ? kNoPort : known->second.port);
            break;
          }
          const Learned expected = known == model.end()         ? Learned::added
                                   : known->second.is_static    ? Learned::is_static
                                   : known->second.port != port ? Learned::moved
                                                                : Learned::refreshed;
          ASSERT_EQ(fdb.learn(key, port, now_s), expected);
          if (expected != Learned::is_static) model[key.word()] = {port, false, now_s};
      }
    }
    ASSERT_EQ(all_entries(fdb, 11).size(), model.size());
  }
}

// One thread gives the slots of a tiny table to one key after the other, the other one looks the keys up. The ports of
// a key say whose they are: key k is only ever learned on ports 8 k to 8 k + 7.
TEST(Fdb, AReaderNeverGetsAPortThatTheKeyNeverHad) {
  constexpr int kRounds = 1'000'000;
  constexpr std::uint64_t kKeys = 8;
  Fdb fdb(1);
  std::atomic<bool> running{true};
  std::thread writer([&] {
    Rng rng(1);
    for (int i = 0; i < kRounds; ++i) {
      const std::uint64_t k = rng.below(kKeys);
      fdb.learn(FdbKey(1 + k, 1), static_cast<PortIndex>(k * 8 + rng.below(8)), 1);
      fdb.flush(kNoPort);
    }
    running = false;
  });
  std::uint64_t wrong = 0;
  while (running.load(std::memory_order_relaxed)) {
    for (std::uint64_t k = 0; k < kKeys; ++k) {
      const PortIndex port = fdb.find(FdbKey(1 + k, 1));
      wrong += port != kNoPort && port / 8 != k ? 1 : 0;
    }
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

// Two workers learn and look up, and list, while a third thread expires and flushes.
TEST(Fdb, ManyThreadsLeaveNoWrongEntry) {
  constexpr int kRounds = 200'000;
  constexpr std::uint64_t kKeys = 24;
  Fdb fdb(4);
  std::atomic<int> running{2};
  std::atomic<std::uint64_t> wrong{0};
  const auto work = [&](std::uint64_t seed) {
    Rng rng(seed);
    for (int i = 0; i < kRounds; ++i) {
      const std::uint64_t learned = rng.below(kKeys);
      fdb.learn(FdbKey(1 + learned, 1), static_cast<PortIndex>(learned * 8 + rng.below(8)),
                static_cast<std::uint32_t>(rng.below(3)));
      const std::uint64_t wanted = rng.below(kKeys);
      const PortIndex port = fdb.find(FdbKey(1 + wanted, 1));
      if (port != kNoPort && port / 8 != wanted) ++wrong;
    }
    --running;
  };
  std::thread one(work, 1);
  std::thread two(work, 2);
  Rng rng(3);
  for (std::uint32_t i = 0; running.load() != 0; ++i) {
    if (i % 4 == 0) {
      fdb.flush(static_cast<PortIndex>(rng.below(kKeys * 8)));
    } else if (i % 64 == 1) {
      fdb.flush(kNoPort);
    } else {
      fdb.expire(static_cast<std::uint32_t>(rng.below(4)), 1);
    }
    for (const auto& e : all_entries(fdb, 3)) {
      if (e.key.word() >> 16 != std::uint64_t{e.port} / 8 + 1) ++wrong;
    }
    std::this_thread::yield();
  }
  one.join();
  two.join();
  EXPECT_EQ(wrong.load(), 0u);
  for (const auto& e : all_entries(fdb, 3)) EXPECT_EQ(fdb.find(e.key) / 8 + 1u, e.key.word() >> 16);
}

// Two workers learn an address that is new to both at the same instant. Which of its two entries is the first, and
// found from then on, may change with the second: who remembers an answer has to ask again.
TEST(Fdb, ASecondEntryOfAnAddressChangesTheGeneration) {
  constexpr std::uint64_t kRounds = 100'000;
  constexpr int kSpins = 1000;
  Fdb fdb(4);
  std::atomic<std::uint64_t> round{0};
  std::atomic<std::uint64_t> ready{0};
  const auto wait_for = [](const std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    for (int i = 0; counter.load(std::memory_order_acquire) < value; ++i) {
      if (i > kSpins) std::this_thread::yield();
    }
  };
  std::thread other([&] {
    for (std::uint64_t r = 1; r <= kRounds; ++r) {
      wait_for(round, r);
      fdb.learn(FdbKey(r, 1), 3, 1);
      ready.store(r, std::memory_order_release);
    }
  });
  std::uint64_t untold = 0;
  for (std::uint64_t r = 1; r <= kRounds; ++r) {
    const std::uint32_t before = fdb.generation();
    round.store(r, std::memory_order_release);
    fdb.learn(FdbKey(r, 1), 3, 1);
    wait_for(ready, r);
    untold += all_entries(fdb, 64).size() > 1 && fdb.generation() == before ? 1 : 0;
    fdb.flush(kNoPort);
  }
  other.join();
  EXPECT_EQ(untold, 0u);
}

// The word that marks a slot while it is filled must not be a key that a peer can ask for.
TEST(Fdb, TheZeroAddressIsNeverFoundWhileOthersAreLearned) {
  constexpr int kRounds = 300'000;
  Fdb fdb(4);
  std::atomic<bool> running{true};
  std::thread learner([&] {
    Rng rng(1);
    for (int i = 0; i < kRounds; ++i) {
      fdb.learn(FdbKey(1 + rng.below(64), 1), 3, 1);
      if (i % 4 == 0) fdb.flush(kNoPort);
    }
    running = false;
  });
  std::uint64_t found = 0;
  while (running.load()) {
    for (std::uint16_t vid = 1; vid <= 4; ++vid) found += fdb.find(FdbKey(0, vid)) != kNoPort ? 1 : 0;
  }
  learner.join();
  EXPECT_EQ(found, 0u);
}

TEST(Fdb, SwapExchangesTheEntriesAndTellsBothSidesReaders) {
  Fdb one(64);
  Fdb two(64);
  one.learn(kHost, 3, 7);
  const std::uint32_t before = two.generation();
  one.swap(two);
  EXPECT_EQ(one.find(kHost), kNoPort);
  EXPECT_EQ(two.find(kHost), 3);
  EXPECT_NE(two.generation(), before);
}

}  // namespace
}  // namespace weft::tables
