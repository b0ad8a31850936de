// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/running.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "switch/system/clock.h"

namespace weft::inc::manager {
namespace {

constexpr std::chrono::milliseconds kLeastPause{1};

/// Leases are looked at so many times while one of them lasts, at least: who wakes up much later than that has been
/// stopped, and may have messages of ranks that nobody has read.
constexpr TimeNs kLooksPerLease = 8;

/// Of groups that wait for a tree: a try of each, with the search for what is in its way, takes about a millisecond.
constexpr std::size_t kMostWaiting = 32;
constexpr std::chrono::nanoseconds kBetweenTries{50'000'000};

/// The rest of the time between two looks is left for switches that answer late. A few are asked soon after each other.
std::chrono::nanoseconds time_of_look(TimeNs period, std::size_t switches) {
  constexpr std::chrono::milliseconds kBetweenTwo{5};
  return std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(period / 4 * 3), switches * kBetweenTwo);
}

}  // namespace

RunningManager::RunningManager(Manager& manager) : manager_(manager) {
  note_groups();
  leases_thread_ = std::thread([this] { watch_leases(); });
  switches_thread_ = std::thread([this] { watch_switches(); });
}

RunningManager::~RunningManager() {
  {
    const std::lock_guard lock(wake_mutex_);
    stop_.request_stop();
  }
  wake_.notify_all();
  leases_thread_.join();
  switches_thread_.join();
}

void RunningManager::tell_leases() {
  const std::lock_guard lock(lease_mutex_);
  for (auto& [id, lease] : leases_) {
    for (std::uint32_t rank = 0; rank < lease.heard.size(); ++rank) {
      const auto heard = std::exchange(lease.heard[rank], std::nullopt);
      if (heard) static_cast<void>(manager_.renew(*heard, id, lease.generation, rank));
    }
  }
}

void RunningManager::note(GroupId id, const Manager::Group& group) {
  const bool fresh = !noted_.contains(id);
  if (fresh && group.record.state == GroupState::running) {
    spdlog::info("group {} of {} ranks runs on {} switches", id, group.record.members.size(),
                 group.record.switches.size());
  }
  // One whose switches are being asked is spoken of when that is over.
  const bool over = group.record.state != GroupState::installing && group.asked.empty();
  if (over && group.ending != Ending::none && (fresh || noted_[id] != group.ending)) {
    spdlog::warn("group {} ends ({}); {} switches have not confirmed yet", id, to_string(group.ending),
                 group.owing.size());
  }
  if (over) noted_[id] = group.ending;
  if (group.record.state != GroupState::running) {
    leases_.erase(id);
  } else if (Lease& lease = leases_[id]; lease.generation != group.record.generation) {
    lease = {group.record.generation, group.record.tenant, {}};
    lease.heard.resize(group.record.members.size());
  }
}

void RunningManager::forget(GroupId id) {
  leases_.erase(id);
  if (noted_.erase(id) != 0) spdlog::info("group {} is gone from all switches", id);
}

void RunningManager::note_group(GroupId id) {
  const std::lock_guard lock(lease_mutex_);
  const auto at = manager_.groups().find(id);
  at == manager_.groups().end() ? forget(id) : note(id, at->second);
}

void RunningManager::note_groups() {
  const std::lock_guard lock(lease_mutex_);
  std::vector<GroupId> gone;
  for (const auto& [id, ending] : noted_) {
    if (!manager_.groups().contains(id)) gone.push_back(id);
  }
  for (const GroupId id : gone) forget(id);
  for (const auto& [id, group] : manager_.groups()) note(id, group);
}

void RunningManager::end_leases(const std::vector<RemoveOrder>& orders) {
  const std::lock_guard lock(lease_mutex_);
  for (const RemoveOrder& o : orders) {
    const auto at = manager_.groups().find(o.group);
    if (at == manager_.groups().end() || at->second.record.state != GroupState::running) leases_.erase(o.group);
  }
}

void RunningManager::remove_ended(std::unique_lock<std::mutex>& lock) {
  const std::vector<RemoveOrder> orders = manager_.begin_removal();
  if (orders.empty()) return;
  // Ranks are told at once, however long their switches take.
  end_leases(orders);
  lock.unlock();
  const std::vector<Outcome> outcomes = manager_.agents().remove(orders);
  lock.lock();
  manager_.end_removal(orders, outcomes);
}

CreateReply RunningManager::finish(Manager::Creation creation) {
  const auto not_written = [&](CreateReply reply, const std::string& error) {
    std::unique_lock lock(mutex_);
    CreateReply out = manager_.not_written(std::move(reply), error);
    remove_ended(lock);
    return out;
  };
  if (const auto error = manager_.sync_first()) return not_written(std::move(creation.reply), *error);
  const std::vector<Outcome> outcomes = manager_.agents().install(creation.orders);
  CreateReply reply;
  {
    std::unique_lock lock(mutex_);
    reply = manager_.end_create(monotonic_now(), std::move(creation), outcomes);
    remove_ended(lock);
  }
  if (reply.refusal != Refusal::none) return reply;
  const auto error = manager_.sync();
  return error ? not_written(std::move(reply), *error) : reply;
}

