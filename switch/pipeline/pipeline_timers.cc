// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Timers of the stages, and what other threads have left for them: what a worker does between bursts, and how long it
// may sleep.
#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

#include "switch/pipeline/pipeline.h"

namespace weft::pipeline {

// A stage that a reload keeps still runs in the pipeline before this one: adopt() asks it.
void Pipeline::make_timers() {
  for (std::size_t i = 0; i < slot_count_; ++i) {
    slots_[i].first_timer = static_cast<std::uint32_t>(timer_info_.size());
    slots_[i].timers = slots_[i].stage->timers();
    timer_info_.insert(timer_info_.end(), slots_[i].timers, {static_cast<std::uint8_t>(i), false});
  }
  timers_.resize(timer_info_.size());
  due_.reserve(timer_info_.size());
  for (std::size_t i = 0; i < slot_count_; ++i) {
    if (!state_.kept(i)) ask_deadlines(i);
  }
  mail_takers_.reserve(slot_count_);
  list_mail_takers();
}

void Pipeline::list_mail_takers() noexcept {
  mail_takers_.clear();
  for (std::size_t i = 0; i < slot_count_; ++i) {
    if (slots_[i].stage->takes_mail()) mail_takers_.push_back(static_cast<std::uint8_t>(i));
  }
}

// A stage that a reload takes away gives up what it holds in the place of another stage, whose timers are not its own.
void Pipeline::set_timer(std::size_t i, std::uint32_t token, TimeNs time) noexcept {
  if (adopting_) [[unlikely]]
    return;
  const Slot& slot = slots_[i];
  assert(token < slot.timers);
  timer_info_[slot.first_timer + token].due = false;
  timers_.set(slot.first_timer + token, time);
}

void Pipeline::arm_timer(std::size_t i, std::uint32_t token, TimeNs time) noexcept {
  if (adopting_) [[unlikely]]
    return;
  assert(token < slots_[i].timers);
  timers_.arm(slots_[i].first_timer + token, time);
}

void Pipeline::ask_deadlines(std::size_t i) noexcept {
  for (std::uint32_t token = 0; token < slots_[i].timers; ++token)
    set_timer(i, token, slots_[i].stage->deadline(token));
}

void Pipeline::change_stage(std::size_t i, const std::function<void(Stage&)>& change) {
  change(*slots_[i].stage);
  ask_deadlines(i);
}

void Pipeline::run_timers(TimeNs now) noexcept {
  if (stages_generation_ != state_.link_generation()) [[unlikely]]
    tell_links(now);
  for (const std::uint8_t i : mail_takers_) {
    if (!slots_[i].stage->has_mail()) continue;
    Context context(now, host_.worker, rng_, *this, i);
    slots_[i].stage->on_mail(context);
    run_resumed(now, i);
  }
  if (timers_.next() <= now) call_due(now);
  settle(now);
}

// All due timers are taken out before the first stage is called. A stage that asks for a time in the past is thus
// called in the next round, after packets have had their turn; and a timer that an earlier call moved is not called in
// this round.
void Pipeline::call_due(TimeNs now) noexcept {
  while (timers_.next() <= now) {
    due_.push_back(timers_.pop());
    timer_info_[due_.back()].due = true;
  }
  for (const std::uint32_t timer : due_) {
    if (!std::exchange(timer_info_[timer].due, false)) continue;
    const std::uint8_t i = timer_info_[timer].stage;
    Context context(now, host_.worker, rng_, *this, i);
    slots_[i].stage->on_timer(context, timer - slots_[i].first_timer);
    run_resumed(now, i);
  }
  due_.clear();
}

TimeNs Pipeline::port_deadline(PortIndex port) const noexcept {
  if (egress_[port] == nullptr) return kNever;
  return qos_ != nullptr ? class_deadline(port) : egress_[port]->next_deadline();
}

TimeNs Pipeline::stage_deadline() const noexcept {
  if (outbox_ != nullptr && outbox_->size() != 0) return 0;
  if (stages_generation_ != state_.link_generation()) return 0;
  for (const std::uint8_t i : mail_takers_) {
    if (slots_[i].stage->has_mail()) return 0;
  }
  return timers_.next();
}

TimeNs Pipeline::next_deadline() const noexcept {
  TimeNs next = stage_deadline();
  for (PortIndex port = 0; port < egress_.size(); ++port) next = std::min(next, port_deadline(port));
  return next;
}

}  // namespace weft::pipeline
