// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/handshake.h"

#include <algorithm>
#include <bit>

#include "switch/wire/hash.h"
#include "switch/wire/headers.h"

namespace weft::stages {
namespace {

constexpr std::uint8_t kHandshakeFlags = wire::TcpHeader::kSyn | wire::TcpHeader::kAck | wire::TcpHeader::kRst;

}  // namespace

HandshakeMonitor::HandshakeMonitor(std::uint32_t entries) : entries_(std::bit_ceil(std::max(entries, kWays))) {}

std::uint32_t HandshakeMonitor::set_of(std::uint64_t pair) const noexcept {
  const std::uint64_t hash = wire::mix64(pair, 0x9e3779b97f4a7c15ull);
  return static_cast<std::uint32_t>(hash & (entries_.size() / kWays - 1)) * kWays;
}

// The handshake that a segment belongs to, when its sender is the client, or the server.
HandshakeMonitor::Entry* HandshakeMonitor::find(const TcpSegment& s, bool from_client) noexcept {
  Entry* const set = &entries_[set_of(s.pair)];
  const std::uint16_t client = from_client ? s.source_port : s.destination_port;
  const std::uint16_t server = from_client ? s.destination_port : s.source_port;
  for (std::uint32_t i = 0; i < kWays; ++i) {
    Entry& e = set[i];
    if (e.state == State::free || e.pair != s.pair || e.client_port != client || e.server_port != server) continue;
    if (e.client_is_lower == (s.from_lower == from_client)) return &e;
  }
  return nullptr;
}

void HandshakeMonitor::begin(TimeNs now, const TcpSegment& s) noexcept {
  Entry* e = find(s, true);
  if (e == nullptr) {
    Entry* const set = &entries_[set_of(s.pair)];
    e = std::min_element(set, set + kWays, [](const Entry& a, const Entry& b) {
      return a.state == State::free ? b.state != State::free : b.state != State::free && a.began < b.began;
    });
    if (e->state != State::free) ++evicted_;
  }
  *e = {.pair = s.pair,
        .began = now,
        .client_next = s.sequence + 1,
        .server_next = 0,
        .client_port = s.source_port,
        .server_port = s.destination_port,
        .client_is_lower = s.from_lower,
        .state = State::syn};
}

bool HandshakeMonitor::on_segment(TimeNs now, const TcpSegment& s) noexcept {
  using Tcp = wire::TcpHeader;
  const std::uint8_t flags = s.flags & kHandshakeFlags;
  if (flags == Tcp::kSyn) {
    begin(now, s);
  } else if (flags == (Tcp::kSyn | Tcp::kAck)) {
    Entry* e = find(s, false);
    if (e == nullptr || s.acknowledgement != e->client_next) return false;
    e->server_next = s.sequence + 1;
    e->state = State::syn_ack;
  } else if (flags == Tcp::kAck) {
    Entry* e = find(s, true);
    if (e == nullptr || e->state != State::syn_ack) return false;
    if (s.sequence != e->client_next || s.acknowledgement != e->server_next) return false;
    e->state = State::free;
    return true;
  } else if ((flags & Tcp::kRst) != 0) {
    for (const bool from_client : {true, false}) {
      if (Entry* e = find(s, from_client)) e->state = State::free;
    }
  }
  return false;
}

}  // namespace weft::stages
