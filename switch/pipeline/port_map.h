// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "switch/pipeline/packet.h"

namespace weft::pipeline {

/// What the ports of a switch are called after its description was replaced: old index to new index.
class PortMap {
 public:
  /// @param to  by old index; kNoPort for a port that is gone
  explicit PortMap(std::vector<PortIndex> to) : to_(std::move(to)) {
    for (std::size_t i = 0; i < to_.size(); ++i) identity_ = identity_ && to_[i] == i;
  }

  /// kNoPort for a port that is gone; what is no port (kNoPort, kGroupPort) stays as it is.
  [[nodiscard]] PortIndex operator()(PortIndex old) const noexcept { return old < to_.size() ? to_[old] : old; }
  /// No index changes.
  [[nodiscard]] bool identity() const noexcept { return identity_; }
  /// Number of old ports.
  [[nodiscard]] std::size_t size() const noexcept { return to_.size(); }

  /// Renames the ports of a packet. False when one of them is gone: the packet cannot go on.
  [[nodiscard]] bool rename(rte_mbuf* m) const noexcept {
    PacketMeta& pm = meta(m);
    const PortIndex in = (*this)(pm.in_port);
    const PortIndex out = (*this)(pm.out_port);
    if ((in == kNoPort && pm.in_port != kNoPort) || (out == kNoPort && pm.out_port != kNoPort)) return false;
    pm.in_port = in;
    pm.out_port = out;
    return true;
  }

 private:
  std::vector<PortIndex> to_;
  bool identity_ = true;
};

}  // namespace weft::pipeline
