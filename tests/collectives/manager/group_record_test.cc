// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/group_record.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "collectives/engine/inc_engine.h"
#include "collectives/stage/group_spec.h"
#include "collectives/stage/memory_pool.h"
#include "switch/config/schema/validate.h"
#include "switch/config/yaml_reader.h"
#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

TEST(MemoryDemand, IsWhatTheEngineTakes) {
  for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
    for (const bool reproducible : {false, true}) {
      GroupOptions o;
      o.mode = mode;
      o.reproducible = reproducible;
      o.window = 64;
      const policy::MemoryDemand d = memory_demand(o);
      EXPECT_EQ(d.message_bytes, o.mtu * o.message_packets);
      for (std::uint32_t window = 1; window <= 64; window += 9) {
        for (std::size_t endpoints = 2; endpoints <= 65; endpoints += 7) {
          GroupConfig c;
          c.mode = mode;
          c.reproducible = reproducible;
          c.mtu = o.mtu;
          c.message_packets = o.message_packets;
          c.window = window;
          c.slots = 2 * window * c.message_packets;
          c.endpoints.resize(endpoints);
          const std::size_t needed = MemoryPool::rounded(IncEngine::memory_bytes(c));
          const std::uint64_t counted = d.bytes(window, static_cast<unsigned>(endpoints));
          EXPECT_GE(counted, needed);
          EXPECT_LE(counted, needed + 64);
          EXPECT_EQ(d.units_in(counted, static_cast<unsigned>(endpoints)), window);
        }
      }
    }
  }
}

GroupRecord some_record(const Fabric& f, Mode mode) {
  policy::Policy policy(f.topology, {});
  GroupRecord r;
  r.id = 7;
  r.generation = 9'000'000'000;
  r.state = GroupState::running;
  r.members = request_of({0, 1, 2}).members;
  r.members[1].loss_recovery = "irn";
  r.options.mode = mode;
  r.options.reproducible = true;
  r.options.rate_mbps = 10;
  r.options.duty_per_mille = 400;
  r.options.period_us = 1000;
  r.options.job = 5;
  r.options.prefer = policy::Prefer::bandwidth;
  policy::Request request;
  for (const Member& m : r.members) request.hosts.push_back(f.host_of(m.address));
  request.memory = memory_demand(r.options);
  r.decision = policy.place(request);
  r.decision.frontier.clear();
  r.decision.staggered = mode == Mode::ii;
  r.decision.offset_ns = mode == Mode::ii ? 400'000 : 0;
  EndpointPlanner(7).plan(f, r);
  return r;
}

TEST(GroupRecord, IsReadBackAsItWas) {
  const Fabric f = small_fabric();
  for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
    const GroupRecord r = some_record(f, mode);
    const auto back = from_text(to_text(r, f.topology), f.topology);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, r);
  }
}

