// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A topology as a drawing: tiers are rows, hosts at the bottom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::inc_tool {

struct DrawnNode {
  std::string name;
  unsigned tier = 0;
  bool up = true;
  double used = 0;           ///< part of its memory that groups have
  std::uint32_t groups = 0;  ///< of a switch
};

struct DrawnLink {
  std::string lower, upper;
  std::uint32_t groups = 0;
};

/// An SVG file. Links that groups have are darker; what is down is grey and dashed.
[[nodiscard]] std::string draw_topology(const std::vector<DrawnNode>& nodes, const std::vector<DrawnLink>& links);

}  // namespace weft::inc_tool
