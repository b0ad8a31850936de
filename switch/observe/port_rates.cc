// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/port_rates.h"

#include <utility>

namespace weft {

void PortRates::sample(TimeNs now, std::map<Key, PortCounts> counts) {
  const std::lock_guard lock(mutex_);
  counts_before_ = std::exchange(counts_, std::move(counts));
  time_before_ = std::exchange(time_, now);
}

std::optional<PortRate> PortRates::of(const Key& port) const {
  const std::lock_guard lock(mutex_);
  const auto now = counts_.find(port);
  const auto before = counts_before_.find(port);
  if (now == counts_.end() || before == counts_before_.end() || time_ <= time_before_) return std::nullopt;
  const double seconds = static_cast<double>(time_ - time_before_) / 1e9;
  const auto per_second = [&](std::uint64_t PortCounts::*count) {
    return static_cast<double>(now->second.*count - before->second.*count) / seconds;
  };
  constexpr double kMbit = 8e-6;
  return PortRate{per_second(&PortCounts::rx_packets), per_second(&PortCounts::rx_bytes) * kMbit,
                  per_second(&PortCounts::tx_packets), per_second(&PortCounts::tx_bytes) * kMbit};
}

}  // namespace weft
