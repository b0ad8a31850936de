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
    due_.push_back({event.order_, event.times_scheduled_, &event});
    std::push_heap(due_.begin(), due_.end(), later);
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
  if (first == nullptr) {
    first = event.next_ = event.prev_ = &event;
    bits_[slot / 64] |= std::uint64_t{1} << slot % 64;
    summary_[slot / 4096] |= std::uint64_t{1} << slot / 64 % 64;
    return;
  }
  event.prev_ = first->prev_;
  event.next_ = first;
  first->prev_->next_ = &event;
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

const EventQueue::Entry* EventQueue::first_of(std::vector<Entry>& heap) {
  while (!heap.empty() && heap.front().event->times_scheduled_ != heap.front().scheduled) pop(heap);
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
  Event*& slot = slots_[static_cast<std::uint32_t>(now_) & kMask];
  while (slot != nullptr) {
    Event& event = *slot;
    remove(event);
    due_.push_back({event.order_, event.times_scheduled_, &event});
  }
  std::make_heap(due_.begin(), due_.end(), later);
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
  if (first_of(due_) != nullptr) return now_;
  if (near_count_ != 0) return next_near();
  const Entry* far = first_of(far_);
  return far != nullptr ? far->key : kNever;
}

bool EventQueue::step() {
  const Entry* first = first_of(due_);
  if (first == nullptr) {
    const TimeNs next = next_time();
    if (next == kNever) return false;
    advance(next);
    first = first_of(due_);
  }
  Event& event = *first->event;
  pop(due_);
  assert((first_of(due_) == nullptr || due_.front().key != event.order_) && "two events that nothing tells apart");
  event.at_ = kNever;
  ++event.times_scheduled_;
  ++fired_;
  event.fire(now_);
  return true;
}

}  // namespace weft::sim
