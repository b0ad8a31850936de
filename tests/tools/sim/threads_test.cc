// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Threads and partitions change nothing of what happens in a run: random experiments, each run in several ways.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "switch/base/rng.h"
#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

// An experiment of a few hosts, whose every choice comes from the seed.
class RandomExperiment {
 public:
  explicit RandomExperiment(std::uint64_t seed) : rng_(seed), seed_(seed) {}

  std::string text() {
    std::string out = "seed: " + std::to_string(seed_) + "\n" + topology();
    const std::string kind = chance(8) ? "inc" : chance(6) ? "udp" : "roce";
    if (kind == "inc") return out + inc();
    if (kind == "udp") return out + udp();
    return out + switches() + nic() + workload() + faults() + (chance(5) ? "payload: values\n" : "");
  }

 private:
  std::uint64_t below(std::uint64_t n) { return rng_.below(n); }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  template <typename T>
  std::string one_of(std::initializer_list<T> values) {
    return std::string(*(values.begin() + below(values.size())));
  }
  std::string number(std::uint64_t low, std::uint64_t high) { return std::to_string(low + below(high - low + 1)); }

  std::string topology() {
    gbps_ = one_of({"25", "100", "400"});
    const std::string delays = "link_gbps: " + gbps_ + ", delay_ns: " + one_of({"40", "333", "1000", "2500"}) +
                               ", host_delay_ns: " + one_of({"1", "200", "1000"});
    if (chance(5)) return "topology: { kind: fat_tree, k: 4, " + delays + " }\n";
    if (chance(5)) {
      // A link that joins its two ends, and one that is long.
      return "topology: { kind: explicit, " + delays +
             ", switches: [a, b, c, d], hosts: [{ name: x, switch: a, count: 2 }, { name: y, switch: d, count: 2 }], "
             "links: [{ a: a, b: b, delay_ns: 20 }, { a: a, b: c, delay_ns: 30000 }, { a: b, b: d }, { a: c, b: d }] "
             "}\n";
    }
    leaf_spine_ = true;
    return "topology: { kind: leaf_spine, leaves: " + one_of({"2", "4"}) + ", spines: " + number(1, 4) +
           ", hosts_per_leaf: " + one_of({"1", "2"}) + ", " + delays + " }\n";
  }

  std::string switches() {
    const std::string more = ", pfc: " + one_of({"true", "false"}) + ", buffer_mb: " + one_of({"0.3", "1", "64"}) +
                             ", convergence_us: " + one_of({"never", "0", "3"}) + " }\n";
    if (!leaf_spine_ || chance(3)) {
      const std::string lb = one_of({"ecmp", "random", "drill", "adaptive", "letflow"});
      const std::string options = lb == "letflow" ? ", lb_options: { letflow: { gap_us: " + number(1, 20) + " } }" : "";
      return "switch: { lb: " + lb + options + more;
    }
    return "switch: { " + between_leaves() + more;
  }

  // Policies that leaves agree on, and what puts packets in order behind them.
  std::string between_leaves() {
    const auto pipelines = [](const std::string& leaf, const std::string& above) {
      return "pipeline: [parse, " + leaf + "], pipeline_above: [parse, " + above + "]";
    };
    const std::string mbps = "link_mbps: " + gbps_ + "000";
    const std::string policy = one_of({"psn", "conga", "conweave", "gemma", "reorder"});
    if (policy == "psn") return "lb: psn, nack_filter: { check: gap, guard_us: " + number(20, 100) + " }";
    if (policy == "conga") {
      return pipelines("{ lb_tag: { uplinks: [uplinks] } }, l3, { lb: { policy: conga } }",
                       "lb_tag, l3, { lb: { policy: conga } }");
    }
    if (policy == "conweave") {
      return pipelines("{ lb_tag: { uplinks: [uplinks], conweave: {} } }, l3, { lb: { policy: conweave } }", "l3, lb");
    }
    if (policy == "gemma") {
      return pipelines("{ lb_tag: { uplinks: [uplinks], " + mbps +
                           ", gemma: {} } }, rdma_track, { reorder: { uplinks: [uplinks] } }, l3, { lb: { policy: "
                           "gemma } }",
                       "{ lb_tag: { " + mbps + ", gemma: {} } }, l3, { lb: { policy: gemma } }");
    }
    return pipelines("rdma_track, { reorder: { uplinks: [uplinks] } }, l3, { lb: { policy: random } }", "l3, lb");
  }

  std::string nic() {
    return "nic: { transport: " + one_of({"gbn", "nic_sr", "irn", "ideal"}) + ", rto_us: " + number(100, 400) +
           ", mtu: " + one_of({"1024", "4096"}) + ", ack_every: " + one_of({"1", "4"}) +
           ", cc: { kind: " + one_of({"none", "dcqcn", "dcqcn", "timely", "swift", "hpcc"}) + " } }\n" +
           (chance(3) ? "rates_every_us: " + number(1, 20) + "\n" : "");
  }

