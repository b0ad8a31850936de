// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/base/time.h"

namespace weft {

/// Nanoseconds of CLOCK_MONOTONIC: since the machine started, and the same for all processes. Any thread.
[[nodiscard]] TimeNs monotonic_now() noexcept;

}  // namespace weft
