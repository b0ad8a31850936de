// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/rss.h"

#include <gtest/gtest.h>
#include <rte_thash.h>

#include <algorithm>
#include <array>
#include <set>

#include "switch/base/rng.h"
#include "switch/pipeline/owner_table.h"

namespace weft::ports {
namespace {

std::uint32_t card_hash(std::uint32_t source, std::uint32_t destination) {
  std::uint32_t tuple[] = {source, destination};
  return rte_softrss(tuple, 2, rss_key());
}

TEST(Rss, SoftwareKnowsWhichEntryACardChooses) {
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto a = static_cast<std::uint32_t>(rng.next()), b = static_cast<std::uint32_t>(rng.next());
    const std::uint32_t hash = card_hash(a, b);
    ASSERT_EQ(card_hash(b, a), hash);
    const std::uint32_t flow = wire::rss_flow_v4(std::uint64_t{a} << 32 | b);
    ASSERT_EQ(wire::rss_flow_v4(std::uint64_t{b} << 32 | a), flow);
    for (const std::uint32_t entries : {128u, 512u}) ASSERT_EQ(wire::rss_flow_of_entry(hash % entries), flow);
  }
}

std::uint32_t card_hash(const std::array<std::uint32_t, 8>& addresses) {
  std::array<std::uint32_t, 8> tuple = addresses;
  return rte_softrss(tuple.data(), static_cast<std::uint32_t>(tuple.size()), rss_key());
}

// Two IPv6 addresses as eight words in host order, and the wire::pair_hash_v6() that parsing stores.
std::uint32_t pair_hash(const std::array<std::uint32_t, 8>& addresses) {
  std::array<std::uint8_t, 32> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(addresses[i / 4] >> (24 - i % 4 * 8));
  const std::uint8_t *source = bytes.data(), *destination = source + 16;
  return wire::pair_hash_v6(wire::hash_v6(source, destination).unordered, source, destination);
}

std::array<std::uint32_t, 8> random_v6_pair(Rng& rng) {
  std::array<std::uint32_t, 8> words{};
  for (auto& word : words) word = static_cast<std::uint32_t>(rng.next());
  return words;
}

TEST(Rss, SoftwareKnowsWhichEntryACardChoosesForIpv6) {
  Rng rng(3);
  for (int i = 0; i < 100'000; ++i) {
    const auto there = random_v6_pair(rng);
    auto back = there;
    std::rotate(back.begin(), back.begin() + 4, back.end());
    const std::uint32_t hash = card_hash(there);
    ASSERT_EQ(card_hash(back), hash);
    const std::uint32_t pair = pair_hash(there);
    ASSERT_EQ(pair_hash(back), pair);
    for (const std::uint32_t entries : {128u, 512u}) {
      ASSERT_EQ(wire::rss_flow_of_entry(hash % entries), pair % wire::kRssEntries);
    }
  }
}

TEST(Rss, ACardBringsIpv6PacketsToTheWorkerThatTheyBelongTo) {
  constexpr std::uint32_t kEntries = 512;
  Rng rng(4);
  for (const std::uint16_t workers : {2, 3, 14}) {
    pipeline::OwnerTable owners;
    owners.spread_as_cards(workers);
    for (std::uint16_t owner = 0; owner < workers; ++owner) {
      const std::vector<std::uint16_t> table = RssQueues{owner, workers, workers}.table(kEntries);
      for (int i = 0; i < 1000; ++i) {
        const auto addresses = random_v6_pair(rng);
        wire::Parsed packet{};
        packet.flags = wire::ParsedFlag::ipv6;
        packet.stored_pair_hash = pair_hash(addresses);
        const std::uint16_t queue = table[card_hash(addresses) % kEntries];
        ASSERT_EQ((owner + queue) % workers, owners.worker_of(packet, workers));
      }
    }
  }
}

TEST(Rss, EveryBitOfAnAddressChangesTheEntry) {
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_NE(wire::rss_flow_v4(std::uint64_t{1} << bit), wire::rss_flow_v4(0)) << bit;
  }
}

TEST(Rss, ACardBringsPacketsToTheWorkerThatTheyBelongTo) {
  constexpr std::uint32_t kEntries = 512;
  Rng rng(2);
  for (const std::uint16_t workers : {2, 3, 14}) {
    const pipeline::RssWorkers owners(workers);
    for (std::uint16_t owner = 0; owner < workers; ++owner) {
      const std::vector<std::uint16_t> table = RssQueues{owner, workers, workers}.table(kEntries);
      ASSERT_EQ(table.size(), kEntries);
      for (int i = 0; i < 1000; ++i) {
        const auto a = static_cast<std::uint32_t>(rng.next()), b = static_cast<std::uint32_t>(rng.next());
        const std::uint16_t queue = table[card_hash(a, b) % kEntries];
        ASSERT_LT(queue, workers);
        // The owner of the port polls the first queue, and the workers behind it the others.
        ASSERT_EQ((owner + queue) % workers, owners.of_v4(std::uint64_t{a} << 32 | b));
      }
    }
  }
}

TEST(Rss, WhereFewerWorkersPollAPortTheyGetAllOfIt) {
  const std::vector<std::uint16_t> table = RssQueues{3, 8, 2}.table(128);
  EXPECT_EQ(std::set<std::uint16_t>(table.begin(), table.end()), (std::set<std::uint16_t>{0, 1}));
  EXPECT_EQ(std::count(table.begin(), table.end(), 0), 64);
}

TEST(Rss, ATableThatSoftwareDoesNotKnowIsLeftAlone) {
  EXPECT_NE(spread_by_table(0, 64, {0, 2, 2}), "");
  EXPECT_NE(spread_by_table(0, 200, {0, 2, 2}), "");
}

}  // namespace
}  // namespace weft::ports
