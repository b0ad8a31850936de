// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/partition_plan.h"

#include <algorithm>
#include <numeric>

namespace weft::sim {
namespace {

// A window of fewer nanoseconds has too little in it to be worth a meeting of all partitions. One of more would let a
// run that has ended go on for too long.
constexpr TimeNs kShortest = 100, kLongest = 10'000;

// Sets of switches that can only grow.
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0u); }
  [[nodiscard]] std::uint32_t find(std::uint32_t i) noexcept {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // The first switch of a set names it.
  void join(std::uint32_t a, std::uint32_t b) noexcept {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::uint32_t> parent_;
};

template <typename F>
void for_each_fabric_link(const Topology& topology, F&& f) {
  for (std::uint32_t i = 0; i < topology.switches().size(); ++i) {
    for (const PortPlan& port : topology.switches()[i].ports) {
      if (!port.to_host) f(i, port.peer, port.wire.delay_ns);
    }
  }
}

// A transfer begins in the partition of its host when another one ends in that of another host: both are one then.
void join_dependent(const Topology& topology, const Plan& plan, bool datagrams, Sets& sets) {
  const auto tor = [&](std::uint32_t host) { return topology.hosts()[host].tor; };
  for (const Transfer& t : plan.transfers) {
    for (const std::uint32_t later : t.after_received) sets.join(tor(t.to), tor(plan.transfers[later].from));
    for (const std::uint32_t later : t.after_sent) {
      sets.join(tor(datagrams ? t.to : t.from), tor(plan.transfers[later].from));
    }
  }
}

}  // namespace

PartitionPlan plan_partitions(const Topology& topology, const Plan& plan, bool datagrams, std::uint32_t most) {
  const auto switches = static_cast<std::uint32_t>(topology.switches().size());
  PartitionPlan out;
  out.window = kLongest;
  for_each_fabric_link(topology, [&](std::uint32_t, std::uint32_t, TimeNs delay) {
    out.window = std::min(out.window, std::max(delay, kShortest));
  });
  Sets sets(switches);
  for_each_fabric_link(topology, [&](std::uint32_t a, std::uint32_t b, TimeNs delay) {
    if (delay < out.window) sets.join(a, b);
  });
  join_dependent(topology, plan, datagrams, sets);
  out.of_switch.resize(switches);
  for (std::uint32_t i = 0; i < switches; ++i) {
    const std::uint32_t first = sets.find(i);
    out.of_switch[i] = first == i ? out.count++ : out.of_switch[first];
  }
  if (most == 0 || most >= out.count) return out;
  for (std::uint32_t& partition : out.of_switch) partition %= most;
  out.count = most;
  return out;
}

}  // namespace weft::sim
