// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every order of: a marked packet of one of two connections leaves; a connection ends and its queue pair is destroyed;
// another one begins under the same name with another queue pair at its source (QPN reuse); time passes, in steps of
// half the interval. The table has one set, so that connections may share nothing but must not disturb each other.
//
// Checked after every step: no two CNPs of a connection within an interval; a mark is cleared only when a CNP of the
// same connection was sent within the interval; a CNP goes to the queue pair that the source has now; a mark whose
// queue pair is gone stays.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "switch/stages/pnp/unit.h"

namespace weft::stages {
namespace {

constexpr TimeNs kStep = 10, kInterval = 2 * kStep;
constexpr std::uint32_t kConnections = 2, kQps = 2;
constexpr unsigned kMostSteps = 64;  // in which all states are reached

PnpName name_of(std::uint32_t connection) {
  return {0x0a000001'0a010001, 30 + connection, false};
}

struct World {
  PnpUnit unit{PnpUnit::kWays};
  TimeNs now = 0;
  // By connection: the queue pair at its source, as rdma_track knows it; nullopt: destroyed.
  std::optional<std::uint32_t> client_qp[kConnections];
  std::optional<TimeNs> told[kConnections];           // when the connection that is there now was told
  std::optional<TimeNs> told_qp[kConnections][kQps];  // when this queue pair was told, of whatever connection
  std::string wrong{};

  void check(bool good, const char* what) {
    if (!good && wrong.empty()) wrong = what;
  }

  // As the stage does: what the tracker says first, then the mark.
  void mark(std::uint32_t c) {
    if (client_qp[c]) {
      unit.learn(now, kInterval, name_of(c), *client_qp[c]);
    } else {
      unit.forget(name_of(c));
    }
    std::uint32_t to = 0;
    const PnpVerdict verdict = unit.on_marked(now, kInterval, name_of(c), to);
    const auto is_within = [&](const std::optional<TimeNs>& at) { return at && now - *at < kInterval; };
    check(verdict == PnpVerdict::pass || client_qp[c].has_value(), "a CNP or a cleared mark of a destroyed queue pair");
    check(verdict != PnpVerdict::pass || !client_qp[c], "a mark of a known queue pair stays");
    if (verdict == PnpVerdict::notify) {
      check(!is_within(told[c]), "two CNPs within an interval");
      check(client_qp[c] && to == *client_qp[c], "a CNP to a queue pair that is gone");
      told[c] = now;
      if (client_qp[c]) told_qp[c][*client_qp[c]] = now;
    }
    const bool covered = client_qp[c] && is_within(told_qp[c][*client_qp[c]]);
    check(verdict != PnpVerdict::clear || covered, "a mark cleared without a CNP");
  }
  void destroy(std::uint32_t c) {
    client_qp[c].reset();
    told[c].reset();
  }
  void create(std::uint32_t c, std::uint32_t qp) {
    destroy(c);
    client_qp[c] = qp;
  }

  [[nodiscard]] std::vector<std::uint64_t> state() const {
    std::vector<std::uint64_t> words;
    // Only differences of time count: ages beyond the interval are alike.
    const auto age = [&](TimeNs at) { return std::min<TimeNs>(now - at, kInterval); };
    for (const PnpFlow& flow : unit.flows(0)) {
      words.push_back(flow.known ? std::uint64_t{flow.name.dest_qp} << 8 | flow.client_qp << 1 | (flow.notified ? 1 : 0)
                                 : 0);
      words.push_back(flow.notified ? age(flow.notified_at) : 0);
    }
    for (std::uint32_t c = 0; c < kConnections; ++c) {
      words.push_back(client_qp[c] ? 1 + *client_qp[c] : 0);
      for (const auto& at : told_qp[c]) words.push_back(at ? 1 + age(*at) : 0);
      words.push_back(told[c] ? 1 + age(*told[c]) : 0);
    }
    return words;
  }
};

struct Explored {
  std::size_t states = 0, steps = 0;
  std::string wrong{};
  unsigned depth = 0;  ///< of the first mistake
};

Explored explore() {
  Explored result;
  std::vector<World> frontier(1);
  std::set<std::vector<std::uint64_t>> seen{frontier[0].state()};
  for (unsigned depth = 1; depth <= kMostSteps && !frontier.empty(); ++depth) {
    std::vector<World> next;
    for (const World& world : frontier) {
      const auto step = [&](auto&& event) {
        World after = world;
        event(after);
        ++result.steps;
        if (!after.wrong.empty() && result.wrong.empty()) {
          result.wrong = after.wrong;
          result.depth = depth;
        }
        if (seen.insert(after.state()).second) next.push_back(std::move(after));
      };
      step([](World& w) { w.now += kStep; });
      for (std::uint32_t c = 0; c < kConnections; ++c) {
        step([c](World& w) { w.mark(c); });
        step([c](World& w) { w.destroy(c); });
        for (std::uint32_t qp = 0; qp < kQps; ++qp) step([c, qp](World& w) { w.create(c, qp); });
      }
    }
    frontier = std::move(next);
  }
  result.states = seen.size();
  EXPECT_TRUE(frontier.empty()) << "states that were not reached within " << kMostSteps << " steps";
  return result;
}

TEST(PnpExhaustive, EveryOrderOfMarksAndQueuePairs) {
  const Explored explored = explore();
  // A build in which one condition of the unit is wrong says by this variable that it must be caught.
  if (std::getenv("WEFT_EXPECT_VIOLATION") != nullptr) {
    EXPECT_FALSE(explored.wrong.empty()) << "the mutant lives";
    return;
  }
  EXPECT_EQ(explored.wrong, "") << "after " << explored.depth << " steps";
  std::printf("%zu states, %zu steps\n", explored.states, explored.steps);
  // As they were counted when all of this was last looked at: other numbers mean that something else is explored.
  EXPECT_EQ(explored.states, 26064u);
  EXPECT_EQ(explored.steps, 234576u);
}

}  // namespace
}  // namespace weft::stages
