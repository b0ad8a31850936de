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

FairShares::FairShares(std::vector<double> capacities) : links_(capacities.size()), link_marks_(capacities.size()) {
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
    marks_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Transfer& t = transfers_[id];
  t = Transfer{};
  t.alone = cap;
  for (const Use& use : uses) t.alone = std::min(t.alone, links_[use.link].capacity / use.flows);
  t.uses = std::move(uses);
  for (const Use& use : t.uses) {
    t.links.push_back(use.link);
    t.seats.push_back({demand(id, use), 0});
  }
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

void FairShares::touch(std::uint32_t link) {
  Link& l = links_[link];
  const bool was_scarce = link_marks_[link].scarce;
  link_marks_[link].scarce = scarce(l);
  if (l.dirty || (!was_scarce && !link_marks_[link].scarce)) return;
  l.dirty = true;
  dirty_.push_back(link);
}

void FairShares::start(TransferId id) {
  Transfer& t = transfers_[id];
  t.running = true;
  t.rate = 0;
  for (std::uint32_t i = 0; i < t.uses.size(); ++i) {
    Link& l = links_[t.uses[i].link];
    t.seats[i].place = static_cast<std::uint32_t>(l.members.size());
    l.members.push_back({id, i});
    l.demand += t.seats[i].demand;
    touch(t.uses[i].link);
  }
  started_.push_back(id);
}

void FairShares::stop(TransferId id) {
  Transfer& t = transfers_[id];
  t.running = false;
  for (std::uint32_t i = 0; i < t.uses.size(); ++i) {
    Link& l = links_[t.uses[i].link];
    const Member last = l.members.back();
    l.members[t.seats[i].place] = last;
    transfers_[last.transfer].seats[last.use].place = t.seats[i].place;
    l.members.pop_back();
    l.demand -= t.seats[i].demand;
    touch(t.uses[i].link);
  }
}

void FairShares::reach(TransferId id) {
  if (marks_[id].seen == search_) return;
  marks_[id] = {search_, static_cast<std::uint32_t>(reached_.size())};
  reached_.push_back(id);
}

/// All transfers that a change can reach, and the scarce links between them.
void FairShares::find_reach() {
  ++search_;
  reached_.clear();
  reached_links_.clear();
  scarce_uses_.clear();
  scarce_from_.clear();
  for (const TransferId id : started_) {
    if (transfers_[id].running) reach(id);
  }
  for (const std::uint32_t link : dirty_) {
    links_[link].dirty = false;
    for (const Member& m : links_[link].members) reach(m.transfer);
  }
  started_.clear();
  dirty_.clear();
  for (std::size_t at = 0; at < reached_.size(); ++at) {
    const Transfer& t = transfers_[reached_[at]];
    scarce_from_.push_back(static_cast<std::uint32_t>(scarce_uses_.size()));
    for (std::uint32_t i = 0; i < t.links.size(); ++i) {
      const std::uint32_t link = t.links[i];
      LinkMark& mark = link_marks_[link];
      if (!mark.scarce) continue;
      scarce_uses_.push_back(t.uses[i]);
      if (mark.seen == search_) continue;
      mark.seen = search_;
      reached_links_.push_back(link);
      for (const Member& m : links_[link].members) reach(m.transfer);
    }
  }
  scarce_from_.push_back(static_cast<std::uint32_t>(scarce_uses_.size()));
  // The order decides how sums are rounded. It must not depend on what happened before.
  std::sort(reached_.begin(), reached_.end());
  std::sort(reached_links_.begin(), reached_links_.end());
}

void FairShares::fix(std::uint32_t index, double rate) {
  Filling& f = filling_[index];
  f.fixed = true;
  f.rate = rate;
  for (std::uint32_t i = f.first; i < filling_[index + 1].first; ++i) {
    FillingLink& l = filling_links_[uses_[i].link];
    l.left = std::max(0.0, l.left - uses_[i].flows * rate);
    l.weight -= uses_[i].flows;
    --l.open;
  }
}

/// What reached links and transfers have before any rate is known.
void FairShares::empty() {
  filling_links_.clear();
  filling_.clear();
  uses_.clear();
  by_alone_.clear();
  levels_.clear();
  for (std::uint32_t i = 0; i < reached_links_.size(); ++i) {
    link_marks_[reached_links_[i]].index = i;
    filling_links_.push_back({links_[reached_links_[i]].capacity, 0, 0});
  }
  for (std::uint32_t i = 0; i < reached_.size(); ++i) {
    const std::uint32_t place = std::exchange(marks_[reached_[i]].index, i);
    filling_.push_back({0, static_cast<std::uint32_t>(uses_.size()), false});
    by_alone_.emplace_back(transfers_[reached_[i]].alone, i);
    for (std::uint32_t at = scarce_from_[place]; at < scarce_from_[place + 1]; ++at) {
      const Use& use = scarce_uses_[at];
      const std::uint32_t index = link_marks_[use.link].index;
      uses_.push_back({index, use.flows});
      filling_links_[index].weight += use.flows;
      ++filling_links_[index].open;
    }
  }
  filling_.push_back({0, static_cast<std::uint32_t>(uses_.size()), true});
  for (std::uint32_t i = 0; i < filling_links_.size(); ++i) {
    levels_.push_back({filling_links_[i].left / filling_links_[i].weight, i});
  }
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  std::sort(by_alone_.begin(), by_alone_.end());
}

/// The link that is full first; nullopt when none is left. Levels only rise while others are fixed, so that the one on
/// top is right, or too low.
std::optional<FairShares::Level> FairShares::next_level() {
  while (!levels_.empty()) {
    const Level top = levels_.front();
    const FillingLink& l = filling_links_[top.link];
    if (l.open > 0 && l.left / l.weight <= top.rate) return top;
    std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
    levels_.pop_back();
    if (l.open == 0) continue;
    levels_.push_back({l.left / l.weight, top.link});
    std::push_heap(levels_.begin(), levels_.end(), std::greater<>());
  }
  return std::nullopt;
}

/// Raises all rates together. A transfer stops where it can have no more on its own, or where a link is full.
void FairShares::fill() {
  empty();
  std::size_t next = 0;
  for (std::size_t left = reached_.size(); left > 0;) {
    while (next < by_alone_.size() && filling_[by_alone_[next].second].fixed) ++next;
    const std::optional<Level> level = next_level();
    const auto [alone, first] = by_alone_[next];
    if (!level || alone <= level->rate) {
      fix(first, alone);
      --left;
      continue;
    }
    full_.clear();
    for (const Member& m : links_[reached_links_[level->link]].members) {
      const std::uint32_t index = marks_[m.transfer].index;
      if (!filling_[index].fixed) full_.push_back(index);
    }
    std::sort(full_.begin(), full_.end());
    for (const std::uint32_t index : full_) fix(index, level->rate);
    left -= full_.size();
  }
}

std::span<const TransferId> FairShares::settle() {
  changed_.clear();
  find_reach();
  if (reached_.empty()) return changed_;
  looked_at_ += reached_.size();
  fill();
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    double& rate = transfers_[reached_[i]].rate;
    if (filling_[i].rate == rate) continue;
    rate = filling_[i].rate;
    changed_.push_back(reached_[i]);
  }
  return changed_;
}

}  // namespace weft::flow
