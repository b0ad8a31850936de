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
              ElementsAre(StartsWith("packets between IPv4 addresses belong to the workers that cards"),
                          StartsWith("packets over IPv6 belong to workers by a hash that cards do not have: those that "
                                     "a card brings to another worker are handed over in software")));
  EXPECT_THAT(describe_steering({SteerMode::qp, true}),
              ElementsAre(HasSubstr("IPv4"), HasSubstr("IPv6"),
                          AllOf(StartsWith("steer: qp"), HasSubstr("are handed over in software"))));
}

TEST(Placement, WithoutACardThatBringsPacketsToWorkersNothingIsSaid) {
  EXPECT_THAT(describe_steering({SteerMode::ip_pair, false}), IsEmpty());
  EXPECT_THAT(describe_steering({SteerMode::qp, false}), IsEmpty());
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
