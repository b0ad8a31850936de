// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/set.h"

#include <gmock/gmock.h>

#include "switch/config/config.h"
#include "switch/stages/impair/config.h"
#include "switch/stages/impair/stage.h"
#include "switch/stages/stages.h"
#include "tests/switch/stages/impair/packets.h"

namespace weft::stages {
namespace {

using pipeline::OptionChange;
using testing::HasSubstr;

constexpr const char* kSwitch = R"(name: tor
ports:
  - { name: p1, type: "null" }
  - { name: p2, type: "null" }
pipeline:
  - parse
  - impair: { rules: [ { name: lossy, loss: 1, match: { dest_qp: 17 } }, { delay_us: 5, enabled: false } ] }
  - l2
)";

class ImpairSetTest : public testing::Test {
 protected:
  ImpairSetTest()
      : info(load()), options(info.pipeline[1].options), stage(ImpairUnit(make_impair_rules(options, info)), 16) {}
  static pipeline::SwitchInfo load() {
    pipeline::Registry registry;
    register_all(registry);
    config::Diagnostics diagnostics;
    return config::load_switch(kSwitch, registry, diagnostics).value();
  }
  OptionChange set(const std::vector<std::string>& words) {
    OptionChange change = set_impair(options, info, words, 1);
    if (change.error.empty()) {
      options = change.options;
      change.apply.at(0)(stage);
    }
    return change;
  }
  std::string mistake(const std::vector<std::string>& words) { return set_impair(options, info, words, 1).error; }
  // What the first packet to a QP meets.
  ImpairStep::What decide(std::uint32_t qp) {
    ImpairUnit copy = stage.rules();
    TestPacket packet(write_middle(qp, 1));
    Rng rng(1);
    return copy.on_packet(0, packet.fields(), rng).what;
  }

  pipeline::SwitchInfo info;
  config::Value options;
  ImpairStage stage;
};

TEST_F(ImpairSetTest, RulesGoOffAndOn) {
  using What = ImpairStep::What;
  EXPECT_EQ(decide(17), What::lose);
  EXPECT_EQ(decide(18), What::pass);
  EXPECT_EQ(set({"lossy", "off"}).done, "impair rule lossy changed");
  EXPECT_EQ(decide(17), What::pass);
  EXPECT_EQ(set({"rule1", "on"}).error, "");
  EXPECT_EQ(decide(18), What::hold);
  EXPECT_EQ(set({"0", "on"}).error, "");
  EXPECT_EQ(decide(17), What::lose);
  EXPECT_EQ(decide(18), What::hold);
}

TEST_F(ImpairSetTest, KeysChangeAlsoInsideOthersAndGoAway) {
  EXPECT_EQ(set({"lossy", "match.dest_qp=18", "limit=5"}).error, "");
  EXPECT_EQ(decide(17), ImpairStep::What::pass);
  EXPECT_EQ(decide(18), ImpairStep::What::lose);
  EXPECT_EQ(stage.rules().rule(0).limit, 5U);
  EXPECT_EQ(set({"lossy", "match.dest_qp=", "limit=", "reorder.ratio=0.5", "reorder.gap_us=3"}).error, "");
  EXPECT_EQ(decide(17), ImpairStep::What::lose);
  EXPECT_EQ(stage.rules().rule(0).limit, ImpairRule::kNoLimit);
  EXPECT_EQ(stage.rules().rule(0).reorder_gap_ns, 3000U);
}

TEST_F(ImpairSetTest, CountsGoOnAndOtherRulesDoNotNotice) {
  EXPECT_EQ(set({"lossy", "limit=1"}).error, "");
  ImpairUnit used = stage.rules();
  TestPacket packet(write_middle(17, 1));
  Rng rng(1);
  EXPECT_EQ(used.on_packet(0, packet.fields(), rng).what, ImpairStep::What::lose);
  stage.set_rules(used);
  // The limit was reached, and stays so while another rule changes.
  EXPECT_EQ(set({"rule1", "delay_us=7"}).error, "");
  EXPECT_EQ(decide(17), ImpairStep::What::pass);
  EXPECT_EQ(stage.rules().counters(0).lost, 1U);
  // A rule that was changed starts its limit anew.
  EXPECT_EQ(set({"lossy", "limit=1"}).error, "");
  EXPECT_EQ(decide(17), ImpairStep::What::lose);
  EXPECT_EQ(stage.rules().counters(0).lost, 1U);
}

TEST_F(ImpairSetTest, MistakesNameWhatIsWrongAndWhatWasMeant) {
  EXPECT_EQ(mistake({"losy", "off"}), "unknown rule 'losy'; did you mean 'lossy'?");
  EXPECT_EQ(mistake({"lossy", "los=0.1"}), "unknown key 'los'; did you mean 'loss'?");
  EXPECT_EQ(mistake({"lossy", "mach.psn=1"}), "unknown key 'mach'; did you mean 'match'?");
  EXPECT_THAT(mistake({"lossy", "match.ps=1"}), HasSubstr("unknown key 'ps'; did you mean 'psn'?"));
  EXPECT_THAT(mistake({"lossy", "loss=2"}), HasSubstr("2"));
  EXPECT_THAT(mistake({"lossy", "loss=much"}), HasSubstr("'much'"));
  EXPECT_THAT(mistake({"lossy", "jitter_us=9"}), HasSubstr("jitter_us is larger than delay_us"));
  EXPECT_EQ(mistake({"lossy", "of"}), "'of' is neither on, nor off, nor KEY=VALUE");
  EXPECT_EQ(mistake({"lossy"}), "impair takes a rule and what to change: on, off, or KEY=VALUE");
}

}  // namespace
}  // namespace weft::stages
