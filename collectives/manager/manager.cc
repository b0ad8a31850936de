// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/manager.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

namespace weft::inc::manager {

using policy::NodeId;

namespace {

constexpr std::array<std::string_view, 9> kRefusals{"none",           "bad_request",        "no_tree",
                                                    "switch_refused", "switch_unreachable", "store_failed",
                                                    "unknown_group",  "over_quota",         "not_permitted"};
constexpr std::array<std::string_view, 6> kEndings{"none",           "destroyed",     "lease_expired",
                                                   "switch_lost_it", "switch_silent", "not_installed"};

/// At all switches together.
std::uint64_t bytes_of(const policy::Decision& decision) {
  std::uint64_t out = 0;
  for (const policy::Allocation& a : decision.memory) out += a.bytes;
  return out;
}

/// What is left of a group that is removed: its part at some switches, and no links.
GroupRecord only_at(const GroupRecord& record, const std::set<NodeId>& nodes) {
  GroupRecord rest = record;
  rest.state = GroupState::removing;
  rest.switches.clear();
  rest.decision.tree = {};
  rest.decision.memory.clear();
  for (std::size_t i = 0; i < record.switches.size(); ++i) {
    if (!nodes.contains(record.decision.memory[i].node)) continue;
    rest.switches.push_back(record.switches[i]);
    rest.decision.tree.switches.push_back(record.decision.tree.switches[i]);
    rest.decision.memory.push_back(record.decision.memory[i]);
  }
  return rest;
}

}  // namespace

std::string_view to_string(Refusal refusal) noexcept {
  return kRefusals[static_cast<std::size_t>(refusal)];
}

std::string_view to_string(Ending ending) noexcept {
  return kEndings[static_cast<std::size_t>(ending)];
}

Manager::Manager(Fabric fabric, const ManagerOptions& options, Agents& agents, Store& store, std::uint64_t seed)
    : fabric_(std::move(fabric)),
      options_(options),
      policy_(std::make_unique<policy::Policy>(fabric_.topology, options.policy)),
      agents_(agents),
      store_(store),
      planner_(seed) {
  fabric_.index();
  for (const policy::Node& node : fabric_.topology.nodes()) stated_.push_back(node.abilities);
}

std::string Manager::mistake_of(const CreateRequest& request) const {
  if (auto mistake = manager::mistake_of(request.options); !mistake.empty()) return mistake;
  for (const Member& m : request.members) {
    if (auto mistake = manager::mistake_of(m); !mistake.empty()) return mistake;
    if (fabric_.host_of(m.address) == policy::kNoNode) return "no host has the address " + m.address.to_string();
  }
  if (request.group != 0 && (request.group < options_.first_group || request.group > options_.last_group)) {
    return "group is between " + std::to_string(options_.first_group) + " and " + std::to_string(options_.last_group);
  }
  if (!request.tenant.empty() && options_.tenants.find(request.tenant) == nullptr) {
    return "there is no tenant " + request.tenant;
  }
  return "";
}

std::vector<std::string> Manager::report(const NeighbourReport& report) {
  if (!discovery_) return {"this manager's links are those of its file: discovery is none"};
  Discovery::Answer answer = discovery_->report(report);
  const std::size_t stated = discovery_->stated().ends.size();
  if (fabric_.topology.links().size() < stated + discovery_->found().size()) {
    if (auto error = rebuild(true)) answer.sentences.push_back("links that were found are not used yet: " + *error);
  }
  for (std::size_t i = 0; stated + i < fabric_.topology.links().size(); ++i) {
    policy_->set_link_up(static_cast<policy::LinkId>(stated + i), discovery_->is_up(i));
  }
  return std::move(answer.sentences);
}

/// A policy with the links that have been found. Those that there were keep their numbers, and groups their trees.
/// @param write  to the store, before any group has one of them: without, the group could not be taken over
std::optional<std::string> Manager::rebuild(bool write) {
  Fabric fabric;
  if (auto error = assemble(discovery_->stated(), discovery_->found(), true, fabric)) return error;
  auto policy = std::make_unique<policy::Policy>(fabric.topology, options_.policy);
  for (NodeId n = 0; n < fabric.topology.nodes().size(); ++n) {
    policy->set_node_up(n, policy_->topology().node(n).up);
    policy->set_abilities(n, policy_->topology().node(n).abilities);
  }
  std::map<std::uint64_t, const GroupRecord*> in_order;
  for (const auto& [id, group] : groups_) in_order.emplace(group.record.generation, &group.record);
  for (const auto& [generation, record] : in_order) {
    for (const policy::TreeEdge& e : record->decision.tree.edges) {
      if (fabric.topology.node(e.child).tier < fabric.topology.node(e.parent).tier) continue;
      return "they put switches into other tiers, and group " + std::to_string(record->id) + " has a tree of these";
    }
    const auto request = policy_request(record->id, record->tenant, record->members, record->options);
    if (auto error = policy->adopt(request, record->decision)) return error;
  }
  if (write) {
    if (auto error = store_.put_links(discovery_->to_text())) return error;
  }
  policy_ = std::move(policy);
  fabric_ = std::move(fabric);
  return std::nullopt;
}

policy::Request Manager::policy_request(GroupId group, const std::string& tenant, const std::vector<Member>& members,
                                        const GroupOptions& options) const {
  policy::Request r;
  r.group = group;
  for (const Member& m : members) r.hosts.push_back(fabric_.host_of(m.address));
  r.mode = options.mode;
  r.types = options.types;
  r.memory = memory_demand(options);
  r.rate_mbps = options.rate_mbps;
  r.prefer = options.prefer;
  // Nobody comes to a block that is always busy.
  if (!takes_turns(options)) return r;
  r.duty_per_mille = options.duty_per_mille;
  r.period_ns = std::uint64_t{options.period_us} * 1000;
  // Jobs of different tenants that have the same number are not the same.
  if (options.job != 0) r.job = (std::uint64_t{options_.tenants.place(tenant)} << 32) + options.job;
  return r;
}

/// What a group asks for, with the manager's defaults. One that does not take turns has memory of its own.
GroupOptions Manager::in_force(GroupOptions options) const {
  if (options.duty_per_mille == 0) options.duty_per_mille = options_.duty_per_mille;
  if (options_.policy.kind != policy::PolicyKind::temporal) {
    options.duty_per_mille = options.period_us = options.job = 0;
  }
  return options;
}

/// Numbers are used in turn, so that what an earlier group has left behind is old when its number comes again.
GroupId Manager::pick(GroupId wanted) const {
  if (wanted != 0) return wanted;
  const std::uint64_t numbers = std::uint64_t{options_.last_group} - options_.first_group + 1;
  GroupId id = std::max(last_picked_, options_.first_group - 1);
  for (std::uint64_t tries = std::min<std::uint64_t>(numbers, groups_.size() + leaving_.size() + 1); tries > 0;
       --tries) {
    id = id >= options_.last_group ? options_.first_group : id + 1;
    if (number_is_free(id)) return id;
  }
  return 0;
}

std::optional<std::string> Manager::write(const GroupRecord& record) {
  return store_.put(record.id, record.generation, to_text(record, fabric_.topology));
}

Manager::Answer Manager::decide(const CreateRequest& request) {
  Answer out;
  CreateReply& reply = out.reply;
  const auto refuse = [&](const std::string& why) {
    reply.refusal = Refusal::bad_request;
    reply.sentences = {why + "."};
    return out;
  };
  if (const auto mistake = mistake_of(request); !mistake.empty()) return refuse(mistake);
  reply.group = pick(request.group);
  if (reply.group == 0) return refuse("all numbers of groups are in use");
  if (groups_.contains(reply.group)) {
    return refuse("there is a group " + std::to_string(reply.group) + " already");
  }
  if (leaving_.contains(reply.group)) {
    return refuse("switches are being asked to forget an earlier group " + std::to_string(reply.group));
  }
  out.options = in_force(request.options);
  out.wanted = policy_request(reply.group, request.tenant, request.members, out.options);
  const policy::Decision& d = out.decision = policy_->explain(out.wanted);
  reply.turns = takes_turns(out.options);
  reply.staggered = d.staggered;
  reply.offset_ns = d.offset_ns;
  reply.reason = d.reason;
  reply.refusal = d.admitted() ? Refusal::none : Refusal::no_tree;
  reply.sentences = policy::sentences(policy_->topology(), out.wanted, d);
  reply.window = d.units;
  if (d.admitted()) check_quota(request.tenant, d, reply);
  return out;
}

std::uint64_t Manager::memory_of(const std::string& tenant) const {
  const auto at = memory_.find(tenant);
  return at == memory_.end() ? 0 : at->second;
}

void Manager::count_memory(const GroupRecord& record, bool has) {
  const std::uint64_t bytes = bytes_of(record.decision);
  std::uint64_t& sum = memory_[record.tenant];
  sum = has ? sum + bytes : sum - bytes;
  if (sum == 0) memory_.erase(record.tenant);
}

/// What a tenant's groups have at switches that have not confirmed their end is not free.
void Manager::check_quota(const std::string& name, const policy::Decision& decision, CreateReply& reply) const {
  const Tenant* tenant = options_.tenants.find(name);
  if (tenant == nullptr || !tenant->memory_bytes) return;
  const std::uint64_t has = memory_of(name), takes = bytes_of(decision);
  if (has + takes <= *tenant->memory_bytes) return;
  reply.refusal = Refusal::over_quota;
  reply.sentences = {"The groups of tenant " + name + " have " + std::to_string(has) + " bytes of switches, of " +
                     std::to_string(*tenant->memory_bytes) + " at most, and this one takes " + std::to_string(takes) +
                     "."};
}

CreateReply Manager::explain(const CreateRequest& request) {
  return std::move(decide(request).reply);
}

CreateReply Manager::create(TimeNs now, const CreateRequest& request) {
  Creation creation = begin_create(now, request);
  CreateReply reply = creation.orders.empty() ? creation.reply : install(now, std::move(creation));
  remove_ended();
  return reply;
}

CreateReply Manager::install(TimeNs now, Creation creation) {
  if (const auto error = sync_first()) return not_written(std::move(creation.reply), *error);
  const std::vector<Outcome> outcomes = agents_.install(creation.orders);
  CreateReply reply = end_create(now, std::move(creation), outcomes);
  if (reply.refusal != Refusal::none) return reply;
  const auto error = sync();
  return error ? not_written(std::move(reply), *error) : reply;
}

CreateReply Manager::not_written(CreateReply reply, const std::string& error) {
  const auto at = groups_.find(reply.group);
  if (at != groups_.end() && at->second.record.generation == reply.generation) {
    Group& group = at->second;
    const bool installed = group.record.state == GroupState::running;
    if (installed) end(group, Ending::not_installed, switches_of(group.record));
    if (!installed && group.record.state == GroupState::installing) end(group, Ending::not_installed, {});
  }
  reply.refusal = Refusal::store_failed;
  reply.sentences = {error};
  reply.generation = 0;
  reply.endpoints.clear();
  return reply;
}

Manager::Creation Manager::begin_create(TimeNs now, const CreateRequest& request) {
  Creation out;
  Answer answer = decide(request);
  CreateReply& reply = out.reply = std::move(answer.reply);
  if (reply.refusal != Refusal::none) return out;
  GroupRecord record;
  record.decision = std::move(answer.decision);
  record.id = reply.group;
  record.generation = last_generation_ + 1;
  record.members = request.members;
  record.options = answer.options;
  record.tenant = request.tenant;
  policy_->take(answer.wanted, record.decision);
  record.decision.frontier.clear();
  planner_.plan(fabric_, record);
  last_generation_ = record.generation;
  if (request.group == 0) last_picked_ = record.id;
  // From here on there is a group, if only to be removed.
  Group& group = groups_[record.id];
  group.record = std::move(record);
  count_memory(group.record, true);
  group.heard.assign(group.record.members.size(), now);
  group.since_probe = probes_;
  if (auto error = write(group.record)) {
    reply.refusal = Refusal::store_failed;
    reply.sentences = {*error};
    end(group, Ending::not_installed, {});
    return out;
  }
  reply.generation = group.record.generation;
  for (std::size_t i = 0; i < group.record.switches.size(); ++i) {
    out.orders.push_back({group.record.decision.tree.switches[i].node, group.record.id, switch_spec(group.record, i)});
  }
  return out;
}

CreateReply Manager::end_create(TimeNs now, Creation creation, std::span<const Outcome> outcomes) {
  CreateReply reply = std::move(creation.reply);
  const std::uint64_t generation = std::exchange(reply.generation, 0);
  // Nobody but this ends a group that is not running yet.
  Group& group = groups_.at(reply.group);
  std::set<NodeId> may_have;
  for (std::size_t i = 0; i < creation.orders.size(); ++i) {
    const Outcome& o = outcomes[i];
    if (o.kind == Outcome::Kind::not_asked) {
      reply.refusal = Refusal::store_failed;
      reply.sentences = {o.text};
      continue;
    }
    if (o.kind != Outcome::Kind::refused) may_have.insert(creation.orders[i].node);
    if (o.kind == Outcome::Kind::done || reply.refusal == Refusal::switch_refused) continue;
    const bool refused = o.kind == Outcome::Kind::refused;
    reply.refusal = refused ? Refusal::switch_refused : Refusal::switch_unreachable;
    reply.sentences = {fabric_.topology.node(creation.orders[i].node).name +
                       (refused ? " refused: " : " did not answer: ") + o.text};
  }
  if (reply.refusal == Refusal::none && group.ending == Ending::destroyed) {
    reply.refusal = Refusal::unknown_group;
    reply.sentences = {"It was destroyed while it was made."};
  }
  if (reply.refusal == Refusal::none) {
    group.record.state = GroupState::running;
    group.heard.assign(group.heard.size(), now);
    group.since_probe = probes_;
    if (auto error = write(group.record)) {
      reply.refusal = Refusal::store_failed;
      reply.sentences = {*error};
    }
  }
  if (reply.refusal != Refusal::none) {
    const Ending why = group.ending == Ending::destroyed ? Ending::destroyed : Ending::not_installed;
    end(group, why, std::move(may_have));
    return reply;
  }
  reply.generation = generation;
  reply.endpoints = rank_endpoints(group.record);
  return reply;
}

void Manager::end(Group& group, Ending why, std::set<NodeId> owing) {
  group.record.state = GroupState::removing;
  group.ending = why;
  group.owing = std::move(owing);
  group.since_probe = probes_;
  ended_.insert(group.record.id);
}

std::vector<RemoveOrder> Manager::begin_removal() {
  std::vector<RemoveOrder> orders = std::exchange(strangers_, {});
  for (const RemoveOrder& o : orders) leaving_.insert(o.group);
  for (const GroupId id : std::exchange(ended_, {})) {
    const auto at = groups_.find(id);
    if (at == groups_.end() || at->second.record.state != GroupState::removing) continue;
    Group& group = at->second;
    for (const NodeId node : group.owing) {
      if (!silent_.contains(node) && group.asked.insert(node).second) orders.push_back({node, id});
    }
    if (group.asked.empty()) settle(id);
  }
  return orders;
}

void Manager::end_removal(std::span<const RemoveOrder> orders, std::span<const Outcome> outcomes) {
  std::set<GroupId> answered;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const auto [node, id] = orders[i];
    if (outcomes[i].kind == Outcome::Kind::unknown) silent_.insert(node);
    const auto at = groups_.find(id);
    if (at != groups_.end() && at->second.asked.erase(node) != 0) {
      if (outcomes[i].kind == Outcome::Kind::done) at->second.owing.erase(node);
      answered.insert(id);
    } else if (const auto stranger = leaving_.find(id); stranger != leaving_.end()) {
      leaving_.erase(stranger);  // whatever became of it: the next look at the switch says whether it is still there
    }
  }
  for (const GroupId id : answered) {
    if (groups_.at(id).asked.empty()) settle(id);
  }
}

