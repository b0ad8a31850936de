// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/flip.h"

#include "switch/pipeline/packet.h"

namespace weft::stages {
namespace {

bool shares_bytes(const rte_mbuf* segment) noexcept {
  return !RTE_MBUF_DIRECT(segment) || rte_mbuf_refcnt_read(segment) != 1;
}

// The segment with byte `offset`, which becomes the offset within it; nullptr beyond the end.
rte_mbuf* segment_at(rte_mbuf* m, std::uint32_t& offset) noexcept {
  while (m != nullptr && offset >= m->data_len) {
    offset -= m->data_len;
    m = m->next;
  }
  return m;
}

rte_mbuf* own_copy(rte_mbuf* m) noexcept {
  rte_mbuf* copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
  if (copy == nullptr) return nullptr;
  pipeline::meta(copy) = pipeline::meta(m);
  rte_pktmbuf_free(m);
  return copy;
}

}  // namespace

rte_mbuf* flip_bit(rte_mbuf* m, std::uint32_t bit) noexcept {
  std::uint32_t offset = bit / 8;
  rte_mbuf* segment = segment_at(m, offset);
  if (segment == nullptr) return m;
  if (shares_bytes(segment)) {
    m = own_copy(m);
    if (m == nullptr) return nullptr;
    offset = bit / 8;
    segment = segment_at(m, offset);
  }
  *rte_pktmbuf_mtod_offset(segment, std::uint8_t*, offset) ^= static_cast<std::uint8_t>(1u << (bit % 8));
  return m;
}

}  // namespace weft::stages
