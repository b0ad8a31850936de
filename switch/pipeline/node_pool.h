// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The packet buffers of a process that runs on several NUMA nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "switch/pipeline/pool.h"

namespace weft::pipeline {

/// A packet pool on each NUMA node that has workers: a worker makes packets, and fills its receive queues, from memory
/// next to its CPU. A packet may go anywhere; its buffer returns to the pool that it came from.
class NodePools {
 public:
  struct Share {
    int node = 0;
    std::uint32_t buffers = 0;

    friend bool operator==(const Share&, const Share&) = default;
  };
  /// How `buffers` are divided: by the workers of a node. Nodes in the order in which they appear.
  /// @param worker_nodes  the node of each worker; one at least. Negative: unknown, which is a node of its own
  [[nodiscard]] static std::vector<Share> shares(std::uint32_t buffers, std::span<const int> worker_nodes);

  struct Layout {
    std::uint16_t data_room_bytes = 0;  ///< these three as in make_pool()
    std::uint32_t cache = 0;
    bool payload_aligned = false;
  };
  /// A single pool is called `name`, several are `name`_NODE. A node that has no memory for its pool gets it from
  /// another one, and elsewhere() names it.
  /// @return nullopt when there is no memory anywhere; rte_errno says why
  [[nodiscard]] static std::optional<NodePools> make(const std::string& name, std::uint32_t buffers,
                                                     std::span<const int> worker_nodes, const Layout& layout);

  /// The pool of a worker.
  [[nodiscard]] rte_mempool* of_worker(std::size_t worker) const noexcept { return by_worker_[worker]; }
  /// The same for each.
  [[nodiscard]] std::span<rte_mempool* const> by_worker() const noexcept { return by_worker_; }
  /// The pool of worker 0, for whoever is on no node.
  [[nodiscard]] rte_mempool* any() const noexcept { return by_worker_.front(); }
  /// Buffers of all pools, and those of them that hold no packet now.
  [[nodiscard]] std::uint32_t size() const noexcept;
  [[nodiscard]] std::uint32_t available() const noexcept;
  /// Nodes whose pools lie on another one.
  [[nodiscard]] const std::vector<int>& elsewhere() const noexcept { return elsewhere_; }

 private:
  std::vector<Pool> pools_;
  std::vector<rte_mempool*> by_worker_;
  std::vector<int> elsewhere_;
};

}  // namespace weft::pipeline
