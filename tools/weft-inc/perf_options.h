// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "tools/weft-inc/perf.h"

namespace CLI {
class App;
}

namespace weft::inc_tool {

/// The flags of `weft-inc perf`.
void add_perf_options(CLI::App& to, PerfOptions& options);

}  // namespace weft::inc_tool
