// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/conweave_destination.h"

#include <algorithm>

namespace weft::stages {

ConweaveDestination::ConweaveDestination(const ConweaveDestinationRules& rules)
    : rules_(rules),
      entries_(rules.flows),
      buffer_({.bound_ns = rules.bound_ns,
               .flows = rules.queues,
               .max_packets = rules.max_packets,
               .max_flow_packets = rules.queue_packets,
               .max_bytes = rules.max_bytes}),
      queues_(rules.queues) {
  timers_.resize(rules.queues);
  free_queues_.reserve(rules.queues);
  for (std::uint32_t i = rules.queues; i-- > 0;) free_queues_.push_back(static_cast<std::uint16_t>(i));
}

// The flow's entry. nullptr when all four places belong to flows whose packets wait: they keep theirs.
ConweaveDestination::Flow* ConweaveDestination::find(TimeNs now, const FlowKey& key) noexcept {
  const auto waits = [](const Flow& flow) { return flow.queue != kNoQueue; };
  const auto [flow, known] = find_flow(entries_, flow_place(entries_, key), key, is_free, waits);
  if (flow == nullptr) return nullptr;
  const bool aged = !waits(*flow) && now - flow->last > rules_.age_ns;
  if (!known && flow->known && !aged) ++counts_.evicted;
  if (!known || aged) *flow = {.key = key};
  return flow;
}

void ConweaveDestination::on_packet(TimeNs now, const FlowKey& key, const ConweaveTag& tag, bool may_wait,
                                    std::uint32_t bytes, std::uint64_t packet, ConweaveSink& sink) noexcept {
  if (passes(now, key, tag)) return sink.deliver(packet);
  if (tag.request) sink.reply({ConweaveReply::Kind::rtt, tag.epoch});
  if (tag.tail) sink.reply({ConweaveReply::Kind::clear, tag.epoch});
  Flow* const flow = find(now, key);
  if (flow == nullptr) {
    ++counts_.flows_full;
    return sink.deliver(packet);
  }
  if (!enter_epoch(now, *flow, tag.epoch, sink)) {
    ++counts_.stale;
    return sink.deliver(packet);
  }
  flow->last = now;
  if (!tag.rerouted) return on_old_path(now, *flow, tag, packet, sink);
  if (!may_wait) settle(*flow, counts_.given_up, sink);
  on_new_path(now, *flow, tag, bytes, packet, sink);
}

// False when the packet is of an earlier epoch than the flow's.
bool ConweaveDestination::enter_epoch(TimeNs now, Flow& flow, std::uint8_t epoch, ReorderSink& sink) noexcept {
  if (flow.known && flow.epoch == epoch) return true;
  const bool recent = flow.queue != kNoQueue || now - flow.last <= rules_.wait_ns;
  if (flow.known && recent && !later_epoch(epoch, flow.epoch)) return false;
  // What waits is of the epoch before, and was sent before this packet: it goes on first.
  if (flow.queue != kNoQueue) settle(flow, counts_.given_up, sink);
  flow = {.key = flow.key, .epoch = epoch, .known = true};
  return true;
}

void ConweaveDestination::on_old_path(TimeNs now, Flow& flow, const ConweaveTag& tag, std::uint64_t packet,
                                      ConweaveSink& sink) noexcept {
  flow.old_seen = true;
  flow.old_came = now;
  flow.old_sent = tag.sent;
  sink.deliver(packet);
  if (tag.tail) {
    settle(flow, counts_.resumed, sink);
  } else if (flow.queue != kNoQueue) {
    set_flush(flow, tail_due(now, flow));
  }
}

void ConweaveDestination::on_new_path(TimeNs now, Flow& flow, const ConweaveTag& tag, std::uint32_t bytes,
                                      std::uint64_t packet, ConweaveSink& sink) noexcept {
  if (flow.ordered) return sink.deliver(packet);
  flow.tail_sent = tag.tail_sent;
  const TimeNs due = tail_due(now, flow);
  // The TAIL is lost, or later than it may be.
  if (due <= now) settle(flow, counts_.flushed, sink);
  if (due <= now || (flow.queue == kNoQueue && !take_queue(now, flow))) return sink.deliver(packet);
  if (buffer_.held(flow.queue) == 0) set_flush(flow, due);
  const std::uint64_t overflowed = buffer_.counts().overflowed;
  const std::uint32_t waiting = buffer_.held(flow.queue);
  buffer_.on_packet(now, flow.queue, wire::Psn(flow.arrivals++ & 0xffffff), false, bytes, packet, sink);
  if (buffer_.counts().overflowed == overflowed) {
    ++counts_.held;
    return;
  }
  ++counts_.overflowed;
  counts_.given_up += waiting;
  settle(flow, counts_.given_up, sink);
}

bool ConweaveDestination::take_queue(TimeNs now, Flow& flow) noexcept {
  if (free_queues_.empty()) {
    ++counts_.no_queue;
    flow.ordered = true;
    return false;
  }
  flow.queue = free_queues_.back();
  free_queues_.pop_back();
  queues_[flow.queue] = {.flow = static_cast<std::uint32_t>(&flow - entries_.data()), .limit = now + rules_.bound_ns};
  counts_.peak_queues = std::max<std::uint64_t>(counts_.peak_queues, queues_used());
  return true;
}

// When the TAIL must have come.
TimeNs ConweaveDestination::tail_due(TimeNs now, const Flow& flow) const noexcept {
  if (!flow.old_seen) return now + rules_.wait_ns + rules_.extra_ns;
  return flow.old_came + flow.tail_sent.since(flow.old_sent) + rules_.extra_ns;
}

void ConweaveDestination::set_flush(Flow& flow, TimeNs at) noexcept {
  Queue& queue = queues_[flow.queue];
  queue.flush_at = std::min(at, queue.limit);
  timers_.set(flow.queue, queue.flush_at);
}

// Lets what waits of the flow go on, and adds it to `count`. No packet of this epoch waits any more.
void ConweaveDestination::settle(Flow& flow, std::uint64_t& count, ReorderSink& sink) noexcept {
  flow.ordered = true;
  if (flow.queue == kNoQueue) return;
  count += buffer_.held(flow.queue);
  buffer_.forget(flow.queue, sink);
  timers_.set(flow.queue, kNever);
  free_queues_.push_back(flow.queue);
  flow.queue = kNoQueue;
}

void ConweaveDestination::on_timer(TimeNs now, ReorderSink& sink) noexcept {
  while (timers_.next() <= now) {
    ++counts_.flushes;
    settle(entries_[queues_[timers_.pop()].flow], counts_.flushed, sink);
  }
}

void ConweaveDestination::flush(ReorderSink& sink) noexcept {
  for (Flow& flow : entries_) {
    settle(flow, counts_.given_up, sink);
    flow = {};
  }
}

}  // namespace weft::stages
