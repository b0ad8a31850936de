// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Packet buffers for a process without devices: no hugepages to be reserved.
#pragma once

#include <cstdint>

#include "switch/pipeline/pool.h"

namespace weft::sim {

/// Small buffers: headers are there, payload is elided. nullptr when the memory is not there.
/// The memory is the process's own and asks the kernel for transparent huge pages: packets under way do not fit into
/// the caches, and with small pages not even their addresses would.
[[nodiscard]] pipeline::Pool make_packet_pool(std::uint32_t mbufs);

}  // namespace weft::sim
