// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

#include "switch/base/counter_set.h"

namespace weft::stages {

/// Order of the counters of the `lb` stage.
enum class LbCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/lb/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// Of one instance of the stage.
using LbCounters = CounterSet<LbCounter>;

}  // namespace weft::stages
