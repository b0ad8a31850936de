// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an agent says of the links of its switch: its ports, and who it hears at their other ends by LLDP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "switch/wire/addresses.h"

namespace weft::inc::manager {

struct Port {
  std::string name;  ///< of the kernel's interface
  std::string mac;   ///< "02:00:00:00:00:01"
  std::vector<wire::IpPrefix> addresses;
  std::uint32_t rate_mbps = 0;  ///< 0: not known

  friend bool operator==(const Port&, const Port&) = default;
};

/// What has come by LLDP at a port (IEEE 802.1AB).
struct Neighbour {
  std::string port;       ///< own
  std::string chassis;    ///< the other system's identity, with its kind: "mac 02:00:00:00:00:01"
  std::string system;     ///< the name that it gives itself; may be empty
  std::string peer_port;  ///< the other port's identity, with its kind: "ifname eth1"
  std::string peer_description;

  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

struct NeighbourReport {
  std::string node;     ///< the switch, by its name in the manager's file
  std::string chassis;  ///< its own identity, as others hear it
  std::vector<Port> ports;
  std::vector<Neighbour> neighbours;

  friend bool operator==(const NeighbourReport&, const NeighbourReport&) = default;
};

}  // namespace weft::inc::manager
