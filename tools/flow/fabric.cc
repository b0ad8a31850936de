// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/fabric.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::flow {
namespace {

constexpr std::uint32_t up(std::uint32_t link) {
  return 2 * link;
}

constexpr std::uint32_t down(std::uint32_t link) {
  return 2 * link + 1;
}

}  // namespace

Fabric::Fabric(const FabricSpec& spec)
    : spec_(spec), counted_(capacities().size(), 0.0), down_(counted_.size() / 2, 0) {}

inc::policy::Topology Fabric::topology(const inc::policy::Abilities& abilities) const {
  inc::policy::Topology t;
  // Nodes and links in the order that node_of() and *_link() count on.
  for (Gpu g = 0; g < spec_.gpus(); ++g) t.add_host("h" + std::to_string(g));
  const std::uint32_t leaves = spec_.pods * spec_.leaves, spines = spec_.pods * spec_.spines;
  const std::uint32_t first_leaf = spec_.gpus(), first_spine = first_leaf + leaves, first_core = first_spine + spines;
  for (std::uint32_t l = 0; l < leaves; ++l) t.add_switch("leaf" + std::to_string(l), abilities, 1);
  for (std::uint32_t s = 0; s < spines; ++s) t.add_switch("spine" + std::to_string(s), abilities, 2);
  if (spec_.pods > 1) {
    for (std::uint32_t c = 0; c < spec_.spines * spec_.cores_per_spine; ++c) {
      t.add_switch("core" + std::to_string(c), abilities, 3);
    }
  }
  for (Gpu g = 0; g < spec_.gpus(); ++g) t.add_link(g, first_leaf + leaf_of(g), spec_.link_mbps);
  for (std::uint32_t l = 0; l < leaves; ++l) {
    const std::uint32_t first = first_spine + l / spec_.leaves * spec_.spines;
    for (std::uint32_t s = 0; s < spec_.spines; ++s) t.add_link(first_leaf + l, first + s, spec_.link_mbps);
  }
  for (std::uint32_t s = 0; s < spines && spec_.pods > 1; ++s) {
    const std::uint32_t first = first_core + s % spec_.spines * spec_.cores_per_spine;
    for (std::uint32_t c = 0; c < spec_.cores_per_spine; ++c) t.add_link(first_spine + s, first + c, spec_.link_mbps);
  }
  static_cast<void>(t.finish());  // all tiers are given
  return t;
}

inc::policy::NodeId Fabric::node_of(Gpu gpu) const noexcept {
  return gpu;
}

double Fabric::link_rate() const noexcept {
  return static_cast<double>(spec_.link_mbps) / 8000.0 * spec_.payload_ratio;
}

std::vector<double> Fabric::capacities() const {
  const std::size_t cores = spec_.pods > 1 ? core_link(spec_.pods, 0, 0) : leaf_link(spec_.pods * spec_.leaves, 0);
  return std::vector<double>(2 * cores, link_rate());
}

unsigned Fabric::tier_of(std::uint32_t direction) const noexcept {
  const std::uint32_t link = direction / 2;
  if (link < spec_.gpus()) return 0;
  return link < leaf_link(spec_.pods * spec_.leaves, 0) ? 1 : 2;
}

unsigned Fabric::hops(Gpu a, Gpu b) const noexcept {
  if (leaf_of(a) == leaf_of(b)) return 2;
  return pod_of(a) == pod_of(b) ? 4 : 6;
}

std::uint32_t Fabric::ways(Gpu from, Gpu to) const noexcept {
  if (leaf_of(from) == leaf_of(to)) return 1;
  return pod_of(from) == pod_of(to) ? spec_.spines : spec_.spines * spec_.cores_per_spine;
}

void Fabric::middle(Gpu from, Gpu to, std::uint32_t way, std::vector<std::uint32_t>& out) const {
  out.clear();
  const std::uint32_t a = leaf_of(from), b = leaf_of(to);
  if (a == b) return;
  if (pod_of(from) == pod_of(to)) {
    out = {up(leaf_link(a, way)), down(leaf_link(b, way))};
    return;
  }
  const std::uint32_t spine = way / spec_.cores_per_spine, core = way % spec_.cores_per_spine;
  out = {up(leaf_link(a, spine)), up(core_link(pod_of(from), spine, core)), down(core_link(pod_of(to), spine, core)),
         down(leaf_link(b, spine))};
}

bool Fabric::is_up(std::span<const std::uint32_t> directions) const noexcept {
  return std::all_of(directions.begin(), directions.end(), [&](std::uint32_t d) { return down_[d / 2] == 0; });
}

std::vector<std::uint32_t> Fabric::ways_up(Gpu from, Gpu to) const {
  std::vector<std::uint32_t> out, links;
  for (std::uint32_t w = 0; w < ways(from, to); ++w) {
    middle(from, to, w, links);
    if (is_up(links)) out.push_back(w);
  }
  return out;
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> Fabric::cut_off() const {
  std::vector<std::uint32_t> links;
  const std::uint32_t leaves = spec_.pods * spec_.leaves;
  for (std::uint32_t a = 0; a < leaves; ++a) {
    for (std::uint32_t b = a + 1; b < leaves; ++b) {
      const Gpu from = a * spec_.gpus_per_leaf, to = b * spec_.gpus_per_leaf;
      bool any = false;
      for (std::uint32_t w = 0; w < ways(from, to) && !any; ++w) {
        middle(from, to, w, links);
        any = is_up(links);
      }
      if (!any) return std::pair(a, b);
    }
  }
  return std::nullopt;
}

std::uint32_t Fabric::emptiest(Gpu from, Gpu to, std::span<const std::uint32_t> ways) const {
  std::vector<std::uint32_t> links;
  std::pair<double, double> least{};
  std::uint32_t best = ways[0];
  for (const std::uint32_t w : ways) {
    middle(from, to, w, links);
    std::pair<double, double> load{};  // the fullest link, and all
    for (const std::uint32_t link : links) {
      load.first = std::max(load.first, counted_[link]);
      load.second += counted_[link];
    }
    if (w != ways[0] && load >= least) continue;
    least = load;
    best = w;
  }
  return best;
}

std::vector<Use> Fabric::way(Gpu from, Gpu to, Paths paths, std::uint64_t choice) const {
  std::vector<Use> uses{{up(gpu_link(from)), 1}, {down(gpu_link(to)), 1}};
  const std::vector<std::uint32_t> all = ways_up(from, to);
  std::vector<std::uint32_t> links;
  if (paths == Paths::spray) {
    for (const std::uint32_t w : all) {
      middle(from, to, w, links);
      for (const std::uint32_t link : links) uses.push_back({link, 1.0 / static_cast<double>(all.size())});
    }
  } else {
    middle(from, to, paths == Paths::ecmp ? all[choice % all.size()] : emptiest(from, to, all), links);
    for (const std::uint32_t link : links) uses.push_back({link, 1});
  }
  return merged(std::move(uses));
}

void Fabric::count(std::span<const Use> uses, double sign) {
  for (const Use& use : uses) counted_[use.link] += sign * use.flows;
}

std::vector<Use> merged(std::vector<Use> uses) {
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.link < b.link; });
  std::size_t kept = 0;
  for (const Use& use : uses) {
    if (kept > 0 && uses[kept - 1].link == use.link) {
      uses[kept - 1].flows += use.flows;
    } else {
      uses[kept++] = use;
    }
  }
  uses.resize(kept);
  return uses;
}

std::string_view to_string(Paths paths) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"balanced", "ecmp", "spray"};
  return kNames[static_cast<std::size_t>(paths)];
}

}  // namespace weft::flow
