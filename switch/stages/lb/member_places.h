// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "switch/stages/lb/policy.h"

namespace weft::stages {

/// Finds the member of a group that leads to a port: where it stood when it was last looked for is looked at first, and
/// the group is searched only where it stands there no more. For policies that know flows' ports.
class MemberPlaces {
 public:
  /// @param ports  of the switch
  explicit MemberPlaces(std::size_t ports) : places_(ports) {}

  /// A member that leads to the port, of several any, if the port's path is up; kUnreachable otherwise.
  /// @param port  any number
  [[nodiscard]] tables::NextHopId find(std::span<const tables::NextHopId> members, LinkView& links,
                                       pipeline::PortIndex port) noexcept {
    if (port >= places_.size()) return tables::kUnreachable;
    std::uint32_t place = places_[port];
    if (place >= members.size() || links.port(members[place]) != port) [[unlikely]] {
      for (place = 0; place < members.size() && links.port(members[place]) != port;) ++place;
      if (place == members.size()) return tables::kUnreachable;
      places_[port] = place;
    }
    return links.up(members[place]) ? members[place] : tables::kUnreachable;
  }

 private:
  std::vector<std::uint32_t> places_;  ///< by port
};

}  // namespace weft::stages
