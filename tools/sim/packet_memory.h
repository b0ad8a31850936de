// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// DPDK's environment for a process that only needs packet buffers: no devices, no hugepages unless there are free ones,
// any number of processes side by side.
#pragma once

#include <cstdint>
#include <string>

#include "switch/pipeline/pool.h"

namespace weft::sim {

/// Once per process. Returns why it did not work, or "".
[[nodiscard]] std::string start_packet_memory(std::uint32_t mbufs);
void stop_packet_memory();

/// Small buffers: headers are there, payload is elided. nullptr when the memory is not there.
[[nodiscard]] pipeline::Pool make_packet_pool(std::uint32_t mbufs);

}  // namespace weft::sim
