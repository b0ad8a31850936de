// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Jobs on a cluster, from event to event. Groups get trees and memory from collectives/policy, as weft-inc-manager
// gives them out; who gets none, or does not get its locks, communicates in a ring (EPIC 6.2, appendix L).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/policy/lock_recorder.h"
#include "collectives/policy/policy.h"
#include "tools/flow/fabric.h"
#include "tools/flow/fair_shares.h"
#include "tools/flow/free_gpus.h"
#include "tools/flow/plan.h"
#include "tools/flow/timeline.h"

namespace weft::flow {

/// GPUs of a server whose traffic between each other stays inside.
struct ScaleUp {
  std::uint32_t gpus = 1;      ///< of a server, numbered through; 1: there is none
  double bytes_per_ns = 1000;  ///< of each GPU, in each direction
  bool in_network = false;  ///< its switch adds up, whatever the policy: GPUs send a vector once, and receive the sum
};

/// What a switch holds for groups, and what a group asks for.
struct Memory {
  std::uint64_t of_switch = 0;  ///< bytes, or units where a unit counts one byte
  inc::policy::MemoryDemand of_group{};
};
/// As the paper counts it: a group takes one unit at each switch of its tree, which is enough for the full rate.
[[nodiscard]] Memory memory_in_units(std::uint64_t units, const FabricSpec& fabric, std::uint64_t hop_ns);

/// Who gets a tree, beyond the policy.
struct Admission {
  std::uint32_t least_hosts = 2;                               ///< see PolicyOptions
  std::uint32_t local_per_mille = 0, shared_per_mille = 1000;  ///< likewise
  /// Tensor groups of a job, and data groups, have trees all together or not at all: see Policy::place_all().
  bool together = false;
  /// When a job ends, groups that have no tree and hosts at the leaves of its trees ask for one.
  bool ask_again = false;
  /// Policies learn that tensor groups of a job communicate all at the same time, and data groups: see Request::moment.
  bool moments = false;
  /// A group whose memory is locked waits for it, if it will be done before its ring would be that many times over: a
  /// ring that other flows cross is slower than it would be alone. 0: nobody waits.
  double patience = 0;
};

/// A switch or a link that is down for some time. What is left connects all leaves (Fabric::cut_off()).
struct Failure {
  std::vector<inc::policy::LinkId> links;   ///< of the switch, or the link itself
  std::optional<inc::policy::NodeId> node;  ///< the switch
  TimeNs from = 0, to = 0;
};
/// Of a switch, with all of its links.
[[nodiscard]] Failure failure_of(const inc::policy::Topology& topology, inc::policy::NodeId node, TimeNs from,
                                 TimeNs to);

struct ClusterOptions {
  FabricSpec fabric{};
  ScaleUp scale_up{};
  std::optional<inc::policy::PolicyKind> policy{};  ///< nullopt: rings for all
  Memory memory{};
  Admission admission{};
  Paths paths = Paths::balanced;
  /// A ring of an AllReduce sends 2 (n - 1) / n of the vector over each link; the paper's simulator counts it twice.
  bool ring_sends_twice = false;
  std::uint64_t hop_ns = 1000;  ///< see PolicyOptions
  bool count_latency = true;    ///< collectives take hop_ns for each link that the first bytes cross
  bool stagger = true;          ///< policies learn which groups are of one job, and its period
  bool closed_form = true;      ///< iterations that are all the same are not gone through one by one
  Placement placement = Placement::packed;
  std::uint64_t seed = 1;
  std::vector<Failure> failures{};
  /// Nanoseconds of real time, to see how long policies take to decide; may be empty. Results do not depend on it.
  std::function<std::uint64_t()> clock{};
};

/// Values of Cluster::timeline().
enum class Amount : std::uint8_t {
  gpu_bytes,         ///< payload on links of GPUs, both directions; spread evenly over each iteration
  leaf_spine_bytes,  ///< likewise
  spine_core_bytes,  ///< likewise
  busy_gpu_ns,       ///< of all GPUs
  memory_ns,         ///< in the unit of Memory, of all switches
};
inline constexpr std::size_t kAmounts = 5;

struct Job {
  std::shared_ptr<const JobPlan> plan;
  TimeNs arrival_ns = 0;
};

/// How collectives of a job went.
struct Counts {
  std::uint64_t in_network = 0;  ///< added up by switches
  std::uint64_t in_rings = 0;    ///< and sends of pipelines are not counted
  std::uint64_t refused = 0;     ///< of these, by a lock: each phase of a group tries once
  std::uint64_t waits = 0;       ///< for a lock
  std::uint64_t inside = 0;      ///< of a server
  double tier_bytes[3] = {};     ///< payload on links of each tier, both directions

