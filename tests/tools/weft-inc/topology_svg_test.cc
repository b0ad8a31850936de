// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/topology_svg.h"

#include <gmock/gmock.h>

#include <string_view>

namespace weft::inc_tool {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(TopologySvg, HasEveryNodeAndLink) {
  const std::string svg =
      draw_topology({{"root", 2, true, 0.25, 3}, {"leaf<1>", 1, false, 0, 0}, {"h1", 0, true, 0, 0}},
                    {{"h1", "leaf<1>", 0}, {"leaf<1>", "root", 2}});
  EXPECT_EQ(count(svg, "<rect "), 3u);
  EXPECT_EQ(count(svg, "<line "), 2u);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 1u) << "leaf1 is down";
  EXPECT_EQ(count(svg, "stroke-width=\"3\""), 1u) << "one link has groups";
  EXPECT_THAT(svg, HasSubstr("3 groups, 25 %"));
  EXPECT_THAT(svg, Not(HasSubstr("leaf<")));
  EXPECT_THAT(svg, HasSubstr("leaf&#60;1&#62;"));
}

TEST(TopologySvg, UpperTiersAreAbove) {
  const std::string svg = draw_topology({{"root", 1, true, 0, 0}, {"h1", 0, true, 0, 0}}, {{"h1", "root", 0}});
  // From the host to the switch.
  EXPECT_THAT(svg, HasSubstr("y1=\"160\""));
  EXPECT_THAT(svg, HasSubstr("y2=\"40\""));
}

TEST(TopologySvg, NothingIsADrawingToo) {
  EXPECT_THAT(draw_topology({}, {}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace weft::inc_tool
