// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/fib.h"

#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_memory.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "switch/pipeline/dpdk_compat.h"

namespace weft::tables {
namespace {

using wire::IpPrefix;

// Marks an entry of a small table that refers to a node.
constexpr std::uint32_t kChild = 1u << 31;

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
    if (rte_fib6_add(fib, pipeline::fib6_address(route.prefix.address.bytes().data()), route.prefix.length,
                     route.value) == 0)
      continue;
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

// --- the small table for IPv4 -------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kRootV4 = std::size_t{1} << 16;
constexpr std::size_t kNodeV4 = 256;
constexpr std::uint32_t kStep = 0xff;
constexpr std::size_t kMostEntriesV4 = std::size_t{1} << 24;

}  // namespace

TrieV4::TrieV4(std::span<const FibRoute> routes, std::uint32_t none) {
  std::map<std::uint32_t, std::uint32_t> leaves;
  const auto leaf = [&](std::uint32_t value) {
    const auto [at, inserted] = leaves.try_emplace(value, static_cast<std::uint32_t>(values_.size()) << 8);
    if (inserted) values_.push_back(value);
    return at->second;
  };
  leaf(none);
  for (const FibRoute& route : routes) leaf(route.value);
  for (std::uint32_t i = 0; i < values_.size(); ++i) entries_.push_back(i << 8);
  root_ = entries_.size();
  entries_.resize(root_ + kRootV4, leaf(none));
  for (const FibRoute& route : routes) add(route.prefix.network(), leaf(route.value));
}

void TrieV4::add(const IpPrefix& prefix, std::uint32_t leaf) {
  const std::uint32_t address = prefix.address.v4_value();
  std::size_t node = root_;
  unsigned first_bit = 0;
  unsigned stride = 16;
  for (; prefix.length > first_bit + stride; stride = 8) {
    const std::size_t at = node + (address << first_bit >> (32 - stride));
    if ((entries_[at] & kStep) == 0) {
      if (entries_.size() + kNodeV4 > kMostEntriesV4) throw std::length_error("too many IPv4 routes for a small table");
      const auto child = static_cast<std::uint32_t>(entries_.size());
      entries_.resize(entries_.size() + kNodeV4, entries_[at]);
      entries_[at] = child << 8 | kStep;
    }
    node = entries_[at] >> 8;
    first_bit += stride;
  }
  // Longer prefixes come later, so no entry of the range has children yet.
  const std::size_t first = node + (address << first_bit >> (32 - stride));
  const unsigned free_bits = first_bit + stride - prefix.length;
  std::fill_n(entries_.begin() + static_cast<std::ptrdiff_t>(first), std::size_t{1} << free_bits, leaf);
}

// Every lookup takes all three steps, so that there is no branch to mispredict: from a leaf, a step leads to itself.
void TrieV4::lookup(std::span<const std::uint32_t> addresses, std::uint32_t* values) const noexcept {
  const std::uint32_t* entries = entries_.data();
  const std::uint32_t* root = entries + root_;
  const std::uint32_t* leaves = values_.data();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::uint32_t address = addresses[i];
    std::uint32_t entry = root[address >> 16];
    entry = entries[(entry >> 8) + (entry & (address >> 8) & kStep)];
    entry = entries[(entry >> 8) + (entry & address & kStep)];
    values[i] = leaves[entry >> 8];
  }
}

// --- the small table for IPv6 -------------------------------------------------------------------------------------

TrieV6::TrieV6(std::span<const FibRoute> routes, std::uint32_t none) {
  std::vector<const FibRoute*> longer;
  for (const FibRoute& route : routes) {
    assert(route.value < kChild);
    if (route.prefix.length == 0)
      none = route.value;
    else
      longer.push_back(&route);
  }
  if (longer.empty()) nodes_.emplace_back();  // lookup() reads one even if no entry refers to it
  root_ = build(longer, 0, none);
}

