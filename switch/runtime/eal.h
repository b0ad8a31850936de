// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Starts DPDK's environment the way weft needs it, with or without hugepages, any number of times side by side.
#pragma once

#include <string>
#include <vector>

#include "switch/config/config.h"

namespace weft {

struct Eal {
  std::vector<unsigned> worker_lcores;  ///< one per worker, in the order of the configuration
  std::vector<unsigned> worker_cpus;
  bool hugepages = false;
  std::string error{};    ///< why it did not start; then nothing else holds
  std::string warning{};  ///< what will be slower than it could be
};

/// Reads `workers` and `eal` of the configuration.
/// @param pci_devices arguments of all PCI devices in use; without any, the PCI bus is not touched
[[nodiscard]] Eal start_eal(const config::Config& config, const std::vector<std::string>& pci_devices);

/// The last thing that a process does with DPDK, with all devices closed and all workers at rest: writes what DPDK has
/// traced (`--trace` in eal.extra_args) and removes the files that it keeps per process. Its memory stays until the
/// process ends, because its own threads go on: the interrupt thread looks at its list of devices once more after the
/// last one was closed, and telemetry's answer whoever asks. rte_eal_cleanup() would take the memory from under them.
void stop_eal();

}  // namespace weft
