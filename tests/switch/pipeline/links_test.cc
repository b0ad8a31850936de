// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/links.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace weft::pipeline {
namespace {

TEST(Links, CountsPathsThatAreDownForAnyReason) {
  Links links(3);
  const auto begin = links.generation();
  EXPECT_TRUE(links.all_paths_up());
  EXPECT_TRUE(links.set_up(1, false));
  EXPECT_FALSE(links.set_up(1, false));
  EXPECT_TRUE(links.set_excluded(1, true));
  EXPECT_FALSE(links.path_up(1));
  EXPECT_TRUE(links.set_up(1, true));
  EXPECT_TRUE(links.up(1));
  EXPECT_FALSE(links.path_up(1)) << "it is still excluded";
  EXPECT_FALSE(links.all_paths_up());
  EXPECT_TRUE(links.set_excluded(1, false));
  EXPECT_TRUE(links.all_paths_up());
  EXPECT_EQ(links.generation() - begin, 4U) << "what changed nothing does not count";
}

// Who sees a new generation also sees what led to it: stages keep decisions until the number changes.
TEST(Links, AGenerationBringsWhatWasChangedBeforeIt) {
  Links links(2);
  constexpr std::uint32_t kChanges = 2000;
  std::array<std::uint32_t, kChanges + 2> written{};  // no atomic: only the generation orders it
  const auto begin = links.generation();
  std::thread reader([&] {
    std::uint32_t seen = 0;
    while (seen < kChanges) {
      seen = links.generation() - begin;
      for (std::uint32_t i = 1; i <= seen; i += 97) ASSERT_EQ(written[i], i);
    }
    EXPECT_TRUE(links.up(0));
  });
  for (std::uint32_t i = 1; i <= kChanges; ++i) {
    written[i] = i;
    links.set_up(0, i % 2 == 0);
  }
  reader.join();
}

// An operator excludes a port while its link flaps: neither loses the other's word, and the count stays right.
TEST(Links, TwoWritersOfOnePortLoseNothing) {
  Links links(1);
  std::atomic<bool> go{false};
  const auto flap = [&](auto set) {
    while (!go) {
    }
    for (int i = 0; i < 20'001; ++i) set(i % 2 == 0);
  };
  std::thread one([&] { flap([&](bool on) { links.set_up(0, !on); }); });
  std::thread two([&] { flap([&](bool on) { links.set_excluded(0, on); }); });
  go = true;
  one.join();
  two.join();
  EXPECT_FALSE(links.up(0));
  EXPECT_TRUE(links.excluded(0));
  links.set_up(0, true);
  links.set_excluded(0, false);
  EXPECT_TRUE(links.all_paths_up());
}

}  // namespace
}  // namespace weft::pipeline
