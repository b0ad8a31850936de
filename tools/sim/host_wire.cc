// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/host_wire.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/sim/command_line.h"

namespace weft::sim {

rte_mbuf* HostWire::make_packet(std::uint32_t bytes) noexcept {
  rte_mbuf* m = rte_pktmbuf_alloc(pool_);
  if (m == nullptr) {
    std::fprintf(stderr, "weft-sim: all %u packet buffers are in use; set mbufs to more\n", pool_->size);
    std::_Exit(config::kExitCannotRun);
  }
  m->data_off = RTE_PKTMBUF_HEADROOM / 2;
  m->pkt_len = bytes;
  m->data_len = static_cast<std::uint16_t>(values_ ? bytes : std::min<std::uint32_t>(bytes, kKeptBytes));
  return m;
}

void HostWire::carry_due(TimeNs now) {
  rte_mbuf* due[pipeline::EgressQueue::kBurst];
  const std::uint16_t count = wire_.line_due(now, due, pipeline::EgressQueue::kBurst);
  if (count == 0) return;
  wire_.line_pop(count, nullptr, 0);
  for (std::uint16_t i = 0; i < count; ++i) link_.carry(due[i]);
}

}  // namespace weft::sim
