// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/workload.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace weft::sim {
namespace {

// Uniform in [0, 1).
double uniform(Rng& rng) noexcept {
  return static_cast<double>(rng.next() >> 11) * 0x1p-53;
}

class PlanBuilder {
 public:
  explicit PlanBuilder(std::size_t groups) { plan_.groups = static_cast<std::uint32_t>(groups); }

  // A transfer over the channel between these hosts, which is made when it is first used.
  std::uint32_t add(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::size_t group) {
    const auto next = static_cast<std::uint32_t>(plan_.channels.size());
    const auto [at, inserted] = channels_.emplace(std::pair(from, to), next);
    if (inserted) plan_.channels.push_back({from, to, 0});
    ++plan_.channels[at->second].transfers;
    plan_.transfers.push_back({.from = from,
                               .to = to,
                               .bytes = std::max<std::uint64_t>(bytes, 1),
                               .group = static_cast<std::uint32_t>(group),
                               .channel = at->second});
    return static_cast<std::uint32_t>(plan_.transfers.size() - 1);
  }
  void received_before(std::uint32_t first, std::uint32_t second) {
    plan_.transfers[first].after_received.push_back(second);
    ++plan_.transfers[second].waits_for;
  }
  void sent_before(std::uint32_t first, std::uint32_t second) {
    plan_.transfers[first].after_sent.push_back(second);
    ++plan_.transfers[second].waits_for;
  }
  Plan take() { return std::move(plan_); }

 private:
  Plan plan_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> channels_;
};

}  // namespace

std::uint64_t Plan::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const Transfer& t : transfers) sum += t.bytes;
  return sum;
}

void Plan::count_packets(std::uint32_t mtu) noexcept {
  for (Channel& channel : channels) channel.packets = 0;
  for (const Transfer& t : transfers) {
    channels[t.channel].packets += std::max<std::uint64_t>((t.bytes + mtu - 1) / mtu, 1);
  }
}

Groups interleaved_groups(std::uint32_t hosts, std::uint32_t groups) {
  Groups out(groups);
  for (std::uint32_t h = 0; h < hosts; ++h) out[h % groups].push_back(h);
  return out;
}

Plan ring_permutation(const Groups& groups, std::uint64_t bytes) {
  PlanBuilder plan(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& hosts = groups[g];
    for (std::size_t r = 0; r < hosts.size(); ++r) plan.add(hosts[r], hosts[(r + 1) % hosts.size()], bytes, g);
  }
  return plan.take();
}

namespace {

/// Steps of bytes / n to the next host; each waits for what has arrived from the one before.
Plan ring_steps(const Groups& groups, std::uint64_t bytes, std::size_t rounds) {
  PlanBuilder plan(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& hosts = groups[g];
    const std::size_t n = hosts.size();
    std::vector<std::uint32_t> before(n);
    for (std::size_t step = 0; step < rounds * (n - 1); ++step) {
      std::vector<std::uint32_t> now(n);
      for (std::size_t r = 0; r < n; ++r) now[r] = plan.add(hosts[r], hosts[(r + 1) % n], bytes / n, g);
      for (std::size_t r = 0; step != 0 && r < n; ++r) plan.received_before(before[(r + n - 1) % n], now[r]);
      before = now;
    }
  }
  return plan.take();
}

}  // namespace

Plan ring_allreduce(const Groups& groups, std::uint64_t bytes) {
  return ring_steps(groups, bytes, 2);
}

Plan ring_reducescatter(const Groups& groups, std::uint64_t bytes) {
  return ring_steps(groups, bytes, 1);
}

Plan barrier_rank0(const Groups& groups) {
  PlanBuilder plan(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& hosts = groups[g];
    std::vector<std::uint32_t> in;
    for (std::size_t r = 1; r < hosts.size(); ++r) in.push_back(plan.add(hosts[r], hosts[0], 1, g));
    for (std::size_t r = 1; r < hosts.size(); ++r) {
      const std::uint32_t out = plan.add(hosts[0], hosts[r], 1, g);
      for (const std::uint32_t one : in) plan.received_before(one, out);
    }
  }
  return plan.take();
}