TEST(GroupRecord, IsReadByNamesWhateverTheirNumbers) {
  const Fabric f = small_fabric();
  const GroupRecord r = some_record(f, Mode::ii);
  Fabric wider{policy::leaf_spine(4, 3, 2, policy::weft_abilities(1 << 20), 10'000), {}};
  wider.addresses.resize(wider.topology.links().size());
  const auto back = from_text(to_text(r, f.topology), wider.topology);
  ASSERT_TRUE(back);
  ASSERT_EQ(back->decision.tree.switches.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(wider.topology.node(back->decision.memory[i].node).name, f.topology.node(r.decision.memory[i].node).name);
  }
}

TEST(GroupRecord, WhatIsNoneIsNotRead) {
  const Fabric f = small_fabric();
  const std::string text = to_text(some_record(f, Mode::ii), f.topology);
  for (std::size_t length = 0; length < text.size(); length += 7) {
    EXPECT_FALSE(from_text(text.substr(0, length), f.topology)) << length;
  }
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = text;
    const std::size_t at = out.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return out.replace(at, from.size(), to);
  };
  EXPECT_FALSE(from_text(changed("\"leaf0\"", "\"leaf9\""), f.topology));
  EXPECT_FALSE(from_text(changed("\"running\"", "\"ran\""), f.topology));
  EXPECT_FALSE(from_text(changed("\"10.0.0.2\"", "\"10.0.0\""), f.topology));
  EXPECT_FALSE(from_text(changed("\"spine0\",0", "\"spine0\",1"), f.topology)) << "there is one link";
  const std::string one_more = R"("endpoints":[{"switch":"leaf0","endpoints":[]},{"switch")";
  EXPECT_FALSE(from_text(changed(R"("endpoints":[{"switch")", one_more), f.topology)) << "three switches, four places";
}

TEST(GroupRecord, WhatNoManagerWritesIsNotRead) {
  const Fabric f = small_fabric();
  const auto record = nlohmann::json::parse(to_text(some_record(f, Mode::ii), f.topology));
  const auto with = [&](const char* path, const nlohmann::json& value) {
    nlohmann::json changed = record;
    changed.at(nlohmann::json::json_pointer(path)) = value;
    return from_text(changed.dump(), f.topology);
  };
  ASSERT_TRUE(with("/group", 7));
  EXPECT_FALSE(with("/group", 0));
  EXPECT_FALSE(with("/group", -1));
  EXPECT_FALSE(with("/group", 7.5));
  EXPECT_FALSE(with("/options/mtu", 5000));
  EXPECT_FALSE(with("/options/window", (std::uint64_t{1} << 32) + 4)) << "4, with what does not fit cut off";
  EXPECT_FALSE(with("/options/mode", "iv"));
  EXPECT_FALSE(with("/members/0/qp", 1 << 24));
  EXPECT_FALSE(with("/tree/switches/1/name", "leaf0")) << "a switch has two places in the tree";
  EXPECT_FALSE(with("/tree/switches/0/name", "h0")) << "a host does not add";
  EXPECT_FALSE(with("/tree/edges/1", record["tree"]["edges"][0])) << "two edges are one link";
  EXPECT_FALSE(with("/endpoints/0/switch", "leaf1"));
  ASSERT_EQ(record["endpoints"][0]["endpoints"][0]["is_rank"], true);
  EXPECT_FALSE(with("/endpoints/0/endpoints/0/ranks/0", 3)) << "there are three ranks";
  EXPECT_FALSE(with("/endpoints/0/endpoints/0/ranks/0", 1)) << "rank 1 is at the next endpoint";
  EXPECT_FALSE(with("/endpoints/0/endpoints/0/ranks", nlohmann::json::array()));
  EXPECT_FALSE(with("/endpoints/0/endpoints/0/is_rank", false)) << "rank 0 has no endpoint";
  EXPECT_FALSE(with("/endpoints/0/endpoints/0/first_rx", 1 << 24));
  std::string why;
  EXPECT_FALSE(from_text("{}", f.topology, &why));
  EXPECT_THAT(why, testing::HasSubstr("key 'group' not found"));
}

TEST(SwitchSpec, SaysWhatAStageReads) {
  const Fabric f = small_fabric();
  const GroupRecord r = some_record(f, Mode::iii);
  const auto leaf = nlohmann::json::parse(switch_spec(r, 0));
  EXPECT_EQ(leaf["id"], 7);
  EXPECT_EQ(leaf["mode"], "iii");
  EXPECT_EQ(leaf["ranks"], 3);
  EXPECT_EQ(leaf["window"], 4);
  EXPECT_EQ(leaf["slots"], 32);
  ASSERT_EQ(leaf["endpoints"].size(), 3u);
  EXPECT_EQ(leaf["endpoints"][1]["rank"], 1);
  EXPECT_EQ(leaf["endpoints"][1]["loss_recovery"], "irn");
  EXPECT_EQ(leaf["endpoints"][2]["parent"], true);
  const auto root = nlohmann::json::parse(switch_spec(r, 2));
  EXPECT_EQ(root["endpoints"][0]["ranks"], (std::vector<int>{0, 1}));
  EXPECT_FALSE(nlohmann::json::parse(switch_spec(some_record(f, Mode::ii), 0)).contains("slots"));
}

TEST(SwitchSpec, IsTakenByTheStage) {
  const Fabric f = small_fabric();
  pipeline::SwitchInfo info;
  info.ports.emplace_back().mtu_bytes = 4200;
  for (const Mode mode : {Mode::i, Mode::ii, Mode::iii}) {
    const GroupRecord r = some_record(f, mode);
    for (std::size_t at = 0; at < r.switches.size(); ++at) {
      config::Diagnostics diagnostics;
      const auto document = config::read_yaml(switch_spec(r, at), "spec", diagnostics);
      ASSERT_TRUE(document) << diagnostics.to_string();
      const config::Value value = config::validate(group_schema(), *document, "group", nullptr, diagnostics);
      ASSERT_TRUE(diagnostics.ok()) << diagnostics.to_string();
      GroupSpec spec;
      EXPECT_EQ(read_group(value, info, spec), std::nullopt);
      EXPECT_EQ(spec.config.endpoints.size(), r.switches[at].endpoints.size());
      EXPECT_EQ(spec.config.window, r.decision.units);
      EXPECT_LE(IncEngine::memory_bytes(spec.config), r.decision.memory[at].bytes);
    }
  }
}

}  // namespace
}  // namespace weft::inc::manager
