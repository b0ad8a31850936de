// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The switch's own IP addresses, port by port, and what follows from them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "switch/base/rcu.h"
#include "switch/pipeline/switch_info.h"
#include "switch/wire/addresses.h"

namespace weft::tables {

/// A switch that has an IPv6 address or route speaks IPv6 on all ports, so each has a link-local address: the
/// configured one, or the one that RFC 4291 appendix A makes of the port's MAC address. With SwitchInfo::kernel it has
/// none of its own: the kernel says which.
///
/// Workers may call everything but replace() and set_mtu() at any time; a reference is good until their next
/// RcuDomain::quiescent().
class Interfaces {
 public:
  struct Interface {
    wire::MacAddress mac{};
    std::uint32_t mtu_bytes = 0;  ///< largest IP packet
    std::vector<wire::IpPrefix> v4{};
    std::vector<wire::IpPrefix> v6{};  ///< without link-local addresses
    std::vector<wire::IpPrefix> link_local{};

    [[nodiscard]] bool has_v6() const noexcept { return !link_local.empty(); }
  };

  explicit Interfaces(const pipeline::SwitchInfo& info);
  ~Interfaces() { delete ports_.load(std::memory_order_relaxed); }
  Interfaces(const Interfaces&) = delete;
  Interfaces& operator=(const Interfaces&) = delete;

  /// Control thread: exchanges the addresses of all ports for these.
  void replace(std::span<const pipeline::InterfaceAddress> addresses, RcuDomain& domain);

  /// Control thread: a port has another MTU. Next hops know the one from when they were made.
  void set_mtu(pipeline::PortIndex port, std::uint32_t mtu_bytes, RcuDomain& domain);

  [[nodiscard]] std::size_t size() const noexcept { return ports().size(); }
  [[nodiscard]] const Interface& operator[](pipeline::PortIndex port) const noexcept { return ports()[port]; }

  /// The address is one of this port.
  [[nodiscard]] bool owns(pipeline::PortIndex port, const wire::IpAddress& address) const noexcept;
  /// The address is one of any port; a link-local one only counts on `port`.
  [[nodiscard]] bool is_local(pipeline::PortIndex port, const wire::IpAddress& address) const noexcept;
  /// The address is in a subnet connected to the port.
  [[nodiscard]] bool on_link(pipeline::PortIndex port, const wire::IpAddress& address) const noexcept;
  /// The IPv4 address means all hosts of a subnet of this port: its directed broadcast or network address.
  [[nodiscard]] bool is_broadcast(pipeline::PortIndex port, const wire::IpAddress& address) const noexcept;
  /// The port listens to this IPv6 multicast address: all nodes, all routers, or the solicited-node address (RFC 4291
  /// 2.7.1) of one of its own.
  [[nodiscard]] bool listens(pipeline::PortIndex port, const wire::IpAddress& group) const noexcept;

  /// The own address to ask a neighbour from: of the target's subnet if possible; nullopt if the port has none of that
  /// family.
  [[nodiscard]] std::optional<wire::IpAddress> ask_from(pipeline::PortIndex port,
                                                        const wire::IpAddress& target) const noexcept;
  /// The own address to answer from a packet that came in on `port` (RFC 1812 4.3.2.4, RFC 4443 2.2): one of the port,
  /// else any; nullopt if there is none of that family.
  [[nodiscard]] std::optional<wire::IpAddress> answer_from(pipeline::PortIndex port,
                                                           const wire::IpAddress& to) const noexcept;

 private:
  using Ports = std::vector<Interface>;
  static void fill(Ports& ports, std::span<const pipeline::InterfaceAddress> addresses);
  void exchange(Ports next, RcuDomain& domain);
  [[nodiscard]] const Ports& ports() const noexcept { return *ports_.load(std::memory_order_acquire); }

  std::atomic<const Ports*> ports_;
};

/// First and last address of an IPv4 subnet mean all its hosts, except in the smallest subnets (RFC 3021).
[[nodiscard]] constexpr bool has_broadcast(const wire::IpPrefix& prefix) noexcept {
  return !prefix.address.is_v6() && prefix.length < 31;
}
/// All host bits one; of an IPv4 prefix.
[[nodiscard]] wire::IpAddress broadcast_address(const wire::IpPrefix& prefix) noexcept;
/// ff02::1:ffXX:XXXX with the last 24 bits of the address (RFC 4291 2.7.1).
[[nodiscard]] wire::IpAddress solicited_node(const wire::IpAddress& address) noexcept;
/// 33:33 and the last 32 bits of an IPv6 multicast address (RFC 2464 7).
[[nodiscard]] wire::MacAddress multicast_mac(const wire::IpAddress& group) noexcept;
/// fe80::/64 with the modified EUI-64 of a MAC address (RFC 4291 appendix A).
[[nodiscard]] wire::IpAddress link_local_address(const wire::MacAddress& mac) noexcept;

inline constexpr wire::IpAddress kAllNodes =
    wire::IpAddress::v6({0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
inline constexpr wire::IpAddress kAllRouters =
    wire::IpAddress::v6({0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});

}  // namespace weft::tables