void RunningManager::tell_waiting(TimeNs now) {
  if (line_told_ == manager_.freed() || now < line_told_at_ + kBetweenTries.count()) return;
  line_told_ = manager_.freed();
  line_told_at_ = now;
  line_.freed();
  line_moves_.notify_all();
}

Manager::Creation RunningManager::begin_in_turn(std::unique_lock<std::mutex>& lock, const CreateRequest& request,
                                                const std::function<bool()>& gone) {
  const TimeNs asked = monotonic_now();
  const policy::Want want{asked, 0, static_cast<double>(manager_.options().patience_ns)};
  if (want.limit_ns == 0 || line_.size() >= kMostWaiting) return manager_.begin_create(asked, request);
  const auto ticket = line_.join();
  Manager::Creation out;
  for (bool waits = true; waits;) {
    const TimeNs now = monotonic_now();
    tell_waiting(now);
    if (gone && gone()) {
      out.reply.refusal = Refusal::no_tree;
      break;
    }
    // The last time, it does not matter whose turn it is: there may be room beside those who wait.
    const bool last = !policy::pays_to_wait(now, want, std::nullopt);
    if (last || line_.may_try(ticket)) {
      out = manager_.begin_create(now, request);
      line_.tried(ticket);
      line_moves_.notify_all();
      waits = !last && out.reply.refusal == Refusal::no_tree && policy::may_pass(out.reply.reason);
    }
    if (waits) line_moves_.wait_for(lock, kBetweenTries);
  }
  line_.leave(ticket);
  line_moves_.notify_all();
  if (out.reply.refusal == Refusal::no_tree && monotonic_now() - asked >= manager_.options().patience_ns) {
    out.reply.sentences.push_back("It has waited for " + std::to_string(manager_.options().patience_ns / 1'000'000) +
                                  " ms.");
  }
  return out;
}

CreateReply RunningManager::create(const CreateRequest& request, const std::function<bool()>& gone) {
  std::unique_lock lock(mutex_);
  Manager::Creation creation = begin_in_turn(lock, request, gone);
  remove_ended(lock);
  lock.unlock();
  CreateReply reply = creation.orders.empty() ? creation.reply : finish(std::move(creation));
  lock.lock();
  note_group(reply.group);
  lock.unlock();
  if (reply.refusal != Refusal::none) {
    for (const auto& sentence : reply.sentences) {
      spdlog::info("a group of {} ranks is refused ({}): {}", request.members.size(), to_string(reply.refusal),
                   sentence);
    }
  }
  return reply;
}

CreateReply RunningManager::explain(const CreateRequest& request) {
  const std::lock_guard lock(mutex_);
  return manager_.explain(request);
}

Refusal RunningManager::destroy(GroupId group, std::uint64_t generation, const Caller& caller) {
  std::unique_lock lock(mutex_);
  const Refusal refusal = manager_.begin_destroy(group, generation, caller);
  remove_ended(lock);
  note_group(group);
  return refusal;
}

Refusal RunningManager::renew(GroupId group, std::uint64_t generation, const std::vector<std::uint32_t>& ranks,
                              const Caller& caller) {
  const TimeNs now = monotonic_now();
  const std::lock_guard lock(lease_mutex_);
  const auto at = leases_.find(group);
  if (at == leases_.end() || at->second.generation != generation) return Refusal::unknown_group;
  if (!caller.may(at->second.tenant)) return Refusal::not_permitted;
  auto& heard = at->second.heard;
  if (ranks.empty()) std::fill(heard.begin(), heard.end(), now);
  for (const std::uint32_t rank : ranks) {
    if (rank >= heard.size()) return Refusal::unknown_group;
    heard[rank] = now;
  }
  return Refusal::none;
}

std::vector<std::string> RunningManager::report(const NeighbourReport& report) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out = manager_.report(report);
  if (!manager_.discovery()) return out;
  for (const auto& sentence : manager_.discovery()->contradictions()) {
    const bool known = std::find(contradictions_.begin(), contradictions_.end(), sentence) != contradictions_.end();
    if (!known) spdlog::warn("{}", sentence);
  }
  contradictions_ = manager_.discovery()->contradictions();
  return out;
}

Activity RunningManager::activity(const Caller& caller) {
  Activity out;
  std::vector<policy::NodeId> nodes;
  std::vector<std::vector<std::size_t>> at;  ///< by group and switch: which of `nodes`
  read([&](const Manager& m, TimeNs) {
    for (const auto& [id, group] : m.groups()) {
      const GroupRecord& r = group.record;
      if (r.state != GroupState::running || !caller.may(r.tenant)) continue;
      auto& to = out.groups.emplace_back();
      to.id = id;
      to.generation = r.generation;
      for (const Member& member : r.members) {
        to.hosts.push_back(m.fabric().topology.node(m.fabric().host_of(member.address)).name);
      }
      at.emplace_back();
      for (const auto& s : r.decision.tree.switches) {
        to.switches.push_back({m.fabric().topology.node(s.node).name, s.root, std::nullopt});
        at.back().push_back(static_cast<std::size_t>(std::find(nodes.begin(), nodes.end(), s.node) - nodes.begin()));
        if (at.back().back() == nodes.size()) nodes.push_back(s.node);
      }
    }
  });
  const auto said = manager_.agents().activity(nodes);
  out.at = monotonic_now();
  for (std::size_t g = 0; g < out.groups.size(); ++g) {
    for (std::size_t s = 0; s < at[g].size(); ++s) {
      if (!said[at[g][s]]) continue;
      for (const GroupActivity& one : *said[at[g][s]]) {
        if (one.group == out.groups[g].id) out.groups[g].switches[s].says = one;
      }
    }
  }
  return out;
}

