// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/unit.h"

#include <algorithm>

namespace weft::stages {
namespace {

// A 65536th of a rate is none any more.
constexpr std::uint32_t kMostHalves = 16;

}  // namespace

TrpUnit::TrpUnit(const TrpSettings& settings)
    : settings_(settings), store_(settings.store), items_(settings.max_packets) {
  free_.reserve(items_.size());
  for (auto i = static_cast<std::uint32_t>(items_.size()); i != 0; --i) free_.push_back(i - 1);
  if (settings_.mode == TrpMode::recirculate) {
    loop_.resize(items_.size());
    if (loops_by_code()) levels_of_flow_ = std::min(settings_.rules.max_loops, kMostLevels);
    levels_.resize(std::size_t{settings_.store.flows} * levels_of_flow_);
  } else {
    paced_.resize(settings_.store.flows);
  }
}

bool TrpUnit::on_cnp(TimeNs now, const wire::FlowName& name) noexcept {
  const std::uint32_t at = store_.find_or_add(now, name);
  if (at == TrpStore::kNone) return false;
  ++counters_.cnps;
  TrpFlow& flow = store_.flow(at);
  const bool begins = flow.law.status == TrpStatus::idle;
  flow.law.on_cnp(now, settings_.rules);
  if (!begins) return true;
  ++counters_.throttled;
  store_.begin();
  flow.measured = 0;
  flow.measured_ns = 0;
  flow.measured_bytes = 0;
  flow.next_free = now;
  return true;
}

TrpVerdict TrpUnit::on_data(TimeNs now, const wire::FlowName& name, TrpPacket packet, std::uint32_t bytes,
                            TrpSink& sink) noexcept {
  const std::uint32_t at = store_.find(now, name);
  if (at == TrpStore::kNone) return TrpVerdict::pass;
  TrpFlow& flow = store_.flow(at);
  if (settings_.recovery != TrpRecovery::none && !loops_by_code()) flow.law.on_packet(now, settings_.rules);
  if (flow.law.status == TrpStatus::idle) return TrpVerdict::pass;
  if (recovered(flow)) {
    end(at);
    return TrpVerdict::pass;
  }
  if (settings_.mode == TrpMode::pace && flow.measured_ns == 0) {
    measure(now, flow, bytes);
    return TrpVerdict::pass;
  }
  return hold(now, at, packet, bytes, sink);
}

// Nothing slows the flow down any more. With TrpRule::code that never is so: all its packets go through the loop.
bool TrpUnit::recovered(const TrpFlow& flow) const noexcept {
  if (flow.law.status != TrpStatus::recover || loops_by_code()) return false;
  return flow.held == 0 || settings_.recovery == TrpRecovery::direct;
}

void TrpUnit::end(std::uint32_t flow) noexcept {
  if (store_.flow(flow).law.status == TrpStatus::idle) return;
  store_.flow(flow).law.end();
  store_.end();
  ++counters_.recovered;
}

TrpVerdict TrpUnit::hold(TimeNs now, std::uint32_t at, TrpPacket packet, std::uint32_t bytes, TrpSink& sink) noexcept {
  TrpFlow& flow = store_.flow(at);
  TimeNs due = now;
  if (settings_.mode == TrpMode::pace) {
    due = pace_due(now, flow, bytes);
    if (due <= now && flow.held == 0) return TrpVerdict::pass;
  }
  if (free_.empty() || held_bytes_ + bytes > settings_.buffer_bytes || !sink.reserve(packet)) {
    ++counters_.flushed;
    flush(now, at, sink);
    return TrpVerdict::flushed;
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  items_[index] = {.packet = packet, .came = now, .due = due, .flow = at, .bytes = bytes, .before = flow.last};
  (flow.last == kNone ? flow.first : items_[flow.last].after) = index;
  flow.last = index;
  ++flow.held;
  ++held_;
  held_bytes_ += bytes;
  counters_.most_bytes = std::max(counters_.most_bytes, held_bytes_);
  ++counters_.held;
  if (settings_.mode == TrpMode::pace) {
    paced_.set(at, first_due(flow));
    return TrpVerdict::held;
  }
  // While the flow recovers a packet goes round once, behind those that came before. With TrpRule::code that is decided
  // when it comes back.
  const bool once = flow.law.status == TrpStatus::recover && !loops_by_code();
  items_[index].loops = once ? 1 : flow.law.loop_num;
  enter_loop(now, index);
  return TrpVerdict::held;
}

// --- recirculate -------------------------------------------------------------------------------------------------

void TrpUnit::enter_loop(TimeNs now, std::uint32_t index) noexcept {
  Item& item = items_[index];
  if (loop_free_ < now) {
    loop_free_ = now;
    loop_remainder_ = 0;
  }
  // bytes * 8 bits / (rate * 1e6 bit/s) in nanoseconds is bytes * 8000 / rate.
  const std::uint64_t numerator = std::uint64_t{item.bytes} * 8000 + loop_remainder_;
  loop_free_ += numerator / settings_.loop_mbps;
  loop_remainder_ = numerator % settings_.loop_mbps;
  item.due = loop_free_ + settings_.loop_delay_ns;
  loop_[loop_tail_++ % loop_.size()] = index;
  ++counters_.loops;
  if (!loops_by_code()) return;
  item.counted = true;
  ++level_of(item);
}

std::uint32_t& TrpUnit::level_of(const Item& item) noexcept {
  return levels_[std::size_t{item.flow} * levels_of_flow_ + std::min(item.loops, levels_of_flow_) - 1];
}

void TrpUnit::uncount(Item& item) noexcept {
  if (item.counted) --level_of(item);
  item.counted = false;
}

// TrpRule::code: a packet of a flow that recovers has one loop left, when none of its flow is in a loop with as few
// others behind it, the last one not counted. So packets that came before it are in front of it.
void TrpUnit::end_loops_early(Item& item) noexcept {
  if (settings_.recovery == TrpRecovery::aligned) {
    const std::size_t flow = std::size_t{item.flow} * levels_of_flow_;
    for (std::uint32_t left = std::min(item.loops, levels_of_flow_) - 1; left != 0; --left) {
      if (levels_[flow + left] != 0) return;
    }
  }
  item.loops = 1;
}

void TrpUnit::run_loop(TimeNs now, TrpSink& sink) noexcept {
  while (loop_head_ != loop_tail_) {
    const std::uint32_t index = loop_[loop_head_ % loop_.size()];
    if (items_[index].due > now) return;
    ++loop_head_;
    if (items_[index].packet == 0) {
      free_.push_back(index);
    } else {
      came_back(items_[index].due, index, sink);
    }
  }
}

void TrpUnit::came_back(TimeNs now, std::uint32_t index, TrpSink& sink) noexcept {
  Item& item = items_[index];
  TrpFlow& flow = store_.flow(item.flow);
  uncount(item);
  if (settings_.tell_passes) {
    const TimeNs waits = loop_free_ > now ? loop_free_ - now : 0;
    sink.passed_loop(item.packet, flow, waits * settings_.loop_mbps / 8000);
  }
  if (item.loops != 0) --item.loops;
  const bool by_code = loops_by_code();
  if (settings_.recovery != TrpRecovery::none && (!by_code || item.loops != 0)) {
    flow.law.on_packet(now, settings_.rules);
  }
  const bool too_long = settings_.max_hold_ns != 0 && now - item.came >= settings_.max_hold_ns;
  const bool recovers = flow.law.status != TrpStatus::throttled;
  const bool in_turn = flow.first == index || settings_.recovery == TrpRecovery::direct;
  if (in_turn && (item.loops == 0 || (recovers && !by_code) || too_long)) {
    release(now, index, sink);
    free_.push_back(index);
    return;
  }
  if (by_code && item.loops == 0) item.loops = 1;
  if (by_code && recovers) end_loops_early(item);
  enter_loop(now, index);
}

// --- pace --------------------------------------------------------------------------------------------------------

// The rate that the flow comes with. Packets of a burst have one time, so that a few need not tell.
void TrpUnit::measure(TimeNs now, TrpFlow& flow, std::uint32_t bytes) noexcept {
  if (flow.measured++ == 0) {
    flow.measured_from = now;
    return;
  }
  flow.measured_bytes += bytes;
  if (flow.measured <= settings_.measure_packets || now - flow.measured_from < settings_.measure_ns) return;
  flow.measured_ns = now - flow.measured_from;
  flow.next_free = now;
}

// How long the next packet has to wait behind one of `bytes`.
TimeNs TrpUnit::pace_gap(const TrpFlow& flow, std::uint32_t bytes) const noexcept {
  std::uint64_t slower = 1;
  if (flow.law.status != TrpStatus::recover) {
    slower = settings_.halves ? std::uint64_t{1} << std::min(flow.law.loop_num, kMostHalves) : 1 + flow.law.loop_num;
  }
  return bytes * slower * flow.measured_ns / flow.measured_bytes;
}

// When a packet that comes now may leave. Never after a packet that comes later. With `at_departure` and others in
// front of it that is not known yet.
TimeNs TrpUnit::pace_due(TimeNs now, TrpFlow& flow, std::uint32_t bytes) noexcept {
  if (settings_.at_departure && flow.held != 0) return now;
  const TimeNs due = std::min(std::max(now, flow.next_free), latest(now));
  if (!settings_.at_departure || due <= now) flow.next_free = std::min(due + pace_gap(flow, bytes), latest(now));
  return due;
}

// When the first packet that is held of a flow may leave.
TimeNs TrpUnit::first_due(const TrpFlow& flow) const noexcept {
  const Item& item = items_[flow.first];
  if (!settings_.at_departure) return item.due;
  return std::min(std::max(item.came, flow.next_free), latest(item.came));
}

void TrpUnit::run_pace(TimeNs now, TrpSink& sink) noexcept {
  while (paced_.next() <= now) {
    const std::uint32_t at = paced_.pop();
    TrpFlow& flow = store_.flow(at);
    while (flow.held != 0) {
      const TimeNs due = first_due(flow);
      if (due > now) {
        paced_.set(at, due);
        break;
      }
      const std::uint32_t index = flow.first;
      if (settings_.at_departure) {
        if (settings_.recovery != TrpRecovery::none) flow.law.on_packet(due, settings_.rules);
        flow.next_free = due + pace_gap(flow, items_[index].bytes);
      }
      release(due, index, sink);
      free_.push_back(index);
    }
  }
}

// --- both --------------------------------------------------------------------------------------------------------

// Takes a packet out of its flow. Its item is the caller's.
void TrpUnit::release(TimeNs now, std::uint32_t index, TrpSink& sink) noexcept {
  Item& item = items_[index];
  TrpFlow& flow = store_.flow(item.flow);
  (item.before == kNone ? flow.first : items_[item.before].after) = item.after;
  (item.after == kNone ? flow.last : items_[item.after].before) = item.before;
  --flow.held;
  ++flow.left;
  --held_;
  held_bytes_ -= item.bytes;
  counters_.longest_hold_ns = std::max(counters_.longest_hold_ns, now - item.came);
  const TrpPacket packet = item.packet;
  item.packet = 0;
  uncount(item);
  sink.release(packet);
}

// Releases all packets of a flow. Items that are in the loop stay there, empty, until their time.
void TrpUnit::flush(TimeNs now, std::uint32_t at, TrpSink& sink) noexcept {
  TrpFlow& flow = store_.flow(at);
  while (flow.held != 0) {
    const std::uint32_t index = flow.first;
    release(now, index, sink);
    ++counters_.flushed;
    if (settings_.mode == TrpMode::pace) free_.push_back(index);
  }
  if (settings_.mode == TrpMode::pace) paced_.set(at, kNever);
  end(at);
}

void TrpUnit::on_timer(TimeNs now, TrpSink& sink) noexcept {
  settings_.mode == TrpMode::recirculate ? run_loop(now, sink) : run_pace(now, sink);
}

TimeNs TrpUnit::next_deadline() const noexcept {
  if (settings_.mode == TrpMode::pace) return paced_.next();
  return loop_head_ == loop_tail_ ? kNever : items_[loop_[loop_head_ % loop_.size()]].due;
}

void TrpUnit::release_all(TrpSink& sink) noexcept {
  for (std::uint32_t at = 0; at < store_.flows().size(); ++at) {
    TrpFlow& flow = store_.flow(at);
    while (flow.held != 0) {
      const std::uint32_t index = flow.first;
      release(items_[index].came, index, sink);
      if (settings_.mode == TrpMode::pace) free_.push_back(index);
    }
    if (settings_.mode == TrpMode::pace) paced_.set(at, kNever);
  }
  for (; loop_head_ != loop_tail_; ++loop_head_) free_.push_back(loop_[loop_head_ % loop_.size()]);
  store_.clear();
}

}  // namespace weft::stages
