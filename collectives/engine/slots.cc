// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/slots.h"

#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

namespace weft::inc {
namespace {

/// Sums of 16-bit floats are made in 32 bits.
constexpr std::size_t kWidest = 2;

void copy_bytes(std::byte* to, const void* from, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

std::size_t bytes_of_slot(const GroupConfig& g, Slots::Room room) noexcept {
  if (room == Slots::Room::packets) return g.mtu;
  return g.reproducible ? g.endpoints.size() * g.mtu : kWidest * g.mtu;
}

}  // namespace

std::size_t Slots::memory_bytes(const GroupConfig& g, Room room) noexcept {
  return g.slots * bytes_of_slot(g, room) + (room == Room::sums ? 2 * kWidest * g.mtu : 0);
}

Slots::Slots(const GroupConfig& g, SlotMemory memory, Room room)
    : slots_(g.slots),
      memory_(std::move(memory)),
      slot_bytes_(bytes_of_slot(g, room)),
      mtu_(g.mtu),
      endpoints_(static_cast<std::uint32_t>(g.endpoints.size())),
      reproducible_(g.reproducible),
      rooms_(g.slots),
      spare_(g.slots),
      has_spare_(room == Room::sums && !g.reproducible && !memory_.bytes().empty()) {
  std::iota(rooms_.begin(), rooms_.end(), 0U);
  assert(memory_.bytes().empty() || memory_.bytes().size() >= memory_bytes(g, room));
}

std::byte* Slots::scratch() const noexcept {
  return room(static_cast<std::uint32_t>(slots_.size())) + (has_spare_ ? slot_bytes_ : 0);
}

void Slots::take_headers(Slot& s, const nic::Packet& p, std::uint64_t offset) noexcept {
  s.opcode = p.opcode;
  s.bytes = p.payload.bytes;
  s.immediate = p.immediate;
  s.dma_length = p.dma_length;
  s.offset = offset;
}

namespace {

/// Whether a packet has the header fields of those whose sum a slot holds.
bool same_headers(const Slot& s, const nic::Packet& p, std::uint64_t offset) noexcept {
  return s.opcode == p.opcode && s.bytes == p.payload.bytes && s.immediate == p.immediate &&
         s.dma_length == p.dma_length && s.offset == offset;
}

}  // namespace

Checked Slots::add_checked(std::uint64_t position, EndpointIndex from, const nic::Packet& p, std::uint64_t offset,
                           const CheckedLoops& how, std::uint32_t crc) noexcept {
  const Slot& s = at(position);
  const auto* data = reinterpret_cast<const std::byte*>(p.payload.data());
  if (!has_spare_ || data == nullptr || p.payload.bytes % kCheckedStep != 0) return Checked::unfit;
  std::byte* const to = room(spare_);
  if (!s.used || s.position < position) {
    // No packet that is right comes before the sum of the lap before is complete.
    if (s.used && !s.full) return Checked::unfit;
    return how.load(to, data, p.payload.bytes) == crc ? Checked::added : Checked::wrong;
  }
  if (s.position != position || !s.values || s.arrived.has(from) || !same_headers(s, p, offset)) return Checked::unfit;
  return how.combine(to, of(s), data, p.payload.bytes) == crc ? Checked::added : Checked::wrong;
}

Contribution Slots::contribute(std::uint64_t position, EndpointIndex from, const nic::Packet& p, std::uint64_t offset,
                               bool marked, const Arithmetic* how, std::uint32_t senders, bool added) {
  Slot& s = at(position);
  if (s.used && s.position > position) return Contribution::stale;
  if (!s.used || s.position != position) {
    recycle(position);
    s.used = true;
    s.position = position;
    take_headers(s, p, offset);
    s.values = !memory_.bytes().empty();
  } else if (s.arrived.has(from)) {
    return Contribution::duplicate;
  } else if (!same_headers(s, p, offset)) {
    return Contribution::different;
  }
  if (p.payload.data() == nullptr && p.payload.bytes != 0) s.values = false;
  if (added) {
    std::swap(rooms_[number(s)], spare_);
    s.sum_bytes = s.bytes;
  } else if (s.values) {
    add(s, from, p, how);
  }
  s.arrived.add(from);
  ++s.degree;
  s.ack_req |= p.ack_req;
  s.solicited |= p.solicited;
  s.marked |= marked;
  if (s.degree < senders) return Contribution::partial;
  if (s.values) finish(s, how);
  s.full = true;
  return Contribution::complete;
}

void Slots::add(Slot& s, EndpointIndex from, const nic::Packet& p, const Arithmetic* how) noexcept {
  std::byte* const to = of(s);
  const auto* data = reinterpret_cast<const std::byte*>(p.payload.data());
  if (how == nullptr) {
    if (s.degree == 0) copy_bytes(to, data, s.bytes);
    s.kept_whole = true;
    s.sum_bytes = s.bytes;
    return;
  }
  if (reproducible_) return copy_bytes(to + std::size_t{from} * mtu_, data, s.bytes);
  const std::size_t elements = s.bytes / how->element_bytes;
  s.sum_bytes = static_cast<std::uint32_t>(elements * how->accumulator_bytes);
  (s.degree == 0 ? how->load : how->combine)(to, data, elements);
}

void Slots::finish(Slot& s, const Arithmetic* how) noexcept {
  if (how == nullptr) return;
  std::byte* const to = of(s);
  std::byte* const sum = scratch();
  const std::size_t elements = s.bytes / how->element_bytes;
  if (reproducible_) {
    bool first = true;
    for (std::uint32_t e = 0; e < endpoints_; ++e) {
      if (!s.arrived.has(static_cast<EndpointIndex>(e))) continue;
      (first ? how->load : how->combine)(sum, to + std::size_t{e} * mtu_, elements);
      first = false;
    }
    how->store(to, sum, elements);
  } else if (how->accumulator_bytes != how->element_bytes) {
    how->store(sum, to, elements);
    copy_bytes(to, sum, s.bytes);
  }
}

void Slots::replace(std::uint64_t position, const nic::Packet& p, std::uint64_t offset, bool marked) {
  Slot& s = at(position);
  take_headers(s, p, offset);
  s.values = !memory_.bytes().empty() && (p.payload.data() != nullptr || p.payload.bytes == 0);
  if (s.values) copy_bytes(of(s), p.payload.data(), s.bytes);
  s.kept_whole = true;
  s.repeated.clear();
  s.ack_req = p.ack_req;
  s.solicited = p.solicited;
  s.marked = marked;
  s.full = true;
  s.result = true;
}

const std::uint8_t* Slots::payload(const Slot& s) const noexcept {
  return s.values && s.bytes != 0 ? reinterpret_cast<const std::uint8_t*>(of(s)) : nullptr;
}

bool operator==(const Slots& a, const Slots& b) noexcept {
  if (a.slots_ != b.slots_ || a.memory_.bytes().size() != b.memory_.bytes().size()) return false;
  if (a.memory_.bytes().empty()) return true;
  for (std::size_t i = 0; i < a.slots_.size(); ++i) {
    if (std::memcmp(a.of(a.slots_[i]), b.of(b.slots_[i]), a.slot_bytes_) != 0) return false;
  }
  return true;
}

}  // namespace weft::inc
