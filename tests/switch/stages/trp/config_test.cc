// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config.h"
#include "tests/switch/stages/trp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

std::string mistakes(const std::string& trp) {
  config::Diagnostics diagnostics;
  EXPECT_FALSE(config::load_switch(yaml(trp), weft::testing::all_stages(), diagnostics).has_value());
  return diagnostics.to_string();
}

TEST(TrpOptions, MistakesAreNamed) {
  EXPECT_THAT(mistakes(""), HasSubstr("remote"));
  EXPECT_THAT(mistakes("remote: [10.2.0.1/16]"), HasSubstr("remote: expected 10.2.0.0/16, found 10.2.0.1/16"));
  EXPECT_THAT(mistakes(kRemote + ", cache: 1000"), HasSubstr("cache: must be a power of two"));
  EXPECT_THAT(mistakes(kRemote + ", mode: pace, recovery: direct"),
              HasSubstr("recovery: direct is for mode recirculate"));
  EXPECT_THAT(mistakes(kRemote + ", loop_ecn: { kmin_kb: 3, kmax_kb: 2 }"), HasSubstr("expected at least kmin_kb"));
  EXPECT_THAT(mistakes(kRemote + ", mode: pace, loop_ecn: { kmin_kb: 1, kmax_kb: 2 }"),
              HasSubstr("loop_ecn: is for mode recirculate"));
  EXPECT_THAT(mistakes(kRemote + ", signals: [rtt], state_per: pair"),
              HasSubstr("round trips (signals: rtt) are those of single flows"));
  EXPECT_THAT(mistakes(kRemote + ", signals: []"), HasSubstr("signals"));
  EXPECT_THAT(mistakes(kRemote + ", signals: [cnps]"), HasSubstr("signals"));
  EXPECT_THAT(mistakes(kRemote + ", signal_queue_kb: 3000"), HasSubstr("signal_queue_kb"));
}

}  // namespace
}  // namespace weft::stages::testing
