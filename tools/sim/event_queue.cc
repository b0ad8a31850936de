// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/event_queue.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace weft::sim {

EventQueue::EventQueue() : slots_(kSlots, nullptr) {}

void EventQueue::schedule(Event& event, TimeNs at) {
  if (at != kNever) at = std::max(at, now_);
  if (event.at_ == at) return;
  if (event.at_ != kNever) remove(event);
  event.at_ = at;
  ++event.times_scheduled_;
  if (at == kNever) return;
  if (at == now_) {
    added_.push_back({event.order_, event.times_scheduled_, &event});
    std::push_heap(added_.begin(), added_.end(), later);
  } else if (at - now_ < kSlots) {
    insert_near(event);
  } else {
    far_.push_back({at, event.times_scheduled_, &event});
    std::push_heap(far_.begin(), far_.end(), later);
  }
}

void EventQueue::insert_near(Event& event) noexcept {
  const auto slot = static_cast<std::uint32_t>(event.at_) & kMask;
  Event*& first = slots_[slot];
  event.near_ = true;
  ++near_count_;
  event.prev_ = nullptr;
  event.next_ = first;
  if (first == nullptr) {
    bits_[slot / 64] |= std::uint64_t{1} << slot % 64;
    summary_[slot / 4096] |= std::uint64_t{1} << slot / 64 % 64;
  } else {
    first->prev_ = &event;
  }
  first = &event;
}

void EventQueue::remove(Event& event) noexcept {
  if (!event.near_) return;  // its entry in the heap is void from now on
  const auto slot = static_cast<std::uint32_t>(event.at_) & kMask;
  event.near_ = false;
  --near_count_;
  if (event.next_ != nullptr) event.next_->prev_ = event.prev_;
  if (event.prev_ != nullptr) {
    event.prev_->next_ = event.next_;
  } else if (event.next_ != nullptr) {
    slots_[slot] = event.next_;
  } else {
    clear_slot(slot);
  }
}

void EventQueue::clear_slot(std::uint32_t slot) noexcept {
  slots_[slot] = nullptr;
  bits_[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
  if (bits_[slot / 64] == 0) summary_[slot / 4096] &= ~(std::uint64_t{1} << slot / 64 % 64);
}

const EventQueue::Entry* EventQueue::first_of(std::vector<Entry>& heap) {
  while (!heap.empty() && is_void(heap.front())) pop(heap);
  return heap.empty() ? nullptr : &heap.front();
}

void EventQueue::pop(std::vector<Entry>& heap) {
  std::pop_heap(heap.begin(), heap.end(), later);
  heap.pop_back();
}

// Takes what is due at `to` out of its slot: from now on it has an order.
void EventQueue::advance(TimeNs to) {
  now_ = to;
  for (const Entry* far = first_of(far_); far != nullptr && far->key - now_ < kSlots; far = first_of(far_)) {
    insert_near(*far->event);
    pop(far_);
  }
  due_.clear();
  next_due_ = 0;
  const auto slot = static_cast<std::uint32_t>(now_) & kMask;
  for (Event* event = slots_[slot]; event != nullptr; event = event->next_) {
    event->near_ = false;
    due_.push_back({event->order_, event->times_scheduled_, event});
  }
  if (due_.empty()) return;
  near_count_ -= due_.size();
  clear_slot(slot);
  if (due_.size() > 1)
    std::sort(due_.begin(), due_.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
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

bool EventQueue::is_due() {
  while (next_due_ < due_.size() && is_void(due_[next_due_])) ++next_due_;
  const bool added = first_of(added_) != nullptr;
  return added || next_due_ < due_.size();
}

// Only behind is_due(), which has left void entries out.
Event& EventQueue::take_due() {
  const bool sorted = next_due_ < due_.size();
  if (!added_.empty()) {
    const Entry added = added_.front();
    assert((!sorted || due_[next_due_].key != added.key) && "two events that nothing tells apart");
    if (!sorted || added.key < due_[next_due_].key) {
      pop(added_);
      return *added.event;
    }
  }
  const Entry& first = due_[next_due_++];
  assert((next_due_ == due_.size() || due_[next_due_].key != first.key) && "two events that nothing tells apart");
  return *first.event;
}

TimeNs EventQueue::next_time() {
  if (is_due()) return now_;
  if (near_count_ != 0) return next_near();
  const Entry* far = first_of(far_);
  return far != nullptr ? far->key : kNever;
}

bool EventQueue::step() {
  if (!is_due()) {
    const TimeNs next = next_time();
    if (next == kNever) return false;
    advance(next);
  }
  fire(take_due());
  return true;
}

void EventQueue::fire_now(Event& event) {
  const bool comes_later = (next_due_ < due_.size() && due_[next_due_].key < event.order_) ||
                           (!added_.empty() && added_.front().key < event.order_);
  if (comes_later || event.at_ != kNever) return schedule(event, now_);
  ++event.times_scheduled_;
  ++fired_;
  event.fire(now_);
}

void EventQueue::fire(Event& event) {
  event.at_ = kNever;
  ++event.times_scheduled_;
  ++fired_;
  event.fire(now_);
}

void EventQueue::run_before(TimeNs until) {
  for (;;) {
    if (!is_due()) {
      const TimeNs next = next_time();
      if (next >= until) return;
      advance(next);
    }
    fire(take_due());
  }
}

void EventQueue::begin(TimeNs now) {
  assert(next_time() >= now && "events that have been forgotten");
  if (now > now_) advance(now);
}

}  // namespace weft::sim
