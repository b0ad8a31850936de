// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/system/entropy.h"

#include <random>

namespace weft {

std::uint64_t fresh_seed() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

}  // namespace weft
