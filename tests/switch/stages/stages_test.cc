// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/stages.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "tests/support/all_stages.h"

namespace weft::stages {
namespace {

using pipeline::CounterInfo;
using pipeline::CounterKind;
using pipeline::StageType;

const CounterInfo* counter(std::string_view stage, std::string_view name) {
  for (const CounterInfo& info : testing::all_stages().find(stage)->counters) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

TEST(Stages, EveryCounterHasAUnitAndASentence) {
  for (const StageType& type : testing::all_stages().types()) {
    std::set<std::string> names;
    ASSERT_FALSE(type.counters.empty()) << type.name;
    for (const CounterInfo& info : type.counters) {
      const std::string where = type.name + "." + info.name;
      EXPECT_TRUE(names.insert(info.name).second) << where;
      EXPECT_THAT(info.name, ::testing::MatchesRegex("[a-z][a-z0-9_]*"));
      EXPECT_THAT(info.unit, ::testing::MatchesRegex("[a-z]+")) << where;
      ASSERT_GT(info.help.size(), 15u) << where;
      EXPECT_TRUE(info.help.front() >= 'A' && info.help.front() <= 'Z') << where;
      EXPECT_EQ(info.help.back(), '.') << where;
    }
  }
}

TEST(Stages, WhatIsCountedAsItStandsNowIsAGauge) {
  EXPECT_EQ(counter("rdma_track", "qps_active")->kind, CounterKind::gauge);
  EXPECT_EQ(counter("nack_filter", "qps_active")->kind, CounterKind::gauge);
  EXPECT_EQ(counter("rdma_track", "qps_aged")->kind, CounterKind::counter);
  EXPECT_EQ(counter("rdma_track", "bytes")->unit, "bytes");
}

}  // namespace
}  // namespace weft::stages
