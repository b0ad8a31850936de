// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tools/weft-inc/perf.h"
#include "tools/weft-inc/perf_data.h"
#include "tools/weft-inc/perf_link.h"

namespace weft::inc_tool {
namespace {

TEST(PerfSizes, GrowByAFactorOrAStep) {
  PerfOptions o;
  o.min_bytes = 8;
  o.max_bytes = 64;
  EXPECT_EQ(perf_sizes(o), (std::vector<std::uint64_t>{8, 16, 32, 64}));
  o.factor = 4;
  EXPECT_EQ(perf_sizes(o), (std::vector<std::uint64_t>{8, 32}));
  o.factor = 0;
  o.step_bytes = 24;
  EXPECT_EQ(perf_sizes(o), (std::vector<std::uint64_t>{8, 32, 56}));
  o.collective = "barrier";
  EXPECT_EQ(perf_sizes(o), (std::vector<std::uint64_t>{0}));
}

TEST(PerfTimes, QuantilesAreOfTheNearestRank) {
  PerfTimes t;
  EXPECT_EQ(t.quantile(0.5), 0);
  for (int i = 100; i >= 1; --i) t.microseconds.push_back(i);
  EXPECT_EQ(t.quantile(0.5), 50);
  EXPECT_EQ(t.quantile(0.99), 99);
}

TEST(PerfTimes, AnIterationTakesItsPartOfTheWhole) {
  const PerfTimes t{{3, 5, 4}, 9, 0};
  EXPECT_EQ(t.mean(), 3);
  EXPECT_EQ(PerfTimes().mean(), 0);
}

TEST(PerfTable, LooksAsThatOfNcclTests) {
  PerfOptions o;
  o.ranks = 4;
  PerfRow row{4'000'000, 1'000'000, {{1000, 3000}, 4000, 0}, {{4000}, 4000, 2}};
  EXPECT_EQ(table_line(o, row),
            "     4000000       1000000     float     sum      -1   2000.00   2.000   3.000       0   4000.00   1.000"
            "   1.500       2   1000.00   3000.00     N/A");
  EXPECT_FALSE(json_row(o, row)["in_place"].contains("link_utilisation"));
  o.link_gbps = 25;
  row.link_bytes = 3'000'000;
  // 2930 packets of 1024 bytes, with 82 bytes of headers each, in 2 ms of a link that carries 6.25 MB in them.
  EXPECT_TRUE(table_line(o, row).ends_with("   3000.00    51.8"));
  EXPECT_NEAR(json_row(o, row)["in_place"]["link_utilisation"], 0.2592, 1e-4);
  EXPECT_EQ(json_row(o, row)["in_place"]["wrong"], 2);
  EXPECT_DOUBLE_EQ(bus_factor("allgather", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("broadcast", 4), 1);
}

TEST(PerfLink, BytesAreThoseOfTheBusiestLink) {
  PerfOptions o;
  o.ranks = 4;
  const auto bytes = [&](const char* collective, PerfWay way) {
    o.collective = collective;
    return busiest_link_bytes(o, way, 1000, 4);
  };
  // Up once and down once, where a ring takes 2 (n - 1) / n of the vector, and a tree's root all of it twice.
  EXPECT_EQ(bytes("allreduce", PerfWay::switches), 4000u);
  EXPECT_EQ(bytes("allreduce", PerfWay::ring), 6000u);
  EXPECT_EQ(bytes("allreduce", PerfWay::tree), 8000u);
  EXPECT_EQ(bytes("broadcast", PerfWay::switches), 4000u);
  EXPECT_EQ(bytes("broadcast", PerfWay::ring), 8000u);
  EXPECT_EQ(bytes("allgather", PerfWay::switches), 12000u);
  EXPECT_EQ(bytes("reduce_scatter", PerfWay::ring), 12000u);
  EXPECT_EQ(bytes("barrier", PerfWay::switches), 0u);
  EXPECT_EQ(bytes("barrier", PerfWay::tree), 0u);
}

TEST(PerfLink, RatesAreWhatLinuxSays) {
  const auto sys = std::filesystem::temp_directory_path() / ("weft-perf-link-" + std::to_string(getpid()));
  const auto write = [&](const char* path, const char* text) {
    std::filesystem::create_directories((sys / path).parent_path());
    std::ofstream(sys / path) << text;
  };
  write("class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  write("class/infiniband/mlx5_0/ports/2/rate", "2.5 Gb/sec (1X SDR)\n");
  write("class/net/lo/speed", "25000\n");
  write("class/net/down0/speed", "-1\n");
  EXPECT_EQ(link_gbps("mlx5_0", "", "", sys), 100);
  EXPECT_EQ(link_gbps("mlx5_0:2", "", "", sys), 2.5);
  EXPECT_EQ(link_gbps("mlx5_1", "", "", sys), std::nullopt);
  EXPECT_EQ(link_gbps("", "lo", "", sys), 25);
  EXPECT_EQ(link_gbps("", "", "127.0.0.1", sys), 25) << "the interface that has the address";
  EXPECT_EQ(link_gbps("", "", "192.0.2.77", sys), std::nullopt);
  EXPECT_EQ(link_gbps("", "down0", "", sys), std::nullopt);
  std::filesystem::remove_all(sys);
}

/// A result that one host makes is right, and one that is changed anywhere is not.
template <class T>
void check(weft_inc_type type) {
  constexpr std::uint32_t kRanks = 5;
  std::vector<T> sum(101);
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    std::vector<T> one(sum.size());
    fill(type, r, 0, one.size(), one.data());
    EXPECT_EQ(wrong_copied(type, r, one.size(), one.data()), 0u);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<T>(sum[i] + one[i]);
  }
  EXPECT_EQ(wrong_reduced(type, WEFT_INC_SUM, kRanks, 0, sum.size(), sum.data()), 0u);
  EXPECT_EQ(wrong_reduced(type, WEFT_INC_SUM, kRanks, 7, sum.size() - 7, sum.data() + 7), 0u);
  EXPECT_EQ(wrong_reduced(type, WEFT_INC_SUM, kRanks, 1, sum.size(), sum.data()), sum.size());
  sum[100] = static_cast<T>(sum[100] + 1);
  EXPECT_EQ(wrong_reduced(type, WEFT_INC_SUM, kRanks, 0, sum.size(), sum.data()), 1u);
}

TEST(PerfData, TellsRightFromWrong) {
  check<float>(WEFT_INC_FP32);
  check<double>(WEFT_INC_FP64);
  check<std::int8_t>(WEFT_INC_INT8);
  check<std::uint16_t>(WEFT_INC_UINT16);
  check<std::int64_t>(WEFT_INC_INT64);
  // 1, 2 and 3 as binary16 and bfloat16.
  std::array<std::uint16_t, 3> halves{0x3c00, 0x4000, 0x4200}, brains{0x3f80, 0x4000, 0x4040};
  EXPECT_EQ(wrong_copied(WEFT_INC_FP16, 0, 3, halves.data()), 0u);
  EXPECT_EQ(wrong_copied(WEFT_INC_BF16, 0, 3, brains.data()), 0u);
}

TEST(PerfData, NamesAreThoseOfNcclTestsAndOurs) {
  EXPECT_EQ(perf_type("half"), WEFT_INC_FP16);
  EXPECT_EQ(perf_type("fp16"), WEFT_INC_FP16);
  EXPECT_EQ(perf_type("quad"), std::nullopt);
  EXPECT_EQ(perf_op("band"), WEFT_INC_BAND);
  EXPECT_EQ(perf_op("avg"), std::nullopt);
  EXPECT_EQ(perf_primitive("reduce_scatter"), WEFT_INC_REDUCE_SCATTER);
}

}  // namespace
}  // namespace weft::inc_tool
