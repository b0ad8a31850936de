// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A cable between two switches of the same process.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "switch/pipeline/packet_ring.h"
#include "switch/ports/port.h"

namespace weft::ports {

/// One end of a cable. Packets move by pointer; rate and delay are the egress queue's business.
class LinkPort : public Port {
 public:
  /// Both ends of a new cable.
  static std::pair<std::unique_ptr<LinkPort>, std::unique_ptr<LinkPort>> make_pair(std::string first_name,
                                                                                   std::string second_name);
  ~LinkPort() override;

  std::uint16_t receive(TimeNs now, std::uint16_t queue, rte_mbuf** packets, std::uint16_t max) noexcept override;
  pipeline::TxResult transmit(rte_mbuf** packets, std::uint16_t count) noexcept override;
  [[nodiscard]] bool exhausted() const noexcept override { return true; }
  [[nodiscard]] bool finite() const noexcept override { return true; }
  /// Packets on the way to this end.
  [[nodiscard]] std::uint64_t in_flight() const noexcept override { return incoming_->size(); }
  [[nodiscard]] std::string description() const override { return "link to " + peer_; }
  /// Up while neither end is down.
  [[nodiscard]] bool link_up() const noexcept override { return cable_->load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] std::string set_link(bool up) override;

 private:
  using Cable = std::atomic<unsigned>;  ///< bit i: end i is down
  LinkPort(std::string peer, unsigned end, std::shared_ptr<Cable> cable, std::shared_ptr<pipeline::PacketRing> incoming,
           std::shared_ptr<pipeline::PacketRing> outgoing);
  std::string peer_;
  unsigned end_;
  std::shared_ptr<Cable> cable_;
  std::shared_ptr<pipeline::PacketRing> incoming_;
  std::shared_ptr<pipeline::PacketRing> outgoing_;
};

}  // namespace weft::ports
