// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/host_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace weft::inc::comm {
namespace {

TEST(HostSchedule, PartnersAreEachOthers) {
  for (std::uint32_t n = 1; n <= 40; ++n) {
    EXPECT_EQ(partners(n), n == 1 ? 0 : 2 * static_cast<std::uint32_t>(std::bit_width(n - 1)));
    for (std::uint32_t r = 0; r < n; ++r) {
      for (Partner p = 0; p < partners(n); ++p) {
        EXPECT_EQ(partner_rank(partner_rank(r, n, p), n, opposite(p)), r);
        EXPECT_NE(partner_rank(r, n, p), r);
      }
    }
  }
}

/// What one rank sends is what the other expects, message for message, on every connection.
TEST(HostSchedule, EveryPartHasItsOtherEnd) {
  for (const std::uint32_t n : {2u, 3u, 4u, 5u, 7u, 8u, 16u, 33u}) {
    for (std::size_t c = 0; c < kCollectives; ++c) {
      for (const auto algorithm : {HostAlgorithm::ring, HostAlgorithm::tree}) {
        for (const std::uint32_t root : {0u, n - 1}) {
          std::vector<Schedule> all;
          for (std::uint32_t r = 0; r < n; ++r) {
            all.push_back(host_schedule(static_cast<Collective>(c), algorithm, r, n, root, 7, 4));
          }
          for (std::uint32_t r = 0; r < n; ++r) {
            for (Partner p = 0; p < partners(n); ++p) {
              std::vector<std::pair<std::uint64_t, std::uint64_t>> sent, expected;
              for (const Step& s : all[r]) {
                if (s.send.active && s.send.partner == p) sent.emplace_back(s.send.offset, s.send.bytes);
              }
              for (const Step& s : all[partner_rank(r, n, p)]) {
                if (s.receive.active && s.receive.partner == opposite(p)) {
                  expected.emplace_back(s.receive.offset, s.receive.bytes);
                }
              }
              EXPECT_EQ(sent, expected) << n << " ranks, collective " << c << ", rank " << r << ", partner " << p;
            }
          }
        }
      }
    }
  }
}

/// What a step says of a rank's contribution is what the steps before it have not written to.
TEST(HostSchedule, WhatARankGivesIsWhatNothingHasBeenWrittenTo) {
  const auto written = [](const Schedule& all, std::size_t before, const Step::Part& part) {
    return std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before), [&](const Step& s) {
      return s.receive.active && part.offset < s.receive.offset + s.receive.bytes &&
             s.receive.offset < part.offset + part.bytes;
    });
  };
  for (const std::uint32_t n : {2u, 3u, 4u, 5u, 8u, 13u}) {
    for (const Collective c :
         {Collective::allreduce, Collective::reduce, Collective::reduce_scatter, Collective::allgather}) {
      for (const auto algorithm : {HostAlgorithm::ring, HostAlgorithm::tree}) {
        for (std::uint32_t r = 0; r < n; ++r) {
          // Fewer elements than ranks, too.
          for (const std::uint64_t elements : {1u, 7u, 40u}) {
            const Schedule all = host_schedule(c, algorithm, r, n, n - 1, elements, 4);
            for (std::size_t i = 0; i < all.size(); ++i) {
              const Step& s = all[i];
              if (s.send.active) {
                EXPECT_EQ(s.sends_own, !written(all, i, s.send)) << to_string(c) << n << r << i;
              }
              if (s.receive.active) {
                EXPECT_EQ(s.adds_own, s.combine && !written(all, i, s.receive)) << to_string(c) << n << r << i;
              }
              const bool stays = c == Collective::allgather && s.send.active && !written(all, all.size(), s.send);
              EXPECT_EQ(s.keeps_own, stays) << to_string(c) << n << r << i;
            }
          }
        }
      }
    }
  }
}

TEST(HostSchedule, ARingFillsLinksEvenly) {
  const std::uint64_t elements = 1000;
  for (std::uint32_t r = 0; r < 8; ++r) {
    std::uint64_t bytes = 0;
    const Schedule steps = host_schedule(Collective::allreduce, HostAlgorithm::ring, r, 8, 0, elements, 4);
    for (const Step& s : steps) bytes += s.send.bytes;
    EXPECT_EQ(steps.size(), 14u);
    EXPECT_EQ(bytes, 2 * 7 * elements * 4 / 8);
  }
}

TEST(HostSchedule, ATreeIsAsDeepAsItMustBe) {
  for (const std::uint32_t n : {2u, 5u, 8u, 9u}) {
    for (std::uint32_t r = 0; r < n; ++r) {
      const auto log = static_cast<std::size_t>(std::bit_width(n - 1));
      EXPECT_LE(host_schedule(Collective::allreduce, HostAlgorithm::tree, r, n, 0, 1, 4).size(), 2 * log);
      EXPECT_EQ(host_schedule(Collective::barrier, HostAlgorithm::ring, r, n, 0, 0, 0).size(), log);
    }
  }
}

}  // namespace
}  // namespace weft::inc::comm
