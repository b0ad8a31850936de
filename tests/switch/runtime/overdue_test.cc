// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/overdue.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <thread>

namespace weft {
namespace {

using testing::IsEmpty;

class OverdueTest : public testing::Test {
 protected:
  OverdueTest() {
    auto logger = std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(logger);
  }
  ~OverdueTest() override { spdlog::set_default_logger(before_); }

  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(OverdueTest, SaysOnceWhatTakesTooLong) {
  {
    const Overdue overdue(1'000'000, "it takes long");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_EQ(text_.str(), "error: it takes long\n");
}

TEST_F(OverdueTest, WhatEndsInTimeIsNotSpokenOf) {
  const auto begin = std::chrono::steady_clock::now();
  { const Overdue overdue(3'600'000'000'000, "it takes long"); }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  EXPECT_THAT(text_.str(), IsEmpty());
}

}  // namespace
}  // namespace weft
