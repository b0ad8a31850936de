// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every order of: a packet of one of two flows arrives, three of each; a CNP for either comes, up to three for one flow
// and one for the other; time passes, in steps that are neither the time of a loop nor of a packet. In the end all goes
// on without further events until nothing is held. With `pace` seven packets of the first flow and one of the other
// arrive: the first two behind a CNP tell the rate, and what is more than a burst of one is held.
//
// Checked: packets of a flow go on in the order in which they came, in every mode that says so; a flow without a CNP is
// not held at all; nothing is held for ever, nor longer than what is configured and the turns behind the limit;
// something is held in each case; `direct` recovery is seen to reorder, so that the check can fail.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

#include "switch/stages/trp/unit.h"

namespace weft::stages {
namespace {

constexpr std::uint32_t kFlows = 2, kPackets = 3;
using PerFlow = std::array<std::uint32_t, kFlows>;
constexpr PerFlow kCnps{3, 1}, kEqual{kPackets, kPackets}, kOneLong{7, 1};
constexpr std::uint32_t kBytes = 10;
constexpr TimeNs kStep = 31, kEnd = 3 * kStep;
constexpr TimeNs kMaxHold = 150;
// Behind the limit a packet goes round until its turn comes: behind the others of its flow, each with a limit of its
// own that has passed by then, through a port that all share.
constexpr TimeNs kLongest = kMaxHold + (kFlows * kPackets + 1) * (kBytes + 20);

wire::FlowName name_of(std::uint32_t flow) {
  return {0x0a000001'0a010001, 30 + flow, false};
}

TrpSettings settings(TrpMode mode, TrpRule rule, TrpRecovery recovery) {
  TrpSettings s;
  s.mode = mode;
  s.recovery = recovery;
  s.rules = {.rule = rule, .alpha = 1, .beta_ns = 35, .max_loops = 4};
  s.store = {.flows = kFlows, .cache = 1};
  s.loop_delay_ns = 20;
  s.loop_mbps = 8000;  // a byte takes a nanosecond
  s.max_hold_ns = kMaxHold;
  s.max_packets = 8;
  s.measure_packets = 1;
  s.measure_ns = 1;
  return s;
}

struct World final : TrpSink {
  explicit World(const TrpSettings& s) : unit(s) {}
  World(const World&) = default;
  World& operator=(const World&) = default;

  TrpUnit unit;
  TimeNs now = 0;
  PerFlow arrived{}, gone{}, cnps{};
  bool reordered = false, innocent_held = false;

  void release(TrpPacket packet) noexcept override { go_on(static_cast<std::uint32_t>(packet)); }
  void go_on(std::uint32_t packet) {
    const std::uint32_t flow = packet / 16 - 1;
    if (packet % 16 != gone[flow]) reordered = true;
    ++gone[flow];
  }
  void arrive(std::uint32_t flow) {
    const std::uint32_t packet = 16 * (flow + 1) + arrived[flow]++;
    if (unit.on_data(now, name_of(flow), packet, kBytes, *this) != TrpVerdict::held) return go_on(packet);
    innocent_held = innocent_held || cnps[flow] == 0;
  }
  void pass_time(TimeNs by) {
    now += by;
    while (unit.next_deadline() <= now) unit.on_timer(now, *this);
  }
  [[nodiscard]] bool all_gone() const { return arrived == gone && unit.held() == 0; }

  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t sum = 0xcbf29ce484222325;
    const auto add = [&](std::uint64_t v) { sum = (sum ^ v) * 0x9e3779b97f4a7c15 ^ (sum >> 29); };
    add(now);
    for (std::uint32_t i = 0; i < kFlows; ++i) add(cnps[i] << 16 | arrived[i] << 8 | gone[i]);
    add((reordered ? 1 : 0) + (innocent_held ? 2 : 0));
    unit.hash_state(add, now);
    return sum;
  }
};

struct Explored {
  std::size_t states = 0;
  std::size_t reordered = 0;  // end states in which packets of a flow changed places
  std::size_t innocent = 0;   // end states in which a flow without a CNP was held
  std::size_t stuck = 0;      // end states in which something is still held
  TimeNs longest = 0;
};

// Without further events: every deadline is met, as many as any packet can need.
void finish(World world, Explored& result) {
  for (int i = 0; i < 1000 && world.unit.next_deadline() != kNever; ++i) {
    world.now = std::max(world.now, world.unit.next_deadline());
    world.unit.on_timer(world.now, world);
  }
  result.reordered += world.reordered ? 1 : 0;
  result.innocent += world.innocent_held ? 1 : 0;
  result.stuck += world.all_gone() ? 0 : 1;
  result.longest = std::max(result.longest, world.unit.counters().longest_hold_ns);
}

Explored explore(const TrpSettings& s, const PerFlow& packets = kEqual) {
  Explored result;
  std::vector<World> frontier(1, World(s));
  std::unordered_set<std::uint64_t> seen{frontier[0].hash()};
  while (!frontier.empty()) {
    std::vector<World> next;
    for (const World& world : frontier) {
      if (world.now >= kEnd) finish(world, result);
      const auto step = [&](auto&& event) {
        World after = world;
        event(after);
        if (seen.insert(after.hash()).second) next.push_back(std::move(after));
      };
      for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
        if (world.arrived[flow] < packets[flow]) step([flow](World& w) { w.arrive(flow); });
        if (world.cnps[flow] < kCnps[flow]) {
          step([flow](World& w) {
            ++w.cnps[flow];
            EXPECT_TRUE(w.unit.on_cnp(w.now, name_of(flow)));
          });
        }
      }
      if (world.now < kEnd) step([](World& w) { w.pass_time(kStep); });
    }
    frontier = std::move(next);
  }
  result.states = seen.size();
  return result;
}

// A build in which one condition is wrong says by this variable that one of these tests must notice. All mistakes are
// gathered, and the last test asks whether there was one.
bool mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION") != nullptr;
}
std::vector<std::string>& mistakes() {
  static std::vector<std::string> found;
  return found;
}
void check(bool good, const std::string& what) {
  if (good) return;
  mistakes().push_back(what);
  if (!mutant()) ADD_FAILURE() << what;
}

