// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Network interfaces as the kernel knows them, and how to be beside its own stack on one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/wire/addresses.h"

namespace weft::nic {

/// An open file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  Descriptor& operator=(Descriptor&& o) noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// What the kernel knows of an interface.
struct InterfaceInfo {
  unsigned index = 0;
  wire::MacAddress mac{};
  std::uint32_t mtu = 0;
  std::vector<wire::IpAddress> addresses;  ///< IPv4 first, link-local ones last
};
/// nullopt when there is no such Ethernet interface.
[[nodiscard]] std::optional<InterfaceInfo> find_interface(const std::string& name);
/// Names of Ethernet interfaces that are up and have an IPv4 or global IPv6 address.
[[nodiscard]] std::vector<std::string> usable_interfaces();

/// The interface that has an address, of whatever kind it is; empty: none has.
[[nodiscard]] std::string interface_with(const wire::IpAddress& address);

/// Keeps the kernel from answering RoCE with ICMP, for as long as the object lives: it answers datagrams to a port that
/// nobody has, and so UDP sockets that want nothing have port 4791, over IPv4 and IPv6.
class RocePortClaim {
 public:
  /// Takes the port; returns what went wrong, or an empty string.
  [[nodiscard]] std::string take();

 private:
  std::vector<Descriptor> sockets_;
};

/// What failed, and errno in words.
[[nodiscard]] std::string error_text(const std::string& what);

}  // namespace weft::nic
