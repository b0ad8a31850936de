// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/fib.h"

#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_memory.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <set>
#include <string>

namespace weft::tables {
namespace {

using wire::IpPrefix;

// First byte of the address in wire order.
const std::uint8_t* wire_bytes(const IpPrefix& prefix) noexcept {
  return prefix.address.bytes().data() + (prefix.address.is_v6() ? 0 : 12);
}

// Bits that the first level of DPDK's tables resolves. Groups of 256 entries resolve eight more bits each.
constexpr unsigned kFirstLevel = 24;

// Groups that DIR24_8 needs: one for each /24 with longer prefixes in it.
std::uint32_t groups_v4(std::span<const Fib::Route> routes) {
  std::set<IpPrefix> stems;
  for (const auto& route : routes) {
    if (route.prefix.length > kFirstLevel) stems.insert(IpPrefix{route.prefix.address, kFirstLevel}.network());
  }
  return static_cast<std::uint32_t>(stems.size());
}

// Groups that rte_fib6 reserves: those on the way to each prefix, even where prefixes share them.
std::uint32_t groups_v6(std::span<const Fib::Route> routes) {
  std::uint32_t groups = 0;
  for (const auto& route : routes) {
    if (route.prefix.length > kFirstLevel) groups += (route.prefix.length - kFirstLevel + 7) / 8;
  }
  return groups;
}

// DPDK wants names that are unique in the process.
std::string unique_name() {
  static std::atomic<unsigned> serial{0};
  return "weft_fib" + std::to_string(serial.fetch_add(1, std::memory_order_relaxed));
}

// The default route is what the table answers where nothing matches.
std::uint32_t default_value(std::span<const Fib::Route> routes, std::uint32_t none) {
  const auto found = std::find_if(routes.begin(), routes.end(), [](const auto& r) { return r.prefix.length == 0; });
  return found == routes.end() ? none : found->value;
}

rte_fib* make_large_v4(std::span<const Fib::Route> routes, std::uint32_t none) {
  rte_fib_conf conf{};
  conf.type = RTE_FIB_DIR24_8;
  conf.default_nh = default_value(routes, none);
  conf.max_routes = static_cast<int>(routes.size());
  conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_4B;
  conf.dir24_8.num_tbl8 = groups_v4(routes) + 1;
  rte_fib* fib = rte_fib_create(unique_name().c_str(), SOCKET_ID_ANY, &conf);
  for (const auto& route : routes) {
    if (fib == nullptr) break;
    if (route.prefix.length == 0) continue;
    if (rte_fib_add(fib, route.prefix.address.v4_value(), route.prefix.length, route.value) == 0) continue;
    rte_fib_free(fib);
    fib = nullptr;
  }
  return fib;
}

rte_fib6* make_large_v6(std::span<const Fib::Route> routes, std::uint32_t none) {
  rte_fib6_conf conf{};
  conf.type = RTE_FIB6_TRIE;
  conf.default_nh = default_value(routes, none);
  conf.max_routes = static_cast<int>(routes.size());
  conf.trie.nh_sz = RTE_FIB6_TRIE_4B;
  conf.trie.num_tbl8 = groups_v6(routes) + 1;
  rte_fib6* fib = rte_fib6_create(unique_name().c_str(), SOCKET_ID_ANY, &conf);
  for (const auto& route : routes) {
    if (fib == nullptr) break;
    if (route.prefix.length == 0) continue;
    if (rte_fib6_add(fib, route.prefix.address.bytes().data(), route.prefix.length, route.value) == 0) continue;
    rte_fib6_free(fib);
    fib = nullptr;
  }
  return fib;
}

// The routes of one address family, networks only, shortest first.
std::vector<Fib::Route> family(std::span<const Fib::Route> routes, bool v6) {
  std::vector<Fib::Route> own;
  for (const auto& route : routes) {
    if (route.prefix.address.is_v6() == v6) own.push_back({route.prefix.network(), route.value});
  }
  std::sort(own.begin(), own.end(), [](const auto& a, const auto& b) { return a.prefix.length < b.prefix.length; });
  return own;
}

// Lookups in DPDK's tables give 64-bit results, which need a place.
constexpr std::size_t kChunk = 64;

}  // namespace

// --- the small structure ------------------------------------------------------------------------------------------

void ByteTrie::add(const std::uint8_t* bytes, unsigned length, std::uint32_t value) {
  assert(value < kChild);
  std::size_t node = 0;
  for (; length > 8; length -= 8, ++bytes) {
    const std::size_t at = node + *bytes;
    if ((entries_[at] & kChild) == 0) {
      const auto child = static_cast<std::uint32_t>(entries_.size() / kNode);
      entries_.resize(entries_.size() + kNode, entries_[at]);
      entries_[at] = kChild | child;
    }
    node = position(entries_[at], 0);
  }
  // Longer prefixes come later, so no entry of the range has children yet.
  const std::size_t first = node + (length == 0 ? 0 : *bytes);
  std::fill_n(entries_.begin() + static_cast<std::ptrdiff_t>(first), std::size_t{1} << (8 - length), value);
}

// One level after the other for the whole burst, without branches: the memory reads of a level are independent of each
// other, so their latencies overlap.
void ByteTrie::lookup(std::span<const std::uint32_t> addresses, std::uint32_t* values) const noexcept {
  const std::uint32_t* entries = entries_.data();
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    values[i] = entries[addresses[i] >> 24];
    any |= values[i];
  }
  for (unsigned shift = 16; (any & kChild) != 0; shift -= 8) {
    any = 0;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::uint32_t entry = values[i];
      const std::uint32_t at = (entry & kChild) != 0 ? position(entry, addresses[i] >> shift & 0xff) : 0;
      const std::uint32_t next = entries[at];
      values[i] = (entry & kChild) != 0 ? next : entry;
      any |= values[i];
    }
  }
}

