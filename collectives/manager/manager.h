// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// IncManager (EPIC 3.2, 3.3.1): places groups, installs them on all switches of their trees or on none, and takes them
// back when they are not needed, or their ranks are not heard of any more. Time is an argument; one call at a time.
//
// A group is recorded before the first switch hears of it, and as running before its ranks do. So whatever the process
// was doing when it ended, the record leads to every switch that may have the group.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/manager/agents.h"
#include "collectives/manager/discovery.h"
#include "collectives/manager/fabric.h"
#include "collectives/manager/tenants.h"
#include "switch/base/time.h"

namespace weft::inc::manager {

struct ManagerOptions {
  policy::PolicyOptions policy{};
  TimeNs lease_ns = 5'000'000'000;  ///< a group ends when one of its ranks has said nothing for so long
  TimeNs probe_ns = 1'000'000'000;  ///< from one look at all switches to the next
  /// Policy temporal: of the time that groups communicate which do not say it.
  std::uint32_t duty_per_mille = 500;
  TimeNs patience_ns = 0;  ///< a group waits for so long for what others have (policy::may_pass())
  /// Numbers of groups. Those outside are somebody else's: the manager leaves them alone.
  GroupId first_group = 1, last_group = 65'535;
  Tenants tenants{};
};

/// Why a call gave nothing, for programs. Names of policy::Reason are reasons, too.
enum class Refusal : std::uint8_t {
  none,
  bad_request,
  no_tree,             ///< `policy` says why
  switch_refused,      ///< a switch would not take its part
  switch_unreachable,  ///< a switch did not answer
  store_failed,
  unknown_group,  ///< there is none with this number and generation
  over_quota,     ///< its tenant would have more memory than it may
  not_permitted,  ///< it is another tenant's
};
/// "switch_refused"...
[[nodiscard]] std::string_view to_string(Refusal refusal) noexcept;

struct CreateRequest {
  GroupId group = 0;  ///< 0: any
  std::vector<Member> members;
  GroupOptions options;
  std::string tenant{};  ///< whose it will be: one of the options, or ""
};

struct CreateReply {
  Refusal refusal = Refusal::none;
  policy::Reason reason = policy::Reason::none;  ///< of no_tree
  std::vector<std::string> sentences;            ///< what was decided, or why not
  GroupId group = 0;
  std::uint64_t generation = 0;
  std::vector<EndpointRecord> endpoints;  ///< the switch's end for each rank
  std::uint32_t window = 0;               ///< messages that ranks may have under way
  bool turns = false;                     ///< ranks take a turn in front of each collective
  bool staggered = false;                 ///< policy temporal: its bursts keep out of those of its job's other groups
  std::uint64_t offset_ns = 0;            ///< if they begin at this time of the period
};

/// Why a group ended, or is about to.
enum class Ending : std::uint8_t {
  none,
  destroyed,       ///< it was asked for
  lease_expired,   ///< a rank was not heard of
  switch_lost_it,  ///< a switch does not have it any more
  switch_silent,   ///< a switch has not answered for as long as a lease
  not_installed,   ///< it was never whole
};
[[nodiscard]] std::string_view to_string(Ending ending) noexcept;

class Manager {
 public:
  /// @param agents, store  outlive this
  /// @param seed           of first PSNs between switches
  Manager(Fabric fabric, const ManagerOptions& options, Agents& agents, Store& store, std::uint64_t seed);

  /// From now on links may be found: `fabric` is that of `stated`. To be called before recover().
  void discover(StatedFabric stated) { discovery_.emplace(std::move(stated)); }
  /// What an agent hears of the links of its switch. Sentences for the agent: what of it is of no use, and why.
  [[nodiscard]] std::vector<std::string> report(const NeighbourReport& report);
  [[nodiscard]] const std::optional<Discovery>& discovery() const noexcept { return discovery_; }

  /// To be called first: takes over what the store has. Running groups go on, with new leases; what was half installed
  /// or half removed is removed. An error as a sentence.
  [[nodiscard]] std::optional<std::string> recover(TimeNs now);

