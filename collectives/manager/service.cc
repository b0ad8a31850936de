// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/service.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "collectives/manager/inc.grpc.pb.h"
#include "switch/api/caller.h"

namespace weft::inc::manager {

namespace v1 = weft::inc::v1;

namespace {

grpc::Status bad(const std::string& why) {
  return {grpc::StatusCode::INVALID_ARGUMENT, why};
}

/// An error in words, or "".
std::string read_options(const v1::GroupOptions& from, GroupOptions& to) {
  if (from.mode() != "" && from.mode() != "i" && from.mode() != "ii" && from.mode() != "iii") {
    return "mode is i, ii or iii, not '" + from.mode() + "'";
  }
  if (!from.mode().empty()) to.mode = from.mode() == "i" ? Mode::i : from.mode() == "ii" ? Mode::ii : Mode::iii;
  if (from.prefer() != "" && from.prefer() != "latency" && from.prefer() != "bandwidth") {
    return "prefer is latency or bandwidth, not '" + from.prefer() + "'";
  }
  if (from.prefer() == "bandwidth") to.prefer = policy::Prefer::bandwidth;
  if (from.mtu() != 0) to.mtu = from.mtu();
  if (from.message_packets() != 0) to.message_packets = from.message_packets();
  if (from.window() != 0) to.window = from.window();
  if (from.least_window() != 0) to.least_window = from.least_window();
  to.reproducible = from.reproducible();
  to.rate_mbps = from.rate_mbps();
  to.duty_per_mille = from.duty_per_mille();
  to.period_us = from.period_us();
  to.job = from.job();
  return "";
}

std::string read_request(const v1::CreateGroupRequest& from, bool dry_run, CreateRequest& to) {
  to.group = from.group();
  for (const v1::Member& m : from.members()) {
    const auto address = wire::IpAddress::parse(m.address());
    if (!address) return "'" + m.address() + "' is no IP address";
    const std::uint32_t qp = dry_run && m.qp() == 0 ? 2 : m.qp();
    to.members.push_back(
        {*address, qp, m.first_psn(), m.expects_psn(), m.loss_recovery().empty() ? "gbn" : m.loss_recovery()});
  }
  return read_options(from.options(), to.options);
}

void write_reply(const CreateReply& from, std::uint64_t lease_ms, v1::CreateGroupReply& to) {
  to.set_refusal(std::string(to_string(from.refusal)));
  to.set_reason(std::string(policy::to_string(from.reason)));
  for (const auto& sentence : from.sentences) to.add_sentences(sentence);
  to.set_group(from.group);
  to.set_generation(from.generation);
  to.set_window(from.window);
  to.set_lease_ms(lease_ms);
  to.set_turns(from.turns);
  to.set_staggered(from.staggered);
  to.set_offset_ns(from.offset_ns);
  for (const EndpointRecord& e : from.endpoints) {
    auto* endpoint = to.add_endpoints();
    endpoint->set_address(e.address.to_string());
    endpoint->set_qp(e.qp);
  }
}

void write_group(const Manager& manager, const Manager::Group& from, TimeNs now, v1::ListGroupsReply::Group& to) {
  const GroupRecord& r = from.record;
  const auto& topology = manager.fabric().topology;
  to.set_group(r.id);
  to.set_generation(r.generation);
  to.set_state(std::string(to_string(r.state)));
  to.set_ending(std::string(to_string(from.ending)));
  to.set_tenant(r.tenant);
  for (const Member& m : r.members) to.add_hosts(topology.node(manager.fabric().host_of(m.address)).name);
  to.set_mode(std::string(name(r.options.mode)));
  to.set_window(r.decision.units);
  if (takes_turns(r.options)) {
    to.set_turns(true);
    to.set_duty_per_mille(r.options.duty_per_mille);
    to.set_period_us(r.options.period_us);
    to.set_job(r.options.job);
    to.set_staggered(r.decision.staggered);
    to.set_offset_ns(r.decision.offset_ns);
  }
  to.set_width_mbps(r.decision.width_mbps);
  for (std::size_t i = 0; i < r.decision.tree.switches.size(); ++i) {
    auto* s = to.add_switches();
    s->set_name(r.switches[i].name);
    s->set_children(r.decision.tree.switches[i].children);
    s->set_bytes(r.decision.memory[i].bytes);
    s->set_root(r.decision.tree.switches[i].root);
  }
  for (const policy::NodeId node : from.owing) to.add_owing(topology.node(node).name);
  for (const TimeNs heard : from.heard) to.add_heard_ms_ago((now - std::min(now, heard)) / 1'000'000);
}

/// Whether a caller hears of a group by its number.
bool shows(const Manager& manager, GroupId id, const Caller& caller) {
  const auto at = manager.groups().find(id);
  return !caller.tenant || (at != manager.groups().end() && caller.may(at->second.record.tenant));
}

void write_topology(const Manager& manager, const Caller& caller, v1::ShowTopologyReply& to) {
  if (manager.discovery()) {
    for (const auto& sentence : manager.discovery()->contradictions()) to.add_contradictions(sentence);
  }
  const policy::Policy& policy = manager.policy();
  const policy::Topology& t = policy.topology();
  to.set_policy(std::string(policy::to_string(policy.options().kind)));
  for (policy::NodeId n = 0; n < t.nodes().size(); ++n) {
    auto* node = to.add_nodes();
    node->set_name(t.node(n).name);
    node->set_tier(t.node(n).tier);
    node->set_up(t.node(n).up);
    node->set_memory_bytes(t.node(n).abilities.memory_bytes);
    node->set_used_bytes(policy.ledger().at(n).bytes);
    node->set_groups(policy.ledger().at(n).groups);
  }
  for (policy::LinkId l = 0; l < t.links().size(); ++l) {
    auto* link = to.add_links();
    link->set_source(manager.discovery() ? manager.discovery()->source_of(l) : "configuration");
    link->set_up(t.link(l).up);
    link->set_lower(t.node(t.link(l).lower).name);
    link->set_upper(t.node(t.link(l).upper).name);
    link->set_lower_address(manager.fabric().addresses[l].lower.to_string());
    link->set_upper_address(manager.fabric().addresses[l].upper.to_string());
    link->set_rate_mbps(t.link(l).rate_mbps);
    for (const GroupId id : policy.ledger().link(l).groups) {
      if (shows(manager, id, caller)) link->add_groups(id);
    }
  }
}

/// An error in words, or "".
std::string read_report(const v1::ReportNeighboursRequest& from, NeighbourReport& to) {
  to.node = from.node();
  to.chassis = from.chassis();
  for (const auto& p : from.ports()) {
    Port& port = to.ports.emplace_back(Port{p.name(), p.mac(), {}, p.rate_mbps()});
    for (const auto& text : p.addresses()) {
      const auto address = wire::IpPrefix::parse(text);
      if (!address) return "'" + text + "' is no IP address with the length of its network";
      port.addresses.push_back(*address);
    }
  }
  for (const auto& n : from.neighbours()) {
    to.neighbours.push_back({n.port(), n.chassis(), n.system(), n.peer_port(), n.peer_description()});
  }
  return "";
}

void write_activity(const Activity& from, v1::ShowActivityReply& to) {
  to.set_at_ns(from.at);
  for (const Activity::Group& g : from.groups) {
    auto* group = to.add_groups();
    group->set_group(g.id);
    group->set_generation(g.generation);
    for (const auto& host : g.hosts) group->add_hosts(host);
    for (const Activity::Switch& s : g.switches) {
      auto* out = group->add_switches();
      out->set_name(s.name);
      out->set_root(s.root);
      out->set_answers(s.says.has_value());
      if (!s.says) continue;
      out->set_collectives(s.says->collectives);
      out->set_completed_bytes(s.says->completed_bytes);
      out->set_from_ranks(s.says->from_ranks);
      out->set_to_ranks(s.says->to_ranks);
      out->set_bad_icrc(s.says->bad_icrc);
      out->set_turns(s.says->turns);
      out->set_turns_refused(s.says->turns_refused);
      out->set_memory_busy(s.says->memory_busy);
      out->set_state(s.says->state);
      out->set_collective(s.says->collective);
      out->set_waits_for(s.says->waits_for);
      for (const std::uint32_t rank : s.says->waits_for_ranks) out->add_waits_for_ranks(rank);
      out->set_still_ms(s.says->still_ms);
    }
  }
}

grpc::Status not_permitted(const std::string& what) {
  return {grpc::StatusCode::PERMISSION_DENIED, what};
}

class Handler final : public v1::IncManager::Service {
 public:
  explicit Handler(RunningManager& manager) : manager_(manager) {}

