// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/reorder.h"

#include <algorithm>

namespace weft::stages {

using wire::Psn;

namespace {

// after < psn <= until
bool is_within(Psn psn, Psn after, Psn until) {
  return psn.distance_from(after) > 0 && psn.distance_from(until) <= 0;
}

}  // namespace

ReorderBuffer::ReorderBuffer(const ReorderRules& rules)
    : rules_(rules), flows_(rules.flows), items_(rules.max_packets) {
  timers_.resize(rules.flows);
  for (std::uint32_t i = rules.max_packets; i-- > 0;) {
    items_[i].next = free_;
    free_ = i;
  }
}

// Inlined: an item that goes through memory is written in small pieces and read in large ones, which has to wait.
[[gnu::always_inline]] inline void ReorderBuffer::arrive(TimeNs now, std::uint32_t number, const Item& arrived,
                                                         ReorderSink& sink) noexcept {
  Flow& flow = flows_[number];
  Item item = arrived;
  item.until = now + rules_.bound_ns;
  std::int32_t ahead = flow.known ? item.psn.distance_from(flow.expected) : 0;
  const bool leap = ahead >= kLeap || ahead <= -kLeap;
  if (!leap && ahead < 0) {
    ++counts_.late;
    if (!begins_anew(flow, item)) return go_on(item, sink);
    ahead = item.psn.distance_from(flow.expected);
  }
  if (!leap && (ahead > 0 || !(flow.known || may_begin(flow, item)))) {
    std::uint32_t* const place = place_of(flow, item.psn);
    // The same PSN waits already: this is a copy, which need not wait for what its original waits for. Receivers to
    // which senders go back would take it for one more gap.
    if (*place != kNone && items_[*place].psn == item.psn && !flow.goes_back) return go_on(item, sink);
    if (has_room(flow, item, sink)) return hold(number, item, place);
    ++counts_.overflowed;
    while (flow.first != kNone && items_[flow.first].psn.distance_from(item.psn) < 0) take_first(flow, sink);
  }
  if (leap) {
    ++counts_.leaps;
    release(number, sink);
    flow.nacked = false;
    flow.expected = item.psn;
  }
  go_on(item, sink);
  pass(flow, item);
  drain(number, sink);
}

// What the flow expects when a packet goes on that is not late.
void ReorderBuffer::pass(Flow& flow, const Item& item) noexcept {
  const Psn behind = item.psn + item.psns;
  const bool gap = flow.known && item.psn.distance_from(flow.expected) > 0;
  if (gap && flow.goes_back) {
    // The receiver throws it away, and still wants the same.
    const bool earlier = is_within(flow.gap_end, flow.expected, item.psn);
    if (!earlier) flow.gap_end = item.psn;
    return;
  }
  if (gap) flow.gap_end = item.psn;
  if (!flow.known || behind.distance_from(flow.expected) > 0) flow.expected = behind;
  flow.known = true;
}

void ReorderBuffer::on_nak(std::uint32_t number, Psn wanted) noexcept {
  Flow& flow = flows_[number];
  const std::int32_t behind = flow.expected.distance_from(wanted);
  if (!flow.known || behind <= 0 || behind >= kLeap) return;
  follows_acks_ = true;
  // Without a gap of ours there, the packet was lost between here and the receiver: it alone is missing.
  if (flow.goes_back || !is_within(flow.gap_end, wanted, flow.expected)) flow.gap_end = wanted + 1;
  if (flow.goes_back) {
    flow.expected = wanted;
    ++counts_.went_back;
    return;
  }
  flow.wanted = wanted;
  flow.nacked = true;
}

void ReorderBuffer::on_ack(std::uint32_t number, Psn psn, ReorderSink& sink) noexcept {
  Flow& flow = flows_[number];
  if (flow.nacked) wants(flow, psn + 1);
  const std::int32_t ahead = (psn + 1).distance_from(flow.expected);
  if (!flow.goes_back || ahead <= 0 || ahead >= kLeap) return;
  // It has got what went on ahead of a gap, and has not come again since: it keeps such packets.
  if (is_within(flow.gap_end, flow.expected, psn)) flow.goes_back = false;
  flow.expected = psn + 1;
  drain(number, sink);
}

// What the receiver that has asked for a packet wants next.
void ReorderBuffer::wants(Flow& flow, Psn next) noexcept {
  if (next.distance_from(flow.wanted) > 0) flow.wanted = next;
  flow.nacked = flow.wanted.distance_from(flow.expected) < 0;
}

// Whether a late packet shows that its sender has gone back to what the receiver wants, so that order begins anew
// there. Packets that fill a gap show nothing: all senders send them again.
bool ReorderBuffer::begins_anew(Flow& flow, const Item& item) noexcept {
  const std::int32_t after = item.psn.distance_from(flow.wanted);
  if (!flow.nacked || after < 0) return false;
  if (item.psn.distance_from(flow.gap_end) < 0) {
    if (after == 0) wants(flow, item.psn + item.psns);
    return false;
  }
  flow.goes_back = true;
  flow.nacked = false;
  flow.expected = flow.wanted;
  ++counts_.went_back;
  return true;
}

void ReorderBuffer::on_packet(TimeNs now, std::uint32_t flow, Psn psn, bool starts, std::uint32_t bytes,
                              std::uint64_t packet, ReorderSink& sink) noexcept {
  Flow& known = flows_[flow];
  // Mostly a packet is the one that is expected, and none waits.
  if (known.known && psn == known.expected && known.first == kNone) [[likely]] {
    known.expected = psn + 1;
    return sink.deliver(packet);
  }
  arrive(now, flow, {.packet = packet, .psn = psn, .bytes = bytes, .starts = starts}, sink);
}

void ReorderBuffer::on_passed(TimeNs now, std::uint32_t flow, Psn psn, std::uint32_t psns, ReorderSink& sink) noexcept {
  arrive(now, flow, {.psn = psn, .psns = psns, .starts = true, .passed = true}, sink);
}

bool ReorderBuffer::has_room(const Flow& flow, const Item& item, ReorderSink& sink) noexcept {
  if (free_ == kNone || flow.packets >= rules_.max_flow_packets || bytes_ + item.bytes > rules_.max_bytes) return false;
  return item.passed || sink.reserve(item.packet);
}

// Whether a flow that is not known may begin with this packet: it starts a message, and nothing that waits is earlier.
bool ReorderBuffer::may_begin(const Flow& flow, const Item& item) const noexcept {
  return item.starts && (flow.first == kNone || items_[flow.first].psn.distance_from(item.psn) > 0);
}

// The link to the first of what waits that is not earlier. Packets that overtook one are mostly in order themselves, so
// that this is the end.
std::uint32_t* ReorderBuffer::place_of(Flow& flow, Psn psn) noexcept {
  if (flow.first != kNone && items_[flow.last].psn.distance_from(psn) < 0) return &items_[flow.last].next;
  std::uint32_t* place = &flow.first;
  while (*place != kNone && items_[*place].psn.distance_from(psn) < 0) place = &items_[*place].next;
  return place;
}

void ReorderBuffer::hold(std::uint32_t number, const Item& item, std::uint32_t* place) noexcept {
  const std::uint32_t at = free_;
  free_ = items_[at].next;
  items_[at] = item;
  items_[at].next = *place;
  if (*place == kNone) flows_[number].last = at;
  *place = at;
  timers_.arm(number, item.until);
  if (item.passed) return;
  ++flows_[number].packets;
  ++packets_;
  bytes_ += item.bytes;
  ++counts_.held;
  counts_.peak_packets = std::max<std::uint64_t>(counts_.peak_packets, packets_);
  counts_.peak_bytes = std::max(counts_.peak_bytes, bytes_);
}

void ReorderBuffer::take_first(Flow& flow, ReorderSink& sink) noexcept {
  const std::uint32_t at = flow.first;
  Item& item = items_[at];
  flow.first = item.next;
  pass(flow, item);
  if (!item.passed) {
    --flow.packets;
    --packets_;
    bytes_ -= item.bytes;
  }
  go_on(item, sink);
  item.next = free_;
  free_ = at;
}

void ReorderBuffer::drain(std::uint32_t number, ReorderSink& sink) noexcept {
  Flow& flow = flows_[number];
  while (flow.first != kNone && items_[flow.first].psn.distance_from(flow.expected) <= 0) take_first(flow, sink);
  if (flow.first == kNone) timers_.set(number, kNever);
}

void ReorderBuffer::release(std::uint32_t number, ReorderSink& sink) noexcept {
  Flow& flow = flows_[number];
  while (flow.first != kNone) take_first(flow, sink);
  timers_.set(number, kNever);
}

void ReorderBuffer::forget(std::uint32_t number, ReorderSink& sink) noexcept {
  release(number, sink);
  Flow& flow = flows_[number];
  flow.known = flow.nacked = flow.goes_back = false;
}

void ReorderBuffer::flush(ReorderSink& sink) noexcept {
  for (std::uint32_t number = 0; number < flows_.size(); ++number) forget(number, sink);
}

void ReorderBuffer::on_timer(TimeNs now, ReorderSink& sink) noexcept {
  while (timers_.next() <= now) expire(now, timers_.pop(), sink);
}

// Packets wait by PSN, and their times are in no order: all up to the last one whose time has come go on.
void ReorderBuffer::expire(TimeNs now, std::uint32_t number, ReorderSink& sink) noexcept {
  Flow& flow = flows_[number];
  std::uint32_t last = kNone;
  for (std::uint32_t at = flow.first; at != kNone; at = items_[at].next) {
    if (items_[at].until <= now) last = at;
  }
  bool more = last != kNone;
  while (more) {
    more = flow.first != last;
    counts_.expired += items_[flow.first].passed ? 0 : 1;
    take_first(flow, sink);
  }
  drain(number, sink);
  TimeNs next = kNever;
  for (std::uint32_t at = flow.first; at != kNone; at = items_[at].next) next = std::min(next, items_[at].until);
  timers_.set(number, next);
}

}  // namespace weft::stages
