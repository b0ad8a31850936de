// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/agent_book.h"

#include <algorithm>
#include <iterator>

namespace weft::stages {

AgentBook::AgentBook(std::vector<AgentHost> hosts, std::uint32_t max_qps) : max_qps_(max_qps) {
  (void)set_hosts(std::move(hosts));
}

bool AgentBook::owns(const AgentHost& host, const wire::IpAddress& address) noexcept {
  return std::any_of(host.addresses.begin(), host.addresses.end(),
                     [&](const wire::IpPrefix& prefix) { return prefix.contains(address); });
}

std::vector<AgentAction> AgentBook::set_hosts(std::vector<AgentHost> hosts) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Host> now;
  for (AgentHost& host : hosts) {
    Host& kept = now[host.name];
    if (const auto before = hosts_.find(host.name); before != hosts_.end()) kept = std::move(before->second);
    kept.who = std::move(host);
  }
  hosts_ = std::move(now);
  std::vector<AgentAction> gone;
  for (auto at = qps_.begin(); at != qps_.end();) {
    const auto host = hosts_.find(at->second.host);
    if (host != hosts_.end() && owns(host->second.who, at->second.qp.local)) {
      ++at;
      continue;
    }
    gone.push_back({false, false, at->second.qp});
    at = host != hosts_.end() ? erase(host->second, at) : qps_.erase(at);
  }
  return gone;
}

AgentBook::Records::iterator AgentBook::erase(Host& host, Records::iterator at) {
  host.qps.erase(at->second.place);
  return qps_.erase(at);
}

std::size_t AgentBook::share() const noexcept {
  return std::max<std::size_t>(max_qps_ / hosts_.size(), 1);
}

// When all is used up and a host has less than its share, another one has more than that; with more hosts than room
// there may be none.
bool AgentBook::make_room(const Host& host, std::vector<AgentAction>& actions) {
  if (qps_.size() < max_qps_) return true;
  if (host.qps.size() >= share()) return false;
  const auto most = std::max_element(hosts_.begin(), hosts_.end(), [](const auto& a, const auto& b) {
    return a.second.qps.size() < b.second.qps.size();
  });
  Host& owing = most->second;
  if (owing.qps.size() <= share()) return false;
  const auto at = qps_.find(owing.qps.back());
  actions.push_back({false, false, at->second.qp});
  ++owing.evicted;
  erase(owing, at);
  return true;
}

// The last message may come again, because its answer was lost or the workers were not told, and changes nothing more.
bool AgentBook::in_turn(const Host& host, const AgentMessage& message) noexcept {
  if (message.begin) return true;
  if (host.session == 0 || message.session != host.session) return false;
  return message.sequence == host.sequence + 1 || message.sequence == host.sequence;
}

AgentReply AgentBook::apply(const AgentMessage& message, std::vector<AgentAction>& actions) {
  const std::lock_guard lock(mutex_);
  const auto found = hosts_.find(message.host);
  if (found == hosts_.end()) return {.expected = false};
  Host& host = found->second;
  ++host.messages;
  AgentReply reply;
  // Several are under way when a connection breaks: those before the last have done all that they do.
  const bool done = message.session != 0 && message.session == host.session && message.sequence < host.sequence;
  if (done) return reply;
  if (message.session == 0 || !in_turn(host, message)) {
    ++host.resyncs;
    reply.resync = true;
    return reply;
  }
  if (message.begin) {
    host.session = message.session;
    host.in_snapshot = true;
    ++host.generation;
  }
  host.sequence = message.sequence;
  for (const AgentChange& each : message.changes) {
    if (!change(host, each, actions)) ++reply.refused;
  }
  if (message.end && host.in_snapshot) end_snapshot(host, actions);
  host.refused += reply.refused;
  return reply;
}

bool AgentBook::change(Host& host, const AgentChange& what, std::vector<AgentAction>& actions) {
  if (!owns(host.who, what.qp.local)) return false;
  if (what.up) return bring_up(host, what.qp, actions);
  const auto at = qps_.find({what.qp.local, what.qp.qpn.value()});
  if (at == qps_.end()) return true;  // as it should be
  if (at->second.host != host.who.name) return false;
  actions.push_back({false, false, std::move(at->second.qp)});
  erase(host, at);
  return true;
}

bool AgentBook::bring_up(Host& host, const AgentQp& qp, std::vector<AgentAction>& actions) {
  if (qp.local == qp.remote) return false;  // no switch sees its packets
  const Key key{qp.local, qp.qpn.value()};
  const auto at = qps_.find(key);
  if (at == qps_.end()) {
    if (!make_room(host, actions)) {
      ++host.full;
      return false;
    }
    host.qps.push_back(key);
    qps_.emplace(key, Record{qp, host.who.name, host.generation, std::prev(host.qps.end())});
    actions.push_back({true, host.in_snapshot, qp});
    return true;
  }
  Record& record = at->second;
  if (record.host != host.who.name) return false;
  const bool same = record.qp.remote == qp.remote && record.qp.remote_qpn == qp.remote_qpn;
  // Its number serves another connection now, and the end of the old one was not seen.
  if (!same) actions.push_back({false, false, record.qp});
  record.qp = qp;
  record.generation = host.generation;
  actions.push_back({true, same && host.in_snapshot, qp});
  return true;
}

void AgentBook::end_snapshot(Host& host, std::vector<AgentAction>& actions) {
  host.in_snapshot = false;
  for (auto at = qps_.begin(); at != qps_.end();) {
    if (at->second.host != host.who.name || at->second.generation == host.generation) {
      ++at;
      continue;
    }
    actions.push_back({false, false, std::move(at->second.qp)});
    at = erase(host, at);
  }
}

std::vector<AgentBook::HostRow> AgentBook::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<HostRow> rows;
  for (const auto& [name, host] : hosts_) {
    rows.push_back(
        {name, host.session, host.qps.size(), host.messages, host.resyncs, host.refused, host.full, host.evicted});
  }
  return rows;
}

}  // namespace weft::stages
