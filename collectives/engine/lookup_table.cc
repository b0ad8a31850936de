// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/lookup_table.h"

#include <algorithm>

namespace weft::inc {
namespace {

using wire::HeaderMask;
using wire::MessagePart;
using wire::Opcode;

bool everyone_takes_part(const ControlMessage& m) noexcept {
  return m.primitive == Primitive::allreduce || m.primitive == Primitive::barrier;
}

/// SEND and RDMA WRITE, with and without immediate; nothing else carries data of a collective.
bool carries_data(Opcode opcode) noexcept {
  return opcode <= Opcode::RC_RDMA_WRITE_ONLY_IMM;
}

}  // namespace

LookupTable::LookupTable(const GroupConfig& group) : group_(group), ring_(group.invocations) {
  ends_.resize(group_.endpoints.size());
  for (Invocation& i : ring_) i.streams.resize(group_.endpoints.size());
}

Role LookupTable::role(EndpointIndex e, const Invocation& i) const noexcept {
  if (everyone_takes_part(i.message)) return {true, true};
  const bool root = root_endpoint(i) == e;
  return i.message.primitive == Primitive::reduce ? Role{!root, root} : Role{root, !root};
}

std::uint32_t LookupTable::senders(const Invocation& i) const noexcept {
  const auto endpoints = static_cast<std::uint32_t>(group_.endpoints.size());
  if (everyone_takes_part(i.message)) return endpoints - (group_.parent ? 1 : 0);
  return i.message.primitive == Primitive::reduce ? endpoints - 1 : 1;
}

std::uint32_t LookupTable::data_bytes(const Invocation& i, std::uint64_t index) const noexcept {
  const std::uint64_t before = (index - 1) * group_.mtu;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(group_.mtu, i.message.bytes - before));
}

bool LookupTable::ends_message(const Invocation& i, std::uint64_t index) const noexcept {
  return index == 0 || index % group_.message_packets == 0 || index + 1 == i.packets;
}

std::uint32_t LookupTable::messages(const Invocation& i, std::uint64_t index) const noexcept {
  const std::uint64_t full = 1 + index / group_.message_packets;
  const bool short_one = index + 1 == i.packets && index % group_.message_packets != 0;
  return static_cast<std::uint32_t>(full + (short_one ? 1 : 0));
}

bool LookupTable::shape_fits(const Invocation& i, std::uint64_t index, const nic::Packet& p) const noexcept {
  if (!carries_data(p.opcode) || p.payload.bytes != data_bytes(i, index)) return false;
  // In its message. A division costs as much as the rest of this.
  const std::uint64_t before = group_.message_packets == 1 ? 0 : (index - 1) % group_.message_packets;
  const bool last = before + 1 == group_.message_packets || index + 1 == i.packets;
  return p.info().starts_message() == (before == 0) && p.info().ends_message() == last;
}

Refusal LookupTable::request(EndpointIndex from, const nic::Packet& p, Place& out) {
  const auto sequence = rx_sequence(from, p.psn);
  if (!sequence) return Refusal::too_old;
  const std::uint64_t seq = *sequence, end = ends_[from].rx;
  if (seq > end) return Refusal::unknown_invocation;
  for (std::uint32_t n = count_; n-- > 0;) {
    Invocation& i = live(n);
    if (!role(from, i).sends || seq < i.streams[from].rx || seq >= i.streams[from].rx + i.packets) continue;
    out = {&i, seq - i.streams[from].rx};
    if (out.is_control()) return control(from, p, out);
    const bool result = from == group_.parent && everyone_takes_part(i.message);
    if (!result && !i.announced.has(from)) return Refusal::unknown_invocation;
    return shape_fits(i, out.index, p) ? Refusal::none : Refusal::bad_shape;
  }
  if (seq != end) return Refusal::too_old;
  return control(from, p, out);
}

bool LookupTable::data_request(EndpointIndex from, const nic::Packet& p, Place& out) {
  const auto sequence = rx_sequence(from, p.psn);
  return sequence && rx_place(from, *sequence, out) && !out.is_control() && out.invocation->announced.has(from) &&
         shape_fits(*out.invocation, out.index, p);
}

/// A packet at the place of a control message: of a known invocation when `out` has one.
Refusal LookupTable::control(EndpointIndex from, const nic::Packet& p, Place& out) {
  ControlMessage m;
  if (p.opcode != Opcode::RC_SEND_ONLY_IMM || p.payload.data() == nullptr) return Refusal::bad_control;
  if (read_control(p.immediate, {p.payload.data(), p.payload.bytes}, m)) return Refusal::bad_control;
  heard_ = m;
  if (m.group != group_.id || m.root >= group_.way.size()) return Refusal::bad_control;
  // Switches say it of what ranks have begun; it is not what they began.
  m.refused = out.invocation != nullptr && out.invocation->message.refused;
  if (out.invocation != nullptr) {
    if (!(out.invocation->message == m)) return Refusal::disagreement;
    out.invocation->announced.add(from);
    return Refusal::none;
  }
  const auto ahead = static_cast<std::int16_t>(m.sequence - next_sequence_);
  if (ahead > 0) return Refusal::unknown_invocation;
  return ahead < 0 ? Refusal::disagreement : open(from, m, out);
}