void Manager::remove_ended() {
  const std::vector<RemoveOrder> orders = begin_removal();
  if (!orders.empty()) end_removal(orders, agents_.remove(orders));
}

/// No switch is being asked to forget it.
void Manager::settle(GroupId id) {
  Group& group = groups_.at(id);
  if (group.owing.empty()) {
    if (store_.erase(id)) return;  // again with the next probe: until then the store says that it is there
    policy_->release(id);
    planner_.release(group.record);
    count_memory(group.record, false);
    settled_.insert(id);
    ++freed_;
    groups_.erase(id);
    return;
  }
  // The memory of switches that have not confirmed is not free. What is, may go to others once the store says so.
  GroupRecord rest = only_at(group.record, group.owing);
  if (rest == group.record || write(rest)) return;
  planner_.release(group.record, group.owing);
  policy_->release(id, group.owing);
  settled_.insert(id);
  ++freed_;
  count_memory(group.record, false);
  group.record = std::move(rest);
  count_memory(group.record, true);
}

bool Manager::renew(TimeNs now, GroupId id, std::uint64_t generation, std::optional<std::uint32_t> rank) {
  const auto at = groups_.find(id);
  if (at == groups_.end() || at->second.record.generation != generation) return false;
  Group& group = at->second;
  if (group.record.state != GroupState::running) return false;
  if (!rank) {
    group.heard.assign(group.heard.size(), now);
  } else if (*rank < group.heard.size()) {
    group.heard[*rank] = now;
  } else {
    return false;
  }
  return true;
}

