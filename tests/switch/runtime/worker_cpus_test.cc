// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/worker_cpus.h"

#include <gmock/gmock.h>

#include <vector>

namespace weft {
namespace {

using ::testing::ElementsAre;

// CPUs 0 to 7, of which the odd ones are on node 1.
const std::vector<unsigned> kCpus{0, 1, 2, 3, 4, 5, 6, 7};

WorkerCpus choose(const config::WorkersConfig& workers, const std::vector<unsigned>& allowed = kCpus) {
  return choose_worker_cpus(workers, allowed, [](unsigned cpu) { return static_cast<int>(cpu % 2); });
}

TEST(WorkerCpus, OneWorkerGetsTheLastCpu) {
  EXPECT_THAT(choose({}).cpus, ElementsAre(7u));
  EXPECT_THAT(choose({}, {2}).cpus, ElementsAre(2u));
}

TEST(WorkerCpus, WorkersThatAreOnlyCountedGetTheLastCpus) {
  EXPECT_THAT(choose({.count = 3}).cpus, ElementsAre(5u, 6u, 7u));
  EXPECT_EQ(choose({.count = 8}).cpus, kCpus);
}

TEST(WorkerCpus, NamedOnesKeepTheirOrder) {
  EXPECT_THAT(choose({.cores = {5, 1, 3}}).cpus, ElementsAre(5u, 1u, 3u));
  EXPECT_THAT(choose({.cores = {5, 1, 3}, .count = 2}).cpus, ElementsAre(5u, 1u));
}

TEST(WorkerCpus, OfANodeOnly) {
  EXPECT_THAT(choose({.count = 2, .numa = 0}).cpus, ElementsAre(4u, 6u));
  EXPECT_THAT(choose({.numa = 1}).cpus, ElementsAre(7u));
  EXPECT_THAT(choose({.cores = {1, 3}, .numa = 1}).cpus, ElementsAre(1u, 3u));
}

TEST(WorkerCpus, WhatIsNotThereIsNamed) {
  EXPECT_EQ(choose({.count = 3}, {4, 6}).error, "workers.count is 3, but the process may use 2 CPUs (4,6)");
  EXPECT_EQ(choose({.count = 2}, {4}).error, "workers.count is 2, but the process may use 1 CPU (4)");
  EXPECT_EQ(choose({.count = 5, .numa = 1}).error,
            "workers.count is 5, but the process may use 4 CPUs on NUMA node 1 (1,3,5,7)");
  EXPECT_EQ(choose({.numa = 2}, {0, 1}).error,
            "workers.numa is 2, but the CPUs that the process may use, 0,1, are on other nodes");
  EXPECT_EQ(choose({.cores = {0, 9}}).error, "workers.cores names CPU 9, but the process may use CPUs 0,1,2,3,4,5,6,7");
  EXPECT_EQ(choose({.cores = {9}, .cores_key = "eal.workers"}, {0}).error,
            "eal.workers names CPU 9, but the process may use CPUs 0");
  EXPECT_EQ(choose({.cores = {1, 2}, .numa = 1}).error,
            "workers.numa is 1, but workers.cores names CPU 2, which is on NUMA node 0");
  EXPECT_TRUE(choose({.count = 9}).cpus.empty());
}

TEST(WorkerCpus, TheKernelKnowsTheNodeOfACpu) {
  EXPECT_GE(numa_node_of_cpu(0), 0);
  EXPECT_EQ(numa_node_of_cpu(1'000'000), 0);
}

}  // namespace
}  // namespace weft
