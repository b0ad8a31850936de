// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/capture_tap.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "switch/wire/parse.h"

namespace weft::capture {

using pipeline::DropReason;
using pipeline::PacketMeta;
using pipeline::PortIndex;

// Headers are read again: before the parse stage nobody has, and later stages may have changed them.
Record* CaptureTap::copy(TimeNs now, const rte_mbuf* m, RecordKind kind) noexcept {
  if (filter_.about_headers()) {
    wire::Parsed parsed;
    wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, parsed);
    if (!filter_.headers(parsed)) return nullptr;
  }
  const std::uint32_t captured = std::min(m->pkt_len, snaplen_);
  Record* record = ring_.reserve(captured);
  if (record == nullptr) return nullptr;
  record->time = now;
  record->length = m->pkt_len;
  record->in_port = pipeline::meta(m).in_port;
  record->out_port = pipeline::meta(m).out_port;
  record->kind = kind;
  record->switch_index = switch_index_;
  record->reason = 0;
  record->refused = 0;
  auto* to = reinterpret_cast<std::uint8_t*>(record + 1);
  for (std::uint32_t left = captured; left != 0; m = m->next) {
    const std::uint32_t part = std::min<std::uint32_t>(left, m->data_len);
    std::memcpy(to, pipeline::frame(m), part);
    to += part;
    left -= part;
  }
  return record;
}

void CaptureTap::received(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept {
  if (!filter_.rx || !filter_.port(port)) return;
  for (std::uint16_t i = 0; i < count; ++i) static_cast<void>(copy(now, packets[i], RecordKind::rx));
  ring_.publish(ring_.written());
}

void CaptureTap::sending(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept {
  const bool wanted = filter_.tx || filter_.drops[static_cast<std::size_t>(DropReason::tx_failed)];
  offered_count_ = wanted && filter_.port(port) ? count : 0;
  assert(offered_count_ <= offered_.size());
  for (std::uint16_t i = 0; i < offered_count_; ++i) {
    offered_[i].record = copy(now, packets[i], refusals_only() ? RecordKind::drop : RecordKind::tx);
    if (offered_[i].record != nullptr) offered_[i].record->out_port = port;
    offered_[i].end = ring_.written();
  }
}

void CaptureTap::sent(std::uint16_t taken, std::uint16_t rejected) noexcept {
  if (offered_count_ == 0) return;
  const std::uint16_t count = std::min(taken, offered_count_);
  offered_count_ = 0;
  if (count == 0 || (refusals_only() && rejected == 0)) {
    return ring_.take_back();
  }
  for (std::uint16_t i = 0; i < count && rejected != 0; ++i) {
    if (offered_[i].record == nullptr) continue;
    offered_[i].record->reason = static_cast<std::uint8_t>(DropReason::tx_failed);
    offered_[i].record->refused = static_cast<std::uint8_t>(rejected);
  }
  ring_.publish(offered_[count - 1].end);
}

void CaptureTap::dropped(TimeNs now, const rte_mbuf* packet, DropReason reason) noexcept {
  if (!filter_.drops[static_cast<std::size_t>(reason)]) return;
  const PacketMeta& pm = pipeline::meta(packet);
  if (!filter_.port(pm.in_port) && !filter_.port(pm.out_port)) return;
  if (Record* record = copy(now, packet, RecordKind::drop)) record->reason = static_cast<std::uint8_t>(reason);
  ring_.publish(ring_.written());
}

}  // namespace weft::capture