Refusal Manager::destroy(TimeNs /*now*/, GroupId id, std::uint64_t generation, const Caller& caller) {
  const Refusal refusal = begin_destroy(id, generation, caller);
  remove_ended();
  return refusal;
}

Refusal Manager::begin_destroy(GroupId id, std::uint64_t generation, const Caller& caller) {
  const auto at = groups_.find(id);
  if (at == groups_.end() || (generation != 0 && at->second.record.generation != generation)) {
    return Refusal::unknown_group;
  }
  Group& group = at->second;
  if (!caller.may(group.record.tenant)) return Refusal::not_permitted;
  switch (group.record.state) {
    case GroupState::running:
      end(group, Ending::destroyed, switches_of(group.record));
      break;
    case GroupState::installing:
      group.ending = Ending::destroyed;  // its switches are being asked: end_create() ends it
      break;
    case GroupState::removing:
      break;
  }
  return Refusal::none;
}

void Manager::tick(TimeNs now) {
  expire(now);
  remove_ended();
  const std::vector<NodeId> nodes = begin_probe(now);
  if (nodes.empty()) return;
  end_probe(nodes, agents_.list(nodes, {}));
  if (const auto ask = to_be_asked(); !ask.empty()) take_abilities(ask, agents_.abilities(ask));
  remove_ended();
}

