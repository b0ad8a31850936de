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

/// @param pci_devices arguments of all PCI devices in use; without any, the PCI bus is not touched
[[nodiscard]] Eal start_eal(const config::EalConfig& config, const std::vector<std::string>& pci_devices);

/// Ends it, once, and removes the files that DPDK keeps per process.
void stop_eal();

}  // namespace weft
