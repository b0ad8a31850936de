// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/fair_shares.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::flow {
namespace {

/// Units of demand() in a byte per nanosecond. Whole numbers add up to the same in any order.
constexpr double kUnits = 1e6;

}  // namespace

FairShares::FairShares(std::vector<double> capacities) : links_(capacities.size()) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i].capacity = capacities[i];
    links_[i].room = static_cast<std::uint64_t>(std::llround(capacities[i] * kUnits));
  }
}

TransferId FairShares::define(std::vector<Use> uses, double cap) {
  TransferId id = 0;
  if (free_.empty()) {
    id = static_cast<TransferId>(transfers_.size());
    transfers_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Transfer& t = transfers_[id];
  t = Transfer{};
  t.alone = cap;
  for (const Use& use : uses) t.alone = std::min(t.alone, links_[use.link].capacity / use.flows);
  t.places.resize(uses.size());
  t.uses = std::move(uses);
  return id;
}

void FairShares::forget(TransferId id) {
  free_.push_back(id);
}

std::uint64_t FairShares::demand(TransferId id, const Use& use) const noexcept {
  return static_cast<std::uint64_t>(std::llround(transfers_[id].alone * use.flows * kUnits));
}

bool FairShares::scarce(std::uint32_t link, std::uint64_t demand, std::size_t transfers) const noexcept {
  // Each demand may have been rounded up.
  return demand > links_[link].room + transfers;
}

bool FairShares::scarce(const Link& link) const noexcept {
  return link.demand > link.room + link.members.size();
}

void FairShares::touch(std::uint32_t link, bool was_scarce) {
  Link& l = links_[link];
  if (l.dirty || (!was_scarce && !scarce(l))) return;
  l.dirty = true;
  dirty_.push_back(link);
}

void FairShares::start(TransferId id) {
  Transfer& t = transfers_[id];
  t.running = true;
  t.rate = 0;
  for (std::uint32_t i = 0; i < t.uses.size(); ++i) {
    Link& l = links_[t.uses[i].link];
    const bool before = scarce(l);
    t.places[i] = static_cast<std::uint32_t>(l.members.size());
    l.members.push_back({id, i});
    l.demand += demand(id, t.uses[i]);
    touch(t.uses[i].link, before);
  }
  started_.push_back(id);
}

void FairShares::stop(TransferId id) {
  Transfer& t = transfers_[id];
  t.running = false;
  for (std::uint32_t i = 0; i < t.uses.size(); ++i) {
    Link& l = links_[t.uses[i].link];
    const bool before = scarce(l);
    const Member last = l.members.back();
    l.members[t.places[i]] = last;
    transfers_[last.transfer].places[last.use] = t.places[i];
    l.members.pop_back();
    l.demand -= demand(id, t.uses[i]);
    touch(t.uses[i].link, before);
  }
}

void FairShares::reach(TransferId id) {
  Transfer& t = transfers_[id];
  if (!t.running || t.seen == search_) return;
  t.seen = search_;
  reached_.push_back(id);
}

/// All transfers that a change can reach, and the scarce links between them.
void FairShares::find_reach() {
  ++search_;
  reached_.clear();
  reached_links_.clear();
  for (const TransferId id : started_) reach(id);
  for (const std::uint32_t link : dirty_) {
    links_[link].dirty = false;
    for (const Member& m : links_[link].members) reach(m.transfer);
  }
  started_.clear();
  dirty_.clear();
  for (std::size_t at = 0; at < reached_.size(); ++at) {
    for (const Use& use : transfers_[reached_[at]].uses) {
      Link& l = links_[use.link];
      if (l.seen == search_ || !scarce(l)) continue;
      l.seen = search_;
      reached_links_.push_back(use.link);
      for (const Member& m : l.members) reach(m.transfer);
    }
  }
  // The order decides how sums are rounded. It must not depend on what happened before.
  std::sort(reached_.begin(), reached_.end());
  std::sort(reached_links_.begin(), reached_links_.end());
}

void FairShares::fix(TransferId id, double rate) {
  Transfer& t = transfers_[id];
  t.fixed = true;
  t.rate = rate;
  for (const Use& use : t.uses) {
    Link& l = links_[use.link];
    if (l.seen != search_) continue;
    l.left = std::max(0.0, l.left - use.flows * rate);
    l.weight -= use.flows;
    --l.open;
  }
}

/// What reached links and transfers have before any rate is known.
void FairShares::empty() {
  for (const std::uint32_t link : reached_links_) {
    Link& l = links_[link];
    l.left = l.capacity;
    l.weight = 0;
    l.open = 0;
  }
  for (const TransferId id : reached_) {
    transfers_[id].fixed = false;
    for (const Use& use : transfers_[id].uses) {
      Link& l = links_[use.link];
      if (l.seen != search_) continue;
      l.weight += use.flows;
      ++l.open;
    }
  }
  for (const std::uint32_t link : reached_links_) levels_.push({links_[link].left / links_[link].weight, link});
  by_alone_ = reached_;
  std::stable_sort(by_alone_.begin(), by_alone_.end(),
                   [&](TransferId a, TransferId b) { return transfers_[a].alone < transfers_[b].alone; });
}

/// The link that is full first; nullopt when none is left. Levels only rise while others are fixed, so that the one on
/// top is right, or too low.
std::optional<FairShares::Level> FairShares::next_level() {
  while (!levels_.empty()) {
    const Level top = levels_.top();
    const Link& l = links_[top.link];
    if (l.open > 0 && l.left / l.weight <= top.rate) return top;
    levels_.pop();
    if (l.open > 0) levels_.push({l.left / l.weight, top.link});
  }
  return std::nullopt;
}

/// Raises all rates together. A transfer stops where it can have no more on its own, or where a link is full.
void FairShares::fill() {
  empty();
  std::size_t next = 0;
  std::vector<TransferId> full;
  for (std::size_t left = reached_.size(); left > 0;) {
    while (next < by_alone_.size() && transfers_[by_alone_[next]].fixed) ++next;
    const std::optional<Level> level = next_level();
    const double alone = transfers_[by_alone_[next]].alone;
    if (!level || alone <= level->rate) {
      fix(by_alone_[next], alone);
      --left;
      continue;
    }
    full.clear();
    for (const Member& m : links_[level->link].members) {
      if (!transfers_[m.transfer].fixed) full.push_back(m.transfer);
    }
    std::sort(full.begin(), full.end());
    for (const TransferId id : full) fix(id, level->rate);
    left -= full.size();
  }
  while (!levels_.empty()) levels_.pop();
}

std::span<const TransferId> FairShares::settle() {
  changed_.clear();
  find_reach();
  if (reached_.empty()) return changed_;
  looked_at_ += reached_.size();
  before_.clear();
  for (const TransferId id : reached_) before_.push_back(transfers_[id].rate);
  fill();
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    if (transfers_[reached_[i]].rate != before_[i]) changed_.push_back(reached_[i]);
  }
  return changed_;
}

}  // namespace weft::flow
