// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config.h"
#include "tests/switch/stages/pnp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

std::string mistakes(const std::string& text) {
  config::Diagnostics diagnostics;
  EXPECT_FALSE(config::load_switch(text, weft::testing::all_stages(), diagnostics).has_value());
  return diagnostics.to_string();
}

TEST(PnpOptions, MistakesAreNamed) {
  EXPECT_THAT(mistakes(yaml("cnp_interval_us: 5")), HasSubstr("remote: expected prefixes"));
  EXPECT_THAT(mistakes(yaml("remote: [10.2.0.1/16]")), HasSubstr("remote: expected 10.2.0.0/16, found 10.2.0.1/16"));
  EXPECT_THAT(mistakes(yaml("handshake_monitor: passive, telemetry: true")), HasSubstr("telemetry: needs 'remote'"));
  EXPECT_THAT(mistakes(yaml(kRemote + ", trigger: qcn, telemetry: true")), HasSubstr("trigger: qcn sends CNPs"));
  EXPECT_THAT(mistakes(yaml(kRemote + ", trigger: qcn, qcn_queue_kb: 0")), HasSubstr("qcn_queue_kb"));
  EXPECT_THAT(mistakes("name: s\nports: [ { name: p1, type: \"null\" } ]\npipeline: [ parse, rdma_track, pnp: { " +
                       kRemote + " }, l2 ]\n"),
              HasSubstr("before 'l3', which the pipeline does not have: its CNPs are routed by it"));
}

}  // namespace
}  // namespace weft::stages::testing
