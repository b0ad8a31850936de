// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Jobs that begin and end: GPUs, ways of groups, and which jobs can change anything for each other.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "tools/flow/cluster.h"

namespace weft::flow {
namespace {

using inc::policy::NodeId;
using inc::policy::PolicyKind;

constexpr std::uint32_t kServer = 8;  ///< GPUs that packed jobs get together where there are no servers
constexpr std::uint64_t kMostPeriod = std::uint64_t{1} << 40;
constexpr unsigned kTiers = 3;

}  // namespace

Memory memory_in_units(std::uint64_t units, const FabricSpec& fabric, std::uint64_t hop_ns) {
  Memory m;
  m.of_switch = units;
  m.of_group.unit_bytes = 1;
  // What is under way at the full rate in the round trip of the deepest tree.
  const std::uint64_t bits = std::uint64_t{fabric.link_mbps} * 2 * kTiers * std::max<std::uint64_t>(1, hop_ns);
  m.of_group.message_bytes = static_cast<std::uint32_t>(bits / 8000 + 1);
  return m;
}

Cluster::Cluster(const ClusterOptions& options, std::vector<Job> jobs)
    : options_(options),
      jobs_(std::move(jobs)),
      results_(jobs_.size()),
      running_(jobs_.size()),
      fabric_(options.fabric),
      shares_(fabric_.capacities()),
      free_(options.fabric.gpus(),
            options.scale_up.gpus > 1 ? options.scale_up.gpus : std::min(kServer, options.fabric.gpus_per_leaf),
            options.placement, options.seed),
      claims_(shares_.links()) {
  if (options_.policy) {
    const auto abilities = inc::policy::weft_abilities(options_.memory.of_switch);
    policy_ = std::make_unique<inc::policy::Policy>(
        fabric_.topology(abilities),
        inc::policy::PolicyOptions{*options_.policy, std::max<std::uint64_t>(1, options_.hop_ns),
                                   options_.admission.least_hosts, options_.admission.local_per_mille,
                                   options_.admission.shared_per_mille});
  }
  memory_of_.resize(policy_ ? policy_->topology().nodes().size() : 0);
  freed_.resize(memory_of_.size());
  node_down_.resize(memory_of_.size());
  link_down_.resize(shares_.links() / 2);
  for (const Job& job : jobs_) queue_.push({job.arrival_ns, Kind::admit, 0, 0, 0});
  for (std::uint32_t i = 0; i < options_.failures.size(); ++i) {
    queue_.push({options_.failures[i].from, Kind::failure, 0, i, 0});
    queue_.push({options_.failures[i].to, Kind::failure, 0, i, 1});
  }
}

/// First come, first served: a job that does not fit keeps those behind it waiting.
void Cluster::admit() {
  while (next_arrival_ < jobs_.size() && jobs_[next_arrival_].arrival_ns <= now_) ++next_arrival_;
  while (next_waiting_ < next_arrival_) {
    auto gpus = free_.take(jobs_[next_waiting_].plan->ranks);
    if (!gpus) return;
    start_job(static_cast<JobId>(next_waiting_++), std::move(*gpus));
  }
}

void Cluster::start_job(JobId job, std::vector<Gpu> gpus) {
  ++events_;
  note_occupancy();
  busy_gpus_ += gpus.size();
  results_[job].start_ns = now_;
  results_[job].started = true;
  running_[job] = std::make_unique<Running>();
  running_[job]->gpus = std::move(gpus);
  running_[job]->iteration_start = now_;
  make_groups(job);
  claim(job);
  note_snapshot();
  running_[job]->alone = is_alone(job);
  begin_phase(job);
}

TransferId Cluster::define(JobId job, std::uint32_t group, std::vector<Use> uses, double cap) {
  const TransferId id = shares_.define(std::move(uses), cap);
  if (id >= owners_.size()) owners_.resize(id + 1);
  owners_[id] = {job, group};
  return id;
}

double Cluster::ring_volume(std::size_t ranks) const noexcept {
  const auto n = static_cast<double>(ranks);
  return options_.ring_sends_twice ? 2 : 2 * (n - 1) / n;
}

/// Of a sum of GPUs of one server.
double Cluster::volume_inside(std::size_t ranks) const noexcept {
  return options_.scale_up.in_network ? 1 : ring_volume(ranks);
}

/// One GPU of each server, which speaks for it.
std::vector<Gpu> Cluster::leaders(const std::vector<Gpu>& gpus) const {
  std::vector<Gpu> out;
  for (const Gpu g : gpus) {
    if (out.empty() || server_of(out.back()) != server_of(g)) out.push_back(g);
  }
  return out;
}

/// When each group communicates in an iteration that nobody disturbs, by the switches; and how long that takes.
std::vector<TimeNs> Cluster::busy_times(JobId job, TimeNs& period) const {
  const JobPlan& plan = *jobs_[job].plan;
  std::vector<TimeNs> busy(plan.groups.size(), 0);
  double all = 0;
  for (const Phase& phase : plan.phases) {
    double longest = 0;
    for (const Collective& c : phase.collectives) {
      const double ns = c.bytes * c.count / fabric_.link_rate();
      busy[c.group] += static_cast<TimeNs>(ns);
      longest = std::max(longest, ns);
    }
    all += static_cast<double>(phase.compute_ns) + longest;
  }
  period = static_cast<TimeNs>(all) + 1;
  return busy;
}

void Cluster::make_groups(JobId job) {
  const JobPlan& plan = *jobs_[job].plan;
  Running& r = *running_[job];
  r.groups.resize(plan.groups.size());
  JobResult& result = results_[job];
  for (std::uint32_t i = 0; i < plan.groups.size(); ++i) {
    Group& g = r.groups[i];
    g.id = next_group_++;
    for (const std::uint32_t rank : plan.groups[i].ranks) g.gpus.push_back(r.gpus[rank]);
    if (plan.groups[i].kind != GroupKind::pipeline) std::sort(g.gpus.begin(), g.gpus.end());
    make_ring(job, plan.groups[i], g);
    if (plan.groups[i].kind != GroupKind::pipeline && !g.ring.transfer) ++result.inside;
  }
  const std::vector<std::uint32_t> asking = without_tree(job);
  make_trees(job, asking);
  for (const std::uint32_t i : asking) ++(r.groups[i].tree ? result.with_tree : result.without_tree);
}

/// Groups that add something up over the fabric, and have no tree.
std::vector<std::uint32_t> Cluster::without_tree(JobId job) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < running_[job]->groups.size(); ++i) {
    const Group& g = running_[job]->groups[i];
    const bool sums = jobs_[job].plan->groups[i].kind != GroupKind::pipeline;
    if (sums && g.ring.transfer && !g.tree) out.push_back(i);
  }
  return out;
}

