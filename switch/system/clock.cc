// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/system/clock.h"

#include <ctime>

namespace weft {

TimeNs monotonic_now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<TimeNs>(t.tv_sec) * kSecond + static_cast<TimeNs>(t.tv_nsec);
}

}  // namespace weft
