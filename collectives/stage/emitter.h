// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Makes packets of what a group sends. The CRC of a payload that several packets of one call to the unit have is
// computed once, and combined with the headers of each.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/engine/context.h"
#include "collectives/stage/running_group.h"
#include "switch/base/counters.h"
#include "switch/pipeline/context.h"
#include "switch/pipeline/switch_info.h"
#include "switch/wire/icrc.h"

namespace weft::inc {

/// What an Emitter counts.
struct EmitterCounters {
  Counter& sent;
  Counter& reused;
  Counter& asked;
  Counter& no_buffer;
};

class Emitter final : public Sink {
 public:
  Emitter(const pipeline::SwitchInfo& info, EmitterCounters counters);

  /// Sends for this group until finish(): around each call to its unit.
  void begin(pipeline::Context& context, RunningGroup& group) noexcept {
    context_ = &context;
    group_ = &group;
  }
  void send(EndpointIndex to, const nic::Packet& packet, bool marked) override;
  void replicate(const nic::Packet& packet, std::span<const Copy> copies, bool marked) override;
  void finish() noexcept;
  /// Answers the message in `m`, which asks who has `target`, for the port that it came through, with its tag.
  /// @param asker  who asks; unspecified: somebody who has no address yet
  /// @return false, and counted, when no packet buffer is left
  bool answer(pipeline::Context& context, const rte_mbuf* m, const wire::IpAddress& target,
              const wire::IpAddress& asker, wire::MacAddress asker_mac) noexcept;

 private:
  /// The payload that packets of this call had last, and its share of the ICRC.
  struct Payload {
    const std::uint8_t* data = nullptr;  ///< nullptr: none
    std::uint32_t bytes = 0;
    std::uint32_t crc = 0;
  };
  [[nodiscard]] std::uint8_t tos_of(const nic::Packet& p, bool marked) const noexcept;
  [[nodiscard]] std::uint32_t crc_of(const nic::Packet& p, std::size_t packets) noexcept;
  [[nodiscard]] bool place(rte_mbuf* m, Edge& edge, const nic::Packet& p, wire::Psn psn, std::uint8_t tos,
                           std::uint32_t crc) noexcept;
  [[nodiscard]] bool make(rte_mbuf* m, const Edge& edge, const nic::Packet& p, std::uint8_t tos) noexcept;
  [[nodiscard]] bool spread(rte_mbuf* m, std::uint32_t bytes) noexcept;
  void leave(rte_mbuf* m, EndpointIndex to, bool whole) noexcept;
  void bridge(rte_mbuf* m, Edge& edge, const EdgeSpec& spec) noexcept;
  [[nodiscard]] bool tag(rte_mbuf* m, std::uint16_t tci) noexcept;
  void ask(Edge& edge, const EdgeSpec& spec) noexcept;
  [[nodiscard]] rte_mbuf* message(pipeline::Context& context, std::span<const std::uint8_t> frame) noexcept;

  const pipeline::SwitchInfo& info_;
  EmitterCounters counters_;
  bool routed_;
  std::vector<std::uint8_t> whole_;  ///< a frame before it is in buffers
  pipeline::Context* context_ = nullptr;
  RunningGroup* group_ = nullptr;
  Payload last_;
};

}  // namespace weft::inc
