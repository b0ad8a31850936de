// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/link_port.h"

namespace weft::ports {

LinkPort::LinkPort(std::string peer, unsigned end, std::shared_ptr<Cable> cable,
                   std::shared_ptr<pipeline::PacketRing> incoming, std::shared_ptr<pipeline::PacketRing> outgoing)
    : peer_(std::move(peer)),
      end_(end),
      cable_(std::move(cable)),
      incoming_(std::move(incoming)),
      outgoing_(std::move(outgoing)) {}

LinkPort::~LinkPort() {
  // Each end frees what it never received.
  incoming_->drain([](rte_mbuf* m) { rte_pktmbuf_free(m); });
}

std::pair<std::unique_ptr<LinkPort>, std::unique_ptr<LinkPort>> LinkPort::make_pair(std::string first_name,
                                                                                    std::string second_name) {
  auto there = std::make_shared<pipeline::PacketRing>();
  auto back = std::make_shared<pipeline::PacketRing>();
  auto cable = std::make_shared<Cable>(0);
  std::unique_ptr<LinkPort> first(new LinkPort(std::move(second_name), 0, cable, back, there));
  std::unique_ptr<LinkPort> second(new LinkPort(std::move(first_name), 1, cable, there, back));
  return {std::move(first), std::move(second)};
}

std::uint16_t LinkPort::receive(TimeNs /*now*/, std::uint16_t /*queue*/, rte_mbuf** packets,
                                std::uint16_t max) noexcept {
  return static_cast<std::uint16_t>(incoming_->pop(packets, max));
}

pipeline::TxResult LinkPort::transmit(rte_mbuf** packets, std::uint16_t count) noexcept {
  return {.taken = static_cast<std::uint16_t>(outgoing_->push(packets, count))};
}

std::string LinkPort::set_link(bool up) {
  if (up) {
    cable_->fetch_and(~(1u << end_));
  } else {
    cable_->fetch_or(1u << end_);
  }
  return "";
}

}  // namespace weft::ports
