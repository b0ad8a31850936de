// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/baselines.h"

#include <gmock/gmock.h>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json port(const char* name, unsigned rx, unsigned queue) {
  return {{"switch", "tor1"}, {"port", name}, {"rx_packets", rx}, {"queue", queue}};
}

TEST(Baselines, CountersStartFromZeroAndStatesStay) {
  Baselines baselines;
  baselines.set("ports", "tor1", Json::array({port("h1", 5, 3), port("h2", 7, 0)}));
  Json rows = Json::array({port("h1", 9, 3), port("h2", 7, 1)});
  baselines.apply("ports", rows);
  EXPECT_EQ(rows, Json::array({port("h1", 4, 3), port("h2", 0, 1)}));
}

TEST(Baselines, OtherTablesSwitchesAndRowsAreLeftAlone) {
  Baselines baselines;
  baselines.set("ports", "tor1", Json::array({port("h1", 5, 3)}));
  Json other = Json::array({port("h1", 9, 0)});
  other[0]["switch"] = "tor2";
  const Json before = other;
  baselines.apply("ports", other);
  EXPECT_EQ(other, before);
  Json added = Json::array({port("h3", 9, 0)});
  baselines.apply("ports", added);
  EXPECT_EQ(added, Json::array({port("h3", 9, 0)}));
  Json neighbours = Json::array({{{"switch", "tor1"}, {"packets", 5}}});
  baselines.set("neighbours", "tor1", neighbours);
  baselines.apply("neighbours", neighbours);
  EXPECT_EQ(neighbours[0]["packets"], 5);
}

TEST(Baselines, ARowThatCountsLessIsANewOne) {
  Baselines baselines;
  baselines.set("ports", "tor1", Json::array({port("h1", 100, 0)}));
  Json rows = Json::array({port("h1", 9, 0)});
  baselines.apply("ports", rows);
  EXPECT_EQ(rows, Json::array({port("h1", 9, 0)}));
}

TEST(Baselines, ReasonsThatDroppedNothingSinceAreLeftOut) {
  const auto drop = [](const char* reason, unsigned packets) {
    return Json{{"switch", "tor1"}, {"reason", reason}, {"packets", packets}};
  };
  Baselines baselines;
  baselines.set("drops", "tor1", Json::array({drop("no_route", 5), drop("icrc", 2)}));
  Json rows = Json::array({drop("no_route", 5), drop("icrc", 3), drop("ip_source", 1)});
  baselines.apply("drops", rows);
  EXPECT_EQ(rows, Json::array({drop("icrc", 1), drop("ip_source", 1)}));
}

TEST(Baselines, RatiosFollowTheirCounters) {
  const auto stage = [](unsigned packets, unsigned bursts, unsigned cycles) {
    return Json{{"switch", "tor1"}, {"stage", "l2"},    {"half", "ingress"},        {"packets", packets},
                {"bursts", bursts}, {"cycles", cycles}, {"packets_per_burst", 0.5}, {"cycles_per_packet", 0.5}};
  };
  Baselines baselines;
  baselines.set("stages", "tor1", Json::array({stage(100, 100, 100)}));
  Json rows = Json::array({stage(300, 150, 500)});
  baselines.apply("stages", rows);
  EXPECT_EQ(rows[0]["packets_per_burst"], 4.0);
  EXPECT_EQ(rows[0]["cycles_per_packet"], 2.0);
}

TEST(Baselines, RowsThatLookTheSameAreToldApartByTheirOrder) {
  const auto rule = [](unsigned matched) {
    return Json{{"switch", "tor1"}, {"rule", 0}, {"name", "lossy"}, {"matched", matched}};
  };
  Baselines baselines;
  baselines.set("impair", "tor1", Json::array({rule(10), rule(20)}));
  Json rows = Json::array({rule(11), rule(22)});
  baselines.apply("impair", rows);
  EXPECT_EQ(rows, Json::array({rule(1), rule(2)}));
}

}  // namespace
}  // namespace weft