  [[nodiscard]] CreateReply create(TimeNs now, const CreateRequest& request);
  /// create() in two parts, so that other calls need not wait for switches. Without orders it is over: `reply` says
  /// why.
  struct Creation {
    CreateReply reply;
    std::vector<InstallOrder> orders;
  };
  [[nodiscard]] Creation begin_create(TimeNs now, const CreateRequest& request);
  /// Before ranks are told: what was written is on the disk, or an error. By any thread.
  [[nodiscard]] std::optional<std::string> sync() { return store_.sync(); }
  /// The same before switches are asked, where the store is shared(). Otherwise they are not kept waiting for the disk:
  /// a group of which it says nothing after a power failure is removed from its switches, and no rank knows of it.
  [[nodiscard]] std::optional<std::string> sync_first() { return store_.shared() ? store_.sync() : std::nullopt; }
  /// When it is not, the group ends.
  /// @param reply  of a creation, after its first or second part
  [[nodiscard]] CreateReply not_written(CreateReply reply, const std::string& error);
  /// @param outcomes  of its orders
  [[nodiscard]] CreateReply end_create(TimeNs now, Creation creation, std::span<const Outcome> outcomes);
  /// What create() would answer, without switches and store.
  [[nodiscard]] CreateReply explain(const CreateRequest& request);
  /// A rank is alive; nullopt as rank: all are. False: there is no such group, or it is over.
  bool renew(TimeNs now, GroupId group, std::uint64_t generation, std::optional<std::uint32_t> rank);
  /// @param generation  0: whichever
  [[nodiscard]] Refusal destroy(TimeNs now, GroupId group, std::uint64_t generation, const Caller& caller = {});

  /// Ends groups whose leases are over, asks switches what they have, and repeats what they did not confirm.
  void tick(TimeNs now);

  /// destroy() and tick() in parts, so that other calls need not wait for switches. What ends groups (begin_create(),
  /// end_create(), not_written(), begin_destroy(), expire(), end_probe()) asks no switch to forget them, but notes that
  /// it is to be asked. Whoever has called one of these takes the orders of begin_removal() before other calls run,
  /// gives them to Agents::remove() while other calls run, and brings what became of them to end_removal().
  [[nodiscard]] Refusal begin_destroy(GroupId group, std::uint64_t generation, const Caller& caller = {});
  void expire(TimeNs now);
  /// The switches to be asked now; none: it is not time yet.
  [[nodiscard]] std::vector<policy::NodeId> begin_probe(TimeNs now);
  /// @param has  what they said: see Agents::list()
  void end_probe(const std::vector<policy::NodeId>& nodes, const std::vector<std::optional<std::vector<GroupId>>>& has);
  /// Switches that have come up, and have not said since what groups can have there.
  [[nodiscard]] std::vector<policy::NodeId> to_be_asked() const;
  /// New groups have there what both the file and the switch allow.
  /// @param says  see Agents::abilities(); who says nothing has what the file says
  void take_abilities(const std::vector<policy::NodeId>& nodes,
                      const std::vector<std::optional<policy::Abilities>>& says);
  /// Each order once. Until end_removal() its group stays, and no new one has its number: an order that arrives late
  /// finds no other group in its place.
  [[nodiscard]] std::vector<RemoveOrder> begin_removal();
  /// @param orders, outcomes  of one begin_removal()
  void end_removal(std::span<const RemoveOrder> orders, std::span<const Outcome> outcomes);
  /// For so long nobody could be heard of, because this process did not run: it counts for no lease.
  void excuse(TimeNs now, TimeNs missed);
  /// When expire() has something to do; the latest time there is: no group runs.
  [[nodiscard]] TimeNs next_expiry() const noexcept;
  /// When begin_probe() has.
  [[nodiscard]] TimeNs next_probe() const noexcept { return next_probe_; }

