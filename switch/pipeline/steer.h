// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// owner(packet): which worker handles a packet. Both directions of a connection meet on one worker, so that all state
// of a connection is that worker's own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "switch/wire/hash.h"
#include "switch/wire/rss.h"

namespace weft::pipeline {

/// How packets are spread over workers.
enum class SteerMode : std::uint8_t {
  ip_pair,  ///< the symmetric hash of the IP pair: one pair of hosts, one worker
  qp,       ///< both directions of a QP pair that CM or configuration names on one; everything else as ip_pair
};

/// How a process spreads packets. The same for all of its life, because state stays where it is.
struct Steering {
  // Implicit, because most who steer have no card.
  constexpr Steering(SteerMode mode = SteerMode::ip_pair, bool as_cards = false)  // NOLINT(google-explicit-constructor)
      : mode(mode), as_cards(as_cards) {}
  SteerMode mode;
  bool as_cards;  ///< pairs of IP addresses go where cards with RSS bring them (RssWorkers)
};

/// A uniform choice of one of `workers` by a 32-bit hash.
[[nodiscard]] constexpr std::uint16_t worker_by_hash(std::uint32_t hash, std::uint16_t workers) noexcept {
  return static_cast<std::uint16_t>(std::uint64_t{hash} * workers >> 32);
}

/// Which worker each entry of a card's RSS table is for: each as many as the others, or one more, in no order, because
/// addresses that are close to each other have entries that are close.
class RssWorkers {
 public:
  constexpr explicit RssWorkers(std::uint16_t workers) noexcept {
    std::array<std::uint32_t, wire::kRssEntries> flows{};
    for (std::uint32_t i = 0; i < flows.size(); ++i) flows[i] = i;
    std::sort(flows.begin(), flows.end(), [](std::uint32_t a, std::uint32_t b) {
      return wire::detail::spread32(a + 1) < wire::detail::spread32(b + 1);
    });
    for (std::uint32_t i = 0; i < flows.size(); ++i) {
      of_flow_[flows[i]] = static_cast<std::uint8_t>(i * workers / wire::kRssEntries);
    }
  }
  /// Of the packets between two IPv4 addresses, one << 32 | other in host order.
  [[nodiscard]] constexpr std::uint16_t of_v4(std::uint64_t pair) const noexcept {
    return of_flow_[wire::rss_flow_v4(pair)];
  }
  /// Of the packets between two IPv6 addresses.
  /// @param pair_hash  wire::pair_hash_v6() of them
  [[nodiscard]] constexpr std::uint16_t of_v6(std::uint32_t pair_hash) const noexcept {
    return of_flow_[pair_hash % wire::kRssEntries];
  }
  /// Of the packets that an entry of a card's table is for.
  [[nodiscard]] constexpr std::uint16_t of_entry(std::uint32_t entry) const noexcept {
    return of_flow_[wire::rss_flow_of_entry(entry)];
  }

 private:
  std::array<std::uint8_t, wire::kRssEntries> of_flow_{};
};

}  // namespace weft::pipeline
