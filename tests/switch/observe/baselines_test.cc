// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/baselines.h"

#include <gmock/gmock.h>

#include <vector>

#include "switch/observe/latency.h"

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

// Buckets 3 and 40 hold times of 3 ns and of 128 to 143 ns.
Json latency(unsigned in_3, unsigned in_40, unsigned sum_ns) {
  std::vector<std::uint64_t> buckets(pipeline::Residence::Buckets::kCount);
  buckets[3] = in_3;
  buckets[40] = in_40;
  Json row{{"switch", "tor1"},        {"port", "h1"},     {"queue", 0},
           {"samples", in_3 + in_40}, {"sum_ns", sum_ns}, {"buckets", buckets}};
  compute_latency(row);
  return row;
}

TEST(Baselines, LatencyIsThatOfPacketsSinceThen) {
  Baselines baselines;
  Json rows = Json::array({latency(90, 10, 4'000)});
  EXPECT_EQ(rows[0]["p50_us"], 0.0);
  baselines.apply("latency", rows);
  const Json untouched{{"switch", "tor1"}, {"port", "h1"},   {"queue", 0},      {"samples", 100}, {"mean_us", 0.04},
                       {"p50_us", 0.0},    {"p99_us", 0.14}, {"p999_us", 0.14}, {"max_us", 0.14}};
  EXPECT_EQ(rows, Json::array({untouched})) << "what it is computed from is not shown, also before it is cleared";

  baselines.set("latency", "tor1", Json::array({latency(90, 10, 4'000)}));
  rows = Json::array({latency(90, 14, 4'520)});
  baselines.apply("latency", rows);
  const Json since{{"switch", "tor1"}, {"port", "h1"},   {"queue", 0},      {"samples", 4},  {"mean_us", 0.13},
                   {"p50_us", 0.14},   {"p99_us", 0.14}, {"p999_us", 0.14}, {"max_us", 0.14}};
  EXPECT_EQ(rows, Json::array({since}));

  rows = Json::array({latency(90, 10, 4'000)});
  baselines.apply("latency", rows);
  EXPECT_EQ(rows, Json::array()) << "nothing has left through the queue since";
  rows = Json::array({latency(95, 2, 700)});
  baselines.apply("latency", rows);
  EXPECT_EQ(rows[0]["samples"], 97) << "a queue of a new port, whose port has an old name";
}

}  // namespace
}  // namespace weft
