// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/trace_table.h"

#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <cstring>

#include "switch/wire/parse.h"

namespace weft::capture {

using pipeline::DropReason;
using pipeline::PortIndex;
using pipeline::TraceEvent;
using pipeline::TraceVerdict;
using State = TraceRecord::State;

namespace {

// The process asks for the mark once; asking again gives the same one.
std::uint64_t mark_bit() {
  static const rte_mbuf_dynflag kFlag{"weft_traced", 0};
  const int bit = rte_mbuf_dynflag_register(&kFlag);
  return bit < 0 ? 0 : std::uint64_t{1} << bit;
}

int mark_field() {
  static const rte_mbuf_dynfield kField{"weft_trace", sizeof(std::uint32_t), alignof(std::uint32_t), 0};
  return rte_mbuf_dynfield_register(&kField);
}

}  // namespace

TraceTable::TraceTable(std::uint16_t workers, std::uint32_t wanted, std::optional<PacketFilter::Reasons> reasons)
    : count_(std::size_t{workers} * kPerWorker),
      records_(std::make_unique<TraceRecord[]>(count_)),
      reasons_(reasons),
      wanted_(wanted),
      field_(mark_field()) {
  if (field_ >= 0) mark_ = mark_bit();
}

int TraceTable::open(std::uint16_t worker, rte_mbuf* m) noexcept {
  if (wanted_.load(std::memory_order_relaxed) <= 0) return pipeline::Tracer::kNone;
  for (std::size_t i = worker * kPerWorker; i < (worker + 1U) * kPerWorker; ++i) {
    TraceRecord& record = records_[i];
    if (record.state.load(std::memory_order_acquire) != State::free) continue;
    // Without reasons every chosen packet counts; other workers may have taken the last ones.
    if (!reasons_ && wanted_.fetch_sub(1, std::memory_order_relaxed) <= 0) return pipeline::Tracer::kNone;
    record.size.store(0, std::memory_order_relaxed);
    record.matches = false;
    record.state.store(State::open, std::memory_order_relaxed);
    const auto handle = static_cast<int>(i);
    mark(handle, m);
    return handle;
  }
  missed_.fetch_add(1, std::memory_order_relaxed);
  return pipeline::Tracer::kNone;
}

// Copies of a packet may carry its mark: only the packet that the record knows is meant.
int TraceTable::find(const rte_mbuf* m) const noexcept {
  if ((m->ol_flags & mark_) == 0) return pipeline::Tracer::kNone;
  const std::uint32_t index = *RTE_MBUF_DYNFIELD(m, field_, const std::uint32_t*);
  if (index >= count_) return pipeline::Tracer::kNone;
  const TraceRecord& r = records_[index];
  const bool same = r.packet.load(std::memory_order_relaxed) == m && r.state.load() == State::open;
  return same ? static_cast<int>(index) : pipeline::Tracer::kNone;
}

void TraceTable::mark(int handle, rte_mbuf* m) noexcept {
  record(handle).packet.store(m, std::memory_order_relaxed);
  m->ol_flags |= mark_;
  *RTE_MBUF_DYNFIELD(m, field_, std::uint32_t*) = static_cast<std::uint32_t>(handle);
}

void TraceTable::add(int handle, const TraceEvent& event) noexcept {
  TraceRecord& r = record(handle);
  const std::uint32_t at = r.size.fetch_add(1, std::memory_order_relaxed);
  if (at < TraceRecord::kEvents) r.events[at] = event;
}

void TraceTable::close(int handle) noexcept {
  TraceRecord& r = record(handle);
  r.packet.store(nullptr, std::memory_order_relaxed);
  bool done = true;
  if (reasons_) done = r.matches && wanted_.fetch_sub(1, std::memory_order_relaxed) > 0;
  r.state.store(done ? State::done : State::free, std::memory_order_release);
}

bool TraceTap::chosen(const rte_mbuf* m, wire::Parsed& parsed) const noexcept {
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, parsed);
  return filter_->headers(parsed);
}

void TraceTap::received(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept {
  TraceEvent event{.time = now, .port = port, .verdict = TraceVerdict::received, .switch_index = switch_index_};
  event.worker = worker_;
  const bool choosing = filter_ && filter_->port(port);
  for (std::uint16_t i = 0; i < count; ++i) {
    int handle = table_.find(packets[i]);
    wire::Parsed parsed;
    if (handle == kNone && choosing && chosen(packets[i], parsed)) {
      handle = table_.open(worker_, packets[i]);
      if (handle != kNone) {
        TraceRecord& r = table_.record(handle);
        r.parsed = parsed;
        r.length = packets[i]->pkt_len;
        r.head_bytes = static_cast<std::uint8_t>(std::min<std::size_t>(r.head.size(), packets[i]->data_len));
        std::memcpy(r.head.data(), pipeline::frame(packets[i]), r.head_bytes);
        r.origin = switch_index_;
      }
    }
    if (handle == kNone) continue;
    table_.record(handle).at = event.place;
    table_.add(handle, event);
  }
}

// Noted before the device has the packet: on a cable, another worker may hold it the next moment.
void TraceTap::sending(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept {
  TraceEvent event{.time = now, .port = port, .verdict = TraceVerdict::sent, .switch_index = switch_index_};
  event.worker = worker_;
  event.place.egress = true;
  offered_count_ = 0;
  offered_to_link_ = port < links_.size() && links_[port];
  for (std::uint16_t i = 0; i < count; ++i) {
    const int handle = table_.find(packets[i]);
    if (handle == kNone || offered_count_ == offered_.size()) continue;
    TraceRecord& r = table_.record(handle);
    r.at = event.place;
    r.offered = r.size.load(std::memory_order_relaxed);
    table_.add(handle, event);
    offered_[offered_count_++] = {handle, i};
  }
}

void TraceTap::sent(std::uint16_t taken, std::uint16_t rejected) noexcept {
  for (std::uint16_t i = 0; i < offered_count_; ++i) {
    const auto [handle, position] = offered_[i];
    if (position < taken) {
      if (offered_to_link_) continue;
      TraceRecord& r = table_.record(handle);
      if (rejected != 0 && r.offered < TraceRecord::kEvents) r.events[r.offered].detail = rejected;
      table_.close(handle);
    } else {
      TraceRecord& r = table_.record(handle);
      r.size.store(r.offered, std::memory_order_relaxed);
    }
  }
  offered_count_ = 0;
}

void TraceTap::dropped(TimeNs now, const rte_mbuf* packet, DropReason reason) noexcept {
  const int handle = table_.find(packet);
  if (handle == kNone) return;
  TraceRecord& r = table_.record(handle);
  TraceEvent event{.time = now, .detail = static_cast<std::uint32_t>(reason), .place = r.at};
  event.port = pipeline::meta(packet).out_port;
  event.verdict = TraceVerdict::dropped;
  event.switch_index = switch_index_;
  event.worker = worker_;
  r.matches = table_.wants(reason);
  table_.add(handle, event);
  table_.close(handle);
}

}  // namespace weft::capture
