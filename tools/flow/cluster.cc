// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/cluster.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "collectives/policy/patience.h"

namespace weft::flow {
namespace {

using inc::policy::PolicyKind;

/// Locks do not expire: no rank crashes here.
constexpr TimeNs kLease = std::numeric_limits<TimeNs>::max() / 4;

/// 146 years: nothing is simulated beyond, so that times that are added up do not overflow.
constexpr TimeNs kEndOfTime = TimeNs{1} << 62;

TimeNs rounded_up(double ns) {
  return static_cast<TimeNs>(std::min(std::ceil(ns - 1e-6), static_cast<double>(kEndOfTime)));
}

/// So many periods.
TimeNs times(std::uint32_t count, TimeNs period) {
  return period <= kEndOfTime / count ? count * period : kEndOfTime;
}

void mix(std::uint64_t& hash, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) hash = (hash ^ (value >> (8 * i) & 0xff)) * 0x100000001b3ull;
}

}  // namespace

std::string_view to_string(GroupKind kind) noexcept {
  switch (kind) {
    case GroupKind::tensor:
      return "tensor";
    case GroupKind::data:
      return "data";
    default:
      return "pipeline";
  }
}

void Counts::add(const Counts& other, double times) noexcept {
  const auto whole = static_cast<std::int64_t>(times);
  in_network += static_cast<std::uint64_t>(whole) * other.in_network;
  in_rings += static_cast<std::uint64_t>(whole) * other.in_rings;
  refused += static_cast<std::uint64_t>(whole) * other.refused;
  waits += static_cast<std::uint64_t>(whole) * other.waits;
  inside += static_cast<std::uint64_t>(whole) * other.inside;
  for (int i = 0; i < 3; ++i) tier_bytes[i] += times * other.tier_bytes[i];
}

bool Cluster::run(const std::function<bool()>& stop) {
  std::uint64_t next_look = 0;
  while (!queue_.empty()) {
    if (stop && events_ >= next_look) {
      next_look = events_ + 5000;
      if (stop()) break;
    }
    if (queue_.top().at >= kEndOfTime) break;
    step_until(queue_.top().at);
  }
  return ended_ == jobs_.size();
}

/// Everything that happens up to a time. Rates are made fair once for all that happens at one instant, and before what
/// may have to look at what jobs are doing: failures, and jobs that begin.
void Cluster::step_until(TimeNs at) {
  while (!queue_.empty() && queue_.top().at <= at) {
    now_ = queue_.top().at;
    bool admits = false, fails = false;
    while (!queue_.empty() && queue_.top().at == now_) {
      const Event event = queue_.top();
      queue_.pop();
      if (event.kind == Kind::admit) {
        admits = true;
      } else if (event.kind == Kind::failure) {
        if (!std::exchange(fails, true)) settle();
        apply(options_.failures[event.group], event.version != 0);
      } else {
        handle(event);
      }
    }
    settle();
    if (admits) {
      ask_again();
      admit();
      settle();
    }
  }
}

void Cluster::handle(const Event& event) {
  Running* const job = running_[event.job].get();
  if (job == nullptr) return;
  switch (event.kind) {
    case Kind::transfer_end:
      if (job->groups[event.group].version == event.version) sent(event.job, event.group);
      break;
    case Kind::settled:
      if (job->groups[event.group].version == event.version) done(event.job, event.group);
      break;
    case Kind::computed:
      ++events_;
      begin_collectives(event.job);
      break;
    case Kind::iterations_end:
      if (job->version != event.version) break;
      ++events_;
      wake(event.job);
      break;
    case Kind::failure:
    case Kind::admit:
      break;
  }
}

void Cluster::settle() {
  for (const TransferId id : shares_.settle()) {
    const Owner owner = owners_[id];
    Group& g = running_[owner.job]->groups[owner.group];
    g.left = std::max(0.0, g.left - g.rate * static_cast<double>(now_ - g.since));
    g.since = now_;
    g.rate = shares_.rate(id);
    const TimeNs end = now_ + std::max<TimeNs>(1, rounded_up(g.left / g.rate));
    queue_.push({end, Kind::transfer_end, owner.job, owner.group, ++g.version});
  }
}

