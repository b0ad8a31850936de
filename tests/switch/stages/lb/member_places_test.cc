// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/member_places.h"

#include <algorithm>
#include <optional>

#include "switch/base/rng.h"
#include "tests/switch/stages/l3/router.h"
#include "tests/switch/stages/lb/attached_hops.h"

namespace weft::stages {
namespace {

using tables::NextHopId;

constexpr std::uint16_t kPorts = 6;

// Looks members up inside a pipeline, whose links it asks for.
class Finder : public pipeline::Stage {
 public:
  void on_timer(pipeline::Context& context, std::uint32_t) override {
    std::vector<NextHopId> members;
    for (const std::uint16_t port : group) members.push_back(hops_.ids[port]);
    LinkView links(context, hops_.hops);
    const NextHopId found = places_.find(members, links, *wanted);
    port_found = found == tables::kUnreachable ? -1 : hops_.hops.hop(found).port;
  }
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return wanted ? 0 : kNever; }

  std::vector<std::uint16_t> group;  ///< ports
  std::optional<std::uint16_t> wanted;
  int port_found = -2;

 private:
  AttachedHops hops_{kPorts};
  MemberPlaces places_{kPorts};
};

class LbMemberPlaces : public ::testing::Test {
 protected:
  LbMemberPlaces() {
    register_all(registry_);
    pipeline::StageType finder;
    finder.name = "finder";
    finder.summary = "Finds.";
    finder.provides = {"forward"};
    finder.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<Finder>(); };
    registry_.add(finder);
    std::string yaml = "name: s\nports:\n";
    for (int i = 0; i < kPorts; ++i) yaml += "  - { name: p" + std::to_string(i) + ", type: \"null\" }\n";
    h_ = std::make_unique<testing::Harness>(registry_, yaml + "pipeline: [ parse, finder ]\n");
  }
  int find(const std::vector<std::uint16_t>& group, std::uint16_t port) {
    h_->change<Finder>("finder", [&](Finder& finder) {
      finder.group = group;
      finder.wanted = port;
    });
    h_->advance_ns(0);
    return h_->stage<Finder>("finder").port_found;
  }
  void set_link(int port, bool up) { h_->set_link("p" + std::to_string(port), up); }

  pipeline::Registry registry_;
  std::unique_ptr<testing::Harness> h_;
};

TEST_F(LbMemberPlaces, AMemberIsFoundWhereverItStands) {
  EXPECT_EQ(find({0, 1, 2}, 2), 2);
  EXPECT_EQ(find({2, 0}, 2), 2) << "in another group it stands elsewhere";
  EXPECT_EQ(find({0, 1}, 2), -1);
  EXPECT_EQ(find({0, 1, 2}, 2), 2);
  EXPECT_EQ(find({0, 1, 2}, kPorts), -1);
  EXPECT_EQ(find({0, 1, 2}, 0xffff), -1);
}

TEST_F(LbMemberPlaces, OneWhosePathIsDownIsNot) {
  EXPECT_EQ(find({0, 1}, 1), 1);
  set_link(1, false);
  EXPECT_EQ(find({0, 1}, 1), -1);
  set_link(1, true);
  EXPECT_EQ(find({0, 1}, 1), 1);
}

TEST_F(LbMemberPlaces, WhateverTheGroupItIsWhatASearchFinds) {
  Rng random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint16_t> group;
    for (std::uint16_t port = 0; port < kPorts; ++port) {
      if (random.below(2) == 0) group.insert(group.begin() + static_cast<long>(random.below(group.size() + 1)), port);
    }
    const auto wanted = static_cast<std::uint16_t>(random.below(kPorts));
    const bool there = std::find(group.begin(), group.end(), wanted) != group.end();
    ASSERT_EQ(find(group, wanted), there ? wanted : -1) << round;
  }
}

}  // namespace
}  // namespace weft::stages
