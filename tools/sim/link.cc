// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/link.h"

namespace weft::sim {

bool Link::taken_by_fault(rte_mbuf* m) noexcept {
  if (!up_) {
    ++counters_.cut;
  } else if (loss_.hit(rng_)) {
    ++counters_.lost;
  } else {
    return false;
  }
  observer_.on_lost(m);
  rte_pktmbuf_free(m);
  return true;
}

}  // namespace weft::sim
