// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

#include "switch/base/time.h"

namespace weft::qos {

/// Traffic classes, queues of a port, priority groups of a port, and priorities of PFC: eight of each.
inline constexpr unsigned kClasses = 8;

}  // namespace weft::qos
