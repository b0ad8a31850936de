// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/inc_engine.h"

namespace weft::inc {
namespace {

using Modes = std::variant<ModeII, ModeIII>;

Modes make(const GroupConfig& g, SlotMemory up, SlotMemory down) {
  if (g.mode == Mode::iii) return ModeIII(g, std::move(up), std::move(down));
  return ModeII(g, std::move(up));
}

std::size_t down_bytes(const GroupConfig& g) noexcept {
  return g.mode == Mode::iii ? Slots::memory_bytes(g, Slots::Room::packets) : 0;
}

}  // namespace

std::optional<std::string> IncEngine::check(const GroupConfig& group) {
  return group.mode == Mode::iii ? check_mode_iii(group) : check_mode_ii(group);
}

std::size_t IncEngine::memory_bytes(const GroupConfig& group) noexcept {
  return Slots::memory_bytes(group) + down_bytes(group);
}

IncEngine::IncEngine(const GroupConfig& g, std::span<std::byte> region)
    : mode_(region.empty() ? make(g, SlotMemory(), SlotMemory())
                           : make(g, SlotMemory(region.first(Slots::memory_bytes(g))),
                                  SlotMemory(region.subspan(Slots::memory_bytes(g), down_bytes(g))))) {}

IncEngine::IncEngine(const GroupConfig& g)
    : mode_(make(g, SlotMemory(Slots::memory_bytes(g)), SlotMemory(down_bytes(g)))) {}

void IncEngine::on_packet(nic::Time now, EndpointIndex from, const nic::Packet& packet, bool marked, Sink& sink) {
  if (auto* iii = std::get_if<ModeIII>(&mode_)) return iii->on_packet(now, from, packet, marked, sink);
  std::get<ModeII>(mode_).on_packet(from, packet, marked, sink);
}

nic::Time IncEngine::next_deadline() const noexcept {
  const auto* iii = std::get_if<ModeIII>(&mode_);
  return iii != nullptr ? iii->next_deadline() : nic::kNever;
}

void IncEngine::on_timer(nic::Time now, Sink& sink) {
  if (auto* iii = std::get_if<ModeIII>(&mode_)) iii->on_timer(now, sink);
}

}  // namespace weft::inc
