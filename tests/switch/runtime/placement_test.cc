// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/placement.h"

#include <gmock/gmock.h>

#include <array>

namespace weft {
namespace {

using pipeline::SteerMode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Placement, WhatCardsCannotPlaceIsSaid) {
  EXPECT_THAT(describe_steering({SteerMode::ip_pair, true}),
              ElementsAre(StartsWith("packets belong to the workers that cards with RSS bring them to")));
  EXPECT_THAT(describe_steering({SteerMode::qp, true}),
              ElementsAre(HasSubstr("cards with RSS"),
                          AllOf(StartsWith("steer: qp"), HasSubstr("are handed over in software"))));
}

TEST(Placement, WithoutACardThatBringsPacketsToWorkersNothingIsSaid) {
  EXPECT_THAT(describe_steering({SteerMode::ip_pair, false}), IsEmpty());
  EXPECT_THAT(describe_steering({SteerMode::qp, false}), IsEmpty());
}

std::vector<std::string> texts(const std::vector<PlacementLine>& lines) {
  std::vector<std::string> out;
  for (const PlacementLine& line : lines) out.push_back((line.warning ? "warning: " : "") + line.text);
  return out;
}

TEST(Placement, EveryWorkerIsSaidWithItsPorts) {
  constexpr std::array<PlacedWorker, 3> kWorkers{{{4, 0}, {6, 0}, {9, 1}}};
  const std::vector<PlacedPort> ports{{"tor/a", 0, 0}, {"tor/b", 2, 1}, {"spine/c", 0, -1}};
  EXPECT_THAT(texts(describe_placement(kWorkers, ports)),
              ElementsAre("worker 0 on CPU 4, NUMA node 0: tor/a, spine/c", "worker 1 on CPU 6, NUMA node 0: no port",
                          "worker 2 on CPU 9, NUMA node 1: tor/b"));
}

TEST(Placement, PortsFarFromTheirWorkerAreWarnedOf) {
  constexpr std::array<PlacedWorker, 2> kWorkers{{{4, 0}, {9, 1}}};
  const std::vector<PlacedPort> ports{{"tor/a", 0, 1}, {"tor/b", 0, 0}, {"tor/c", 0, 1}, {"tor/d", 1, 2}};
  EXPECT_THAT(texts(describe_placement(kWorkers, ports)),
              ElementsAre("worker 0 on CPU 4, NUMA node 0: tor/a, tor/b, tor/c",
                          "warning: tor/a, tor/c are on NUMA node 1, and served by worker 0 on CPU 4, NUMA node 0: "
                          "every packet crosses over; give such a port 'worker: 1', which is on its node",
                          "worker 1 on CPU 9, NUMA node 1: tor/d",
                          "warning: tor/d is on NUMA node 2, and served by worker 1 on CPU 9, NUMA node 1: every "
                          "packet crosses over; let a worker run on a CPU of that node (workers.cores)"));
}

TEST(Placement, OneWorkerIsWarnedOfFarPortsToo) {
  constexpr std::array<PlacedWorker, 1> kWorkers{{{4, 0}}};
  const std::vector<PlacedPort> ports{{"tor/a", 0, 1}};
  EXPECT_THAT(texts(describe_placement(kWorkers, ports)),
              ElementsAre("worker 0 on CPU 4, NUMA node 0: tor/a",
                          AllOf(StartsWith("warning: tor/a is on NUMA node 1"), HasSubstr("workers.cores"))));
}

TEST(Placement, ManyPortsAreCounted) {
  constexpr std::array<PlacedWorker, 1> kWorkers{{{4, 0}}};
  std::vector<PlacedPort> ports;
  for (int i = 0; i < 10; ++i) ports.push_back({"tor/p" + std::to_string(i), 0, -1});
  EXPECT_THAT(texts(describe_placement(kWorkers, ports)),
              ElementsAre("worker 0 on CPU 4, NUMA node 0: tor/p0, tor/p1, tor/p2, tor/p3, tor/p4, tor/p5, tor/p6, "
                          "tor/p7 and 2 more"));
}

TEST(Placement, WorkersThatHaveNotBegunAreNamedWithTheirCpus) {
  constexpr std::array<std::uint64_t, 3> kLoops{7, 0, 1};
  constexpr std::array<unsigned, 3> kCpus{4, 6, 8};
  EXPECT_THAT(describe_not_begun(kLoops, kCpus, 5),
              ElementsAre(AllOf(StartsWith("worker 1 on CPU 6 has not begun after 5 s"), HasSubstr("handoff_full"))));
  constexpr std::array<std::uint64_t, 3> kAll{7, 1, 1};
  EXPECT_THAT(describe_not_begun(kAll, kCpus, 5), IsEmpty());
}

}  // namespace
}  // namespace weft