  void add(const Counts& other, double times) noexcept;
};

struct JobResult {
  TimeNs start_ns = 0, end_ns = 0;
  std::uint32_t iterations = 0;                               ///< that are done
  std::uint32_t with_tree = 0, without_tree = 0, inside = 0;  ///< groups of AllReduces, when the job began
  std::uint32_t moved = 0, fell_back = 0;                     ///< groups, by failures: to another tree, to rings
  std::uint32_t came_back = 0;  ///< groups without a tree that got one, after a failure or another job
  Counts counts{};
  std::uint64_t hash = 0xcbf29ce484222325ull;  ///< of all ends of iterations, and counts at these times
  bool started = false, ended = false;
};

/// A group at some moment, that adds something up over the fabric.
struct GroupState {
  std::uint32_t job = 0;
  GroupKind kind = GroupKind::data;
  std::vector<Gpu> gpus;
  inc::policy::NodeId root = inc::policy::kNoNode;  ///< of its tree; kNoNode: it has none
  std::vector<inc::policy::LinkId> links;           ///< of its tree, those of hosts included
  inc::policy::Reason reason = inc::policy::Reason::none;
  inc::policy::NodeId blocked_at = inc::policy::kNoNode;  ///< the first place that stood in the way
};
struct Snapshot {
  TimeNs at = 0;
  std::vector<GroupState> groups;
};

class Cluster {
 public:
  /// @param jobs  none has more ranks than the fabric GPUs; ordered by arrival
  Cluster(const ClusterOptions& options, std::vector<Job> jobs);

  /// Runs until all jobs have ended, or until somebody wants to stop.
  /// What would happen more than 146 years (2^62 ns) after the beginning does not happen.
  /// @param stop  asked every few thousand events; may be empty
  /// @return whether all jobs have ended
  bool run(const std::function<bool()>& stop);

  [[nodiscard]] const std::vector<Job>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] const std::vector<JobResult>& results() const noexcept { return results_; }
  [[nodiscard]] const std::map<inc::policy::Reason, std::uint64_t>& reasons() const noexcept { return reasons_; }
  [[nodiscard]] TimeNs now() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
  [[nodiscard]] std::uint64_t iterations_in_closed_form() const noexcept { return skipped_; }
  [[nodiscard]] std::size_t ended() const noexcept { return ended_; }
  /// Most that a switch has held at a time, in the unit of Memory.
  [[nodiscard]] std::uint64_t most_memory() const noexcept { return most_memory_; }
  /// How long the policy took for each group that asked, in real time: ns, in the order in which they asked. Groups
  /// that asked together have equal shares of the time. Empty without ClusterOptions::clock.
  [[nodiscard]] const std::vector<std::uint64_t>& decision_times() const noexcept { return decision_times_; }
  /// By Amount. What jobs that run have done since their last iteration ended is not in it.
  [[nodiscard]] const Timeline& timeline() const noexcept { return timeline_; }
  /// When switches had about the most memory taken, to a twentieth. Empty when no group ever had a tree.
  [[nodiscard]] const Snapshot& snapshot() const noexcept { return snapshot_; }
  [[nodiscard]] const FairShares& shares() const noexcept { return shares_; }
  [[nodiscard]] const Fabric& fabric() const noexcept { return fabric_; }
  /// Of all that happened. The same options, jobs and seed give the same, with and without `closed_form`.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept;