  grpc::Status CreateGroup(grpc::ServerContext* context, const v1::CreateGroupRequest* request,
                           v1::CreateGroupReply* reply) override {
    const auto gone = [context] { return context != nullptr && context->IsCancelled(); };
    return for_caller(context, [&](const Caller& caller) { return create(*request, false, caller, *reply, gone); });
  }
  grpc::Status ExplainGroup(grpc::ServerContext* context, const v1::CreateGroupRequest* request,
                            v1::CreateGroupReply* reply) override {
    return for_caller(context, [&](const Caller& caller) { return create(*request, true, caller, *reply); });
  }
  grpc::Status RenewLease(grpc::ServerContext* context, const v1::RenewLeaseRequest* request,
                          v1::RenewLeaseReply* reply) override {
    return for_caller(context, [&](const Caller& caller) {
      const Refusal refusal = manager_.renew(request->group(), request->generation(),
                                             {request->ranks().begin(), request->ranks().end()}, caller);
      reply->set_running(refusal == Refusal::none);
      if (refusal == Refusal::unknown_group) {
        reply->set_why(manager_.known_why(request->group(), request->generation(), caller));
      }
      return refusal == Refusal::not_permitted ? another_tenants(request->group()) : grpc::Status::OK;
    });
  }
  grpc::Status DestroyGroup(grpc::ServerContext* context, const v1::DestroyGroupRequest* request,
                            v1::DestroyGroupReply* reply) override {
    return for_caller(context, [&](const Caller& caller) {
      const Refusal refusal = manager_.destroy(request->group(), request->generation(), caller);
      reply->set_refusal(std::string(to_string(refusal)));
      return refusal == Refusal::not_permitted ? another_tenants(request->group()) : grpc::Status::OK;
    });
  }
  grpc::Status ListGroups(grpc::ServerContext* context, const v1::ListGroupsRequest*,
                          v1::ListGroupsReply* reply) override {
    return for_caller(context, [&](const Caller& caller) {
      manager_.read([&](const Manager& m, TimeNs now) {
        for (const auto& [id, group] : m.groups()) {
          if (caller.may(group.record.tenant)) write_group(m, group, now, *reply->add_groups());
        }
      });
      return grpc::Status::OK;
    });
  }
  grpc::Status ShowTopology(grpc::ServerContext* context, const v1::ShowTopologyRequest*,
                            v1::ShowTopologyReply* reply) override {
    return for_caller(context, [&](const Caller& caller) {
      manager_.read([&](const Manager& m, TimeNs) { write_topology(m, caller, *reply); });
      return grpc::Status::OK;
    });
  }
  grpc::Status ReportNeighbours(grpc::ServerContext* context, const v1::ReportNeighboursRequest* request,
                                v1::ReportNeighboursReply* reply) override {
    return for_caller(context, [&](const Caller& caller) {
      if (caller.tenant) return not_permitted("only operators say what is connected with what");
      NeighbourReport report;
      if (const std::string error = read_report(*request, report); !error.empty()) return bad(error);
      for (const auto& sentence : manager_.report(report)) reply->add_sentences(sentence);
      return grpc::Status::OK;
    });
  }
  grpc::Status ShowActivity(grpc::ServerContext* context, const v1::ShowActivityRequest*,
                            v1::ShowActivityReply* reply) override {
    return for_caller(context, [&](const Caller& caller) {
      write_activity(manager_.activity(caller), *reply);
      return grpc::Status::OK;
    });
  }

