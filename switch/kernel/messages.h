// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What rtnetlink messages say (rtnetlink(7)), without sockets. Messages are checked: one that is cut short or of
// another kind gives nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/wire/addresses.h"

struct nlmsghdr;

namespace weft::kernel {

/// An interface came, changed or went.
struct LinkMessage {
  bool removed = false;
  int index = 0;
  bool up = false;       ///< administratively
  bool carrier = false;  ///< and somebody is at the other end
};

/// An address of an interface.
struct AddressMessage {
  bool removed = false;
  int index = 0;
  wire::IpPrefix prefix{};  ///< address and length of its subnet
};

/// A route, of the tables main and local only.
struct RouteMessage {
  struct Hop {
    int index = 0;                             ///< of the interface
    std::optional<wire::IpAddress> gateway{};  ///< none: the destinations are on the link
    bool dead = false;                         ///< the interface is down
    std::uint16_t weight = 1;                  ///< 1 to 256, among those of a multipath route
    friend bool operator==(const Hop&, const Hop&) = default;
  };
  bool removed = false;
  bool append = false;   ///< NLM_F_APPEND: comes after what is there
  bool replace = false;  ///< NLM_F_REPLACE
  bool local_table = false;
  std::uint8_t type = 0;      ///< RTN_UNICAST and so on
  std::uint8_t protocol = 0;  ///< RTPROT_KERNEL and so on
  std::uint32_t priority = 0;
  wire::IpPrefix prefix{};
  std::vector<Hop> hops{};
};

/// A neighbour.
struct NeighbourMessage {
  bool removed = false;
  int index = 0;
  wire::IpAddress address{};
  std::optional<wire::MacAddress> mac{};
  std::uint16_t state = 0;  ///< NUD_REACHABLE and so on
};

[[nodiscard]] std::optional<LinkMessage> parse_link(const nlmsghdr* message);
[[nodiscard]] std::optional<AddressMessage> parse_address(const nlmsghdr* message);
[[nodiscard]] std::optional<RouteMessage> parse_route(const nlmsghdr* message);
[[nodiscard]] std::optional<NeighbourMessage> parse_neighbour(const nlmsghdr* message);

}  // namespace weft::kernel
