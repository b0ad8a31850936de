// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Whether flows that are drawn are those that an experiment asks for: how many, how large, how far apart. Each number
// has a standard deviation that is known; what is drawn must be within four of them. Seeds are fixed, so that it is or
// is not for good.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/sim/workload.h"

namespace weft::sim {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kSigmas = 4;
constexpr std::uint32_t kHosts = 64;
constexpr double kFlows = 200'000;  // that are wanted
constexpr std::uint64_t kLinkBps = 100'000'000'000;

Points points_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  Points points;
  for (double bytes = 0, percent = 0; file >> bytes >> percent;) points.emplace_back(bytes, percent);
  return points;
}

struct Moments {
  double mean = 0, deviation = 0;
};

// Of a distribution function that is linear between points: a mixture of uniform distributions.
Moments moments_of(const Points& points) {
  double first = 0, second = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double share = (points[i].second - points[i - 1].second) / 100;
    const double a = points[i - 1].first, b = points[i].first;
    first += share * (a + b) / 2;
    second += share * (a * a + a * b + b * b) / 3;
  }
  return {first, std::sqrt(second - first * first)};
}

Moments moments_of(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size()))};
}

// The share of sizes below each point. Sizes are whole bytes, rounded down, which changes nothing of "below".
void expect_shares(const Points& points, std::vector<double> sizes) {
  const auto n = static_cast<double>(sizes.size());
  std::sort(sizes.begin(), sizes.end());
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto [bytes, percent] = points[i];
    if (bytes < 2 || bytes == points[i - 1].first) continue;  // none is below one byte; a step has its lower end
    const double share = percent / 100;
    const auto below = static_cast<double>(std::lower_bound(sizes.begin(), sizes.end(), bytes) - sizes.begin());
    EXPECT_NEAR(below / n, share, kSigmas * std::sqrt(share * (1 - share) / n) + 1e-9) << "below " << bytes;
  }
}

void expect_receivers(const std::vector<Flow>& flows) {
  std::vector<double> received(kHosts);
  for (const Flow& flow : flows) {
    ASSERT_LT(flow.to, kHosts);
    ASSERT_NE(flow.to, flow.from);
    ++received[flow.to];
  }
  const double each = static_cast<double>(flows.size()) / kHosts;
  for (std::uint32_t host = 0; host < kHosts; ++host) {
    EXPECT_NEAR(received[host], each, kSigmas * std::sqrt(each)) << "host " << host;
  }
}

// Between the flows of each host.
std::vector<double> gaps_of(const std::vector<Flow>& flows) {
  std::vector<double> gaps, last(kHosts);
  for (const Flow& flow : flows) {
    const auto start = static_cast<double>(flow.start);
    gaps.push_back(start - last[flow.from]);
    last[flow.from] = start;
  }
  return gaps;
}

void expect_as_asked(const Points& points, double load) {
  const Moments asked = moments_of(points);
  const SizeDistribution distribution(points);
  ASSERT_NEAR(distribution.mean(), asked.mean, asked.mean * 1e-12);
  const double gap_ns = asked.mean * 8e9 / (load * static_cast<double>(kLinkBps));
  const auto duration = static_cast<TimeNs>(kFlows * gap_ns / kHosts);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t host = 0; host < kHosts; ++host) seeds.push_back(1000 + host);
  const auto flows = poisson_flows(seeds, distribution, {load, kLinkBps, duration});

  const auto n = static_cast<double>(flows.size());
  EXPECT_NEAR(n, kFlows, kSigmas * std::sqrt(kFlows)) << "a Poisson process";
  std::vector<double> sizes;
  double bytes = 0;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    ASSERT_LT(flows[i].start, duration);
    ASSERT_TRUE(i == 0 || flows[i - 1].start <= flows[i].start) << "sorted";
    sizes.push_back(static_cast<double>(flows[i].bytes));
    bytes += sizes.back();
  }
  // Rounding down takes up to one byte.
  EXPECT_NEAR(moments_of(sizes).mean, asked.mean - 0.5, kSigmas * asked.deviation / std::sqrt(n) + 0.5);
  expect_shares(points, sizes);
  const double relative = asked.deviation / asked.mean;
  const double offered = bytes * 8e9 / (static_cast<double>(duration) * kHosts * static_cast<double>(kLinkBps));
  EXPECT_NEAR(offered / load, 1, kSigmas * std::sqrt((1 + relative * relative) / kFlows) + 1 / asked.mean);
  // A host's last gap is cut off: one of some thousands.
  const Moments gap = moments_of(gaps_of(flows));
  EXPECT_NEAR(gap.mean / gap_ns, 1, kSigmas / std::sqrt(n));
  EXPECT_NEAR(gap.deviation / gap.mean, 1, kSigmas / std::sqrt(n)) << "exponential";
  expect_receivers(flows);
}

TEST(PoissonFlows, AreAsManyAsLargeAndAsFarApartAsAsked) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/bench/papers/cdf")) {
    if (entry.path().extension() != ".txt") continue;
    ++files;
    const Points points = points_of(entry.path());
    ASSERT_GT(points.size(), 2u) << entry.path();
    for (const double load : {0.25, 0.8}) {
      SCOPED_TRACE(entry.path().filename().string() + ", load " + std::to_string(load));
      expect_as_asked(points, load);
    }
  }
  EXPECT_GE(files, 6u);
}

// A distribution with a step: half of all flows have exactly one size.
TEST(SizeDistribution, AStepIsOneSize) {
  const SizeDistribution sizes({{100, 0}, {200, 50}, {200, 100}});
  EXPECT_DOUBLE_EQ(sizes.mean(), 175);
  Rng rng(1);
  int at_step = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bytes = sizes.draw(rng);
    ASSERT_TRUE(bytes >= 100 && bytes <= 200) << bytes;
    at_step += bytes == 200 ? 1 : 0;
  }
  EXPECT_NEAR(at_step, 5000, kSigmas * 50);
}

}  // namespace
}  // namespace weft::sim