void ByteTrie::lookup(std::span<const std::array<std::uint8_t, 16>> addresses, std::uint32_t* values) const noexcept {
  const std::uint32_t* entries = entries_.data();
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    values[i] = entries[addresses[i][0]];
    any |= values[i];
  }
  for (std::size_t level = 1; (any & kChild) != 0; ++level) {
    any = 0;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::uint32_t entry = values[i];
      const std::uint32_t at = (entry & kChild) != 0 ? position(entry, addresses[i][level]) : 0;
      const std::uint32_t next = entries[at];
      values[i] = (entry & kChild) != 0 ? next : entry;
      any |= values[i];
    }
  }
}

// --- both ---------------------------------------------------------------------------------------------------------

void Fib::Deleter::operator()(rte_fib* fib) const noexcept {
  rte_fib_free(fib);
}
void Fib::Deleter::operator()(rte_fib6* fib) const noexcept {
  rte_fib6_free(fib);
}

Fib::Fib(std::span<const Route> routes, std::uint32_t none, std::size_t large_table_routes)
    : small_v4_(none), small_v6_(none) {
  const auto v4 = family(routes, false);
  const auto v6 = family(routes, true);
  if (v4.size() > large_table_routes) large_v4_.reset(make_large_v4(v4, none));
  if (v6.size() > large_table_routes) large_v6_.reset(make_large_v6(v6, none));
  if (!large_v4_) {
    for (const auto& route : v4) small_v4_.add(wire_bytes(route.prefix), route.prefix.length, route.value);
  }
  if (!large_v6_) {
    for (const auto& route : v6) small_v6_.add(wire_bytes(route.prefix), route.prefix.length, route.value);
  }
}

void Fib::lookup(std::span<const std::uint32_t> addresses, std::span<std::uint32_t> values) const noexcept {
  assert(values.size() >= addresses.size());
  if (!large_v4_) return small_v4_.lookup(addresses, values.data());
  std::uint64_t wide[kChunk];
  for (std::size_t done = 0; done < addresses.size(); done += kChunk) {
    const std::size_t count = std::min(kChunk, addresses.size() - done);
    rte_fib_lookup_bulk(large_v4_.get(), const_cast<std::uint32_t*>(addresses.data() + done), wide,
                        static_cast<int>(count));
    for (std::size_t i = 0; i < count; ++i) values[done + i] = static_cast<std::uint32_t>(wide[i]);
  }
}

void Fib::lookup(std::span<const std::array<std::uint8_t, 16>> addresses,
                 std::span<std::uint32_t> values) const noexcept {
  assert(values.size() >= addresses.size());
  if (!large_v6_) return small_v6_.lookup(addresses, values.data());
  std::uint64_t wide[kChunk];
  for (std::size_t done = 0; done < addresses.size(); done += kChunk) {
    const std::size_t count = std::min(kChunk, addresses.size() - done);
    auto* first = const_cast<std::uint8_t*>(addresses[done].data());
    rte_fib6_lookup_bulk(large_v6_.get(), reinterpret_cast<std::uint8_t(*)[16]>(first), wide, static_cast<int>(count));
    for (std::size_t i = 0; i < count; ++i) values[done + i] = static_cast<std::uint32_t>(wide[i]);
  }
}

}  // namespace weft::tables
