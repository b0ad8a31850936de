// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/base/spsc_ring.h"

struct rte_mbuf;

namespace weft::pipeline {

/// Packets between two threads: from worker to worker, through a cable between two switches, to and from the kernel.
using PacketRing = SpscRing<rte_mbuf*, 1024>;

}  // namespace weft::pipeline
