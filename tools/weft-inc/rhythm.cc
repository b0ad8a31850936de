// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/rhythm.h"

#include <CLI/CLI.hpp>

namespace weft::inc_tool {

void add_rhythm(CLI::App& to, Rhythm& r) {
  to.add_option(
        "--duty", r.duty,
        "Part of the time in which it communicates, 0.001 to 1; 1: it wants memory of its own, as all of modes i "
        "and iii have; default: as the manager's file says (policy temporal)")
      ->check(CLI::Range(0.001, 1.0));
  to.add_option("--period-us", r.period_us, "It communicates once in so many microseconds, in one burst")
      ->check(CLI::Range(1, 1'000'000'000));
  to.add_option("--job", r.job, "Groups with the same number and period are staggered")
      ->check(CLI::Range(1u, UINT32_MAX));
}

}  // namespace weft::inc_tool