void Manager::expire(TimeNs now) {
  for (auto& [id, group] : groups_) {
    if (group.record.state != GroupState::running) continue;
    const TimeNs heard = *std::min_element(group.heard.begin(), group.heard.end());
    if (now >= heard + options_.lease_ns) end(group, Ending::lease_expired, switches_of(group.record));
  }
}

void Manager::excuse(TimeNs now, TimeNs missed) {
  for (auto& [id, group] : groups_) {
    for (TimeNs& heard : group.heard) heard = std::min(now, heard + missed);
  }
}

TimeNs Manager::next_expiry() const noexcept {
  TimeNs next = std::numeric_limits<TimeNs>::max();
  for (const auto& [id, group] : groups_) {
    if (group.record.state != GroupState::running) continue;
    next = std::min(next, *std::min_element(group.heard.begin(), group.heard.end()) + options_.lease_ns);
  }
  return next;
}

std::optional<std::string> Manager::recover(TimeNs now) {
  Store::Content content;
  if (auto error = store_.load(content)) return error;
  if (discovery_ && !content.links.empty()) {
    if (!discovery_->restore(content.links)) return "the store has no links that were found, but: " + content.links;
    if (auto error = rebuild(false)) return error;
  }
  last_generation_ = content.last_generation;
  std::vector<GroupRecord> records;
  for (const std::string& text : content.records) {
    std::string why;
    auto record = from_text(text, fabric_.topology, &why);
    if (!record) return "the store has a group that this topology does not fit (" + why + "): " + text;
    last_generation_ = std::max(last_generation_, record->generation);
    records.push_back(std::move(*record));
  }
  // Earlier groups were there when later ones were placed.
  std::sort(records.begin(), records.end(),
            [](const GroupRecord& a, const GroupRecord& b) { return a.generation < b.generation; });
  for (GroupRecord& record : records) {
    const auto request = policy_request(record.id, record.tenant, record.members, record.options);
    if (auto error = policy_->adopt(request, record.decision)) return "the store and the topology differ: " + *error;
    planner_.adopt(record);
    Group& group = groups_[record.id];
    group.heard.assign(record.members.size(), now);
    group.record = std::move(record);
    count_memory(group.record, true);
    if (group.record.state == GroupState::running) continue;
    group.record.state = GroupState::removing;
    group.ending = Ending::not_installed;
    group.owing = switches_of(group.record);
  }
  next_probe_ = now;
  return std::nullopt;
}

}  // namespace weft::inc::manager
