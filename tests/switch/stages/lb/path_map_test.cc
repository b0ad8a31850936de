// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/path_map.h"

#include <map>
#include <set>

#include "switch/config/config.h"
#include "switch/stages/lb/stage.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

TEST(PathMap, EveryPathHasItsChangeAndThePortStaysInItsRange) {
  const std::vector<HashTier> tiers{ecmp_tier(1, 16), ecmp_tier(3, 8)};
  const auto map = PathMap::build(tiers);
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->paths(), 128u);
  EXPECT_EQ(map->delta(0), 0);
  for (std::uint32_t path = 0; path < map->paths(); ++path) {
    EXPECT_LT(map->delta(path), 1u << PathMap::kPortBits);
    EXPECT_EQ(tiers[0].choice_change(map->delta(path)), path % 16);
    EXPECT_EQ(tiers[1].choice_change(map->delta(path)), path / 16);
  }
}

TEST(PathMap, OtherLinearHashesCanBePluggedIn) {
  // Bits 3 and 4 of the port choose among four.
  const std::vector<HashTier> tiers{
      {4, [](std::uint16_t change) { return static_cast<std::uint32_t>(change >> 3 & 3); }}};
  const auto map = PathMap::build(tiers);
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->delta(2), 1u << 4);
}

TEST(PathMap, TiersThatChooseAlikeCannotBeToldApart) {
  const std::vector<HashTier> tiers{ecmp_tier(1, 4), ecmp_tier(1, 4)};
  EXPECT_FALSE(PathMap::build(tiers).has_value());
}

// --- three tiers of production pipelines ---

constexpr std::uint64_t kAggregationSeed = 99;

/// A switch of the second tier with four ways up, whose hash has the seed that the leaf is told.
std::string aggregation_yaml() {
  std::string ports = "  - { name: down, type: \"null\" }\n",
              addresses = "  - { port: down, address: 10.1.1.254/24 }\n";
  std::string neighbours, hops;
  for (int i = 1; i <= 4; ++i) {
    const std::string n = std::to_string(i), net = "10.2." + n;
    ports += "  - { name: c" + n + ", type: \"null\" }\n";
    addresses += "  - { port: c" + n + ", address: " + net + ".1/24 }\n";
    neighbours += "  - { port: c" + n + ", address: " + net + ".2, mac: \"02:aa:00:00:00:2" + n + "\" }\n";
    hops += (i == 1 ? "" : ", ") + net + ".2";
  }
  return "name: aggregation\nseed: 99\nports:\n" + ports + "addresses:\n" + addresses + "neighbours:\n" + neighbours +
         "routes:\n  - { prefix: 10.0.0.0/16, via: [" + hops + "] }\npipeline: [ parse, l3, lb ]\n";
}

class ThreeTiers {
 public:
  explicit ThreeTiers(const std::string& icrc = "incremental")
      : leaf(weft::testing::all_stages(),
             "icrc: " + icrc + "\n" +
                 leaf_yaml(1, {.uplinks = 3, .lb = "{ policy: psn, tiers_above: [ { seed: 99, members: 4 } ] }"})) {
    for (int i = 0; i < 3; ++i) {
      above.push_back(std::make_unique<Harness>(weft::testing::all_stages(), aggregation_yaml()));
    }
  }

  struct Way {
    unsigned uplink, core;
    friend auto operator<=>(const Way&, const Way&) = default;
  };
  /// Sends a packet through leaf and aggregation.
  Way way(const FrameBuilder& frame) {
    leaf.inject("h1", frame.build());
    for (unsigned uplink = 0; uplink < 3; ++uplink) {
      for (auto& sent : leaf.take("s" + std::to_string(uplink + 1))) {
        const wire::Parsed parsed = parsed_of(sent.bytes);
        EXPECT_TRUE(wire::icrc_ok(sent.bytes.data(), parsed));
        EXPECT_GE(parsed.source_port, 0xc000);
        last = sent.bytes;
        // To the MAC address of this switch.
        const MacAddress mac = leaf_mac(0);
        std::copy(mac.bytes.begin(), mac.bytes.end(), sent.bytes.begin());
        above[uplink]->inject("down", sent.bytes);
        for (unsigned core = 0; core < 4; ++core) {
          if (!above[uplink]->take("c" + std::to_string(core + 1)).empty()) return {uplink, core};
        }
      }
    }
    ADD_FAILURE() << "the packet went nowhere";
    return {};
  }

