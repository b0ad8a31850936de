// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/event_queue.h"

#include <algorithm>
#include <bit>

namespace weft::sim {

EventQueue::EventQueue() : slots_(kSlots, nullptr) {}

void EventQueue::schedule(Event& event, TimeNs at) {
  if (at != kNever) at = std::max(at, now_);
  if (event.at_ == at) return;
  if (event.at_ != kNever) remove(event);
  event.at_ = at;
  event.sequence_ = ++sequence_;
  if (at == kNever) return;
  if (at - now_ < kSlots) {
    insert_near(event);
  } else {
    far_.push_back({at, event.sequence_, &event});
    std::push_heap(far_.begin(), far_.end(), [](const Far& a, const Far& b) { return a.later(b); });
  }
}

void EventQueue::insert_near(Event& event) noexcept {
  const auto slot = static_cast<std::uint32_t>(event.at_) & kMask;
  Event*& first = slots_[slot];
  event.near_ = true;
  ++near_count_;
  if (first == nullptr) {
    first = event.next_ = event.prev_ = &event;
    bits_[slot / 64] |= std::uint64_t{1} << slot % 64;
    summary_[slot / 4096] |= std::uint64_t{1} << slot / 64 % 64;
    return;
  }
  Event* last = first->prev_;
  event.prev_ = last;
  event.next_ = first;
  last->next_ = &event;
  first->prev_ = &event;
}

void EventQueue::remove(Event& event) noexcept {
  if (!event.near_) return;  // its entry in the heap is void from now on
  const auto slot = static_cast<std::uint32_t>(event.at_) & kMask;
  event.near_ = false;
  --near_count_;
  if (event.next_ == &event) {
    slots_[slot] = nullptr;
    bits_[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
    if (bits_[slot / 64] == 0) summary_[slot / 4096] &= ~(std::uint64_t{1} << slot / 64 % 64);
    return;
  }
  event.prev_->next_ = event.next_;
  event.next_->prev_ = event.prev_;
  if (slots_[slot] == &event) slots_[slot] = event.next_;
}

const EventQueue::Far* EventQueue::first_far() {
  while (!far_.empty() && far_.front().event->sequence_ != far_.front().sequence) pop_far();
  return far_.empty() ? nullptr : &far_.front();
}

void EventQueue::pop_far() {
  std::pop_heap(far_.begin(), far_.end(), [](const Far& a, const Far& b) { return a.later(b); });
  far_.pop_back();
}

// Events of the heap become near before anything can be scheduled directly at their time: order is kept.
void EventQueue::advance(TimeNs to) {
  now_ = to;
  for (const Far* far = first_far(); far != nullptr && far->at - now_ < kSlots; far = first_far()) {
    insert_near(*far->event);
    pop_far();
  }
}

TimeNs EventQueue::next_near() const noexcept {
  const auto start = static_cast<std::uint32_t>(now_) & kMask;
  const std::uint32_t word = start / 64;
  const auto found = [&](std::uint32_t w, std::uint64_t bits) {
    const std::uint32_t slot = w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
    return now_ + ((slot - start) & kMask);
  };
  if (const std::uint64_t bits = bits_[word] >> start % 64 << start % 64; bits != 0) return found(word, bits);
  // The words behind, then those before, then the lower bits of the first one.
  for (std::uint32_t i = 0; i <= kWords / 64; ++i) {
    const std::uint32_t group = (word / 64 + i) % (kWords / 64);
    std::uint64_t words = summary_[group];
    const std::uint32_t in_group = word % 64;
    if (i == 0) words = in_group == 63 ? 0 : words >> (in_group + 1) << (in_group + 1);
    if (i == kWords / 64) words &= (std::uint64_t{2} << in_group) - 1;
    if (words != 0) {
      const std::uint32_t w = group * 64 + static_cast<std::uint32_t>(std::countr_zero(words));
      return found(w, bits_[w]);
    }
  }
  return kNever;
}

TimeNs EventQueue::next_time() {
  if (near_count_ != 0) return next_near();
  const Far* far = first_far();
  return far != nullptr ? far->at : kNever;
}

bool EventQueue::step() {
  Event* event = slots_[static_cast<std::uint32_t>(now_) & kMask];
  if (event == nullptr) {
    const TimeNs next = next_time();
    if (next == kNever) return false;
    advance(next);
    event = slots_[static_cast<std::uint32_t>(now_) & kMask];
  }
  remove(*event);
  event->at_ = kNever;
  ++event->sequence_;
  ++fired_;
  event->fire(now_);
  return true;
}

}  // namespace weft::sim
