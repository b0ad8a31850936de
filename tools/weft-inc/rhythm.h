// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a group communicates: what the policy `temporal` makes use of.
#pragma once

#include <cstdint>

namespace CLI {
class App;
}

namespace weft::inc_tool {

struct Rhythm {
  double duty = 0;              ///< of the time, up to 1; 0: as the manager's file says
  std::uint32_t period_us = 0;  ///< 0: not known
  std::uint32_t job = 0;        ///< 0: of none

  [[nodiscard]] std::uint32_t duty_per_mille() const noexcept { return static_cast<std::uint32_t>(duty * 1000 + 0.5); }
};

void add_rhythm(CLI::App& to, Rhythm& rhythm);

}  // namespace weft::inc_tool