 private:
  using JobId = std::uint32_t;
  enum class Kind : std::uint8_t { transfer_end, settled, computed, iterations_end, failure, admit };
  struct Event {
    TimeNs at = 0;
    Kind kind = Kind::admit;
    JobId job = 0;
    std::uint32_t group = 0;
    std::uint64_t version = 0;
    friend bool operator>(const Event& a, const Event& b) noexcept {
      return std::tie(a.at, a.kind, a.job, a.group) > std::tie(b.at, b.kind, b.job, b.group);
    }
  };
  using Queue = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

  /// One way for a group to communicate.
  struct Way {
    std::optional<TransferId> transfer;  ///< nullopt: all inside of a server
    double volume = 1;                   ///< bytes of a flow, for each byte of the vector
    double more_ns = 0;                  ///< for each byte of the vector, after the transfer: inside of servers
    double latency_ns = 0;               ///< of each collective
  };
  struct Group {
    inc::policy::GroupId id = 0;
    std::vector<Gpu> gpus;
    Way ring;
    std::optional<Way> tree;
    std::vector<inc::policy::Allocation> memory;
    inc::policy::NodeId root = inc::policy::kNoNode;         ///< of the tree
    inc::policy::Reason reason = inc::policy::Reason::none;  ///< why there is none
    inc::policy::NodeId blocked_at = inc::policy::kNoNode;
    // Of what runs:
    const Way* way = nullptr;
    const Collective* collective = nullptr;
    bool sending = false;       ///< its transfer runs
    double left = 0, rate = 0;  ///< bytes of a flow
    TimeNs since = 0;           ///< when `left` was right
    TimeNs tail_ns = 0;         ///< after the last byte
    bool locked = false, waiting = false;
    TimeNs asked = 0;                 ///< when its phase began to communicate
    TimeNs locked_at = 0, until = 0;  ///< while it is locked: when it ends, if nothing else is on its links
    std::uint64_t version = 0;
  };
  /// The most that a job may ask of a link at a time, in units of FairShares::demand().
  struct Wish {
    std::uint32_t link = 0;
    std::uint64_t demand = 0;
  };
  struct Running {
    std::vector<Gpu> gpus;
    std::vector<Group> groups;
    std::vector<Wish> claims;
    std::uint32_t phase = 0, pending = 0;
    TimeNs iteration_start = 0;
    Counts before{};           ///< when the iteration began
    bool alone = false;        ///< no other job can have changed anything since then
    bool may_be_alone = true;  ///< whether to look again whether it is
    // While it is not gone through:
    bool skipping = false;
    TimeNs skip_from = 0, period = 0;
    Counts each{};
    std::uint64_t version = 0;
  };
  struct Claim {
    std::uint64_t demand = 0;
    std::vector<JobId> jobs;
  };
  struct Owner {
    JobId job = 0;
    std::uint32_t group = 0;
  };

