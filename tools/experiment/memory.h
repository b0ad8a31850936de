// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace weft::experiment {

/// Bytes of memory that the machine can still give; 0 when nobody says.
[[nodiscard]] inline std::uint64_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  for (std::string rest; in >> key >> kib; std::getline(in, rest)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

}  // namespace weft::experiment
