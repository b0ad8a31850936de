// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a switch does for a group, whichever mode the group has (EPIC's IncEngine).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "collectives/engine/mode_i.h"
#include "collectives/engine/mode_ii.h"
#include "collectives/engine/mode_iii.h"

namespace weft::inc {

class IncEngine {
 public:
  /// What keeps a group from being run in its mode, in words; nullopt: nothing.
  [[nodiscard]] static std::optional<std::string> check(const GroupConfig& group);
  /// Bytes of payload that a group's slots take.
  [[nodiscard]] static std::size_t memory_bytes(const GroupConfig& group) noexcept;

  /// @param group   checked by check()
  /// @param region  memory_bytes(), which outlives this; or empty, and payload is elided
  /// @param lock    of the region, where other groups have it, too (Mode II); it outlives this
  IncEngine(const GroupConfig& group, std::span<std::byte> region, MemoryLock* lock = nullptr);
  /// Has memory of its own, which is copied with it.
  explicit IncEngine(const GroupConfig& group);

  /// Takes a packet of the other end of an endpoint, whose ICRC is right.
  void on_packet(nic::Time now, EndpointIndex from, const nic::Packet& packet, bool marked, Sink& sink);
  /// The same for a packet that has payload, in one piece and whole words, and whose ICRC is right if
  /// wire::payload_crc() of it is `crc`: where that saves time, the packet is added while its CRC is computed. False:
  /// it is not right, and nothing has changed.
  [[nodiscard]] bool on_unchecked(nic::Time now, EndpointIndex from, const nic::Packet& packet, std::uint32_t crc,
                                  bool marked, Sink& sink);
  /// Whether it does, for packets of the collective that began last.
  [[nodiscard]] bool adds_unchecked() const noexcept;
  /// When on_timer() must be called; nic::kNever: not before another packet comes.
  [[nodiscard]] nic::Time next_deadline() const noexcept;
  void on_timer(nic::Time now, Sink& sink);

  [[nodiscard]] const Context& context() const noexcept {
    return std::visit([](const auto& m) -> const Context& { return m; }, mode_);
  }
  [[nodiscard]] const std::optional<Failure>& failure() const noexcept { return context().failure(); }
  [[nodiscard]] const GroupCounters& counters() const noexcept { return context().counters(); }
  [[nodiscard]] const LookupTable& table() const noexcept { return context().table(); }
  /// Where contributions are added up; null in Mode I, which has no slots.
  [[nodiscard]] const Slots* slots() const noexcept;
  /// Mode I: of what it waits for. nullopt in other modes, too.
  [[nodiscard]] std::optional<ModeI::Waiting> waiting() const;

  friend bool operator==(const IncEngine&, const IncEngine&) = default;
  template <class Hash>
  void hash_state(Hash&& h, nic::Time now) const {
    if (const auto* i = std::get_if<ModeI>(&mode_)) return i->hash_state(h, now);
    if (const auto* iii = std::get_if<ModeIII>(&mode_)) return iii->hash_state(h, now);
    std::get<ModeII>(mode_).hash_state(h);
  }

 private:
  std::variant<ModeI, ModeII, ModeIII> mode_;
};

}  // namespace weft::inc
