// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A plot as SVG, for a page that loads nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::experiment {

using Points = std::vector<std::pair<double, double>>;

/// What an axis counts.
struct Axis {
  std::string label;   ///< with the unit
  bool whole = false;  ///< whole things, which have no fractions
};

/// One curve from zero upwards. Both axes begin at 0; where everything is 0 they end at 1. A plot without points says
/// so.
[[nodiscard]] std::string line_chart(const Points& points, const Axis& x, const Axis& y);

/// The beginning of a page that loads nothing, up to its heading: colours for light and dark, font and width.
/// @param title  plain text
/// @param style  more rules of CSS
[[nodiscard]] std::string page_head(const std::string& title, const std::string& style);

/// A coordinate of an SVG: a tenth of a pixel is seen by nobody.
[[nodiscard]] std::string pixel(double coordinate);

/// Text inside of HTML.
[[nodiscard]] std::string escape_html(const std::string& text);

/// Four significant digits; whole numbers in full, in groups of three.
[[nodiscard]] std::string readable(double value);

}  // namespace weft::experiment
