// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/bicc/unit.h"

#include <algorithm>
#include <bit>

#include "switch/wire/hash.h"

namespace weft::stages {

BiccUnit::BiccUnit(const BiccSettings& settings)
    : settings_(settings),
      queues_(std::bit_ceil(std::max(settings.destinations, kWays))),
      flows_(std::bit_ceil(std::max(settings.flows, kWays))),
      items_(settings.max_packets) {
  free_.reserve(items_.size());
  for (auto i = static_cast<std::uint32_t>(items_.size()); i != 0; --i) free_.push_back(i - 1);
  timers_.resize(queues_.size());
}

void BiccUnit::set_limits(std::uint64_t limit_bytes, TimeNs stale_ns) noexcept {
  settings_.limit_bytes = limit_bytes;
  settings_.stale_ns = stale_ns;
  for (std::uint32_t q = 0; q < queues_.size(); ++q) arm(q);
}

// --- tables ------------------------------------------------------------------------------------------------------

// A place that is free, or the one that was seen longest ago of those for which nothing waits; kNone: something waits
// for all of them.
std::uint32_t BiccUnit::queue_of(TimeNs now, std::uint64_t destination) noexcept {
  const std::uint64_t hash = wire::mix64(destination ^ 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull);
  const auto set = static_cast<std::uint32_t>(hash & (queues_.size() / kWays - 1)) * kWays;
  std::uint32_t found = kNone;
  for (std::uint32_t at = set; at != set + kWays; ++at) {
    BiccQueue& queue = queues_[at];
    if (queue.destination == destination) {
      queue.seen_at = now;
      return at;
    }
    if (queue.held != 0 || (found != kNone && queues_[found].destination == 0)) continue;
    if (found == kNone || queue.destination == 0 || queue.seen_at < queues_[found].seen_at) found = at;
  }
  if (found != kNone) queues_[found] = {.destination = destination, .epoch = ++epoch_, .seen_at = now};
  return found;
}

std::uint32_t BiccUnit::flow_set(const wire::FlowName& name) const noexcept {
  const std::uint64_t hash = wire::mix64(name.addresses ^ 0xc2b2ae3d27d4eb4full,
                                         (std::uint64_t{name.ipv6} << 32 | name.dest_qp) + 0x9e3779b97f4a7c15ull);
  return static_cast<std::uint32_t>(hash & (flows_.size() / kWays - 1)) * kWays;
}

std::uint32_t BiccUnit::find_flow(const wire::FlowName& name) const noexcept {
  const std::uint32_t set = flow_set(name);
  for (std::uint32_t at = set; at != set + kWays; ++at) {
    if (flows_[at].used && flows_[at].name == name) return at;
  }
  return kNone;
}

std::uint32_t BiccUnit::flow_of(TimeNs now, const wire::FlowName& name) noexcept {
  std::uint32_t found = find_flow(name);
  if (found == kNone) {
    const std::uint32_t set = flow_set(name);
    for (std::uint32_t at = set; at != set + kWays; ++at) {
      if (flows_[at].held != 0 || (found != kNone && !flows_[found].used)) continue;
      if (found == kNone || !flows_[at].used || flows_[at].seen_at < flows_[found].seen_at) found = at;
    }
    if (found == kNone) return kNone;
    // What the flow had under way that leaves nobody will hear of.
    if (flows_[found].used) forget(found, flows_[found].bytes);
    flows_[found] = {.name = name, .used = true};
  }
  flows_[found].seen_at = now;
  return found;
}

// --- what is under way -------------------------------------------------------------------------------------------

bool BiccUnit::fits(const BiccQueue& queue, std::uint32_t flow, std::uint32_t bytes) const noexcept {
  return flow == kNone || queue.in_flight == 0 || queue.in_flight + bytes <= settings_.limit_bytes;
}

void BiccUnit::send(std::uint32_t at, std::uint32_t flow_at, wire::Psn psn, std::uint32_t bytes) noexcept {
  if (flow_at == kNone) return;
  BiccQueue& queue = queues_[at];
  BiccFlow& flow = flows_[flow_at];
  if (flow.epoch != queue.epoch) {
    flow.queue = at;
    flow.epoch = queue.epoch;
    flow.bytes = 0;
  }
  if (flow.bytes != 0 && psn.distance_from(flow.sent) <= 0) forget(flow_at, flow.bytes);
  if (flow.bytes == 0) flow.acked = psn - 1;
  // PSNs in between are those of what a READ asks for: they are no packets on their way there.
  if (flow.bytes != 0) flow.acked = flow.acked + static_cast<std::uint32_t>(psn.distance_from(flow.sent) - 1);
  flow.sent = psn;
  flow.bytes += bytes;
  queue.in_flight += bytes;
}

// So many bytes of a flow are under way no more.
void BiccUnit::forget(std::uint32_t at, std::uint64_t bytes) noexcept {
  BiccFlow& flow = flows_[at];
  if (queues_[flow.queue].epoch == flow.epoch) queues_[flow.queue].in_flight -= bytes;
  flow.bytes -= bytes;
}

void BiccUnit::on_ack(TimeNs now, const wire::FlowName& name, wire::Psn psn, BiccSink& sink) noexcept {
  const std::uint32_t at = find_flow(name);
  if (at == kNone) return;
  BiccFlow& flow = flows_[at];
  if (flow.bytes == 0 || queues_[flow.queue].epoch != flow.epoch) return;
  const std::int32_t covered = psn.distance_from(flow.acked);
  if (covered <= 0) return;
  const std::int32_t sent = flow.sent.distance_from(flow.acked);
  const bool all = covered >= sent;
  forget(at, all ? flow.bytes : flow.bytes * static_cast<std::uint64_t>(covered) / static_cast<std::uint64_t>(sent));
  flow.acked = psn;
  heard(now, flow.queue, sink);
}

void BiccUnit::on_nak(TimeNs now, const wire::FlowName& name, BiccSink& sink) noexcept {
  const std::uint32_t at = find_flow(name);
  if (at == kNone) return;
  const BiccFlow& flow = flows_[at];
  if (flow.bytes == 0 || queues_[flow.queue].epoch != flow.epoch) return;
  forget(at, flow.bytes);
  heard(now, flow.queue, sink);
}

void BiccUnit::heard(TimeNs now, std::uint32_t at, BiccSink& sink) noexcept {
  queues_[at].heard_at = now;
  if (queues_[at].held != 0) drain(now, at, false, sink);
}

// --- what waits --------------------------------------------------------------------------------------------------

BiccVerdict BiccUnit::on_request(TimeNs now, const BiccRequest& request, BiccSink& sink) noexcept {
  const std::uint32_t at = queue_of(now, request.destination);
  if (at == kNone) {
    ++counters_.untracked;
    return BiccVerdict::pass;
  }
  BiccQueue& queue = queues_[at];
  const std::uint32_t flow = request.acknowledged ? flow_of(now, request.name) : kNone;
  if (request.acknowledged && flow == kNone) ++counters_.untracked;
  if (queue.held == 0 && fits(queue, flow, request.bytes)) {
    send(at, flow, request.psn, request.bytes);
    return BiccVerdict::pass;
  }
  if (free_.empty() || held_bytes_ + request.bytes > settings_.buffer_bytes || !sink.reserve(request.packet)) {
    counters_.flushed += queue.held + 1;
    drain(now, at, true, sink);
    send(at, flow, request.psn, request.bytes);
    return BiccVerdict::flushed;
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  items_[index] = {.packet = request.packet,
                   .came = now,
                   .flow = flow,
                   .bytes = request.bytes,
                   .psn = request.psn,
                   .before = queue.last};
  (queue.last == kNone ? queue.first : items_[queue.last].after) = index;
  queue.last = index;
  if (queue.held++ == 0) {
    queue.heard_at = now;
    arm(at);
  }
  if (flow != kNone) ++flows_[flow].held;
  ++held_;
  held_bytes_ += request.bytes;
  counters_.most_bytes = std::max(counters_.most_bytes, held_bytes_);
  ++counters_.held;
  return BiccVerdict::held;
}

// Lets packets go on that fit, or all.
void BiccUnit::drain(TimeNs now, std::uint32_t at, bool all, BiccSink& sink) noexcept {
  BiccQueue& queue = queues_[at];
  while (queue.held != 0) {
    const std::uint32_t index = queue.first;
    const Item item = items_[index];
    if (!all && !fits(queue, item.flow, item.bytes)) break;
    const BiccPacket packet = take_out(now, at, index);
    send(at, item.flow, item.psn, item.bytes);
    sink.release(packet);
  }
  arm(at);
}

BiccPacket BiccUnit::take_out(TimeNs now, std::uint32_t at, std::uint32_t index) noexcept {
  BiccQueue& queue = queues_[at];
  const Item item = items_[index];
  (item.before == kNone ? queue.first : items_[item.before].after) = item.after;
  (item.after == kNone ? queue.last : items_[item.after].before) = item.before;
  --queue.held;
  --held_;
  held_bytes_ -= item.bytes;
  if (item.flow != kNone) --flows_[item.flow].held;
  counters_.longest_hold_ns = std::max(counters_.longest_hold_ns, now - item.came);
  items_[index] = {};
  free_.push_back(index);
  return item.packet;
}

void BiccUnit::write_off(std::uint32_t at) noexcept {
  queues_[at].epoch = ++epoch_;
  queues_[at].in_flight = 0;
}

void BiccUnit::arm(std::uint32_t at) noexcept {
  timers_.set(at, queues_[at].held == 0 ? kNever : queues_[at].heard_at + settings_.stale_ns);
}

void BiccUnit::on_timer(TimeNs now, BiccSink& sink) noexcept {
  while (timers_.next() <= now) {
    const std::uint32_t at = timers_.pop();
    ++counters_.written_off;
    write_off(at);
    heard(now, at, sink);
  }
}

void BiccUnit::release_all(BiccSink& sink) noexcept {
  for (std::uint32_t at = 0; at < queues_.size(); ++at) {
    while (queues_[at].held != 0) {
      const std::uint32_t index = queues_[at].first;
      sink.release(take_out(items_[index].came, at, index));
    }
    write_off(at);
    arm(at);
  }
}

}  // namespace weft::stages
