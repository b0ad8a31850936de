// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/qp_table.h"

#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "switch/base/time.h"

namespace weft::tables {
namespace {

using wire::Qpn;

QpKey v4_key(std::uint32_t source, std::uint32_t destination, std::uint32_t qpn) {
  return {std::uint64_t{source} << 32 | destination, qpn};
}

std::uint32_t insert(QpTable& table, const QpKey& key) {
  QpTable::Moved moved;
  return table.insert(key, 5 * kSecond, moved);
}

// Looks a key up as a burst does.
std::uint32_t find_in_phases(const QpTable& table, const QpKey& key) {
  std::uint32_t candidate = QpTable::hash_of(key);
  table.candidates({&candidate, 1});
  return table.matches(candidate, key) ? candidate : table.find(key);
}

std::array<std::uint8_t, 32> v6_addresses(std::uint8_t source, std::uint8_t destination) {
  std::array<std::uint8_t, 32> a{};
  a[0] = a[16] = 0xfd;
  a[15] = source;
  a[31] = destination;
  return a;
}

TEST(QpTable, AKeyIsFoundWhereItWasInserted) {
  QpTable table(100);
  const QpKey key = v4_key(1, 2, 17);
  EXPECT_EQ(table.find(key), QpTable::kNone);
  const std::uint32_t position = insert(table, key);
  ASSERT_NE(position, QpTable::kNone);
  EXPECT_EQ(table.find(key), position);
  EXPECT_EQ(find_in_phases(table, key), position);
  EXPECT_EQ(table.key(position), key);
  EXPECT_EQ(table.size(), 1u);
}

TEST(QpTable, KeysThatDifferInOneFieldAreDifferent) {
  QpTable table(100);
  const std::uint32_t position = insert(table, v4_key(1, 2, 17));
  ASSERT_NE(position, QpTable::kNone);
  for (const QpKey& other : {v4_key(2, 1, 17), v4_key(1, 2, 18), v4_key(1, 3, 17), v4_key(3, 2, 17),
                             QpKey{v4_key(1, 2, 17).addresses, 17 | QpEntry::kV6}}) {
    EXPECT_EQ(find_in_phases(table, other), QpTable::kNone);
  }
}

TEST(QpTable, ANewEntryIsZeroButForItsKeyAndTimes) {
  QpTable table(100);
  const std::uint32_t position = insert(table, v4_key(1, 2, 17));
  const QpEntry& e = table.entry(position);
  EXPECT_EQ(e.packets + e.bytes + e.tally + e.window, 0u);
  EXPECT_EQ(e.transport(), QpTransport::unknown);
  EXPECT_TRUE(e.request.has(RequestFlag::unsynced));
  EXPECT_FALSE(e.paired());
  EXPECT_EQ(e.last_seen, tick_of(5 * kSecond));
  EXPECT_EQ(table.detail(position).first_seen, age_tick_of(5 * kSecond));
}

TEST(QpTable, ReverseSwapsTheAddresses) {
  const QpTable table(100);
  const QpKey there = v4_key(0x0a000001, 0x0a000002, 17);
  EXPECT_EQ(table.reverse(there, Qpn(5)), v4_key(0x0a000002, 0x0a000001, 5));
  EXPECT_EQ(table.source(there).to_string(), "10.0.0.1");
  EXPECT_EQ(table.destination(there).to_string(), "10.0.0.2");
}

TEST(QpTable, TakesExactlyItsCapacityWhateverTheKeysLookLike) {
  // Sequential QPNs between neighbouring addresses are what real hosts have.
  for (const std::uint32_t capacity : {1u, 2u, 15u, 16u, 17u, 1000u, 50000u}) {
    QpTable table(capacity);
    std::uint32_t made = 0;
    for (std::uint32_t i = 0; i < capacity; ++i) {
      made += insert(table, v4_key(0x0a000000 + i % 7, 0x0a000100 + i / 7 % 5, 2 + i / 35)) != QpTable::kNone ? 1 : 0;
    }
    EXPECT_EQ(made, capacity);
    EXPECT_EQ(insert(table, v4_key(9, 9, 9)), QpTable::kNone) << capacity;
    for (std::uint32_t i = 0; i < capacity; ++i) {
      const QpKey key = v4_key(0x0a000000 + i % 7, 0x0a000100 + i / 7 % 5, 2 + i / 35);
      const std::uint32_t position = find_in_phases(table, key);
      ASSERT_NE(position, QpTable::kNone);
      ASSERT_EQ(table.key(position), key);
    }
  }
}

// One goes and another one comes, again and again. With few buckets, and all of them nearly full, these failed.
TEST(QpTable, AFullTableTakesAKeyForEachThatGoes) {
  for (const std::uint32_t capacity : {30u, 60u, 100u, 300u, 1000u}) {
    std::mt19937_64 random(capacity);
    QpTable table(capacity);
    std::vector<QpKey> keys;
    for (int step = 0; step < 300'000; ++step) {
      if (keys.size() == capacity) {
        QpKey& any = keys[random() % capacity];
        table.erase(table.find(any));
        any = keys.back();
        keys.pop_back();
      }
      const QpKey key = v4_key(static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random()), 17);
      if (table.find(key) != QpTable::kNone) continue;
      ASSERT_NE(insert(table, key), QpTable::kNone) << "capacity " << capacity << ", step " << step;
      keys.push_back(key);
    }
  }
}

TEST(QpTable, AMovedEntryKeepsItsStateAndItsPeerFollows) {
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr std::uint32_t kCapacity = 3000;
  QpTable table(kCapacity);
  std::uint32_t moves = 0, last = QpTable::kNone;
  for (std::uint32_t i = 0; i < kCapacity; ++i) {
    QpKey key = v4_key(random(), random(), 2 + i);
    QpTable::Moved moved;
    const std::uint32_t position = table.insert(key, 0, moved);
    ASSERT_NE(position, QpTable::kNone);
    if (moved.from != QpTable::kNone) {
      ++moves;
      if (last == moved.from) last = moved.to;
      EXPECT_EQ(position, moved.from);
    }
    table.entry(position).packets = key.addresses;
    table.detail(position).rnr_naks = key.qp & 0xffffff;
    if (i % 2 == 1) {
      table.entry(position).peer = last;
      table.entry(last).peer = position;
    }
    last = position;
  }
  EXPECT_GT(moves, 0u) << "a full table of this size has moved entries";
  for (std::uint32_t position = 0; position < table.slots(); ++position) {
    const QpEntry& e = table.entry(position);
    if (e.is_free()) continue;
    EXPECT_EQ(e.packets, e.addresses);
    EXPECT_EQ(table.detail(position).rnr_naks, table.key(position).qp);
    EXPECT_EQ(table.entry(e.peer).peer, position);
    EXPECT_EQ(table.key(e.peer).qp ^ 1, table.key(position).qp) << "QPNs 2i and 2i + 1 were paired";
  }
}

// Every operation against std::map, around the capacity.
TEST(QpTable, BehavesLikeAMapUnderRandomOperations) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  constexpr std::uint32_t kCapacity = 600;
  QpTable table(kCapacity);
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> model;  // key -> mark in `packets`
  std::uint64_t next_mark = 1;
  for (int step = 0; step < 200'000; ++step) {
    const QpKey key = v4_key(random() % 4, random() % 4, 2 + random() % 60);
    const auto known = model.find({key.addresses, key.qp});
    const std::uint32_t position = find_in_phases(table, key);
    ASSERT_EQ(position != QpTable::kNone, known != model.end()) << "step " << step;
    if (known != model.end()) {
      ASSERT_EQ(table.entry(position).packets, known->second);
      if (random() % 3 == 0) {
        table.erase(position);
        model.erase(known);
      }
    } else {
      const std::uint32_t added = insert(table, key);
      ASSERT_EQ(added != QpTable::kNone, model.size() < kCapacity) << "step " << step;
      if (added != QpTable::kNone) {
        table.entry(added).packets = next_mark;
        model[{key.addresses, key.qp}] = next_mark++;
      }
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

TEST(QpTable, NeedsAtMost128BytesPerQueuePairOfAMillion) {
  for (const std::uint32_t capacity : {1'000'000u, 1u << 20}) {
    const QpTable table(capacity);
    const double bytes = static_cast<double>(table.memory_bytes()) / capacity;
    std::cout << capacity << " queue pairs: " << bytes << " bytes each\n";
    EXPECT_LE(bytes, 128.0);
  }
}

// The last two percent of the capacity may find no place: where both buckets of a key are full, and so are those of
// the entries in them, the packet's queue pair stays untracked.
TEST(QpTable, MadeForTwoToThe20HoldsAMillionRandomKeysAtOnce) {
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  constexpr std::uint32_t kWanted = 1'000'000;
  QpTable table(1u << 20);
  std::vector<QpKey> keys;
  while (table.size() < kWanted) {
    const QpKey key{random(), 2 + static_cast<std::uint32_t>(random() % 0xfffff0)};
    if (table.find(key) != QpTable::kNone) continue;
    ASSERT_NE(insert(table, key), QpTable::kNone) << "at " << table.size();
    keys.push_back(key);
  }
  for (const QpKey& key : keys) ASSERT_EQ(table.key(find_in_phases(table, key)), key);
}

TEST(QpTable, V6EntriesKeepTheirAddressPairAlive) {
  QpTable table(100);
  const auto bytes = v6_addresses(1, 2);
  const std::uint32_t id = table.pairs().acquire(bytes.data());
  const std::uint32_t position = insert(table, {id, 17 | QpEntry::kV6});
  table.pairs().release(id);
  EXPECT_EQ(table.pairs().find(bytes.data()), id);
  EXPECT_EQ(table.source(table.key(position)).to_string(), "fd00::1");
  table.erase(position);
  EXPECT_EQ(table.pairs().find(bytes.data()), AddressPairs::kNone);
}

}  // namespace
}  // namespace weft::tables