void Cluster::begin_phase(JobId job) {
  Running& r = *running_[job];
  const Phase& phase = jobs_[job].plan->phases[r.phase];
  if (phase.compute_ns == 0) return begin_collectives(job);
  queue_.push({now_ + phase.compute_ns, Kind::computed, job, 0, 0});
}

void Cluster::begin_collectives(JobId job) {
  Running& r = *running_[job];
  const Phase& phase = jobs_[job].plan->phases[r.phase];
  r.pending = static_cast<std::uint32_t>(phase.collectives.size());
  if (r.pending == 0) return next_phase(job);
  for (const Collective& c : phase.collectives) r.groups[c.group].asked = now_;
  for (const Collective& c : phase.collectives) begin(job, c.group, c);
}

/// For the group that has the lock: whether it is done over its tree, after that group, before it would be in its ring.
bool Cluster::waits(const Group& g, const Collective& collective, inc::policy::GroupId holder) const {
  const double patience = options_.admission.patience;
  const std::vector<Group>& groups = running_[job_of_.at(holder)]->groups;
  const Group& other = groups[holder - groups.front().id];
  const double bytes = collective.bytes * collective.count / fabric_.link_rate();
  const inc::policy::Want want{g.asked, g.tree->volume * bytes, patience * g.ring.volume * bytes};
  return inc::policy::pays_to_wait(now_, want, inc::policy::Holding{other.locked_at, other.until, patience});
}

/// What was locked is anybody's, those who wait for it first.
void Cluster::unlock(Group& g) {
  if (!std::exchange(g.locked, false)) return;
  locks_.unlock(g.id, g.memory);
  auto waiting = waiting_.extract(g.id);
  if (waiting.empty()) return;
  for (const Owner& owner : waiting.mapped()) {
    Group& other = running_[owner.job]->groups[owner.group];
    other.waiting = false;
    begin(owner.job, owner.group, *other.collective);
  }
}

/// A tree, if the group has one and gets its locks; otherwise the ring. nullptr: it waits.
const Cluster::Way* Cluster::choose(JobId job, std::uint32_t group, const Collective& collective) {
  Group& g = running_[job]->groups[group];
  Counts& counts = results_[job].counts;
  if (!g.tree) {
    if (jobs_[job].plan->groups[collective.group].kind != GroupKind::pipeline) {
      (g.ring.transfer ? counts.in_rings : counts.inside) += collective.count;
    }
    return &g.ring;
  }
  if (options_.policy == PolicyKind::temporal) {
    if (const auto busy = locks_.lock(g.id, g.memory, now_, kLease)) {
      if (waits(g, collective, busy->holder)) {
        ++counts.waits;
        waiting_[busy->holder].push_back({job, group});
        g.waiting = true;
        return nullptr;
      }
      counts.in_rings += collective.count;
      ++counts.refused;
      return &g.ring;
    }
    g.locked = true;
    const double ns = g.tree->volume * collective.bytes * collective.count / fabric_.link_rate();
    g.locked_at = now_;
    g.until = now_ + static_cast<TimeNs>(ns);
  }
  counts.in_network += collective.count;
  return &*g.tree;
}

void Cluster::begin(JobId job, std::uint32_t group, const Collective& collective) {
  Group& g = running_[job]->groups[group];
  g.collective = &collective;
  const Way* const chosen = choose(job, group, collective);
  if (chosen == nullptr) return;
  const Way& way = *chosen;
  const double bytes = collective.bytes * collective.count;
  g.way = &way;
  g.tail_ns = rounded_up(way.more_ns * bytes + way.latency_ns * collective.count);
  if (!way.transfer) {
    queue_.push({now_ + std::max<TimeNs>(1, g.tail_ns), Kind::settled, job, group, ++g.version});
    return;
  }
  send(job, g, way.volume * bytes);
}

void Cluster::send(JobId job, Group& g, double bytes) {
  g.left = bytes;
  g.rate = 0;
  g.since = now_;
  g.sending = true;
  Counts& counts = results_[job].counts;
  for (const Use& use : shares_.uses(*g.way->transfer)) {
    counts.tier_bytes[fabric_.tier_of(use.link)] += use.flows * bytes;
  }
  shares_.start(*g.way->transfer);
}

void Cluster::sent(JobId job, std::uint32_t group) {
  ++events_;
  Group& g = running_[job]->groups[group];
  shares_.stop(*g.way->transfer);
  g.sending = false;
  ++g.version;
  if (g.tail_ns == 0) return done(job, group);
  queue_.push({now_ + g.tail_ns, Kind::settled, job, group, g.version});
}

