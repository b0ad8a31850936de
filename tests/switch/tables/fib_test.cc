// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/fib.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "switch/base/rcu.h"
#include "switch/base/rng.h"

namespace weft::tables {
namespace {
using wire::IpAddress;
using wire::IpPrefix;

constexpr std::uint32_t kNone = 7;
constexpr std::size_t kNeverLarge = ~std::size_t{0};
using V6 = std::array<std::uint8_t, 16>;

// The oracle: every route is looked at.
std::uint32_t best_match(const std::vector<Fib::Route>& routes, const IpAddress& address) {
  int length = -1;
  std::uint32_t value = kNone;
  for (const auto& route : routes) {
    if (int{route.prefix.length} > length && route.prefix.contains(address)) {
      length = route.prefix.length;
      value = route.value;
    }
  }
  return value;
}

// An address whose bytes come from few values, so that prefixes nest and collide.
IpAddress clustered(Rng& rng, bool v6) {
  V6 bytes;
  for (auto& b : bytes) {
    const auto choice = rng.below(8);
    b = static_cast<std::uint8_t>(choice < 3 ? 0 : choice < 6 ? 0xff : choice == 6 ? 1 : rng.next());
  }
  if (v6) return IpAddress::v6(bytes);
  return IpAddress::v4(std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
                       bytes[3]);
}

std::vector<Fib::Route> random_routes(Rng& rng, std::size_t count, bool v6) {
  std::map<IpPrefix, std::uint32_t> unique;
  while (unique.size() < count) {
    const auto length = static_cast<std::uint8_t>(rng.below(v6 ? 129 : 33));
    unique[IpPrefix{clustered(rng, v6), length}.network()] = static_cast<std::uint32_t>(rng.below(1u << 31));
  }
  std::vector<Fib::Route> routes;
  for (const auto& [prefix, value] : unique) routes.push_back({prefix, value});
  for (std::size_t i = routes.size(); i > 1; --i) std::swap(routes[i - 1], routes[rng.below(i)]);
  return routes;
}

// First and last address of the prefix, and the neighbours of both.
std::vector<IpAddress> edges(const IpPrefix& prefix) {
  V6 first = prefix.network().address.bytes();
  V6 last = first;
  const unsigned bits = (prefix.address.is_v6() ? 0u : 96u) + prefix.length;
  for (unsigned bit = bits; bit < 128; ++bit) last[bit / 8] |= static_cast<std::uint8_t>(0x80u >> bit % 8);
  V6 before = first;
  for (std::size_t i = 16; i-- > 0 && before[i]-- == 0;) {
  }
  V6 after = last;
  for (std::size_t i = 16; i-- > 0 && ++after[i] == 0;) {
  }
  std::vector<IpAddress> found;
  for (const V6& bytes : {first, last, before, after}) {
    if (prefix.address.is_v6()) {
      found.push_back(IpAddress::v6(bytes));
    } else {
      found.push_back(IpAddress::v4(std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 |
                                    std::uint32_t{bytes[14]} << 8 | bytes[15]));
    }
  }
  return found;
}

std::vector<std::uint32_t> look_up(const Fib& fib, const std::vector<IpAddress>& addresses, bool v6) {
  std::vector<std::uint32_t> values(addresses.size());
  if (v6) {
    std::vector<V6> keys;
    for (const auto& a : addresses) keys.push_back(a.bytes());
    fib.lookup(std::span<const V6>(keys), values);
  } else {
    std::vector<std::uint32_t> keys;
    for (const auto& a : addresses) keys.push_back(a.v4_value());
    fib.lookup(std::span<const std::uint32_t>(keys), values);
  }
  return values;
}

struct Case {
  const char* name;
  bool v6;
  bool large;
};

class FibAgainstLinearScan : public testing::TestWithParam<Case> {};

TEST_P(FibAgainstLinearScan, EveryLookupFindsTheLongestMatch) {
  const auto [name, v6, large] = GetParam();
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    Rng rng(seed);
    const std::size_t count = seed == 1 ? 0 : seed == 2 ? 1 : 100 + rng.below(400);
    const auto routes = random_routes(rng, count, v6);
    const Fib fib(routes, kNone, large ? 0 : kNeverLarge);
    EXPECT_EQ(v6 ? fib.large_v6() : fib.large_v4(), large && count > 0) << name;
    std::vector<IpAddress> addresses;
    for (const auto& route : routes) {
      const auto found = edges(route.prefix);
      addresses.insert(addresses.end(), found.begin(), found.end());
    }
    for (int i = 0; i < 500; ++i) addresses.push_back(clustered(rng, v6));
    const auto values = look_up(fib, addresses, v6);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      ASSERT_EQ(values[i], best_match(routes, addresses[i])) << addresses[i].to_string() << " seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, FibAgainstLinearScan,
                         testing::Values(Case{"v4_small", false, false}, Case{"v4_large", false, true},
                                         Case{"v6_small", true, false}, Case{"v6_large", true, true}),
                         [](const auto& test) { return test.param.name; });

std::uint32_t one(const Fib& fib, const char* address) {
  const IpAddress a = *IpAddress::parse(address);
  return look_up(fib, {a}, a.is_v6()).front();
}

Fib::Route route(const char* prefix, std::uint32_t value) {
  return {*IpPrefix::parse(prefix), value};
}

TEST(Fib, TheLongestOfNestedPrefixesWins) {
  const std::vector<Fib::Route> routes{route("10.0.0.0/8", 1), route("10.1.0.0/16", 2), route("10.1.2.0/23", 3),
                                       route("10.1.2.3/32", 4)};
  const Fib fib(routes, kNone, 1024);
  EXPECT_EQ(one(fib, "10.2.0.0"), 1u);
  EXPECT_EQ(one(fib, "10.1.4.0"), 2u);
  EXPECT_EQ(one(fib, "10.1.3.255"), 3u);
  EXPECT_EQ(one(fib, "10.1.2.3"), 4u);
  EXPECT_EQ(one(fib, "11.0.0.0"), kNone);
}

TEST(Fib, TheDefaultRouteMatchesWhatNothingElseMatches) {
  const std::vector<Fib::Route> routes{route("0.0.0.0/0", 1), route("::/0", 2), route("192.0.2.0/24", 3)};
  for (const std::size_t threshold : {std::size_t{0}, kNeverLarge}) {
    const Fib fib(routes, kNone, threshold);
    EXPECT_EQ(one(fib, "255.255.255.255"), 1u);
    EXPECT_EQ(one(fib, "192.0.2.255"), 3u);
    EXPECT_EQ(one(fib, "ffff::"), 2u);
  }
}

TEST(Fib, HostBitsOfAPrefixAreIgnored) {
  const std::vector<Fib::Route> routes{route("10.0.0.129/24", 1), route("2001:db8::1/64", 2)};
  const Fib fib(routes, kNone, 1024);
  EXPECT_EQ(one(fib, "10.0.0.1"), 1u);
  EXPECT_EQ(one(fib, "2001:db8::ffff"), 2u);
}

TEST(Fib, AFamilyIsLargeOnlyAboveTheThreshold) {
  const std::vector<Fib::Route> routes{route("10.0.0.0/24", 1), route("10.0.1.0/24", 2), route("2001:db8::/64", 3)};
  EXPECT_FALSE(Fib(routes, kNone, 2).large_v4());
  EXPECT_TRUE(Fib(routes, kNone, 1).large_v4());
  EXPECT_FALSE(Fib(routes, kNone, 1).large_v6());
}

// The values of one table are all equal, so a reader that saw two of them mixed, or freed memory, would notice.
void read_while_tables_are_replaced(std::size_t large_table_routes, std::uint32_t updates) {
  constexpr std::uint16_t kReaders = 2;
  const auto make = [&](std::uint32_t value) {
    std::vector<Fib::Route> routes{route("0.0.0.0/0", value)};
    for (std::uint32_t i = 0; i < 32; ++i) {
      routes.push_back({{IpAddress::v4(0x0a000000 + (i << 8)), 24}, value});
      routes.push_back({{IpAddress::v4(0x0a000000 + (i << 8) + i), 32}, value});
    }
    return std::make_unique<const Fib>(routes, kNone, large_table_routes);
  };
  RcuDomain domain(kReaders);
  RcuCell<Fib> cell(domain, make(0));
  std::atomic<bool> stop{false};
  std::atomic<int> mixed{0};
  std::vector<std::thread> readers;
  for (std::uint16_t reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&, reader] {
      Rng rng(reader + 1);
      std::uint32_t newest = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        domain.quiescent(reader);
        const Fib& fib = cell.read();
        std::array<std::uint32_t, 32> keys;
        std::array<std::uint32_t, 32> values;
        for (auto& key : keys) key = 0x0a000000 + static_cast<std::uint32_t>(rng.below(0x4000));
        fib.lookup(std::span<const std::uint32_t>(keys), values);
        const bool equal = std::all_of(values.begin(), values.end(), [&](auto v) { return v == values[0]; });
        if (!equal || values[0] < newest) mixed.fetch_add(1);
        newest = values[0];
      }
    });
  }
  for (std::uint32_t update = 1; update <= updates; ++update) {
    cell.replace(make(update));
    EXPECT_EQ(cell.read().large_v4(), large_table_routes == 0);
    // Two large tables at a time fit into the memory of the test.
    while (domain.pending() != 0) {
      std::this_thread::yield();
      domain.reclaim();
    }
  }
  stop.store(true);
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(mixed.load(), 0);
}

TEST(Fib, ReadersSeeOneTableAtATimeWhileSmallTablesAreReplaced) {
  read_while_tables_are_replaced(kNeverLarge, 200);
}
TEST(Fib, ReadersSeeOneTableAtATimeWhileLargeTablesAreReplaced) {
  read_while_tables_are_replaced(0, 10);
}

}  // namespace
}  // namespace weft::tables
