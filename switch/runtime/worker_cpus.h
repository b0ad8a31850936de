// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which CPUs the workers get.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "switch/config/config.h"

namespace weft {

struct WorkerCpus {
  std::vector<unsigned> cpus;  ///< one for each worker
  std::string error;           ///< why there are none: what is asked for, and what there is; "" on success
};

/// The CPUs of the `workers` of a configuration. Those that are not named are the last ones that the process may use,
/// on the NUMA node if one is given.
/// @param allowed  CPUs that the process may use, in order; one at least
/// @param node_of  NUMA node of a CPU
[[nodiscard]] WorkerCpus choose_worker_cpus(const config::WorkersConfig& workers, const std::vector<unsigned>& allowed,
                                            const std::function<int(unsigned cpu)>& node_of);

/// NUMA node of a CPU of this machine; 0 where the kernel does not say.
[[nodiscard]] int numa_node_of_cpu(unsigned cpu);

/// "1,2,5"
[[nodiscard]] std::string cpu_list(const std::vector<unsigned>& cpus);

}  // namespace weft