void Cluster::done(JobId job, std::uint32_t group) {
  if (running_[job]->groups[group].tail_ns != 0) ++events_;
  Group& g = running_[job]->groups[group];
  unlock(g);
  if (--running_[job]->pending == 0) next_phase(job);
}

void Cluster::next_phase(JobId job) {
  Running& r = *running_[job];
  if (++r.phase == jobs_[job].plan->phases.size()) {
    end_iteration(job);
  } else {
    begin_phase(job);
  }
}

/// So many that follow each other from a time on, all alike.
void Cluster::note_iterations(JobId job, std::uint32_t count, TimeNs from, TimeNs period, const Counts& each) {
  JobResult& result = results_[job];
  for (std::uint32_t i = 0; i < count; ++i) {
    mix(result.hash, from + (i + 1) * period);
    mix(result.hash, each.in_network);
    mix(result.hash, each.in_rings);
    mix(result.hash, each.refused);
  }
  result.iterations += count;
  const double* const bytes = each.tier_bytes;
  timeline_.add(from, from + count * period,
                std::array<double, kAmounts>{count * bytes[0], count * bytes[1], count * bytes[2], 0, 0});
}

/// To be called before jobs begin or end.
void Cluster::note_occupancy() {
  if (now_ <= occupied_since_) return;
  const auto time = static_cast<double>(now_ - occupied_since_);
  timeline_.add(occupied_since_, now_,
                std::array<double, kAmounts>{0, 0, 0, time * static_cast<double>(busy_gpus_),
                                             time * static_cast<double>(memory_)});
  occupied_since_ = now_;
}

void Cluster::end_iteration(JobId job) {
  Running& r = *running_[job];
  JobResult& result = results_[job];
  Counts each = result.counts;
  each.add(r.before, -1);
  const TimeNs period = now_ - r.iteration_start;
  note_iterations(job, 1, r.iteration_start, period, each);
  r.phase = 0;
  const std::uint32_t left = jobs_[job].plan->iterations - result.iterations;
  if (left == 0) return end_job(job);
  const bool was_alone = std::exchange(r.alone, is_alone(job));
  r.iteration_start = now_;
  r.before = result.counts;
  if (!options_.closed_form || !was_alone || !r.alone) return begin_phase(job);
  // Nobody else matters, and it begins as it did before: all that are left are like the last one.
  r.skipping = true;
  r.skip_from = now_;
  r.period = period;
  r.each = each;
  queue_.push({now_ + times(left, period), Kind::iterations_end, job, 0, ++r.version});
}

void Cluster::end_job(JobId job) {
  note_occupancy();
  results_[job].end_ns = now_;
  results_[job].ended = true;
  ++ended_;
  free_all(job);
  queue_.push({now_, Kind::admit, 0, 0, 0});
}

/// Goes on one by one: takes whole iterations as done, and goes through what has happened of the next.
void Cluster::wake(JobId job) {
  Running& r = *running_[job];
  if (!r.skipping) return;
  // What others began at this instant must not be taken for a part of the past that is looked at here.
  settle();
  r.skipping = false;
  ++r.version;
  const auto count = static_cast<std::uint32_t>((now_ - r.skip_from) / r.period);
  note_iterations(job, count, r.skip_from, r.period, r.each);
  results_[job].counts.add(r.each, count);
  skipped_ += count;
  if (results_[job].iterations == jobs_[job].plan->iterations) return end_job(job);
  r.before = results_[job].counts;
  r.iteration_start = r.skip_from + count * r.period;
  // Its transfers meet no others until now, so that it can be looked at on its own.
  Queue others;
  std::swap(queue_, others);
  const TimeNs until = std::exchange(now_, r.iteration_start);
  begin_phase(job);
  settle();
  step_until(until);
  now_ = until;
  for (; !queue_.empty(); queue_.pop()) others.push(queue_.top());
  std::swap(queue_, others);
}

std::uint64_t Cluster::trace_hash() const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const JobResult& result : results_) {
    for (const std::uint64_t value : {result.hash, result.start_ns, result.end_ns}) mix(hash, value);
    mix(hash, result.with_tree);
    mix(hash, result.without_tree);
  }
  return hash;
}

}  // namespace weft::flow
