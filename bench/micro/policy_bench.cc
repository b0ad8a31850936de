// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How long it takes to place a group: 10,000 groups on a fat tree of k = 32 (8192 hosts, 1280 switches), one after the
// other, of the sizes of EPIC's first trace (appendix L.2) and, one in a hundred, of 1024 or all hosts. Groups stay
// until 400 newer ones are there. Targets: 1 ms on average, 20 ms at most.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <string_view>
#include <vector>

#include "collectives/policy/policy.h"
#include "switch/base/rng.h"

namespace weft::inc::policy {
namespace {

constexpr std::uint32_t kPorts = 32;
constexpr std::uint32_t kGroups = 10'000;
constexpr std::size_t kAtOnce = 400;

std::size_t size_of_group(Rng& rng, std::size_t hosts) {
  const std::uint64_t at = rng.below(100);
  if (at == 0) return rng.below(2) == 0 ? 1024 : hosts;
  return at < 30 ? 8 : at < 60 ? 16 : at < 85 ? 32 : at < 95 ? 64 : 128;
}

/// Hosts that follow each other, as a scheduler places a job, or from everywhere.
std::vector<NodeId> pick(const std::vector<NodeId>& hosts, std::size_t count, bool packed, Rng& rng) {
  std::vector<NodeId> out;
  if (packed) {
    const std::size_t first = rng.below(hosts.size() - count + 1);
    out.assign(hosts.begin() + static_cast<std::ptrdiff_t>(first),
               hosts.begin() + static_cast<std::ptrdiff_t>(first + count));
    return out;
  }
  std::vector<NodeId> all = hosts;
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + rng.below(all.size() - i)]);
  out.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  return out;
}

void measure(PolicyKind kind, bool packed) {
  using Clock = std::chrono::steady_clock;
  Policy policy(fat_tree(kPorts, weft_abilities(64 << 20), 100'000), {.kind = kind});
  std::vector<NodeId> hosts;
  for (NodeId n = 0; n < policy.topology().nodes().size(); ++n) {
    if (!policy.topology().node(n).is_switch) hosts.push_back(n);
  }
  Rng rng(1);
  std::deque<GroupId> there;
  std::vector<double> us;
  std::uint32_t admitted = 0;
  for (GroupId id = 1; id <= kGroups; ++id) {
    Request r;
    r.group = id;
    r.hosts = pick(hosts, size_of_group(rng, hosts.size()), packed, rng);
    r.types = bit(DataType::fp32);
    r.memory = {.unit_bytes = 64 << 10, .units = 16, .message_bytes = 16 << 10};
    r.prefer = id % 2 == 0 ? Prefer::latency : Prefer::bandwidth;
    r.job = 1 + id / 4;
    r.duty_per_mille = static_cast<std::uint32_t>(100 + rng.below(300));
    r.period_ns = 100'000'000;
    const auto start = Clock::now();
    const bool placed = policy.place(r).admitted();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    if (placed) there.push_back(id);
    admitted += placed ? 1 : 0;
    if (there.size() > kAtOnce) {
      policy.release(there.front());
      there.pop_front();
    }
  }
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  std::sort(us.begin(), us.end());
  std::printf("%-14.*s %-9s %9u %9.1f %9.1f %9.1f %9.1f\n", static_cast<int>(to_string(kind).size()),
              to_string(kind).data(), packed ? "packed" : "scattered", admitted, mean, us[us.size() / 2],
              us[us.size() * 99 / 100], us.back());
}

}  // namespace
}  // namespace weft::inc::policy

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool help = std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h";
    std::fprintf(help ? stdout : stderr, "usage: %s   (takes nothing)\n", argv[0]);
    return help ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  using weft::inc::policy::PolicyKind;
  std::printf("%-14s %-9s %9s %9s %9s %9s %9s\n", "policy", "hosts", "admitted", "mean us", "p50", "p99", "max");
  for (const auto kind : {PolicyKind::edge_disjoint, PolicyKind::spatial, PolicyKind::temporal}) {
    for (const bool packed : {true, false}) weft::inc::policy::measure(kind, packed);
  }
}
