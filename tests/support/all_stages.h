// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "collectives/stage/stages.h"
#include "switch/stages/stages.h"

namespace weft::testing {

/// The stages of the program, for as long as the test runs.
inline const pipeline::Registry& all_stages() {
  static const pipeline::Registry kRegistry = [] {
    pipeline::Registry made;
    stages::register_all(made);
    inc::register_stages(made);
    return made;
  }();
  return kRegistry;
}

}  // namespace weft::testing
