// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Where the kernel would send a packet: route, source address and the next hop's MAC address, over rtnetlink.
#pragma once

#include <optional>

#include "switch/wire/addresses.h"

namespace weft::nic {

/// The first step towards an address.
struct NextHop {
  unsigned interface = 0;
  wire::IpAddress source{};   ///< what the kernel would use
  wire::IpAddress gateway{};  ///< the address itself when it is on the link
};

/// nullopt when the kernel has no route, or only one to itself.
[[nodiscard]] std::optional<NextHop> find_route(const wire::IpAddress& to);

/// True for an address of this network namespace: the kernel delivers to itself what is sent there, over no wire.
[[nodiscard]] bool is_own_address(const wire::IpAddress& address);

/// The MAC address of a neighbour, as the kernel knows it now.
[[nodiscard]] std::optional<wire::MacAddress> find_neighbour(unsigned interface, const wire::IpAddress& address);

/// Makes the kernel look for a neighbour, as if it had a packet for it: find_neighbour() has the answer a little later.
/// Needs CAP_NET_ADMIN.
void ask_for_neighbour(unsigned interface, const wire::IpAddress& address);

}  // namespace weft::nic