  struct Group {
    GroupRecord record;
    std::vector<TimeNs> heard;       ///< by rank
    std::set<policy::NodeId> owing;  ///< switches that may have it, of one that is removed
    std::set<policy::NodeId> asked;  ///< switches that are being asked to forget it
    Ending ending = Ending::none;
    std::uint64_t since_probe = 0;  ///< looks at switches that had begun when its state changed last
  };
  [[nodiscard]] const std::map<GroupId, Group>& groups() const noexcept { return groups_; }
  /// Bytes of all switches together that a tenant's groups have, those too whose end is not confirmed.
  [[nodiscard]] std::uint64_t memory_of(const std::string& tenant) const;
  [[nodiscard]] const policy::Policy& policy() const noexcept { return *policy_; }
  [[nodiscard]] const Fabric& fabric() const noexcept { return fabric_; }
  [[nodiscard]] const ManagerOptions& options() const noexcept { return options_; }
  [[nodiscard]] Agents& agents() const noexcept { return agents_; }
  /// Grows whenever groups give something back: who has been refused may ask again.
  [[nodiscard]] std::uint64_t freed() const noexcept { return freed_; }
  /// Switches that did not answer when they were last asked. They are not asked again before the next look.
  [[nodiscard]] const std::set<policy::NodeId>& silent() const noexcept { return silent_; }

 private:
  [[nodiscard]] std::string mistake_of(const CreateRequest& request) const;
  [[nodiscard]] std::optional<std::string> rebuild(bool write);
  /// What becomes of a request, before anything changes.
  struct Answer {
    CreateReply reply;
    GroupOptions options;  ///< in force
    policy::Request wanted;
    policy::Decision decision;
  };
  [[nodiscard]] Answer decide(const CreateRequest& request);
  /// What it has at switches is its tenant's, or is not any more.
  void count_memory(const GroupRecord& record, bool has);
  void check_quota(const std::string& tenant, const policy::Decision& decision, CreateReply& reply) const;
  [[nodiscard]] GroupOptions in_force(GroupOptions options) const;
  [[nodiscard]] policy::Request policy_request(GroupId group, const std::string& tenant,
                                               const std::vector<Member>& members, const GroupOptions& options) const;
  [[nodiscard]] bool number_is_free(GroupId id) const { return !groups_.contains(id) && !leaving_.contains(id); }
  [[nodiscard]] GroupId pick(GroupId wanted) const;
  [[nodiscard]] std::optional<std::string> write(const GroupRecord& record);
  [[nodiscard]] CreateReply install(TimeNs now, Creation creation);
  /// Notes that a group is to be removed from switches that may have it.
  void end(Group& group, Ending why, std::set<policy::NodeId> owing);
  /// begin_removal() to end_removal().
  void remove_ended();
  /// Takes back what switches have confirmed; the group is gone when none owes an answer.
  void settle(GroupId id);
  /// A switch that has not answered ends its groups, if it has not for long enough.
  void count_silence(policy::NodeId node, const std::vector<GroupId>& should_have);
  void compare(policy::NodeId node, const std::vector<GroupId>& should_have, const std::vector<GroupId>& has);

  Fabric fabric_;
  ManagerOptions options_;
  std::optional<Discovery> discovery_;
  std::unique_ptr<policy::Policy> policy_;  ///< never null; another one when there are more links
  Agents& agents_;
  Store& store_;
  EndpointPlanner planner_;
  std::map<GroupId, Group> groups_;
  std::map<std::string, std::uint64_t> memory_;  ///< see memory_of(); without tenants that have none
  std::set<policy::NodeId> silent_;
  std::vector<policy::Abilities> stated_;  ///< by node: of the file
  std::set<policy::NodeId> said_;          ///< switches whose abilities are known since they came up
  struct Silence {
    TimeNs since = 0;    ///< the first look without an answer began
    unsigned looks = 0;  ///< without an answer
  };
  std::map<policy::NodeId, Silence> silences_;
  std::set<policy::NodeId> heard_;      ///< switches that answered the last look
  std::set<GroupId> ended_;             ///< groups of the next begin_removal()
  std::vector<RemoveOrder> strangers_;  ///< groups with numbers of ours that a switch has and we have not; likewise
  std::multiset<GroupId> leaving_;      ///< numbers of strangers that switches are being asked to forget
  std::set<GroupId> settled_;           ///< groups that switches have confirmed to have forgotten since the last look
  std::uint64_t last_generation_ = 0;
  GroupId last_picked_ = 0;
  std::uint64_t freed_ = 0;
  std::uint64_t probes_ = 0;  ///< that have begun
  TimeNs next_probe_ = 0;
};

}  // namespace weft::inc::manager
