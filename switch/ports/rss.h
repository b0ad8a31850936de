// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Receive-side scaling: packets come to the worker that they belong to, so that none has to be handed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "switch/pipeline/steer.h"

namespace weft::ports {

/// The receive queues of one port, of which its owner polls the first and the workers behind it the others.
struct RssQueues {
  std::uint16_t owner = 0;
  std::uint16_t workers = 1;
  std::uint16_t queues = 1;  ///< at most `workers`

  /// That of a worker; where fewer workers poll the port, of one that hands its packets over.
  [[nodiscard]] std::uint16_t of_worker(std::uint16_t worker) const noexcept {
    return static_cast<std::uint16_t>((worker + workers - owner) % workers % queues);
  }
  /// By entry of a card's table of `entries`.
  [[nodiscard]] std::vector<std::uint16_t> table(std::uint32_t entries) const;
};

/// The key of cards: wire::kRssKey over and over, longer than any card's. Drivers keep the pointer, and read the key
/// again when the device starts.
[[nodiscard]] std::uint8_t* rss_key() noexcept;

/// Fills the table of a started device. Empty, or why its packets come to other workers than they belong to.
[[nodiscard]] std::string spread_by_table(std::uint16_t device, std::uint32_t entries, const RssQueues& queues);

}  // namespace weft::ports
