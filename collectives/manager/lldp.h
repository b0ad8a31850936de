// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What `lldpcli -f json` of lldpd and `ip -j address` of iproute2 print, and rows of weft's own stage. Texts of LLDP
// come from other machines: whatever they are, they are read as names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/manager/neighbours.h"

namespace weft::inc::manager {

/// Of `lldpcli -f json show neighbors`; nullopt when it is nothing like that. What has no port or no chassis is left
/// out, and so is what came by another protocol (CDP and others, which lldpd can speak, too).
[[nodiscard]] std::optional<std::vector<Neighbour>> read_neighbours(std::string_view json);

/// Of `lldpcli -f json show chassis`: the identity of this machine. nullopt: there is none.
[[nodiscard]] std::optional<std::string> read_own_chassis(std::string_view json);

/// Rows of the tables lldp_ports and lldp of a weft-switch with the stage lldp, each an object of JSON: what its agent
/// reports, but for the node. nullopt: no rows of ports, or one that is nothing like that.
[[nodiscard]] std::optional<NeighbourReport> read_switch_rows(const std::vector<std::string>& ports,
                                                              const std::vector<std::string>& neighbours);

/// Of `ip -j address`: interfaces with a MAC address, without rates. nullopt when it is nothing like that.
[[nodiscard]] std::optional<std::vector<Port>> read_ports(std::string_view json);

}  // namespace weft::inc::manager
