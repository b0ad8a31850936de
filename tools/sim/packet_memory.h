// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// DPDK's environment for a process that only needs packet buffers: no devices, no hugepages to be reserved, any number
// of processes side by side.
#pragma once

#include <cstdint>
#include <string>

#include "switch/pipeline/pool.h"

namespace weft::sim {

/// Once per process. Returns why it did not work, or "".
[[nodiscard]] std::string start_packet_memory();
void stop_packet_memory();

/// Small buffers: headers are there, payload is elided. nullptr when the memory is not there.
/// The memory is the process's own and asks the kernel for transparent huge pages: packets under way do not fit into
/// the caches, and with small pages not even their addresses would.
[[nodiscard]] pipeline::Pool make_packet_pool(std::uint32_t mbufs);

}  // namespace weft::sim