// A node must match bytes depth to branch - 1 of the address.
void TrieV6::set_path(Node& node, const Address& address, unsigned depth, unsigned branch) const noexcept {
  node.branch = static_cast<std::uint8_t>(branch);
  node.window = static_cast<std::uint8_t>(std::min(depth, 8u));
  Address mask{};
  std::fill(mask.begin() + depth, mask.begin() + branch, std::uint8_t{0xff});
  std::memcpy(&node.mask, mask.data() + node.window, sizeof node.mask);
  std::memcpy(&node.pattern, address.data() + node.window, sizeof node.pattern);
  node.pattern &= node.mask;
}

// The entry for all addresses that begin with the first `depth` bytes of the routes, which all have these in common and
// are longer than that. `fallback` is the value of the longest shorter match.
std::uint32_t TrieV6::build(std::span<const FibRoute*> routes, unsigned depth, std::uint32_t fallback) {
  if (routes.empty()) return fallback;
  const Address first = routes.front()->prefix.network().address.bytes();
  constexpr unsigned kWindow = 8;
  unsigned branch = depth;
  const auto goes_on = [&](const FibRoute* route) {
    return route->prefix.length > 8 * (branch + 1) && route->prefix.address.bytes()[branch] == first[branch];
  };
  while (branch < depth + kWindow && std::all_of(routes.begin(), routes.end(), goes_on)) ++branch;

  const auto self = static_cast<std::uint32_t>(nodes_.size());
  nodes_.emplace_back();
  nodes_[self].mismatch = fallback;
  nodes_[self].entries.fill(fallback);
  set_path(nodes_[self], first, depth, branch);
  std::array<std::vector<const FibRoute*>, 256> longer;
  for (const FibRoute* route : routes) {
    const std::uint8_t byte = route->prefix.network().address.bytes()[branch];
    if (route->prefix.length > 8 * (branch + 1)) {
      longer[byte].push_back(route);
    } else {
      std::fill_n(nodes_[self].entries.begin() + byte, 1u << (8 * (branch + 1) - route->prefix.length), route->value);
    }
  }
  for (std::size_t byte = 0; byte < longer.size(); ++byte) {
    const std::uint32_t entry = build(longer[byte], branch + 1, nodes_[self].entries[byte]);
    nodes_[self].entries[byte] = entry;
  }
  return kChild | self;
}

void TrieV6::lookup(std::span<const Address> addresses, std::uint32_t* values) const noexcept {
  const Node* nodes = nodes_.data();
  for (std::size_t i = 0; i < addresses.size(); ++i) values[i] = root_;
  for (std::uint32_t any = root_; (any & kChild) != 0;) {
    any = 0;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::uint32_t entry = values[i];
      const Node& node = nodes[(entry & kChild) != 0 ? entry & ~kChild : 0];
      std::uint64_t bytes;
      std::memcpy(&bytes, addresses[i].data() + node.window, sizeof bytes);
      const std::uint32_t inside = node.entries[addresses[i][node.branch]];
      const std::uint32_t next = (bytes & node.mask) == node.pattern ? inside : node.mismatch;
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

Fib::Fib(std::span<const Route> routes, std::uint32_t none, std::size_t large_table_routes) {
  const auto v4 = family(routes, false);
  const auto v6 = family(routes, true);
  if (v4.size() > large_table_routes) large_v4_.reset(make_large_v4(v4, none));
  if (v6.size() > large_table_routes) large_v6_.reset(make_large_v6(v6, none));
  if (!large_v4_) small_v4_ = std::make_unique<TrieV4>(v4, none);
  if (!large_v6_) small_v6_ = std::make_unique<TrieV6>(v6, none);
}

void Fib::lookup(std::span<const std::uint32_t> addresses, std::span<std::uint32_t> values) const noexcept {
  assert(values.size() >= addresses.size());
  if (!large_v4_) return small_v4_->lookup(addresses, values.data());
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
  if (!large_v6_) return small_v6_->lookup(addresses, values.data());
  std::uint64_t wide[kChunk];
  for (std::size_t done = 0; done < addresses.size(); done += kChunk) {
    const std::size_t count = std::min(kChunk, addresses.size() - done);
    rte_fib6_lookup_bulk(large_v6_.get(), pipeline::fib6_addresses(addresses[done].data()), wide,
                         static_cast<int>(count));
    for (std::size_t i = 0; i < count; ++i) values[done + i] = static_cast<std::uint32_t>(wide[i]);
  }
}

}  // namespace weft::tables