  Harness leaf;
  std::vector<std::unique_ptr<Harness>> above;
  Bytes last;
};

TEST(PathMap, ThroughThreeTiersEachPsnTakesExactlyThePathThatItsDeltaMeans) {
  ThreeTiers fabric;
  const auto map = PathMap::build(std::vector<HashTier>{ecmp_tier(kAggregationSeed, 4)});
  const tables::EcmpHash leaf_hash(7), hash(kAggregationSeed);
  const std::uint64_t addresses = std::uint64_t{0x0a000102} << 32 | 0x0a000302;
  const std::uint64_t ports = tables::EcmpHash::ports_word(50000, 4791, 17);
  const std::uint32_t base = tables::EcmpHash::member(leaf_hash.v4(addresses, ports), 3);
  const std::uint32_t base_above = tables::EcmpHash::member(hash.v4(addresses, ports), 4);
  std::set<ThreeTiers::Way> all;
  for (std::uint32_t psn = 0; psn < 36; ++psn) {
    const std::uint32_t path = psn % 12;
    const ThreeTiers::Way expected{(path % 3 + base) % 3, base_above ^ path / 3};
    const ThreeTiers::Way taken = fabric.way(data(psn));
    EXPECT_TRUE(taken == expected) << psn;
    all.insert(taken);
  }
  EXPECT_EQ(all.size(), 12u) << "all paths there are";
}

TEST(PathMap, ChecksumsStayRightWhicheverWayTheyAreMade) {
  for (const char* icrc : {"incremental", "full"}) {
    ThreeTiers fabric(icrc);
    for (std::uint32_t psn = 0; psn < 12; ++psn) {
      fabric.way(data(psn).with_udp_checksum());
      const wire::Parsed parsed = parsed_of(fabric.last);
      const Bytes fresh = data(psn).eth(leaf_mac(0), leaf_mac(0)).udp(parsed.source_port).with_udp_checksum().build();
      const std::size_t udp = parsed.l4_offset;
      EXPECT_TRUE(std::equal(fresh.begin() + static_cast<std::ptrdiff_t>(udp), fresh.end(),
                             fabric.last.begin() + static_cast<std::ptrdiff_t>(udp), fabric.last.end()))
          << psn;
    }
  }
}

// What a change does to the ICRC is kept by length: lengths that share a place must not share what it holds.
TEST(PathMap, IcrcsAreRightForPacketsOfAllLengthsInAnyOrder) {
  ThreeTiers fabric;
  for (const std::size_t step : {1u, 128u, 36u, 128u, 1u}) {
    for (std::size_t bytes = 1; bytes < 1024; bytes += step) {
      fabric.way(data(static_cast<std::uint32_t>(bytes / step)).payload(bytes));
    }
  }
}

TEST(PathMap, PacketsInSeveralBuffersAreChangedToo) {
  ThreeTiers fabric;
  for (std::uint32_t psn = 0; psn < 12; ++psn) {
    const Bytes frame = data(psn).build();
    fabric.leaf.inject_chained("h1", frame, {100, 100, frame.size() - 202});
    std::size_t sent = 0;
    for (const char* port : {"s1", "s2", "s3"}) {
      for (const auto& out : fabric.leaf.take(port)) {
        const wire::Parsed parsed = parsed_of(out.bytes);
        EXPECT_TRUE(wire::icrc_ok(out.bytes.data(), parsed));
        ++sent;
      }
    }
    EXPECT_EQ(sent, 1u);
  }
}

TEST(PathMap, MistakesInTheTiersAreNamed) {
  const auto mistakes = [](const std::string& tiers) {
    config::Diagnostics diagnostics;
    const std::string yaml = leaf_yaml(1, {.lb = "{ policy: psn, tiers_above: " + tiers + " }"});
    EXPECT_FALSE(config::load_switch(yaml, weft::testing::all_stages(), diagnostics).has_value());
    return diagnostics.to_string();
  };
  EXPECT_THAT(mistakes("[ { seed: 1, members: 3 } ]"), HasSubstr("members must be a power of two"));
  EXPECT_THAT(mistakes("[ { seed: 1, members: 4 }, { seed: 1, members: 4 } ]"), HasSubstr("do not reach all paths"));
  EXPECT_THAT(mistakes("[ { seed: 1, members: 256 }, { seed: 2, members: 256 } ]"),
              HasSubstr("do not reach all paths"));
}

}  // namespace
}  // namespace weft::stages::testing