  std::string workload() {
    const std::string kind = one_of({"ring", "ring_allreduce", "alltoall", "incast", "halving_doubling_allreduce"});
    const std::string schedule = kind == "alltoall" ? ", schedule: " + one_of({"burst", "rotated"}) : "";
    if (chance(8)) return "workload: { kind: barrier_rank0 }\n";
    if (chance(4)) {
      return "workload: { kind: poisson, cdf: " WEFT_SOURCE_DIR "/bench/papers/cdf/alistorage2019.txt, load: 0." +
             number(1, 6) + ", duration_ms: 0." + number(1, 3) +
             (chance(2) ? ", incast: { senders: 2, bytes: 20000, every_us: 40 }" : "") + " }\n";
    }
    return "workload: { kind: " + kind + ", bytes: " + number(20'000, 200'000) + schedule + " }\n";
  }

  std::string faults() {
    std::string list;
    if (chance(3)) list += "{ loss: 0.00" + number(1, 9) + " }, ";
    if (leaf_spine_ && chance(3))
      list += "{ link: leaf0/spine0, down_at_us: " + number(1, 20) + ", up_at_us: " + number(21, 60) + " }, ";
    return "faults: [" + list + "]\ntime_limit_ms: 20\n";
  }

  std::string udp() {
    return "nic: { transport: udp, mtu: 1000 }\nworkload: { kind: alltoall, bytes: " + number(20'000, 200'000) +
           ", schedule: " + one_of({"burst", "rotated"}) + " }\n";
  }

  std::string inc() {
    return "nic: { transport: gbn, mtu: 1024, cc: { kind: none }, rto_us: 200 }\n"
           "workload: { kind: inc, operation: " +
           one_of({"allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather"}) +
           ", bytes: 65536, times: " + number(1, 3) + " }\npayload: " + one_of({"values", "elided"}) +
           "\nfaults: [{ link: all, loss: 0.000" + number(0, 9) + " }]\ntime_limit_ms: 20\n";
  }

  Rng rng_;
  std::uint64_t seed_;
  bool leaf_spine_ = false;
  std::string gbps_{};
};

// The first one of a row of seeds that can be run: not every buffer has room for what the ports reserve.
std::string experiment_of(std::uint64_t seed) {
  for (;; seed += 1'000'000) {
    config::Diagnostics diagnostics;
    std::string text = RandomExperiment(seed).text();
    if (load_experiment(text, "test.yaml", {}, testing::all_stages(), diagnostics)) return text;
  }
}

// All of a report but for what the machine took.
nlohmann::ordered_json result(const std::string& text, RunOptions options) {
  return run_text(text, {}, {}, options);
}

void expect_equal_runs(std::uint64_t first, std::uint64_t count) {
  std::size_t most = 0, complete = 0, lost = 0;
  std::string all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = experiment_of(seed);
    SCOPED_TRACE(text);
    all += text;
    std::size_t partitions = 0;
    const auto alone = result(text, {.threads = 1, .partitions = 1});
    const auto apart = run_text(text, {}, [&](Simulation& s) { partitions = s.partitions(); }, {.threads = 1});
    ASSERT_EQ(alone["trace_hash"], apart["trace_hash"]);
    EXPECT_EQ(alone.dump(), apart.dump());
    EXPECT_EQ(alone.dump(), result(text, {.threads = 2}).dump());
    EXPECT_EQ(alone.dump(),
              result(text, {.threads = 3, .partitions = 2 + static_cast<std::uint32_t>(seed % 3)}).dump());
    most = std::max(most, partitions);
    complete += alone["summary"]["complete"].get<bool>() ? 1 : 0;
    lost += alone["drops_by_reason"].empty() ? 0 : 1;
  }
  EXPECT_GT(most, 3u) << "nothing ran apart";
  EXPECT_GT(complete, count / 2);
  EXPECT_GT(lost, 0u);
  // Twenty do not have every choice.
  if (count < 100) return;
  for (const char* choice : {"psn", "conga", "conweave", "gemma", "lb: letflow", "lb: drill", "lb: adaptive",
                             "policy: random", "kind: dcqcn", "kind: timely", "kind: swift", "kind: hpcc", "poisson",
                             "every_us: 40", "rates_every_us", "kind: inc,", "transport: udp", "payload: values"}) {
    EXPECT_NE(all.find(choice), std::string::npos) << "no experiment has " << choice;
  }
}

TEST(Threads, ChangeNothingOfTwentyRandomExperiments) {
  expect_equal_runs(1, 20);
}

// Of tools/check --full.
TEST(Threads, DISABLED_ChangeNothingOfTwoHundredRandomExperiments) {
  expect_equal_runs(100, 200);
}

}  // namespace
}  // namespace weft::sim