  // cluster.cc: what goes on
  void step_until(TimeNs at);
  void handle(const Event& event);
  void settle();
  void begin_phase(JobId job);
  void begin_collectives(JobId job);
  void begin(JobId job, std::uint32_t group, const Collective& collective);
  void send(JobId job, Group& group, double bytes);
  [[nodiscard]] const Way* choose(JobId job, std::uint32_t group, const Collective& collective);
  [[nodiscard]] bool waits(const Group& group, const Collective& collective, inc::policy::GroupId holder) const;
  void unlock(Group& group);
  void sent(JobId job, std::uint32_t group);
  void done(JobId job, std::uint32_t group);
  void next_phase(JobId job);
  void end_iteration(JobId job);
  void note_iterations(JobId job, std::uint32_t count, TimeNs from, TimeNs period, const Counts& each);
  void end_job(JobId job);
  void note_occupancy();
  void note_snapshot();
  // cluster_jobs.cc: jobs that begin and end
  void admit();
  void start_job(JobId job, std::vector<Gpu> gpus);
  void make_groups(JobId job);
  void make_ring(JobId job, const GroupPlan& plan, Group& group);
  void make_trees(JobId job, const std::vector<std::uint32_t>& groups);
  [[nodiscard]] inc::policy::Request request_of(JobId job, std::uint32_t index, const std::vector<TimeNs>& busy,
                                                TimeNs period) const;
  [[nodiscard]] std::vector<inc::policy::Decision> decide(const std::vector<inc::policy::Request>& requests);
  void take_tree(JobId job, std::uint32_t index, const inc::policy::Request& request,
                 const inc::policy::Decision& decision);
  void note_memory(const std::vector<inc::policy::Allocation>& where);
  [[nodiscard]] std::vector<TimeNs> busy_times(JobId job, TimeNs& period) const;
  [[nodiscard]] std::vector<Gpu> leaders(const std::vector<Gpu>& gpus) const;
  TransferId define(JobId job, std::uint32_t group, std::vector<Use> uses, double cap);
  void claim(JobId job);
  void free_all(JobId job);
  void unclaim(JobId job);
  void give_up_tree(Group& group);
  // cluster_failures.cc: what goes down and comes back
  void apply(const Failure& failure, bool up);
  void leave(JobId job, const std::vector<bool>& gone);
  void come_back(JobId job);
  void ask_again();
  [[nodiscard]] std::vector<std::uint32_t> without_tree(JobId job) const;
  /// What a group was sending when it had to move, and how many bytes of a flow are left; nullopt: all of it.
  struct Rest {
    std::uint32_t group = 0;
    std::optional<double> left;
  };
  void move_tree(JobId job, std::uint32_t group, std::vector<Rest>& rests);
  void move_ring(JobId job, std::uint32_t group, std::vector<Rest>& rests);
  double interrupt(JobId job, Group& group);
  [[nodiscard]] bool crosses(const std::optional<TransferId>& transfer, const std::vector<bool>& gone) const;
  [[nodiscard]] bool is_alone(JobId job);
  void disturb(JobId job);
  void wake(JobId job);
  [[nodiscard]] std::uint32_t server_of(Gpu gpu) const noexcept { return gpu / options_.scale_up.gpus; }
  [[nodiscard]] double ring_volume(std::size_t ranks) const noexcept;
  [[nodiscard]] double volume_inside(std::size_t ranks) const noexcept;

  ClusterOptions options_;
  std::vector<Job> jobs_;
  std::vector<JobResult> results_;
  std::vector<std::unique_ptr<Running>> running_;  ///< by job
  Fabric fabric_;
  FairShares shares_;
  FreeGpus free_;
  std::unique_ptr<inc::policy::Policy> policy_;
  inc::policy::TreeLocks locks_;
  std::map<inc::policy::GroupId, std::vector<Owner>> waiting_;  ///< by the group that has the lock
  std::vector<Owner> owners_;                                   ///< by transfer
  std::map<inc::policy::GroupId, JobId> job_of_;
  std::vector<Claim> claims_;  ///< by link
  Queue queue_;
  std::size_t next_arrival_ = 0, next_waiting_ = 0, ended_ = 0;
  inc::policy::GroupId next_group_ = 1;
  TimeNs now_ = 0;
  std::uint64_t events_ = 0, skipped_ = 0, most_memory_ = 0;
  std::map<inc::policy::Reason, std::uint64_t> reasons_;
  std::vector<std::uint64_t> decision_times_;
  Timeline timeline_{kAmounts};
  TimeNs occupied_since_ = 0;  ///< since then, jobs have had these:
  std::uint64_t busy_gpus_ = 0, memory_ = 0;
  std::vector<std::uint32_t> node_down_;  ///< by node: failures that it has
  std::vector<std::uint32_t> link_down_;
  std::vector<std::uint64_t> memory_of_;  ///< by node, as far as `memory_` knows
  Snapshot snapshot_;
  std::uint64_t snapshot_memory_ = 0;  ///< taken at that moment
  std::vector<bool> freed_;            ///< by node: memory of jobs that ended at this instant
};

}  // namespace weft::flow
