// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/inc_engine.h"

#include <utility>

#include "switch/wire/payload_crc.h"

namespace weft::inc {
namespace {

using Modes = std::variant<ModeI, ModeII, ModeIII>;

Modes make(const GroupConfig& g, SlotMemory up, SlotMemory down, MemoryLock* lock = nullptr) {
  switch (g.mode) {
    case Mode::i:
      return Modes(std::in_place_type<ModeI>, g, std::move(up));
    case Mode::ii:
      return Modes(std::in_place_type<ModeII>, g, std::move(up), lock);
    case Mode::iii:
      break;
  }
  return Modes(std::in_place_type<ModeIII>, g, std::move(up), std::move(down));
}

std::size_t up_bytes(const GroupConfig& g) noexcept {
  return g.mode == Mode::i ? ModeI::memory_bytes(g) : Slots::memory_bytes(g);
}

std::size_t down_bytes(const GroupConfig& g) noexcept {
  return g.mode == Mode::iii ? Slots::memory_bytes(g, Slots::Room::packets) : 0;
}

}  // namespace

std::optional<std::string> IncEngine::check(const GroupConfig& group) {
  switch (group.mode) {
    case Mode::i:
      return check_mode_i(group);
    case Mode::ii:
      return check_mode_ii(group);
    case Mode::iii:
      break;
  }
  return check_mode_iii(group);
}

std::size_t IncEngine::memory_bytes(const GroupConfig& group) noexcept {
  return up_bytes(group) + down_bytes(group);
}

IncEngine::IncEngine(const GroupConfig& g, std::span<std::byte> region, MemoryLock* lock)
    : mode_(region.empty() ? make(g, SlotMemory(), SlotMemory(), lock)
                           : make(g, SlotMemory(region.first(up_bytes(g))),
                                  SlotMemory(region.subspan(up_bytes(g), down_bytes(g))), lock)) {}

IncEngine::IncEngine(const GroupConfig& g) : mode_(make(g, SlotMemory(up_bytes(g)), SlotMemory(down_bytes(g)))) {}

void IncEngine::on_packet(nic::Time now, EndpointIndex from, const nic::Packet& packet, bool marked, Sink& sink) {
  if (auto* ii = std::get_if<ModeII>(&mode_)) return ii->on_packet(from, packet, marked, sink);
  if (auto* iii = std::get_if<ModeIII>(&mode_)) return iii->on_packet(now, from, packet, marked, sink);
  std::get<ModeI>(mode_).on_packet(now, from, packet, marked, sink);
}

bool IncEngine::on_unchecked(nic::Time now, EndpointIndex from, const nic::Packet& packet, std::uint32_t crc,
                             bool marked, Sink& sink) {
  if (auto* ii = std::get_if<ModeII>(&mode_)) return ii->on_unchecked(from, packet, crc, marked, sink);
  if (wire::payload_crc({packet.payload.data(), packet.payload.bytes}) != crc) return false;
  on_packet(now, from, packet, marked, sink);
  return true;
}

bool IncEngine::adds_unchecked() const noexcept {
  const auto* ii = std::get_if<ModeII>(&mode_);
  return ii != nullptr && ii->adds_unchecked();
}

nic::Time IncEngine::next_deadline() const noexcept {
  if (const auto* iii = std::get_if<ModeIII>(&mode_)) return iii->next_deadline();
  const auto* i = std::get_if<ModeI>(&mode_);
  return i != nullptr ? i->next_deadline() : nic::kNever;
}

void IncEngine::on_timer(nic::Time now, Sink& sink) {
  if (auto* iii = std::get_if<ModeIII>(&mode_)) return iii->on_timer(now, sink);
  if (auto* i = std::get_if<ModeI>(&mode_)) i->on_timer(now, sink);
}

const Slots* IncEngine::slots() const noexcept {
  if (const auto* ii = std::get_if<ModeII>(&mode_)) return &ii->slots();
  const auto* iii = std::get_if<ModeIII>(&mode_);
  return iii != nullptr ? &iii->slots() : nullptr;
}

std::optional<ModeI::Waiting> IncEngine::waiting() const {
  const auto* i = std::get_if<ModeI>(&mode_);
  return i != nullptr ? i->waiting() : std::nullopt;
}

}  // namespace weft::inc