std::string RunningManager::known_why(GroupId group, std::uint64_t generation, const Caller& caller) {
  const std::lock_guard lock(why_mutex_);
  const auto at = why_.find(generation);
  return at != why_.end() && at->second.group == group && caller.may(at->second.tenant) ? at->second.text : "";
}

std::string RunningManager::why_ended(GroupId group, std::uint64_t generation, const Caller& caller) {
  if (std::string known = known_why(group, generation, caller); !known.empty()) return known;
  Why why{group, "", ""};
  std::vector<policy::NodeId> nodes;
  std::vector<std::string> names;
  read([&](const Manager& m, TimeNs) {
    const auto at = m.groups().find(group);
    if (at == m.groups().end()) return;
    const GroupRecord& r = at->second.record;
    if (r.generation != generation || !caller.may(r.tenant)) return;
    why.tenant = r.tenant;
    for (const auto& s : r.decision.tree.switches) {
      nodes.push_back(s.node);
      names.push_back(m.fabric().topology.node(s.node).name);
    }
  });
  if (nodes.empty()) return "";
  const auto said = manager_.agents().activity(nodes);
  // One switch notices it; the others hear of a failed neighbour, which explains nothing.
  std::string others;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!said[i]) continue;
    for (const GroupActivity& one : *said[i]) {
      if (one.group != group || one.failure.empty()) continue;
      std::string& to = one.neighbour_failed ? others : why.text;
      to += (to.empty() ? "" : "; ") + names[i] + ": " + one.failure;
    }
  }
  if (why.text.empty()) why.text = others;
  if (why.text.empty()) return "";
  spdlog::warn("group {} was ended by its switches: {}", group, why.text);
  const std::lock_guard lock(why_mutex_);
  if (why_.size() == kMostKnown) why_.erase(why_.begin());
  return why_.insert_or_assign(generation, std::move(why)).first->second.text;
}

void RunningManager::read(const std::function<void(const Manager&, TimeNs now)>& reader) {
  const std::lock_guard lock(mutex_);
  tell_leases();
  reader(manager_, monotonic_now());
}

void RunningManager::look(std::unique_lock<std::mutex>& lock) {
  const std::vector<policy::NodeId> nodes = manager_.begin_probe(monotonic_now());
  if (nodes.empty()) return;
  lock.unlock();
  const auto has =
      manager_.agents().list(nodes, {time_of_look(manager_.options().probe_ns, nodes.size()), stop_.get_token()});
  lock.lock();
  if (stop_.stop_requested()) return;  // not all have been asked
  manager_.end_probe(nodes, has);
  if (const auto ask = manager_.to_be_asked(); !ask.empty()) {
    lock.unlock();
    const auto says = manager_.agents().abilities(ask);
    lock.lock();
    manager_.take_abilities(ask, says);
  }
  remove_ended(lock);
}

bool RunningManager::sleep(std::chrono::nanoseconds pause) {
  std::unique_lock lock(wake_mutex_);
  return !wake_.wait_for(lock, std::max<std::chrono::nanoseconds>(pause, kLeastPause),
                         [this] { return stop_.stop_requested(); });
}

void RunningManager::watch_leases() {
  const TimeNs slice = manager_.options().lease_ns / kLooksPerLease;
  TimeNs due = monotonic_now();
  for (std::chrono::nanoseconds pause{0}; sleep(pause);) {
    const TimeNs woken = monotonic_now();
    std::unique_lock lock(mutex_);
    tell_leases();
    if (woken > due + slice) {
      spdlog::warn("this process did not run for {} ms: leases are longer by as much", (woken - due) / 1'000'000);
      manager_.excuse(woken, woken - due);
    }
    manager_.expire(monotonic_now());
    remove_ended(lock);
    note_groups();
    const TimeNs now = monotonic_now(), next = manager_.next_expiry();
    pause = std::chrono::nanoseconds(std::min(next > now ? next - now : 0, slice));
    due = now + static_cast<TimeNs>(std::max<std::chrono::nanoseconds>(pause, kLeastPause).count());
  }
}

void RunningManager::watch_switches() {
  for (std::chrono::nanoseconds pause{0}; sleep(pause);) {
    std::unique_lock lock(mutex_);
    look(lock);
    note_groups();
    const TimeNs now = monotonic_now(), next = manager_.next_probe();
    pause = std::chrono::nanoseconds(next > now ? next - now : 0);
  }
}

}  // namespace weft::inc::manager
