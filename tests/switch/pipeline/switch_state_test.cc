// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/switch_state.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "switch/pipeline/pipeline.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Calls {
  std::vector<std::string> made;
};

class Recorder : public StageShared {
 public:
  Recorder(std::string name, Calls& calls) : name_(std::move(name)), calls_(calls) {}
  void housekeeping(TimeNs now) override { calls_.made.push_back(name_ + " at " + std::to_string(now)); }
  void on_link(PortIndex port, bool up) override {
    calls_.made.push_back(name_ + " link " + std::to_string(port) + (up ? " up" : " down"));
  }

 private:
  std::string name_;
  Calls& calls_;
};

// A registry of three types: `a` and `b` share state, `plain` does not; `b` notes whether it finds that of `a`.
struct World {
  World() {
    for (const std::string name : {"a", "b", "plain"}) {
      StageType type;
      type.name = name;
      if (name != "plain") {
        type.make_shared = [this, name](const StageBuild& build) {
          if (name == "b") b_found_a = build.shared_of("a") != nullptr;
          found_itself |= build.shared_of(name) != nullptr;
          had_steer_table |= build.steer_table != nullptr;
          workers = build.workers;
          return std::make_unique<Recorder>(name, calls);
        };
      }
      type.make = [](const StageBuild&, StageShared*) { return std::make_unique<Stage>(); };
      registry.add(std::move(type));
    }
    for (PortIndex p = 0; p < 3; ++p) info.ports.push_back({.name = "p", .index = p, .type = "test", .device = {}});
    for (const char* stage : {"a", "plain", "b"}) info.pipeline.push_back({.name = stage, .options = {}});
  }
  Registry registry;
  SwitchInfo info;
  Calls calls;
  bool b_found_a = false;
  bool found_itself = false;
  bool had_steer_table = false;
  std::uint16_t workers = 0;
};

TEST(SwitchState, SharedStateIsMadeInTheOrderOfThePipeline) {
  World w;
  const SwitchState state(w.registry, w.info, {0, 1, 0}, 2);
  EXPECT_TRUE(w.b_found_a);
  EXPECT_FALSE(w.found_itself);
  EXPECT_EQ(w.workers, 2);
  EXPECT_NE(state.shared("a"), nullptr);
  EXPECT_EQ(state.shared("plain"), nullptr);
  EXPECT_EQ(state.shared("unknown"), nullptr);
  EXPECT_EQ(state.shared(std::size_t{0}), state.shared("a"));
  EXPECT_EQ(state.shared(std::size_t{2}), state.shared("b"));
  EXPECT_EQ(state.owner_of_port(1), 1);
  EXPECT_EQ(state.types()[1]->name, "plain");
}

TEST(SwitchState, LinksAreUpAtFirstAndStagesHearOfChangesOnly) {
  World w;
  SwitchState state(w.registry, w.info, {0, 0, 0}, 1);
  for (PortIndex p = 0; p < 3; ++p) EXPECT_TRUE(state.link_up(p));
  state.set_link(1, true);
  EXPECT_THAT(w.calls.made, IsEmpty());
  state.set_link(1, false);
  state.set_link(1, false);
  EXPECT_FALSE(state.link_up(1));
  EXPECT_TRUE(state.link_up(2));
  state.set_link(1, true);
  EXPECT_THAT(w.calls.made, ElementsAre("a link 1 down", "b link 1 down", "a link 1 up", "b link 1 up"));
}

TEST(SwitchState, HousekeepingReachesAllSharedState) {
  World w;
  SwitchState state(w.registry, w.info, {0, 0, 0}, 1);
  state.housekeeping(5);
  EXPECT_THAT(w.calls.made, ElementsAre("a at 5", "b at 5"));
}

TEST(SwitchState, OnlySteeringByQpOverSeveralWorkersHasATable) {
  World w;
  EXPECT_EQ(SwitchState(w.registry, w.info, {0, 0, 0}, 1, SteerMode::qp).steer_table(), nullptr);
  EXPECT_EQ(SwitchState(w.registry, w.info, {0, 0, 0}, 2, SteerMode::ip_pair).steer_table(), nullptr);
  EXPECT_FALSE(w.had_steer_table);
  EXPECT_NE(SwitchState(w.registry, w.info, {0, 0, 0}, 2, SteerMode::qp).steer_table(), nullptr);
  EXPECT_TRUE(w.had_steer_table);
}

TEST(SwitchState, TheOwnerOfAPacketIsTheTablesForKnownQpsAndTheHashsOtherwise) {
  World w;
  SwitchState state(w.registry, w.info, {0, 0, 0}, 4, SteerMode::qp);
  wire::Parsed packet{};
  packet.kind = wire::FrameKind::roce;
  packet.address_key = 0x0a0000010a000002;
  packet.dest_qp = wire::Qpn(17);
  packet.pair_hash = 0x40000000;  // the second quarter
  EXPECT_EQ(state.owner_of(packet), 1);
  state.steer_table()->publish(packet.address_key, packet.dest_qp, 3);
  EXPECT_EQ(state.owner_of(packet), 3);
  packet.kind = wire::FrameKind::udp;
  EXPECT_EQ(state.owner_of(packet), 1);
}

TEST(SwitchStateDeathTest, AStageThatTheRegistryDoesNotKnowIsOurOwnMistake) {
  World w;
  w.info.pipeline.push_back({.name = "missing", .options = {}});
  EXPECT_DEATH(SwitchState(w.registry, w.info, {0, 0, 0}, 1), "");
}

}  // namespace
}  // namespace weft::pipeline
