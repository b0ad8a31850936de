// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/switch_state.h"

#include <gmock/gmock.h>

#include <map>
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
  Recorder(std::string name, Calls& calls, const std::vector<PathSet>& sets)
      : name_(std::move(name)), calls_(calls), sets_(sets) {
    publish(*this);
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::vector<PathSet> path_sets() const override { return sets_; }
  void housekeeping(TimeNs now) override { calls_.made.push_back(name_ + " at " + std::to_string(now)); }
  void on_link(PortIndex port, bool up) override {
    calls_.made.push_back(name_ + " link " + std::to_string(port) + (up ? " up" : " down"));
  }

 private:
  std::string name_;
  Calls& calls_;
  const std::vector<PathSet>& sets_;
};

// A registry of three types: `a` and `b` share state, `plain` does not; `b` notes whether it finds that of `a`.
struct World {
  World() {
    for (const std::string name : {"a", "b", "plain"}) {
      StageType type;
      type.name = name;
      if (name != "plain") {
        type.make_shared = [this, name](const StageBuild& build) {
          const auto* first = build.find_capability<Recorder>();
          if (name == "b") b_found_a = first != nullptr && first->name() == "a";
          found_itself |= first != nullptr && first->name() == name;
          had_steer_table |= build.steer_table != nullptr;
          workers = build.workers;
          return std::make_unique<Recorder>(name, calls, sets[name]);
        };
      }
      type.make = [](const StageBuild&, StageShared*) { return std::make_unique<Stage>(); };
      registry.add(std::move(type));
    }
    for (PortIndex p = 0; p < 3; ++p)
      info.ports.push_back({.name = "p" + std::to_string(p), .index = p, .type = "test", .device = {}});
    for (const char* stage : {"a", "plain", "b"}) info.pipeline.push_back({.name = stage, .options = {}});
  }
  Registry registry;
  SwitchInfo info;
  Calls calls;
  std::map<std::string, std::vector<PathSet>> sets;  ///< by stage
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

// Changes path sets; empty, or what is wrong with that.
std::string change(SwitchState& state, std::vector<PathChange> changes) {
  return state.change_paths(changes);
}

TEST(SwitchState, APortLeavesThePathSetsWhileItsLinkStaysUp) {
  World w;
  w.sets["a"] = {{"the group of 10.0.0.0/16", {0, 1, 2}}};
  SwitchState state(w.registry, w.info, {0, 0, 0}, 1);
  const std::uint32_t before = state.link_generation();
  EXPECT_TRUE(state.links().all_paths_up());
  EXPECT_EQ(change(state, {{1, true}}), "");
  EXPECT_GT(state.link_generation(), before);
  EXPECT_TRUE(state.link_up(1));
  EXPECT_FALSE(state.links().path_up(1));
  EXPECT_FALSE(state.links().all_paths_up());
  state.set_link(1, false);
  EXPECT_EQ(change(state, {{1, false}}), "");
  EXPECT_FALSE(state.links().path_up(1)) << "its link is down";
  state.set_link(1, true);
  EXPECT_TRUE(state.links().all_paths_up());
  EXPECT_THAT(w.calls.made, ElementsAre("a link 1 down", "b link 1 down", "a link 1 up", "b link 1 up"));
}

TEST(SwitchState, NoPathSetLosesItsLastPath) {
  World w;
  w.sets["a"] = {{"the group of 10.0.0.0/16", {0, 1, 2}}, {"the group of 20.0.0.0/8", {1, 2}}};
  w.sets["b"] = {{"the set of uplinks of nack_filter", {0, 1}}};
  SwitchState state(w.registry, w.info, {0, 0, 0}, 1);
  EXPECT_EQ(change(state, {{1, true}, {2, true}}), "the group of 20.0.0.0/8 would have no path left");
  EXPECT_FALSE(state.links().excluded(1)) << "all or nothing";
  EXPECT_EQ(change(state, {{1, true}}), "");
  EXPECT_EQ(change(state, {{2, true}}), "the group of 20.0.0.0/8 would have no path left: p1 is excluded");
  EXPECT_EQ(change(state, {{0, true}}), "the set of uplinks of nack_filter would have no path left: p1 is excluded");
  EXPECT_EQ(change(state, {{2, true}, {1, false}}), "") << "one for the other";
  EXPECT_EQ(change(state, {{2, false}}), "");
  state.set_link(0, false);
  EXPECT_EQ(change(state, {{1, true}}), "the set of uplinks of nack_filter would have no path left: p0 is down");
  state.set_link(1, false);
  EXPECT_EQ(change(state, {{1, true}}), "") << "nothing could be used before either";
  EXPECT_EQ(change(state, {{0, true}}), "the set of uplinks of nack_filter would have no path left: p1 is excluded");
}

TEST(SwitchState, OnlyAPathIsExcludedAndOneThatIsNoneAnyMoreComesBack) {
  World w;
  w.sets["a"] = {{"the group of 10.0.0.0/16", {0, 1}}};
  SwitchState state(w.registry, w.info, {0, 0, 0}, 1);
  for (const bool excluded : {true, false}) {
    EXPECT_EQ(change(state, {{2, excluded}}), "port p2 is no path: it is in no equal-cost group and no uplink");
  }
  EXPECT_EQ(change(state, {{0, true}}), "");
  w.sets["a"].clear();
  EXPECT_EQ(change(state, {{0, false}}), "");
  EXPECT_TRUE(state.links().all_paths_up());
}

TEST(SwitchState, AReloadKeepsWhatIsExcludedUnderItsNewName) {
  World w;
  w.sets["a"] = {{"the group of 10.0.0.0/16", {0, 1, 2}}};
  SwitchState state(w.registry, w.info, {0, 0, 0}, 1);
  EXPECT_EQ(change(state, {{0, true}, {2, true}}), "");
  SwitchState next(w.registry, w.info, {0, 0, 0}, 1, SteerMode::ip_pair, &state);
  next.adopt(state, PortMap({1, 0, kNoPort}));
  EXPECT_FALSE(next.links().excluded(0));
  EXPECT_TRUE(next.links().excluded(1));
  EXPECT_FALSE(next.links().excluded(2));
}

TEST(SwitchState, HousekeepingReachesAllSharedState) {
  World w;
  SwitchState state(w.registry, w.info, {0, 0, 0}, 1);
  state.housekeeping(5);
  EXPECT_THAT(w.calls.made, ElementsAre("a at 5", "b at 5"));
}

TEST(SwitchState, FlowsThatAStageBindsHaveTheirOwnerHoweverPacketsAreSteered) {
  World w;
  for (const std::uint16_t workers : {1, 2}) {
    const auto other = static_cast<std::uint16_t>(workers - 1);
    SwitchState state(w.registry, w.info, {0, 0, 0}, workers, SteerMode::ip_pair);
    wire::Parsed packet{};
    packet.kind = wire::FrameKind::roce;
    packet.address_key = 0x0a0000010a000002;
    packet.dest_qp = wire::Qpn(17);
    packet.flags = wire::ParsedFlag::ipv6;
    packet.stored_pair_hash = 0x40000000;  // the first half
    EXPECT_EQ(state.owner_of(packet), 0);
    const auto group = state.owners().make_group(other);
    ASSERT_TRUE(group.has_value());
    ASSERT_TRUE(state.owners().bind(packet.address_key, packet.dest_qp, *group));
    EXPECT_EQ(state.owner_of(packet), other);
    const SwitchState next(w.registry, w.info, {0, 0, 0}, workers, SteerMode::ip_pair, &state);
    EXPECT_EQ(next.owner_of(packet), other) << "a reload keeps the owners";
    state.owners().move(*group, 0);
    EXPECT_EQ(next.owner_of(packet), 0);
  }
}

TEST(SwitchState, OnlySteeringByQpOverSeveralWorkersPublishesQps) {
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
  packet.flags = wire::ParsedFlag::ipv6;
  packet.stored_pair_hash = 0x40000000;  // the second quarter
  EXPECT_EQ(state.owner_of(packet), 1);
  state.steer_table()->publish(packet.address_key, packet.dest_qp, 3);
  EXPECT_EQ(state.owner_of(packet), 3);
  packet.kind = wire::FrameKind::udp;
  EXPECT_EQ(state.owner_of(packet), 1);
}

TEST(SwitchState, WhereCardsSpreadPacketsTheirOwnersAreThoseThatCardsBringThemTo) {
  World w;
  const RssWorkers cards(3);
  SwitchState state(w.registry, w.info, {0, 0, 0}, 3, {SteerMode::qp, true});
  const SwitchState next(w.registry, w.info, {0, 0, 0}, 3, {SteerMode::qp, true}, &state);
  wire::Parsed packet{};
  packet.kind = wire::FrameKind::roce;
  packet.dest_qp = wire::Qpn(17);
  for (std::uint64_t host = 1; host < 100; ++host) {
    packet.address_key = 0x0a00000100000000 | 0x0a000000 | host;
    EXPECT_EQ(state.owner_of(packet), cards.of_v4(packet.address_key));
    EXPECT_EQ(next.owner_of(packet), state.owner_of(packet)) << "a reload keeps the owners";
  }
  const auto other = static_cast<std::uint16_t>((state.owner_of(packet) + 1) % 3);
  state.steer_table()->publish(packet.address_key, packet.dest_qp, other);
  EXPECT_EQ(state.owner_of(packet), other) << "the table first";
  packet.flags = wire::ParsedFlag::ipv6;
  packet.dest_qp = wire::Qpn(18);
  for (packet.stored_pair_hash = 0; packet.stored_pair_hash < 100; ++packet.stored_pair_hash) {
    EXPECT_EQ(state.owner_of(packet), cards.of_v6(packet.stored_pair_hash));
  }
}

TEST(SwitchStateDeathTest, AStageThatTheRegistryDoesNotKnowIsOurOwnMistake) {
  World w;
  w.info.pipeline.push_back({.name = "missing", .options = {}});
  EXPECT_DEATH(SwitchState(w.registry, w.info, {0, 0, 0}, 1), "");
}

}  // namespace
}  // namespace weft::pipeline
