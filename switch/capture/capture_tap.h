// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>

#include "switch/capture/packet_filter.h"
#include "switch/capture/record_ring.h"
#include "switch/pipeline/egress_queue.h"
#include "switch/pipeline/tap.h"

namespace weft::capture {

/// Copies the packets of one pipeline that a filter lets through into the ring of its worker.
class CaptureTap : public pipeline::Tap {
 public:
  /// @param snaplen  bytes of a packet that are copied at most
  CaptureTap(RecordRing& ring, PacketFilter filter, std::uint8_t switch_index, std::uint32_t snaplen)
      : ring_(ring), filter_(std::move(filter)), switch_index_(switch_index), snaplen_(snaplen) {}

  void received(TimeNs now, pipeline::PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept override;
  void sending(TimeNs now, pipeline::PortIndex port, rte_mbuf* const* packets, std::uint16_t count) noexcept override;
  void ports_renamed(const pipeline::PortMap& ports) override { filter_.rename_ports(ports); }
  void sent(std::uint16_t taken, std::uint16_t rejected) noexcept override;
  void dropped(TimeNs now, const rte_mbuf* packet, pipeline::DropReason reason) noexcept override;

 private:
  [[nodiscard]] Record* copy(TimeNs now, const rte_mbuf* m, RecordKind kind) noexcept;
  [[nodiscard]] bool refusals_only() const noexcept { return !filter_.tx; }

  RecordRing& ring_;
  PacketFilter filter_;
  std::uint8_t switch_index_;
  std::uint32_t snaplen_;
  // Packets that are being offered to a device: their records, and where the ring stood behind each.
  struct Offered {
    Record* record;
    std::uint64_t end;
  };
  std::array<Offered, pipeline::EgressQueue::kBurst> offered_{};
  std::uint16_t offered_count_ = 0;
};

}  // namespace weft::capture