/// Groups ask one by one, or those of a kind together.
void Cluster::make_trees(JobId job, const std::vector<std::uint32_t>& groups) {
  if (!policy_) return;
  const JobPlan& plan = *jobs_[job].plan;
  TimeNs period = 0;
  const std::vector<TimeNs> busy = busy_times(job, period);
  for (std::size_t first = 0; first < groups.size();) {
    std::vector<inc::policy::Request> requests;
    std::size_t next = first;
    do {
      requests.push_back(request_of(job, groups[next++], busy, period));
    } while (options_.admission.together && next < groups.size() &&
             plan.groups[groups[next]].kind == plan.groups[groups[first]].kind);
    const std::vector<inc::policy::Decision> decisions = decide(requests);
    for (std::size_t i = 0; i < decisions.size() && decisions.back().admitted(); ++i) {
      take_tree(job, groups[first + i], requests[i], decisions[i]);
    }
    // Those that were not asked for would be of no use without the one that was refused.
    const inc::policy::Decision& last = decisions.back();
    reasons_[last.reason] += requests.size();
    for (std::size_t i = first; i < next; ++i) {
      Group& g = running_[job]->groups[groups[i]];
      g.reason = last.reason;
      g.blocked_at = last.blockers.empty() ? NodeId{inc::policy::kNoNode} : last.blockers.front().node;
      if (!last.blockers.empty() && last.blockers.front().link != inc::policy::kNoLink) {
        g.blocked_at = policy_->topology().link(last.blockers.front().link).lower;
      }
    }
    first = next;
  }
}

void Cluster::make_ring(JobId job, const GroupPlan& plan, Group& g) {
  const bool sends = plan.kind == GroupKind::pipeline;
  const std::size_t n = g.gpus.size();
  g.ring.volume = sends ? 1 : ring_volume(n);
  std::vector<Use> uses;
  unsigned longest = 0;
  for (std::size_t i = 0; i < (sends ? 1 : n); ++i) {
    const Gpu from = g.gpus[i], to = g.gpus[(i + 1) % n];
    if (options_.scale_up.gpus > 1 && server_of(from) == server_of(to)) continue;
    const std::uint64_t choice = Rng(options_.seed ^ (std::uint64_t{g.id} << 32) ^ (i << 16) ^ from).next();
    const std::vector<Use> way = fabric_.way(from, to, options_.paths, choice);
    fabric_.count(way, 1);
    uses.insert(uses.end(), way.begin(), way.end());
    longest = std::max(longest, fabric_.hops(from, to));
  }
  if (uses.empty()) {
    g.ring.more_ns = (sends ? g.ring.volume : volume_inside(n)) / options_.scale_up.bytes_per_ns;
    return;
  }
  const auto index = static_cast<std::uint32_t>(&g - running_[job]->groups.data());
  const double inside = options_.scale_up.gpus > 1 ? options_.scale_up.bytes_per_ns : fabric_.link_rate();
  g.ring.transfer = define(job, index, merged(std::move(uses)), inside);
  const double steps = sends ? 1 : 2.0 * static_cast<double>(n - 1);
  if (options_.count_latency) g.ring.latency_ns = steps * longest * static_cast<double>(options_.hop_ns);
}

