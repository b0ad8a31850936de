// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Makes packets of what a group sends. Of packets of one call to the unit that have the same payload, all but the first
// are made of the first: the CRC of the payload is computed once, and the headers' differences change the ICRC.
#pragma once

#include <cstdint>

#include "collectives/engine/context.h"
#include "collectives/stage/running_group.h"
#include "switch/base/counters.h"
#include "switch/pipeline/context.h"
#include "switch/pipeline/switch_info.h"
#include "switch/wire/roce_editor.h"

namespace weft::inc {

/// What an Emitter counts.
struct EmitterCounters {
  Counter& sent;
  Counter& reused;
  Counter& arp_asked;
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
  void finish() noexcept;
  /// Sends an ARP message through a port, untagged; the parameters as write_arp() has them. False, and counted, when no
  /// packet buffer is left.
  bool send_arp(pipeline::Context& context, pipeline::PortIndex port, wire::MacAddress destination,
                std::uint16_t operation, const wire::IpAddress& sender, wire::MacAddress target_mac,
                const wire::IpAddress& target) noexcept;

 private:
  /// The packet that others may be made of: it leaves last.
  struct Kept {
    rte_mbuf* m = nullptr;
    const std::uint8_t* payload = nullptr;
    std::uint32_t bytes = 0;
    wire::Opcode opcode{};
    EndpointIndex to = 0;
    std::uint8_t tos = 0;
    bool solicited = false;
  };
  [[nodiscard]] bool can_reuse(EndpointIndex to, const nic::Packet& p, std::uint8_t tos) const noexcept;
  [[nodiscard]] rte_mbuf* reuse(EndpointIndex to, const nic::Packet& p) noexcept;
  [[nodiscard]] rte_mbuf* copy(const rte_mbuf* from) noexcept;
  [[nodiscard]] rte_mbuf* make(EndpointIndex to, const nic::Packet& p, std::uint8_t tos) noexcept;
  [[nodiscard]] bool write(const nic::TxFrame& frame, rte_mbuf* m) noexcept;
  void leave(rte_mbuf* m, EndpointIndex to) noexcept;
  void bridge(rte_mbuf* m, Edge& edge, const EdgeSpec& spec) noexcept;
  void ask(Edge& edge, const EdgeSpec& spec) noexcept;

  const pipeline::SwitchInfo& info_;
  EmitterCounters counters_;
  bool routed_;
  wire::IcrcMode icrc_mode_;
  std::vector<std::uint8_t> whole_;  ///< a frame that needs more than one buffer
  pipeline::Context* context_ = nullptr;
  RunningGroup* group_ = nullptr;
  Kept kept_;
};

}  // namespace weft::inc
