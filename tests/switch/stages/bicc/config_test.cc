// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config.h"
#include "tests/switch/stages/bicc/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

std::string bicc_mistakes(const std::string& bicc) {
  config::Diagnostics diagnostics;
  EXPECT_FALSE(config::load_switch(yaml(bicc), weft::testing::all_stages(), diagnostics).has_value());
  return diagnostics.to_string();
}

TEST(BiccOptions, MistakesAreNamed) {
  EXPECT_THAT(bicc_mistakes(""), HasSubstr("remote"));
  EXPECT_THAT(bicc_mistakes("remote: [10.2.0.1/16]"), HasSubstr("remote: expected 10.2.0.0/16, found 10.2.0.1/16"));
  EXPECT_THAT(bicc_mistakes(kRemote + ", in_flight_kb: 0"), HasSubstr("in_flight_kb"));
  EXPECT_THAT(bicc_mistakes(kRemote + ", stale_us: 0"), HasSubstr("stale_us"));
  EXPECT_THAT(bicc_mistakes(kRemote + ", in_flight: 3"), HasSubstr("in_flight_kb"));
}

}  // namespace
}  // namespace weft::stages::testing