Refusal LookupTable::open(EndpointIndex from, const ControlMessage& m, Place& out) {
  if (everyone_takes_part(m) && from == group_.parent) return Refusal::unknown_invocation;
  if (count_ == ring_.size()) return Refusal::too_many;
  Invocation& i = live(count_);
  i.message = m;
  i.start = end_;
  i.down = down_end_;
  i.packets = 1 + (m.bytes + group_.mtu - 1) / group_.mtu;
  if (!role(from, i).sends) return Refusal::disagreement;
  i.announced.clear();
  i.announced.add(from);
  if (is_turn(i)) i.said = control_payload(m);
  ++count_;
  for (std::size_t n = 0; n < ends_.size(); ++n) {
    const auto e = static_cast<EndpointIndex>(n);
    StreamBase& s = ends_[e];
    i.streams[e] = s;
    const std::uint32_t all = messages(i, i.packets - 1);
    if (role(e, i).sends) {
      s.rx += i.packets;
      s.rx_messages += all;
    }
    if (role(e, i).receives) {
      s.tx += i.packets;
      s.tx_messages += all;
    }
  }
  end_ = i.end();
  down_end_ = i.down_end();
  ++next_sequence_;
  out = {&i, 0};
  return Refusal::none;
}

std::optional<std::uint64_t> LookupTable::rx_sequence(EndpointIndex from, wire::Psn psn) const noexcept {
  const std::uint64_t end = ends_[from].rx;
  const std::int64_t ahead = psn.distance_from(group_.endpoints[from].first_rx + low(end));
  if (ahead < 0 && static_cast<std::uint64_t>(-ahead) > end) return std::nullopt;
  return end + static_cast<std::uint64_t>(ahead);
}

std::optional<Place> LookupTable::response(EndpointIndex from, wire::Psn psn) {
  const std::uint64_t end = ends_[from].tx;
  const std::int64_t ahead = psn.distance_from(group_.endpoints[from].first_tx + low(end));
  if (ahead >= 0 || static_cast<std::uint64_t>(-ahead) > end) return std::nullopt;
  return tx_at(from, end - static_cast<std::uint64_t>(-ahead));
}

std::optional<Place> LookupTable::tx_at(EndpointIndex e, std::uint64_t sequence) {
  for (std::uint32_t n = count_; n-- > 0;) {
    Invocation& i = live(n);
    if (!role(e, i).receives || sequence < i.streams[e].tx || sequence >= i.streams[e].tx + i.packets) continue;
    return Place{&i, sequence - i.streams[e].tx};
  }
  return std::nullopt;
}

std::optional<Place> LookupTable::rx_at(EndpointIndex e, std::uint64_t sequence) {
  Place place;
  return rx_place(e, sequence, place) ? std::optional(place) : std::nullopt;
}

bool LookupTable::rx_place(EndpointIndex e, std::uint64_t sequence, Place& out) {
  for (std::uint32_t n = count_; n-- > 0;) {
    Invocation& i = live(n);
    if (!role(e, i).sends || sequence < i.streams[e].rx || sequence >= i.streams[e].rx + i.packets) continue;
    // No copy of both members: a load that two stores make up waits until all stores before it have reached the cache.
    out.invocation = &i;
    out.index = sequence - i.streams[e].rx;
    return true;
  }
  return false;
}

std::optional<Place> LookupTable::at(std::uint64_t position) {
  for (std::uint32_t n = count_; n-- > 0;) {
    Invocation& i = live(n);
    if (position >= i.start && position < i.end()) return Place{&i, position - i.start};
  }
  return std::nullopt;
}

std::optional<Place> LookupTable::down_at(std::uint64_t position) {
  for (std::uint32_t n = count_; n-- > 0;) {
    Invocation& i = live(n);
    if (position >= i.down && position < i.down_end()) return Place{&i, position - i.down};
  }
  return std::nullopt;
}

void LookupTable::forget_oldest() noexcept {
  head_ = (head_ + 1) % static_cast<std::uint32_t>(ring_.size());
  --count_;
}

bool operator==(const LookupTable& a, const LookupTable& b) noexcept {
  if (a.count_ != b.count_ || a.end_ != b.end_ || a.next_sequence_ != b.next_sequence_ || a.ends_ != b.ends_) {
    return false;
  }
  for (std::uint32_t i = 0; i < a.count_; ++i) {
    if (!(a.live(i) == b.live(i))) return false;
  }
  return true;
}

}  // namespace weft::inc
