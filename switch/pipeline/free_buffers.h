// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

namespace weft::pipeline {

/// Makes known to DPDK a kind of packet pool that hands out first what came back last. Only as many buffers are ever
/// touched as are in use at once, besides those in the caches of lcores, so that the next one is near to the CPU.
/// DPDK's own pools are queues: where one thread receives and another one sends, each buffer waits for its turn among
/// all. Any thread may use a pool of this kind. Other processes cannot share it.
/// @return its name, for rte_mempool_set_ops_byname(); nullptr when DPDK knows too many kinds, and rte_errno says so
[[nodiscard]] const char* last_freed_first() noexcept;

}  // namespace weft::pipeline
