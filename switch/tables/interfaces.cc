// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/interfaces.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace weft::tables {

using pipeline::PortIndex;
using wire::IpAddress;
using wire::IpPrefix;
using wire::MacAddress;

namespace {

using Prefixes = std::vector<IpPrefix>;

bool has_address(const Prefixes& prefixes, const IpAddress& address) noexcept {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const IpPrefix& p) { return p.address == address; });
}

// The longest prefix around the address; nullptr if there is none.
const IpPrefix* around(const Prefixes& prefixes, const IpAddress& address) noexcept {
  const IpPrefix* best = nullptr;
  for (const IpPrefix& prefix : prefixes) {
    if (prefix.contains(address) && (best == nullptr || prefix.length > best->length)) best = &prefix;
  }
  return best;
}

const Prefixes& of_family(const Interfaces::Interface& port, const IpAddress& like) noexcept {
  if (!like.is_v6()) return port.v4;
  return like.is_link_local() ? port.link_local : port.v6;
}

}  // namespace

Interfaces::Interfaces(const pipeline::SwitchInfo& info) {
  Ports ports(info.ports.size());
  for (const auto& port : info.ports) {
    ports[port.index].mac = port.mac;
    ports[port.index].mtu_bytes = port.mtu_bytes;
  }
  if (!info.kernel) fill(ports, info.addresses);
  const auto is_v6 = [](const auto& item) { return item.prefix.address.is_v6(); };
  const bool speaks_v6 = std::any_of(info.addresses.begin(), info.addresses.end(), is_v6) ||
                         std::any_of(info.routes.begin(), info.routes.end(), is_v6);
  if (speaks_v6 && !info.kernel) {
    for (Interface& interface : ports) {
      if (interface.link_local.empty()) interface.link_local.push_back({link_local_address(interface.mac), 64});
    }
  }
  ports_.store(new Ports(std::move(ports)), std::memory_order_release);
}

void Interfaces::fill(Ports& ports, std::span<const pipeline::InterfaceAddress> addresses) {
  for (const auto& [port, prefix, mark] : addresses) {
    Interface& interface = ports[port];
    if (!prefix.address.is_v6()) {
      interface.v4.push_back(prefix);
    } else if (prefix.address.is_link_local()) {
      interface.link_local.push_back(prefix);
    } else {
      interface.v6.push_back(prefix);
    }
  }
}

void Interfaces::replace(std::span<const pipeline::InterfaceAddress> addresses, RcuDomain& domain) {
  Ports next(size());
  for (std::size_t i = 0; i < next.size(); ++i) {
    next[i].mac = ports()[i].mac;
    next[i].mtu_bytes = ports()[i].mtu_bytes;
  }
  fill(next, addresses);
  exchange(std::move(next), domain);
}

void Interfaces::set_mtu(PortIndex port, std::uint32_t mtu_bytes, RcuDomain& domain) {
  Ports next = ports();
  next[port].mtu_bytes = mtu_bytes;
  exchange(std::move(next), domain);
}

void Interfaces::exchange(Ports next, RcuDomain& domain) {
  std::shared_ptr<const Ports> old(ports_.exchange(new Ports(std::move(next)), std::memory_order_acq_rel));
  domain.defer([old = std::move(old)]() mutable { old.reset(); });
}

bool Interfaces::owns(PortIndex port, const IpAddress& address) const noexcept {
  return has_address(of_family(ports()[port], address), address);
}

bool Interfaces::is_local(PortIndex port, const IpAddress& address) const noexcept {
  if (address.is_v6() && address.is_link_local()) return owns(port, address);
  const Ports& all = ports();
  return std::any_of(all.begin(), all.end(),
                     [&](const Interface& interface) { return has_address(of_family(interface, address), address); });
}

bool Interfaces::on_link(PortIndex port, const IpAddress& address) const noexcept {
  return around(of_family(ports()[port], address), address) != nullptr;
}

bool Interfaces::is_broadcast(PortIndex port, const IpAddress& address) const noexcept {
  const auto& own = ports()[port].v4;
  return std::any_of(own.begin(), own.end(), [&](const IpPrefix& prefix) {
    return has_broadcast(prefix) && (address == prefix.network().address || address == broadcast_address(prefix));
  });
}

bool Interfaces::listens(PortIndex port, const IpAddress& group) const noexcept {
  const Interface& interface = ports()[port];
  if (!interface.has_v6()) return false;
  if (group == kAllNodes || group == kAllRouters) return true;
  const auto solicited = [&](const IpPrefix& prefix) { return solicited_node(prefix.address) == group; };
  return std::any_of(interface.v6.begin(), interface.v6.end(), solicited) ||
         std::any_of(interface.link_local.begin(), interface.link_local.end(), solicited);
}

std::optional<IpAddress> Interfaces::ask_from(PortIndex port, const IpAddress& target) const noexcept {
  const Interface& interface = ports()[port];
  const Prefixes& own = of_family(interface, target);
  if (const IpPrefix* subnet = around(own, target)) return subnet->address;
  if (!own.empty()) return own.front().address;
  if (target.is_v6() && interface.has_v6()) return interface.link_local.front().address;
  return std::nullopt;
}

std::optional<IpAddress> Interfaces::answer_from(PortIndex port, const IpAddress& to) const noexcept {
  const Prefixes& own = of_family(ports()[port], to);
  if (const IpPrefix* subnet = around(own, to)) return subnet->address;
  if (!own.empty()) return own.front().address;
  if (to.is_v6() && to.is_link_local()) return std::nullopt;
  for (const Interface& interface : ports()) {
    const Prefixes& other = of_family(interface, to);
    if (!other.empty()) return other.front().address;
  }
  return std::nullopt;
}

IpAddress broadcast_address(const IpPrefix& prefix) noexcept {
  const std::uint32_t host_bits = prefix.length == 0 ? ~0u : (1u << (32 - prefix.length)) - 1;
  return IpAddress::v4(prefix.address.v4_value() | (prefix.length == 32 ? 0 : host_bits));
}

IpAddress solicited_node(const IpAddress& address) noexcept {
  const auto& b = address.bytes();
  return IpAddress::v6({0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, b[13], b[14], b[15]});
}

MacAddress multicast_mac(const IpAddress& group) noexcept {
  const auto& b = group.bytes();
  return MacAddress{{0x33, 0x33, b[12], b[13], b[14], b[15]}};
}

IpAddress link_local_address(const MacAddress& mac) noexcept {
  const auto& m = mac.bytes;
  return IpAddress::v6(
      {0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]});
}

}  // namespace weft::tables
