// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/inc-manager/load.h"
#include "collectives/manager/manager.h"
#include "switch/base/rng.h"

namespace weft::inc::manager_bench {
namespace {

using manager::CreateRequest;
using manager::GroupId;
using manager::Outcome;
using policy::NodeId;

constexpr std::uint32_t kPorts = 32, kGroups = 10'000;

/// They agree with everything.
class Agreeing final : public manager::Agents {
 public:
  std::vector<Outcome> install(std::span<const manager::InstallOrder> o) override {
    return std::vector<Outcome>(o.size());
  }
  std::vector<Outcome> remove(std::span<const manager::RemoveOrder> o) override {
    return std::vector<Outcome>(o.size());
  }
  std::vector<std::optional<std::vector<GroupId>>> list(std::span<const NodeId> nodes, const manager::Pace&) override {
    return std::vector<std::optional<std::vector<GroupId>>>(nodes.size());
  }
  std::vector<std::optional<std::vector<manager::GroupActivity>>> activity(std::span<const NodeId> nodes) override {
    return std::vector<std::optional<std::vector<manager::GroupActivity>>>(nodes.size());
  }
  std::vector<std::optional<policy::Abilities>> abilities(std::span<const NodeId> nodes) override {
    return std::vector<std::optional<policy::Abilities>>(nodes.size());
  }
};

class NoDisk final : public manager::Store {
 public:
  std::optional<std::string> put(GroupId, std::uint64_t, const std::string& record) override {
    bytes += record.size();
    return std::nullopt;
  }
  std::optional<std::string> erase(GroupId) override { return std::nullopt; }
  std::optional<std::string> put_links(const std::string&) override { return std::nullopt; }
  std::optional<std::string> load(Content&) override { return std::nullopt; }
  std::optional<std::string> sync() override { return std::nullopt; }
  std::uint64_t bytes = 0;
};

/// Host N is 10.x.y.z with N = x.y.z, and its switch has the address with another first byte.
manager::Fabric fabric() {
  manager::Fabric f{policy::fat_tree(kPorts, policy::weft_abilities(64 << 20), 100'000), {}};
  for (policy::LinkId id = 0; id < f.topology.links().size(); ++id) {
    f.addresses.push_back({wire::IpAddress::v4(0x0a000000 + id), wire::IpAddress::v4(0x0b000000 + id)});
  }
  return f;
}

std::size_t size_of_group(Rng& rng) {
  const std::uint64_t at = rng.below(100);
  return at < 30 ? 8 : at < 60 ? 16 : at < 85 ? 32 : at < 95 ? 64 : 128;
}

/// Nothing here waits: the time of the processor says what it takes, whatever else runs.
double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

void print(const std::string& what, std::vector<double> us) {
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  std::sort(us.begin(), us.end());
  std::printf("%-17s %9.1f %9.1f %9.1f %9.1f\n", what.c_str(), mean, us[us.size() / 2], us[us.size() * 99 / 100],
              us.back());
  std::fflush(stdout);
}

void measure(bool packed) {
  manager::Fabric f = fabric();
  std::vector<wire::IpAddress> hosts;
  for (policy::LinkId id = 0; id < f.topology.links().size(); ++id) {
    if (!f.topology.node(f.topology.link(id).lower).is_switch) hosts.push_back(f.addresses[id].lower);
  }
  Agreeing agents;
  NoDisk store;
  manager::Manager m(std::move(f), {}, agents, store, 1);
  if (const auto error = m.recover(0)) throw std::runtime_error(*error);
  Rng rng(1);
  const std::string name = packed ? "packed" : "scattered";
  std::vector<double> placing, making;
  const auto took = [](std::vector<double>& out, const auto& what) {
    const double start = cpu_us();
    what();
    out.push_back(cpu_us() - start);
  };
  std::size_t made = 0;
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    const std::size_t count = size_of_group(rng);
    CreateRequest r;
    r.options.window = 4;
    const std::size_t first = rng.below(hosts.size() - count + 1);
    for (std::size_t h = 0; h < count; ++h) {
      const std::size_t at = packed ? first + h : h;
      if (!packed) std::swap(hosts[h], hosts[h + rng.below(hosts.size() - h)]);
      r.members.push_back({hosts[at], 17, 0, 0, "gbn"});
    }
    took(placing, [&] { static_cast<void>(m.explain(r)); });
    took(making, [&] { made += m.create(0, r).refusal == manager::Refusal::none ? 1 : 0; });
    // It takes a while: what is measured goes to the other stream.
    if ((i + 1) % 1000 == 0) std::fprintf(stderr, "  %s: %zu of %u groups made\n", name.c_str(), made, kGroups);
  }
  print(name + ", place", std::move(placing));
  print(name + ", make", std::move(making));
}

}  // namespace

int run_placement() {
  std::printf("%-17s %9s %9s %9s %9s\n", "CPU time", "mean us", "p50", "p99", "max");
  std::fflush(stdout);
  for (const bool packed : {true, false}) measure(packed);
  return 0;
}

}  // namespace weft::inc::manager_bench
