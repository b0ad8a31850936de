// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Scheduled changes of links, in a whole process: in which order they come, and how late.
#include <gmock/gmock.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "switch/config/config.h"
#include "switch/runtime/eal.h"
#include "switch/runtime/runtime.h"
#include "switch/stages/stages.h"
#include "tests/support/temporary_directory.h"

namespace weft {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Several rows of changes, because the machine may keep the process from its CPUs during some of them.
constexpr int kRows = 15;
constexpr int kChanges = 20;  // in a row, one each millisecond
constexpr std::size_t kAll = kRows * kChanges;
constexpr milliseconds kFirst{500};
constexpr milliseconds kBetweenRows{100};
// A thread that looked every 10 ms would be later than that with one change in each row.
constexpr microseconds kLatest{8000};
constexpr int kCables = 5;

milliseconds time_of(int change) {
  return kFirst + change / kChanges * kBetweenRows + milliseconds(change % kChanges);
}
// The two switches take turns. Each takes one port after the other down, and then up again.
std::string switch_of(int change) {
  return "s" + std::to_string(change % 2 + 1);
}
std::string port_of(int change) {
  return "c" + std::to_string(change / 2 % kCables);
}
std::string link_of(int change) {
  return change / (2 * kCables) % 2 == 0 ? "down" : "up";
}

std::string yaml() {
  std::string out =
      "eal: { hugepages: off, mbufs: 4096, mbuf_data_room_bytes: 2176, workers: [0] }\n"
      "control: { socket: \"\" }\nidle: sleep\nswitches:\n";
  for (int s = 0; s < 2; ++s) {
    out += "  - name: " + switch_of(s) + "\n    ports:\n";
    for (int c = 0; c < kCables; ++c) {
      out += "      - { name: " + port_of(2 * c) + ", type: link, peer: " + switch_of(1 - s) + "/" + port_of(2 * c) +
             " }\n";
    }
    out += "    pipeline: [parse, l2]\n    faults:\n";
    for (int i = s; i < kRows * kChanges; i += 2) {
      out += "      - { at_s: " + std::to_string(static_cast<double>(time_of(i).count()) / 1000) +
             ", port: " + port_of(i) + ", link: " + link_of(i) + " }\n";
    }
  }
  return out;
}

// What the log says of scheduled changes, and when.
class Changes : public spdlog::sinks::base_sink<std::mutex> {
 public:
  struct Change {
    std::string text;
    steady_clock::time_point at;
  };
  [[nodiscard]] std::vector<Change> all() {
    const std::lock_guard lock(mutex_);
    return changes_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string text(message.payload.data(), message.payload.size());
    if (text.find("scheduled") != std::string::npos) changes_.push_back({std::move(text), steady_clock::now()});
  }
  void flush_() override {}

 private:
  std::vector<Change> changes_;
};

// When the switch has started, not later than that and hardly earlier.
steady_clock::time_point start_of(const Runtime& runtime) {
  auto start = steady_clock::time_point::min();
  for (int i = 0; i < 20; ++i) {
    const auto now = steady_clock::now();
    const std::chrono::duration<double> up(runtime.about()["uptime_s"].get<double>());
    start = std::max(start, now - duration_cast<steady_clock::duration>(up));
  }
  return start;
}

TEST(Faults, OfAllSwitchesComeInTheOrderOfTheirTimesAndAtTheirTimes) {
  pipeline::Registry registry;
  stages::register_all(registry);
  config::Diagnostics diagnostics;
  auto config = config::load_config(yaml(), "faults", registry, diagnostics);
  ASSERT_TRUE(config) << diagnostics.to_string();
  const Eal eal = start_eal(*config, {});
  ASSERT_EQ(eal.error, "");
  const auto changes = std::make_shared<Changes>();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", changes));
  std::string error;
  auto runtime = std::make_unique<Runtime>(registry, std::move(*config), "faults", eal, error);
  ASSERT_EQ(error, "");
  std::atomic<bool> stop{false};
  runtime->start();
  std::thread runner([&] { runtime->run({.stop = &stop}); });
  const auto start = start_of(*runtime);
  const auto patience = steady_clock::now() + std::chrono::minutes(1);
  while (changes->all().size() < kAll && steady_clock::now() < patience) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  stop = true;
  runner.join();
  runtime.reset();
  stop_eal();

  const auto all = changes->all();
  ASSERT_EQ(all.size(), kAll);
  auto best = microseconds::max();
  for (int row = 0; row < kRows; ++row) {
    auto latest = microseconds::min();
    for (int i = row * kChanges; i < (row + 1) * kChanges; ++i) {
      const Changes::Change& change = all[static_cast<std::size_t>(i)];
      EXPECT_EQ(change.text, switch_of(i) + "/" + port_of(i) + ": as scheduled: link " + link_of(i));
      const auto late = duration_cast<microseconds>(change.at - (start + time_of(i)));
      EXPECT_GE(late, -milliseconds(1)) << i;
      latest = std::max(latest, late);
    }
    best = std::min(best, latest);
  }
  EXPECT_LT(best, kLatest) << "us: the latest change of the row that was most in time";
  RecordProperty("latest_us", static_cast<int>(best.count()));
}

}  // namespace
}  // namespace weft
