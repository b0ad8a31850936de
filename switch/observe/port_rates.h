// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "switch/base/time.h"
#include "switch/pipeline/packet.h"

namespace weft {

/// What a port has received and sent so far.
struct PortCounts {
  std::uint64_t rx_packets = 0, rx_bytes = 0, tx_packets = 0, tx_bytes = 0;
};

/// The same in a second, over the time between the last two samples.
struct PortRate {
  double rx_pps = 0, rx_mbps = 0, tx_pps = 0, tx_mbps = 0;
};

/// Rates of ports from samples of their counters. Any thread.
class PortRates {
 public:
  /// A port of a switch; switches have other numbers after a reload that changes them.
  using Key = std::pair<std::uint64_t, pipeline::PortIndex>;

  /// Takes the samples of all ports at one time; ports that are not among them are forgotten.
  void sample(TimeNs now, std::map<Key, PortCounts> counts);
  /// Nothing until there are two samples.
  [[nodiscard]] std::optional<PortRate> of(const Key& port) const;

 private:
  mutable std::mutex mutex_;
  TimeNs time_ = 0, time_before_ = 0;
  std::map<Key, PortCounts> counts_, counts_before_;
};

}  // namespace weft