Plan halving_doubling_allreduce(const Groups& groups, std::uint64_t bytes) {
  PlanBuilder plan(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& hosts = groups[g];
    const std::size_t n = hosts.size();
    assert(std::has_single_bit(n));
    const auto rounds = static_cast<unsigned>(std::countr_zero(n));
    std::vector<std::uint32_t> before(n);
    std::size_t last_distance = 0;
    for (unsigned step = 0; step < 2 * rounds; ++step) {
      // Halving goes from the farthest partner to the nearest, doubling the same way back.
      const unsigned bit = step < rounds ? rounds - 1 - step : step - rounds;
      const unsigned halvings = step < rounds ? step + 1 : 2 * rounds - step;
      const std::size_t distance = std::size_t{1} << bit;
      std::vector<std::uint32_t> now(n);
      for (std::size_t r = 0; r < n; ++r) now[r] = plan.add(hosts[r], hosts[r ^ distance], bytes >> halvings, g);
      for (std::size_t r = 0; step != 0 && r < n; ++r) plan.received_before(before[r ^ last_distance], now[r]);
      before = now;
      last_distance = distance;
    }
  }
  return plan.take();
}

Plan alltoall(const Groups& groups, std::uint64_t bytes, bool rotated) {
  PlanBuilder plan(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& hosts = groups[g];
    const std::size_t n = hosts.size();
    for (std::size_t r = 0; r < n; ++r) {
      std::uint32_t before = 0;
      for (std::size_t k = 1; k < n; ++k) {
        const std::uint32_t now = plan.add(hosts[r], hosts[(r + k) % n], bytes / n, g);
        if (rotated && k > 1) plan.sent_before(before, now);
        before = now;
      }
    }
  }
  return plan.take();
}

Plan incast(const Groups& groups, std::uint64_t bytes) {
  PlanBuilder plan(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t r = 1; r < groups[g].size(); ++r) plan.add(groups[g][r], groups[g][0], bytes, g);
  }
  return plan.take();
}

Plan flow_list(const std::vector<Flow>& flows) {
  Plan plan;
  for (const Flow& f : flows) {
    plan.transfers.push_back({.from = f.from,
                              .to = f.to,
                              .bytes = std::max<std::uint64_t>(f.bytes, 1),
                              .start = f.start,
                              .channel = static_cast<std::uint32_t>(plan.channels.size())});
    plan.channels.push_back({f.from, f.to, 1});
  }
  return plan;
}

double SizeDistribution::mean() const noexcept {
  double sum = 0;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const double share = (points_[i].second - points_[i - 1].second) / 100;
    sum += share * (points_[i].first + points_[i - 1].first) / 2;
  }
  return sum;
}

std::uint64_t SizeDistribution::draw(Rng& rng) const noexcept {
  const double u = uniform(rng) * 100;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    if (u > points_[i].second) continue;
    const double width = points_[i].second - points_[i - 1].second;
    const double part = width > 0 ? (u - points_[i - 1].second) / width : 1;
    return std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(points_[i - 1].first + part * (points_[i].first - points_[i - 1].first)));
  }
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(points_.back().first));
}

std::vector<Flow> poisson_flows(const std::vector<std::uint64_t>& seeds, const SizeDistribution& sizes,
                                const PoissonSpec& spec) {
  const auto hosts = static_cast<std::uint32_t>(seeds.size());
  std::vector<Flow> flows;
  const double mean_gap_ns = sizes.mean() * 8e9 / (spec.load * static_cast<double>(spec.link_bps));
  for (std::uint32_t from = 0; from < hosts; ++from) {
    Rng rng(seeds[from]);
    double at = 0;
    while (true) {
      at += -std::log(1 - uniform(rng)) * mean_gap_ns;
      if (at >= static_cast<double>(spec.duration)) break;
      const auto skip = static_cast<std::uint32_t>(rng.below(hosts - 1));
      flows.push_back({from, skip < from ? skip : skip + 1, sizes.draw(rng), static_cast<TimeNs>(at)});
    }
  }
  std::stable_sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.start < b.start; });
  return flows;
}

std::vector<Flow> incast_flows(std::uint64_t seed, std::uint32_t hosts, const IncastSpec& spec) {
  Rng rng(seed);
  std::vector<std::uint32_t> drawn(hosts);
  std::iota(drawn.begin(), drawn.end(), 0u);
  std::vector<Flow> flows;
  for (TimeNs at = spec.every; at < spec.duration; at += spec.every) {
    // The first places of a shuffle: who receives, and then who send.
    for (std::uint32_t place = 0; place <= spec.senders; ++place) {
      std::swap(drawn[place], drawn[place + rng.below(hosts - place)]);
      if (place != 0) flows.push_back({drawn[place], drawn[0], spec.bytes, at});
    }
  }
  return flows;
}

}  // namespace weft::sim
