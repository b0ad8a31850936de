// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/depth_plot.h"

#include <gmock/gmock.h>

namespace weft::weftctl {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kPeriodNs = 100'000;

// The y of every point of the first band, in the order in which it is drawn.
std::vector<double> heights(const std::string& svg) {
  std::vector<double> out;
  const std::size_t begin = svg.find("<path d=\"");
  if (begin == std::string::npos) return out;
  const std::string path = svg.substr(begin + 9, svg.find('"', begin + 9) - begin - 9);
  for (std::size_t at = path.find(' '); at != std::string::npos; at = path.find(' ', at + 1)) {
    out.push_back(std::stod(path.substr(at + 1)));
  }
  return out;
}

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

DepthPlot plot_of(const std::vector<std::uint64_t>& depths) {
  DepthPlot plot({"tor/p1/3"});
  std::uint64_t time = 5'000'000'000;
  for (const std::uint64_t depth : depths) plot.add(time += kPeriodNs, std::span(&depth, 1));
  return plot;
}

TEST(DepthPlot, AQueueThatWasFullForOneOfAMillionSamplesStillShows) {
  std::vector<std::uint64_t> depths(1'000'000, 10);
  depths[777'777] = 50'000;
  const std::string svg = plot_of(depths).svg("t");
  EXPECT_THAT(svg, HasSubstr("tor/p1/3  peak 50000"));
  const auto y = heights(svg);
  const double highest = *std::min_element(y.begin(), y.end());
  EXPECT_EQ(std::count(y.begin(), y.end(), highest), 1);
  EXPECT_GT(*std::max_element(y.begin(), y.end()) - highest, 300);
}

TEST(DepthPlot, APictureOfAnyNumberOfSamplesIsSmall) {
  std::vector<std::uint64_t> depths;
  for (std::uint64_t i = 0; i < 3'000'000; ++i) depths.push_back(i * 7919 % 100'003);
  EXPECT_LT(plot_of(depths).svg("t").size(), 200'000U);
}

TEST(DepthPlot, ABandIsInterruptedWhereNothingWasSampled) {
  DepthPlot plot({"q"});
  const std::uint64_t depth = 100;
  for (std::uint64_t i = 0; i < 1000; ++i) plot.add((i < 500 ? 0 : 50'000'000) + i * kPeriodNs, std::span(&depth, 1));
  EXPECT_EQ(occurrences(plot.svg("t"), "Z"), 2U);
  EXPECT_EQ(occurrences(plot_of(std::vector<std::uint64_t>(1000, 100)).svg("t"), "Z"), 1U);
}

TEST(DepthPlot, TheHighestEightQueuesAreDrawnAndEmptyOnesAreNot) {
  std::vector<std::string> names;
  std::vector<std::uint64_t> depths;
  for (int i = 0; i < 12; ++i) {
    names.push_back("tor/p" + std::to_string(i) + "/0");
    depths.push_back(static_cast<std::uint64_t>(i) * 100);
  }
  DepthPlot plot(names);
  plot.add(0, depths);
  plot.add(kPeriodNs, depths);
  const std::string svg = plot.svg("t");
  EXPECT_EQ(occurrences(svg, "<path"), 8U);
  for (const int i : {0, 1, 2, 3}) EXPECT_THAT(svg, Not(HasSubstr("tor/p" + std::to_string(i) + "/0 ")));
  for (const int i : {4, 7, 11}) EXPECT_THAT(svg, HasSubstr("tor/p" + std::to_string(i) + "/0 "));
}

TEST(DepthPlot, WithoutSamplesOrBytesThePictureSaysSo) {
  EXPECT_THAT(plot_of({}).svg("t"), HasSubstr("no sample was taken"));
  EXPECT_THAT(plot_of({0, 0, 0}).svg("a < b"), HasSubstr("all queues were empty all the time"));
  EXPECT_THAT(plot_of({0}).svg("a < b"), HasSubstr("a &lt; b"));
}

TEST(DepthReader, LinesMayBeCutAnywhere) {
  const std::string text = "time_ns,a/b/0,a/b/1\n1000,5,0\n2000,7,3\n3000,0,0\n";
  DepthReader whole;
  whole.read(text);
  ASSERT_NE(whole.plot(), nullptr);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    DepthReader parts;
    parts.read(std::string_view(text).substr(0, cut));
    parts.read(std::string_view(text).substr(cut));
    ASSERT_NE(parts.plot(), nullptr);
    EXPECT_EQ(parts.plot()->svg("t"), whole.plot()->svg("t"));
  }
  EXPECT_THAT(whole.plot()->svg("t"), HasSubstr("a/b/1  peak 3"));
  EXPECT_EQ(DepthReader().plot(), nullptr);
}

}  // namespace
}  // namespace weft::weftctl
