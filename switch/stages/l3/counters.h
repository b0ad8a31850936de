// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/base/counters.h"

namespace weft::stages {

/// Order of the counters of the `l3` stage.
enum class L3Counter : std::uint8_t {
  arp_requests_sent,
  arp_requests_answered,
  arp_invalid,  ///< truncated, or with a sender that cannot be
  nd_solicitations_sent,
  nd_solicitations_answered,
  nd_invalid,           ///< broken RFC 4861 6.1 or 7.1: hop limit, checksum, length, options, addresses
  address_conflicts,    ///< messages in which somebody else claims an address of the switch
  neighbours_resolved,  ///< neighbours whose MAC address was learned
  neighbours_moved,     ///< neighbours that changed their MAC address
  neighbours_failed,    ///< neighbours that did not answer
  neighbours_full,      ///< times that the neighbour table had no room
  packets_queued,       ///< packets that waited for a neighbour
  echo_answered,        ///< ICMP and ICMPv6
  icmp_errors_sent,
  icmp_rate_limited,  ///< ICMP errors that were not sent because of the limit
  out_of_mbufs,       ///< messages that were not sent because no packet buffer was left
  count_,
};

/// One worker's counters.
class L3Counters {
 public:
  void add(L3Counter counter) noexcept { counters_[static_cast<std::size_t>(counter)].add(1); }
  [[nodiscard]] std::span<const Counter> all() const noexcept { return counters_; }

  /// In the order of L3Counter.
  [[nodiscard]] static std::vector<std::string> names() {
    return {"arp_requests_sent",     "arp_requests_answered",     "arp_invalid",
            "nd_solicitations_sent", "nd_solicitations_answered", "nd_invalid",
            "address_conflicts",     "neighbours_resolved",       "neighbours_moved",
            "neighbours_failed",     "neighbours_full",           "packets_queued",
            "echo_answered",         "icmp_errors_sent",          "icmp_rate_limited",
            "out_of_mbufs"};
  }

 private:
  std::array<Counter, static_cast<std::size_t>(L3Counter::count_)> counters_;
};

}  // namespace weft::stages
