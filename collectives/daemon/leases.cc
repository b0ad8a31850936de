// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/daemon/leases.h"

#include <algorithm>

namespace weft::inc::daemon {
namespace {

/// A lease is renewed four times before it would end; of a lease of any length, in reason.
Time interval_of(std::uint32_t lease_ms) noexcept {
  return Time{std::clamp<std::uint32_t>(lease_ms / 4, 10, 60'000)} * 1'000'000;
}

}  // namespace

bool Leases::on_message(Time now, ClientId client, const comm::DaemonMessage& message) {
  if (const auto* create = std::get_if<comm::CreateGroup>(&message)) {
    if (asked_[client] == kMaxAsked) return false;
    ++asked_[client];
    orders_.create(client, *create);
    return true;
  }
  if (const auto* refused = std::get_if<comm::ExplainGroup>(&message)) {
    if (asked_[client] == kMaxAsked) return false;
    ++asked_[client];
    orders_.explain(client, {refused->group, refused->generation});
    return true;
  }
  if (const auto* wanted = std::get_if<comm::HoldGroup>(&message)) return hold(now, client, *wanted);
  if (const auto* left = std::get_if<comm::LeaveGroup>(&message)) {
    leave(client, *left);
    return true;
  }
  return false;
}

bool Leases::hold(Time now, ClientId client, const comm::HoldGroup& m) {
  if (has_[client] == kMaxHeld) return false;
  Held& held = held_[{m.group, m.generation}];
  // Another process that has the rank keeps it.
  if (!held.ranks.emplace(m.rank, Holder{client, false}).second) return held.ranks[m.rank].client == client;
  ++has_[client];
  held.interval = interval_of(m.lease_ms);
  held.next = now;
  on_timer(now);
  return true;
}

void Leases::leave(ClientId client, const comm::LeaveGroup& m) {
  const GroupName name{m.group, m.generation};
  const auto found = held_.find(name);
  if (found == held_.end()) return;
  const auto count = std::erase_if(found->second.ranks, [&](const auto& one) { return one.second.client == client; });
  has_[client] -= count;
  // Only who has a part of a group ends it.
  if (count > 0 && m.end) orders_.destroy(name);
  if (found->second.ranks.empty()) held_.erase(found);
}

void Leases::on_gone(ClientId client) {
  asked_.erase(client);
  has_.erase(client);
  for (auto group = held_.begin(); group != held_.end();) {
    const bool hers = std::any_of(group->second.ranks.begin(), group->second.ranks.end(),
                                  [&](const auto& one) { return one.second.client == client; });
    if (!hers) {
      ++group;
      continue;
    }
    orders_.destroy(group->first);
    for (const auto& [rank, holder] : group->second.ranks) {
      if (holder.client == client) continue;
      --has_[holder.client];
      orders_.tell(holder.client, comm::GroupGone{group->first.group, group->first.generation});
    }
    group = held_.erase(group);
  }
}

void Leases::on_created(Time now, ClientId client, std::uint32_t rank, const comm::GroupCreated& answer) {
  const auto asked = asked_.find(client);
  const bool made = answer.refusal == "none";
  const GroupName name{answer.group, answer.generation};
  if (asked == asked_.end()) {
    // Whoever wanted it is gone.
    if (made) orders_.destroy(name);
    return;
  }
  --asked->second;
  if (made) {
    const Time interval = interval_of(answer.lease_ms);
    held_[name] = {{{rank, {client, true}}}, interval, now + interval, false};
    ++has_[client];
  }
  orders_.tell(client, answer);
}

void Leases::renew(const GroupName& name, Held& held) {
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, holder] : held.ranks) ranks.push_back(rank);
  held.asked = true;
  orders_.renew(name, ranks);
}

void Leases::on_timer(Time now) {
  for (auto& [name, held] : held_) {
    if (!held.asked && held.next <= now) renew(name, held);
  }
}

void Leases::on_explained(ClientId client, const GroupName& name, const std::string& why) {
  const auto asked = asked_.find(client);
  if (asked == asked_.end()) return;
  --asked->second;
  orders_.tell(client, comm::GroupExplained{name.group, name.generation, why});
}

void Leases::on_renewed(Time now, const GroupName& name, std::optional<bool> running, const std::string& why) {
  const auto found = held_.find(name);
  if (found == held_.end()) return;
  Held& held = found->second;
  held.asked = false;
  held.next = now + held.interval;
  // A manager that is not there may come back, and goes on with its groups.
  if (!running) return;
  for (auto& [rank, holder] : held.ranks) {
    if (!*running && !why.empty()) {
      orders_.tell(holder.client, comm::GroupExplained{name.group, name.generation, why});
    }
    if (!holder.confirmed) orders_.tell(holder.client, comm::GroupHeld{name.group, name.generation, *running});
    if (holder.confirmed && !*running) orders_.tell(holder.client, comm::GroupGone{name.group, name.generation});
    holder.confirmed = true;
    if (!*running) --has_[holder.client];
  }
  if (!*running) held_.erase(found);
}

Time Leases::next_deadline() const noexcept {
  Time next = kNever;
  for (const auto& [name, held] : held_) {
    if (!held.asked) next = std::min(next, held.next);
  }
  return next;
}

}  // namespace weft::inc::daemon
