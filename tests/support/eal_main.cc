// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// main() of tests that need packet buffers: an EAL without hugepages, devices, or shared configuration, which any user
// may start any number of times side by side.
#include <gmock/gmock.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/tsan_mempool.h"

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const std::string lcores = "--lcores=0@(0-" + std::to_string(sysconf(_SC_NPROCESSORS_ONLN) - 1) + ")";
  std::vector<std::string> arguments{argv[0], "--no-huge", "--no-shconf",       "--no-pci", "--no-telemetry",
                                     "-m",    "256",       "--log-level=error", lcores};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) {
    std::fprintf(stderr, "EAL did not start: %s\n", rte_strerror(rte_errno));
    return EXIT_FAILURE;
  }
  weft::testing::show_mempools_to_tsan();
  // The EAL is not cleaned up: that takes away memory that its interrupt thread, which never ends, may still look at
  // for a device that was closed a moment ago.
  return RUN_ALL_TESTS();
}