  grpc::Status WhyEnded(grpc::ServerContext* context, const v1::WhyEndedRequest* request,
                        v1::WhyEndedReply* reply) override {
    return for_caller(context, [&](const Caller& caller) {
      reply->set_why(manager_.why_ended(request->group(), request->generation(), caller));
      return grpc::Status::OK;
    });
  }

 private:
  static grpc::Status another_tenants(GroupId group) {
    return not_permitted("group " + std::to_string(group) + " is another tenant's");
  }

  /// @param context  nullptr: the call comes from this process
  grpc::Status for_caller(const grpc::ServerContext* context, const std::function<grpc::Status(const Caller&)>& body) {
    const api::Caller from = context == nullptr ? api::Caller{} : api::caller_of(*context);
    const auto caller = from.remote ? manager_.tenants().caller(from.names) : std::optional(Caller{});
    if (caller) return body(*caller);
    return not_permitted("no tenant, or more than one, has a certificate with the names " + from.text());
  }

  grpc::Status create(const v1::CreateGroupRequest& request, bool dry_run, const Caller& caller,
                      v1::CreateGroupReply& reply, const std::function<bool()>& gone = {}) {
    CreateRequest read;
    if (const std::string error = read_request(request, dry_run, read); !error.empty()) return bad(error);
    read.tenant = request.tenant().empty() ? caller.tenant.value_or("") : request.tenant();
    if (!caller.may(read.tenant)) return not_permitted("tenant " + *caller.tenant + " asks in the name of another");
    const CreateReply made = dry_run ? manager_.explain(read) : manager_.create(read, gone);
    write_reply(made, manager_.lease_ms(), reply);
    return grpc::Status::OK;
  }

  RunningManager& manager_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_service(RunningManager& manager) {
  return std::make_unique<Handler>(manager);
}

}  // namespace weft::inc::manager
