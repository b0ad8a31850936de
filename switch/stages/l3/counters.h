// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

#include "switch/base/counter_set.h"

namespace weft::stages {

/// Order of the counters of the `l3` stage.
enum class L3Counter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/l3/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// One worker's counters.
using L3Counters = CounterSet<L3Counter>;

}  // namespace weft::stages