std::vector<inc::policy::Decision> Cluster::decide(const std::vector<inc::policy::Request>& requests) {
  if (!options_.clock) return policy_->place_all(requests);
  const std::uint64_t before = options_.clock();
  std::vector<inc::policy::Decision> decisions = policy_->place_all(requests);
  const std::uint64_t took = options_.clock() - before;
  decision_times_.insert(decision_times_.end(), decisions.size(), took / decisions.size());
  return decisions;
}

/// Keeps what groups have, if it is notably more than when it was kept before.
void Cluster::note_snapshot() {
  if (!policy_ || memory_ == 0 || memory_ < snapshot_memory_ + snapshot_memory_ / 20) return;
  snapshot_ = {now_, {}};
  snapshot_memory_ = memory_;
  for (JobId job = 0; job < running_.size(); ++job) {
    if (!running_[job]) continue;
    for (std::uint32_t i = 0; i < running_[job]->groups.size(); ++i) {
      const Group& g = running_[job]->groups[i];
      const GroupKind kind = jobs_[job].plan->groups[i].kind;
      if (kind == GroupKind::pipeline || !g.ring.transfer) continue;
      GroupState& state = snapshot_.groups.emplace_back(
          GroupState{job, kind, g.gpus, inc::policy::kNoNode, {}, g.reason, g.blocked_at});
      if (!g.tree) continue;
      state.root = g.root;
      for (const Use& use : shares_.uses(*g.tree->transfer)) {
        if (use.link % 2 == 0) state.links.push_back(use.link / 2);
      }
    }
  }
}

/// What switches hold now.
void Cluster::note_memory(const std::vector<inc::policy::Allocation>& where) {
  for (const auto& a : where) {
    const std::uint64_t bytes = policy_->ledger().at(a.node).bytes;
    memory_ += bytes - std::exchange(memory_of_[a.node], bytes);
    most_memory_ = std::max(most_memory_, bytes);
  }
}

inc::policy::Request Cluster::request_of(JobId job, std::uint32_t index, const std::vector<TimeNs>& busy,
                                         TimeNs period) const {
  const Group& g = running_[job]->groups[index];
  const std::vector<Gpu> gpus = options_.scale_up.gpus > 1 ? leaders(g.gpus) : g.gpus;
  inc::policy::Request request;
  request.group = g.id;
  for (const Gpu gpu : gpus) request.hosts.push_back(fabric_.node_of(gpu));
  request.types = inc::policy::bit(inc::DataType::fp32);
  request.memory = options_.memory.of_group;
  request.duty_per_mille =
      static_cast<std::uint32_t>(std::clamp<TimeNs>((busy[index] * 1000 + period - 1) / period, 1, 1000));
  if (options_.stagger) {
    request.job = job + 1;
    request.period_ns = period <= kMostPeriod ? period : 0;
    const bool tensor = jobs_[job].plan->groups[index].kind == GroupKind::tensor;
    if (options_.admission.moments) request.moment = tensor ? 1 : 2;
  }
  return request;
}

void Cluster::take_tree(JobId job, std::uint32_t index, const inc::policy::Request& request,
                        const inc::policy::Decision& decision) {
  Group& g = running_[job]->groups[index];
  job_of_[g.id] = job;
  g.memory = decision.memory;
  g.root = decision.tree.root;
  note_memory(g.memory);
  std::vector<Use> uses;
  for (const auto& edge : decision.tree.edges) {
    uses.push_back({2 * edge.link, 1});
    uses.push_back({2 * edge.link + 1, 1});
  }
  // A window that is smaller than what is under way at the full rate (EPIC appendix F).
  const unsigned depth = policy_->topology().node(decision.tree.root).tier;
  const double round_trip = 2.0 * depth * static_cast<double>(policy_->options().hop_ns);
  const double cap = static_cast<double>(decision.units) * request.memory.message_bytes / round_trip;
  Way& way = g.tree.emplace(Way{});
  way.transfer = define(job, index, merged(std::move(uses)), cap * fabric_.spec().payload_ratio);
  if (options_.count_latency) way.latency_ns = 2.0 * depth * static_cast<double>(options_.hop_ns);
  std::size_t most = 1, same = 1;
  for (std::size_t i = 1; i < g.gpus.size() && options_.scale_up.gpus > 1; ++i) {
    same = server_of(g.gpus[i]) == server_of(g.gpus[i - 1]) ? same + 1 : 1;
    most = std::max(most, same);
  }
  if (most > 1) way.more_ns = volume_inside(most) / options_.scale_up.bytes_per_ns;
}