struct Case {
  const char* name;
  TrpSettings settings;
  std::size_t states;  // as they were counted when all of this was last looked at
  PerFlow packets = kEqual;
};

std::vector<Case> ordered_cases() {
  using enum TrpRecovery;
  TrpSettings small = settings(TrpMode::recirculate, TrpRule::text, aligned);
  small.max_packets = 2;
  TrpSettings late = settings(TrpMode::recirculate, TrpRule::text, aligned);
  late.store.insert_delay_ns = 30;
  TrpSettings small_pace = settings(TrpMode::pace, TrpRule::text, aligned);
  small_pace.max_packets = 1;
  TrpSettings departure = settings(TrpMode::pace, TrpRule::text, aligned);
  departure.at_departure = true;
  TrpSettings halves = departure;
  halves.halves = true;
  return {
      {"recirculate, text", settings(TrpMode::recirculate, TrpRule::text, aligned), 94063},
      {"recirculate, algorithm1", settings(TrpMode::recirculate, TrpRule::algorithm1, aligned), 94832},
      {"recirculate, code", settings(TrpMode::recirculate, TrpRule::code, aligned), 237314},
      {"recirculate, never recovers", settings(TrpMode::recirculate, TrpRule::text, none), 110279},
      {"recirculate, room for two packets", small, 48266},
      {"recirculate, CNP_Store comes late", late, 113109},
      {"pace", settings(TrpMode::pace, TrpRule::text, aligned), 154901, kOneLong},
      {"pace, room for one packet", small_pace, 127755, kOneLong},
      {"pace, rates at departure", departure, 151443, kOneLong},
      {"pace, halves at departure", halves, 152317, kOneLong},
  };
}

TEST(TrpExhaustive, OrderIsKeptAndNothingIsHeldForEver) {
  for (const Case& one : ordered_cases()) {
    if (mutant() && !mistakes().empty()) break;
    const Explored explored = explore(one.settings, one.packets);
    std::printf("%-36s %9zu states, held for at most %llu ns\n", one.name, explored.states,
                static_cast<unsigned long long>(explored.longest));
    check(explored.reordered == 0, std::string(one.name) + ": packets changed places");
    check(explored.innocent == 0, std::string(one.name) + ": a flow without a CNP was held");
    check(explored.stuck == 0, std::string(one.name) + ": packets are held for ever");
    check(explored.longest > 0, std::string(one.name) + ": nothing was held");
    check(explored.longest <= kLongest, std::string(one.name) + ": packets are held too long");
    if (!mutant()) {
      EXPECT_EQ(explored.states, one.states) << one.name;
    }
  }
}

TEST(TrpExhaustive, DirectRecoveryReorders) {
  struct Direct {
    TrpRule rule;
    std::size_t states, reordered;
  };
  for (const Direct& one : {Direct{TrpRule::text, 92600, 7864}, Direct{TrpRule::code, 237314, 3123}}) {
    const Explored explored = explore(settings(TrpMode::recirculate, one.rule, TrpRecovery::direct));
    check(explored.stuck == 0, "direct: packets are held for ever");
    check(explored.reordered > 0, "direct: it should reorder");
    std::printf("%-36s %9zu states, %zu reordered\n", "recirculate, direct", explored.states, explored.reordered);
    if (mutant()) continue;
    EXPECT_EQ(explored.states, one.states);
    EXPECT_EQ(explored.reordered, one.reordered);
  }
}

// Section V-B: the first CNP, then every alpha-th, and alpha grows with each step.
TEST(TrpExhaustive, StepsOfTheTextGetRarer) {
  for (std::uint32_t alpha = 1; alpha <= 8; ++alpha) {
    TrpLaw law;
    const TrpRules rules{.alpha = alpha, .max_loops = 1000};
    std::uint32_t cnps = 0, next = 1, wait = alpha;
    for (std::uint32_t loops = 1; loops <= 6; ++loops) {
      while (cnps < next) law.on_cnp(++cnps, rules);
      check(law.loop_num == loops, "text: a step that comes at the wrong CNP");
      next += ++wait;
    }
  }
}

TEST(TrpExhaustive, MutantsAreNoticed) {
  if (mutant()) {
    EXPECT_FALSE(mistakes().empty()) << "the mutant lives";
  }
}

}  // namespace
}  // namespace weft::stages
