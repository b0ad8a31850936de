// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/node_pool.h"

#include <rte_memory.h>

#include <algorithm>

namespace weft::pipeline {

std::vector<NodePools::Share> NodePools::shares(std::uint32_t buffers, std::span<const int> worker_nodes) {
  std::vector<Share> shares;
  std::vector<std::uint64_t> workers;
  for (const int node : worker_nodes) {
    const auto known = std::ranges::find(shares, node, &Share::node);
    if (known == shares.end()) {
      shares.push_back({node, 0});
      workers.push_back(1);
    } else {
      ++workers[static_cast<std::size_t>(known - shares.begin())];
    }
  }
  // What rounding leaves goes to the last node, so that no buffer is missing.
  std::uint32_t left = buffers;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const bool last = i + 1 == shares.size();
    shares[i].buffers = last ? left : static_cast<std::uint32_t>(buffers * workers[i] / worker_nodes.size());
    left -= shares[i].buffers;
  }
  return shares;
}

std::optional<NodePools> NodePools::make(const std::string& name, std::uint32_t buffers,
                                         std::span<const int> worker_nodes, const Layout& layout) {
  NodePools made;
  const std::vector<Share> parts = shares(buffers, worker_nodes);
  for (const Share& part : parts) {
    // With a single node there is nothing to choose, and memory that is on none counts as well.
    const bool single = parts.size() == 1;
    const std::string own_name = single ? name : name + "_" + std::to_string(part.node);
    const auto try_on = [&](int node) {
      return make_pool(own_name, part.buffers, layout.data_room_bytes, layout.cache, layout.payload_aligned, node);
    };
    Pool pool = try_on(single || part.node < 0 ? SOCKET_ID_ANY : part.node);
    if (pool == nullptr && !single) {
      pool = try_on(SOCKET_ID_ANY);
      if (pool != nullptr) made.elsewhere_.push_back(part.node);
    }
    if (pool == nullptr) return std::nullopt;
    made.pools_.push_back(std::move(pool));
  }
  for (const int node : worker_nodes) {
    const auto part = std::ranges::find(parts, node, &Share::node);
    made.by_worker_.push_back(made.pools_[static_cast<std::size_t>(part - parts.begin())].get());
  }
  return made;
}

std::uint32_t NodePools::size() const noexcept {
  std::uint32_t sum = 0;
  for (const Pool& pool : pools_) sum += pool->size;
  return sum;
}

std::uint32_t NodePools::available() const noexcept {
  std::uint32_t sum = 0;
  for (const Pool& pool : pools_) sum += rte_mempool_avail_count(pool.get());
  return sum;
}

}  // namespace weft::pipeline