/// What the job may ask of each link: the most of any phase, where each group takes the way that needs more.
void Cluster::claim(JobId job) {
  Running& r = *running_[job];
  std::map<std::uint32_t, std::uint64_t> most, phase_demand, of_group;
  std::set<std::vector<std::uint32_t>> seen;
  for (const Phase& phase : jobs_[job].plan->phases) {
    std::vector<std::uint32_t> groups;
    for (const Collective& c : phase.collectives) groups.push_back(c.group);
    if (!seen.insert(groups).second) continue;
    phase_demand.clear();
    for (const std::uint32_t index : groups) {
      of_group.clear();
      const Group& g = r.groups[index];
      for (const Way* way : {&g.ring, g.tree ? &*g.tree : nullptr}) {
        if (way == nullptr || !way->transfer) continue;
        for (const Use& use : shares_.uses(*way->transfer)) {
          of_group[use.link] = std::max(of_group[use.link], shares_.demand(*way->transfer, use) + 1);
        }
      }
      for (const auto& [link, demand] : of_group) phase_demand[link] += demand;
    }
    for (const auto& [link, demand] : phase_demand) most[link] = std::max(most[link], demand);
  }
  for (const auto& [link, demand] : most) {
    r.claims.push_back({link, demand});
    claims_[link].demand += demand;
    claims_[link].jobs.push_back(job);
    if (!shares_.scarce(link, claims_[link].demand, 0)) continue;
    for (const JobId other : claims_[link].jobs) disturb(other);
  }
  for (const Group& g : r.groups) {
    for (const auto& a : g.memory) {
      for (const auto& share : policy_->ledger().at(a.node).find(a.block)->shares) disturb(job_of_.at(share.group));
    }
  }
}

/// Another job can matter to it from now on.
void Cluster::disturb(JobId job) {
  Running& r = *running_[job];
  r.alone = false;
  r.may_be_alone = true;
  wake(job);
}

bool Cluster::is_alone(JobId job) {
  Running& r = *running_[job];
  if (!r.may_be_alone) return r.alone;
  r.may_be_alone = false;
  for (const Wish& wish : r.claims) {
    const Claim& claim = claims_[wish.link];
    if (claim.jobs.size() > 1 && shares_.scarce(wish.link, claim.demand, 0)) return false;
  }
  for (const Group& g : r.groups) {
    for (const auto& a : g.memory) {
      for (const auto& share : policy_->ledger().at(a.node).find(a.block)->shares) {
        if (job_of_.at(share.group) != job) return false;
      }
    }
  }
  return true;
}

void Cluster::unclaim(JobId job) {
  Running& r = *running_[job];
  for (const Wish& wish : r.claims) {
    Claim& claim = claims_[wish.link];
    claim.demand -= wish.demand;
    std::erase(claim.jobs, job);
    for (const JobId other : claim.jobs) running_[other]->may_be_alone = true;
  }
  r.claims.clear();
}

void Cluster::give_up_tree(Group& g) {
  for (const auto& a : g.memory) {
    for (const auto& share : policy_->ledger().at(a.node).find(a.block)->shares) {
      running_[job_of_.at(share.group)]->may_be_alone = true;
    }
  }
  static_cast<void>(policy_->release(g.id));
  note_memory(g.memory);
  for (const auto& a : g.memory) freed_[a.node] = true;
  g.memory.clear();
  job_of_.erase(g.id);
  shares_.forget(*g.tree->transfer);
  g.tree.reset();
}

void Cluster::free_all(JobId job) {
  Running& r = *running_[job];
  unclaim(job);
  for (Group& g : r.groups) {
    if (g.tree) give_up_tree(g);
    if (g.ring.transfer) {
      fabric_.count(shares_.uses(*g.ring.transfer), -1);
      shares_.forget(*g.ring.transfer);
    }
  }
  busy_gpus_ -= r.gpus.size();
  free_.give_back(r.gpus);
  running_[job].reset();
}

}  // namespace weft::flow
