// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/shared.h"

#include <cstdlib>
#include <map>

#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

using config::Value;
using nlohmann::ordered_json;

class LbSharedTest : public BothFamilies {};
WEFT_BOTH_FAMILIES(LbSharedTest);

TEST_P(LbSharedTest, ListsTheMembersOfEveryGroup) {
  Router r;
  std::vector<std::string> members;
  for (auto& row : r.h.rows("lb")) {
    EXPECT_EQ(row["policy"], "ecmp");
    EXPECT_EQ(row["routes"], 1);
    members.push_back(row["group"].dump() + " " + row["member"].get<std::string>() + " " +
                      row["port"].get<std::string>());
  }
  EXPECT_THAT(members, ::testing::IsSupersetOf({f().v6 ? "1 2001:db8:11::2 dev u1 u1" : "0 10.1.1.2 dev u1 u1",
                                                f().v6 ? "1 2001:db8:13::2 dev u3 u3" : "0 10.1.3.2 dev u3 u3"}));
  EXPECT_EQ(members.size(), 6u);
}

TEST_P(LbSharedTest, SaysWhichPathsAreUpExcludedAndDown) {
  Router r;
  ASSERT_EQ(r.h.exclude("u2", true), "");
  r.h.set_link("u3", false);
  std::map<std::string, std::string> paths;
  for (auto& row : r.h.rows("lb")) paths[row["port"]] = row["path"];
  EXPECT_EQ(paths, (std::map<std::string, std::string>{{"u1", "up"}, {"u2", "excluded"}, {"u3", "down"}}));
}

// Whatever stage routes: all that lb knows of it is the interface.
class LbSharedAlone : public ::testing::Test, public NextHopChoices {
 protected:
  LbSharedAlone() {
    for (pipeline::PortIndex port = 0; port < 3; ++port) {
      pipeline::PortInfo& info = info_.ports.emplace_back();
      info.index = port;
      info.name = "u" + std::to_string(port);
    }
  }
  NextHopChoice& choice(std::uint16_t /*worker*/) noexcept override { std::abort(); }
  std::vector<NextHopGroup> groups(std::uint64_t first, std::size_t members) const override {
    std::vector<NextHopGroup> out;
    for (std::size_t listed = 0; first < groups_.size() && listed < members; ++first) {
      out.push_back(groups_[first]);
      listed += groups_[first].members.size();
    }
    return out;
  }
  [[nodiscard]] pipeline::StageBuild build() {
    const auto offered = [this](std::type_index type) -> void* {
      return type == typeid(NextHopChoices) ? static_cast<NextHopChoices*>(this) : nullptr;
    };
    return {.options = options_, .info = info_, .worker = 0, .workers = 1, .find_offered = offered, .links = &links_};
  }

  Value options_{Value::Map{{"policy", Value("drill")}, {"weights", Value(Value::Map{{"u2", Value(3)}})}}};
  pipeline::SwitchInfo info_;
  pipeline::Links links_{3};
  std::vector<NextHopGroup> groups_{{0, 2, {{0, "via a"}, {1, "via b"}}}, {1, 1, {{1, "via b"}, {2, "via c"}}}};
};

TEST_F(LbSharedAlone, ShowsWhatOptionsAndLinksSayOfTheMembers) {
  const LbShared shared(build());
  links_.set_up(1, false);
  links_.set_excluded(2, true);
  EXPECT_EQ(shared.tables(), std::vector<std::string_view>{"lb"});
  std::uint64_t cursor = 0;
  const ordered_json rows = shared.rows("lb", cursor, 100);
  EXPECT_EQ(cursor, pipeline::StageShared::kEnd);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].dump(), R"({"group":0,"routes":2,"policy":"drill","member":"via a","port":"u0","weight":1,)"
                            R"("path":"up"})");
  EXPECT_EQ(rows[1]["path"], "down");
  EXPECT_EQ(rows[3].dump(), R"({"group":1,"routes":1,"policy":"drill","member":"via c","port":"u2","weight":3,)"
                            R"("path":"excluded"})");
  options_ = Value(Value::Map{{"policy", Value("ecmp")}});
  cursor = 0;
  const ordered_json changed = shared.rows("lb", cursor, 100);
  EXPECT_EQ(changed[3]["policy"], "ecmp");
  EXPECT_EQ(changed[3]["weight"], 1);
}

TEST_F(LbSharedAlone, PagesHoldWholeGroups) {
  const LbShared shared(build());
  std::uint64_t cursor = 0;
  EXPECT_EQ(shared.rows("lb", cursor, 1).size(), 2u);
  EXPECT_EQ(cursor, 1u);
  EXPECT_EQ(shared.rows("lb", cursor, 2).size(), 2u);
  EXPECT_EQ(shared.rows("lb", cursor, 2).size(), 0u);
  EXPECT_EQ(cursor, pipeline::StageShared::kEnd);
  groups_.clear();
  cursor = 0;
  EXPECT_EQ(shared.rows("lb", cursor, 2).size(), 0u);
  EXPECT_EQ(cursor, pipeline::StageShared::kEnd);
}

}  // namespace
}  // namespace weft::stages
