// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a run goes on: all partitions run up to a time until which none of them can hear of what another does meanwhile,
// on one thread or on several, and meet there.
#include <algorithm>
#include <utility>

#include "tools/sim/simulation.h"

namespace weft::sim {
namespace {

// Events between two looks at whether to stop.
constexpr std::uint64_t kStopEvery = 1 << 16;
// A window with fewer events is over before another thread is awake.
constexpr std::uint64_t kWorthThreads = 500;

}  // namespace

void Simulation::make_partitions() {
  const Topology& t = experiment_.topology;
  partition_plan_ = plan_partitions(t, experiment_.plan, experiment_.datagrams, options_.partitions);
  for (std::uint32_t i = 0; i < partition_plan_.count; ++i) {
    partitions_.push_back(std::make_unique<Partition>());
    witnesses_.push_back(&partitions_.back()->witness());
  }
  for (const std::uint32_t partition : partition_plan_.of_switch) home_.push_back(partitions_[partition].get());
  for (const HostPlan& host : t.hosts()) home_.push_back(home_[host.tor]);
  const auto threads = std::min<std::size_t>(options_.threads, partitions_.size());
  if (threads > 1) crew_ = std::make_unique<Crew>(static_cast<unsigned>(threads));
}

PartitionCounters Simulation::counted() const noexcept {
  PartitionCounters sum;
  for (const auto& partition : partitions_) {
    sum.ended += partition->counters().ended;
    sum.failed += partition->counters().failed;
    sum.datagrams += partition->counters().datagrams;
  }
  return sum;
}

std::uint64_t Simulation::fired() const noexcept {
  std::uint64_t sum = changes_.fired() + looks_.fired();
  for (const auto& partition : partitions_) sum += partition->events().fired();
  return sum;
}

std::uint64_t Simulation::trace_hash() const noexcept {
  std::uint64_t hash = 0x6a09e667f3bcc908ull;
  const auto add = [&](const Receiver& device) {
    hash = (hash ^ device.trace_hash()) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  };
  for (const auto& sw : switches_) add(*sw);
  for (const HostWire* host : ends_) add(*host);
  return hash;
}

// What changes the network happens while all stand still, before packets of that time move.
void Simulation::change(TimeNs now) {
  for (const auto& partition : partitions_) partition->begin(now);
  while (changes_.next_time() == now) changes_.step();
  for (const auto& partition : partitions_) partition->look_again();
  for (const auto& partition : partitions_) partition->hand_over();
  now_ = now;
}

void Simulation::run_partitions(TimeNs until) {
  due_.clear();
  for (std::uint32_t i = 0; i < partitions_.size(); ++i) {
    if (partitions_[i]->next() < until) due_.push_back(i);
  }
  const auto run = [&](std::uint32_t i) { partitions_[due_[i]]->run(until); };
  if (crew_ && due_.size() > 1 && fired_in_window_ >= kWorthThreads) {
    crew_->run(static_cast<std::uint32_t>(due_.size()), run);
  } else {
    for (std::uint32_t i = 0; i < due_.size(); ++i) run(i);
  }
}

// False when nothing is to come any more. Where windows end follows from the topology, the times of events and what
// the experiment says, so that a run ends at the same time whatever its partitions are.
bool Simulation::advance() {
  const TimeNs next_change = changes_.next_time();
  const TimeNs next_look = looks_.next_time();
  TimeNs next = std::min(next_change, next_look);
  for (const auto& partition : partitions_) next = std::min(next, partition->next());
  if (next == kNever) return false;
  if (next == next_change) {
    change(next);
    return true;
  }
  const TimeNs window = partition_plan_.window;
  TimeNs until = std::min((next / window + 1) * window, next_change);
  const bool cut_short = next_look < until;
  if (cut_short) until = next_look + 1;
  run_partitions(until);
  const std::uint64_t fired_before = std::exchange(fired_, fired());
  // A window that a look has cut short says nothing of the whole one that follows.
  if (!cut_short) fired_in_window_ = fired_ - fired_before;
  for (const auto& partition : partitions_) partition->hand_over();
  observer_.hear(witnesses_);
  now_ = until - 1;
  while (looks_.next_time() < until) looks_.step();
  return true;
}

bool Simulation::run(const std::function<bool()>& stop) {
  const std::uint64_t all = experiment_.plan.transfers.size();
  std::uint64_t asked_at = fired_ = fired();
  while (!limit_reached_) {
    const PartitionCounters sum = counted();
    if (sum.ended + sum.failed >= all) break;
    if (std::any_of(partitions_.begin(), partitions_.end(), [](const auto& p) { return p->asks_to_stop(); })) break;
    if (!advance()) break;
    if (fired_ - asked_at < kStopEvery) continue;
    if (stop()) break;
    asked_at = fired_;
  }
  return counted().ended == all;
}

}  // namespace weft::sim
