// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The kernel's side of a port that is not one of its interfaces: a tap interface with the port's MAC address, which
// gets all frames that are not RoCE. So the kernel answers ARP, neighbour discovery and ping there, routes, and speaks
// TCP.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "nic/host/interface.h"
#include "switch/wire/addresses.h"

namespace weft::nic {

/// A tap interface, which goes when the object does. Needs CAP_NET_ADMIN.
class KernelTap {
 public:
  /// Makes the interface and brings it up. A name with %d gets a number. Returns what went wrong, or an empty string.
  [[nodiscard]] std::string open(const std::string& name, const wire::MacAddress& mac, std::uint32_t mtu);
  /// Gives the interface an address in a subnet.
  [[nodiscard]] std::string add_address(const wire::IpPrefix& address) const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// To be waited for: readable while the kernel has frames.
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  /// Takes the next frame that the kernel sends; returns its length, 0 when there is none.
  std::size_t take(std::span<std::uint8_t> out) const noexcept;
  /// Gives the kernel a frame; what it does not take is lost, as on a wire.
  void give(std::span<const std::uint8_t> frame) const noexcept;

 private:
  Descriptor fd_;
  std::string name_;
};

}  // namespace weft::nic
