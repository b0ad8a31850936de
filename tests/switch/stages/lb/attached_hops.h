// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Next hops without addresses, one on each port, for tests of what chooses between them.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/switch/stages/l3/router.h"

namespace weft::stages {

class AttachedHops {
 public:
  explicit AttachedHops(std::uint16_t ports) : interfaces_(info(ports)) {
    for (std::uint16_t port = 0; port < ports; ++port) ids.push_back(hops.add_attached(port));
  }

 private:
  static pipeline::SwitchInfo info(std::uint16_t ports) {
    pipeline::SwitchInfo result;
    for (std::uint16_t port = 0; port < ports; ++port) {
      result.ports.emplace_back();
      result.ports.back().index = port;
    }
    return result;
  }
  RcuDomain domain_{1};
  tables::NeighbourTable neighbours_{8, domain_};
  tables::Interfaces interfaces_;

 public:
  tables::NextHops hops{interfaces_, neighbours_};
  std::vector<tables::NextHopId> ids;  ///< by port
};

}  // namespace weft::stages
