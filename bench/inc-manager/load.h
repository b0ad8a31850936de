// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weft-inc-manager under load: groups are asked for at a rate, renewed as daemons of hosts do, and given back.
#pragma once

#include <string>

namespace weft::inc::manager_bench {

struct LoadOptions {
  unsigned pods = 45,
           half = 10;      ///< a Clos of 2 * half switches in a pod, and half^2 cores: 1,000 switches, 4,500 hosts
  unsigned hosts = 8;      ///< of a group
  bool scattered = false;  ///< hosts from everywhere, not next to each other
  double rate = 100;       ///< groups a second
  double seconds = 20, hold_s = 5;
  unsigned probe_ms = 1000, lease_ms = 5000;
  unsigned threads = 16, processes = 4;
  std::string store;  ///< path of the database; "": in the folder of the sockets
};

/// Prints what came of it; the exit status of the program.
[[nodiscard]] int run_load(const LoadOptions& options);

/// 10,000 groups on a fat tree of k = 32, with switches that agree at once and no disk: what the manager itself takes.
[[nodiscard]] int run_placement();

}  // namespace weft::inc::manager_bench
