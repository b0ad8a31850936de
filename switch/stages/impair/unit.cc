// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/unit.h"

#include <algorithm>
#include <cassert>

#include "switch/stages/impair/corrupt.h"

namespace weft::stages {
using Part = ImpairPlace::Part;
using What = ImpairStep::What;

ImpairUnit::ImpairUnit(std::vector<ImpairRule> rules) {
  assert(rules.size() <= kMaxRules);
  slots_.reserve(rules.size());
  for (ImpairRule& rule : rules) {
    Slot slot{.rule = std::move(rule)};
    const ImpairRule& r = slot.rule;
    slot.disturbs = !r.loss.zero() || r.burst_loss || !r.corrupt.zero();
    slot.times = r.rate_mbps != 0 || r.delay_ns != 0 || !r.reorder.zero();
    if (r.rate_mbps != 0) slot.bucket.emplace(r.rate_mbps, r.burst_bytes);
    slots_.push_back(std::move(slot));
  }
}

void ImpairUnit::take_over(const ImpairUnit& old, std::size_t changed) noexcept {
  assert(old.size() == size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const Slot& from = old.slots_[i];
    slot.counters = from.counters;
    if (i == changed) continue;
    slot.acted = from.acted;
    slot.bucket = from.bucket;
    slot.last_leave = from.last_leave;
    if (slot.rule.burst_loss && from.rule.burst_loss) slot.rule.burst_loss->bad = from.rule.burst_loss->bad;
  }
}

ImpairStep ImpairUnit::on_packet(TimeNs now, const ImpairFields& f, Rng& rng, ImpairPlace at) noexcept {
  for (; at.rule < slots_.size(); at = ImpairPlace{static_cast<std::uint16_t>(at.rule + 1)}) {
    Slot& slot = slots_[at.rule];
    if (at.part == Part::select) {
      if (!slot.rule.match.matches(f) || !selects(slot)) continue;
      if (slot.disturbs) {
        if (auto step = disturb(slot, at, f, rng)) return *step;
      }
    }
    if (at.part != Part::timing && slot.rule.duplicate.hit(rng)) {
      return act(slot, at, slot.counters.duplicated, {.what = What::duplicate, .next = {at.rule, Part::timing, true}});
    }
    if (!slot.times) continue;
    if (auto step = time(slot, at, now, f, rng)) return *step;
  }
  return {};
}

bool ImpairUnit::go_on_from(const ImpairUnit& old) {
  if (slots_.size() != old.slots_.size()) return false;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& from = old.slots_[i];
    slots_[i].counters = from.counters;
    slots_[i].acted = from.acted;
    slots_[i].bucket = from.bucket;
    slots_[i].last_leave = from.last_leave;
    slots_[i].rule.burst_loss = from.rule.burst_loss;
  }
  return true;
}

bool ImpairUnit::selects(Slot& slot) noexcept {
  const ImpairRule& rule = slot.rule;
  const std::uint64_t matched = ++slot.counters.matched;
  if (matched <= rule.after || slot.acted >= rule.limit) return false;
  const std::uint64_t n = matched - rule.after;
  if (rule.nth != 0 && n != rule.nth) return false;
  return rule.every == 1 || n % rule.every == 0;
}

ImpairStep ImpairUnit::act(Slot& slot, ImpairPlace at, std::uint64_t& counter, ImpairStep step) noexcept {
  ++counter;
  if (!at.acted) ++slot.acted;
  return step;
}

// What happens to the packet where it stands: loss and corruption.
std::optional<ImpairStep> ImpairUnit::disturb(Slot& slot, ImpairPlace at, const ImpairFields& f, Rng& rng) noexcept {
  ImpairRule& rule = slot.rule;
  if (rule.loss.hit(rng) || (rule.burst_loss && rule.burst_loss->on_packet(rng))) {
    return act(slot, at, slot.counters.lost, {.what = What::lose});
  }
  if (rule.corrupt.hit(rng)) {
    if (const auto bit = pick_corrupt_bit(rule.corrupt_where, f, rng)) {
      return act(slot, at, slot.counters.corrupted,
                 {.what = What::corrupt, .next = {at.rule, Part::duplicate, true}, .bit = *bit});
    }
  }
  return std::nullopt;
}

// When the packet leaves the rule: rate, then delay and jitter, then reordering.
std::optional<ImpairStep> ImpairUnit::time(Slot& slot, ImpairPlace at, TimeNs now, const ImpairFields& f,
                                           Rng& rng) noexcept {
  const ImpairRule& rule = slot.rule;
  TimeNs leave = now;
  if (slot.bucket && !slot.bucket->try_take(now, f.frame_bytes)) {
    if (slot.bucket->backlog_bytes(now) + f.frame_bytes > rule.queue_bytes) {
      return act(slot, at, slot.counters.limited, {.what = What::limit});
    }
    leave = slot.bucket->take(now, f.frame_bytes);
  }
  leave += rule.delay_ns;
  if (rule.jitter_ns != 0) leave = leave - rule.jitter_ns + rng.below(2 * rule.jitter_ns + 1);
  if (rule.keep_order) leave = std::max(leave, slot.last_leave);
  ImpairStep step{.what = What::hold,
                  .delayed = leave > now,
                  .reordered = rule.reorder.hit(rng),
                  .next = {static_cast<std::uint16_t>(at.rule + 1)}};
  if (step.reordered) {
    leave += rule.reorder_gap_ns;
  } else {
    slot.last_leave = leave;
  }
  if (leave <= now) return std::nullopt;
  step.until = leave;
  if (step.delayed) ++slot.counters.delayed;
  if (step.reordered) ++slot.counters.reordered;
  if (!at.acted) ++slot.acted;
  return step;
}

}  // namespace weft::stages
