// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/rss.h"

#include <rte_errno.h>
#include <rte_ethdev.h>

#include <array>
#include <limits>

namespace weft::ports {

std::vector<std::uint16_t> RssQueues::table(std::uint32_t entries) const {
  const pipeline::RssWorkers owners(workers);
  std::vector<std::uint16_t> queue_of;
  for (std::uint32_t entry = 0; entry < entries; ++entry) queue_of.push_back(of_worker(owners.of_entry(entry)));
  return queue_of;
}

std::uint8_t* rss_key() noexcept {
  static auto key = [] {
    std::array<std::uint8_t, std::numeric_limits<decltype(rte_eth_dev_info::hash_key_size)>::max()> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = wire::kRssKey[i % wire::kRssKey.size()];
    return bytes;
  }();
  return key.data();
}

std::string spread_by_table(std::uint16_t device, std::uint32_t entries, const RssQueues& queues) {
  if (entries < wire::kRssEntries || entries % wire::kRssEntries != 0) {
    return "its table has " + std::to_string(entries) + " entries";
  }
  const std::vector<std::uint16_t> queue_of = queues.table(entries);
  std::vector<rte_eth_rss_reta_entry64> groups((entries + RTE_ETH_RETA_GROUP_SIZE - 1) / RTE_ETH_RETA_GROUP_SIZE);
  for (std::uint32_t entry = 0; entry < entries; ++entry) {
    rte_eth_rss_reta_entry64& group = groups[entry / RTE_ETH_RETA_GROUP_SIZE];
    group.mask |= std::uint64_t{1} << entry % RTE_ETH_RETA_GROUP_SIZE;
    group.reta[entry % RTE_ETH_RETA_GROUP_SIZE] = queue_of[entry];
  }
  const int result = rte_eth_dev_rss_reta_update(device, groups.data(), static_cast<std::uint16_t>(entries));
  return result == 0 ? "" : std::string("its table cannot be changed: ") + rte_strerror(-result);
}

}  // namespace weft::ports
