// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <vector>

#include "switch/wire/types.h"

namespace weft::pipeline {

/// A capability (StageShared::publish()): the stage runs groups of queue pairs, by number. Captures and traces ask for
/// the packets of one.
class FlowGroups {
 public:
  /// Packets of one direction of a connection.
  struct Flow {
    std::uint64_t address_key = 0;  ///< wire::Parsed::address_key
    wire::Qpn dest_qp{};

    friend bool operator==(const Flow&, const Flow&) = default;
  };

  /// All flows of a group as of now, in both directions; none when there is no such group. Control threads.
  [[nodiscard]] virtual std::vector<Flow> flows(std::uint32_t group) const = 0;

 protected:
  ~FlowGroups() = default;
};

}  // namespace weft::pipeline
