// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Preloaded into weft-switch, it makes a device send one packet more than it was given, as a driver with a bug might:
// the program must notice that its sums are wrong.
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

std::atomic<bool> done{false};

std::uint16_t add_one(std::uint16_t, std::uint16_t, rte_mbuf** packets, std::uint16_t count, void*) {
  // weft's arrays have room for 32 packets.
  if (count == 0 || count >= 16 || done.exchange(true)) return count;
  rte_mbuf* const extra = rte_pktmbuf_copy(packets[0], packets[0]->pool, 0, UINT32_MAX);
  if (extra == nullptr) return count;
  packets[count] = extra;
  return count + 1;
}

// Queues exist only once weft has configured the device, which has an owner then: RTE_ETH_FOREACH_DEV does not show it.
void wait_for_device() {
  for (int i = 0; i < 3000; ++i) {
    for (std::uint16_t port = 0; port < RTE_MAX_ETHPORTS; ++port) {
      if (rte_eth_dev_is_valid_port(port) == 0) continue;
      if (rte_eth_add_tx_callback(port, 0, add_one, nullptr) != nullptr) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

[[gnu::constructor]] void start() {
  std::thread(wait_for_device).detach();
}

}  // namespace
