// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every order of: a request of one of two flows to one destination arrives, two or three of each; one of a flow whose
// answers nobody can tell; the receiver acknowledges a flow up to any packet that has gone on; it misses one, once, and
// the sender goes back; time passes. In the end all goes on without further events until nothing is held.
//
// Checked: packets go on in the order in which they came; what counts as under way is what has gone on and was neither
// acknowledged nor taken for lost; that is never more than the limit, but for what found no room; nothing waits while
// it would fit, and nothing for ever.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

#include "switch/stages/bicc/unit.h"

namespace weft::stages {
namespace {

constexpr std::uint32_t kFlows = 2, kStrangers = 1, kBytes = 10;
constexpr std::uint64_t kReceiver = 0x0a010001;
constexpr TimeNs kStale = 50, kStep = 30, kEnd = 2 * kStep;

BiccSettings settings(std::uint32_t packets_under_way, std::uint32_t room) {
  return {.limit_bytes = packets_under_way * kBytes,
          .stale_ns = kStale,
          .max_packets = room,
          .destinations = 4,
          .flows = 4};
}

wire::FlowName name_of(std::uint32_t flow) {
  return {0x0a020001'00000000 | kReceiver, 30 + flow, false};
}

struct World final : BiccSink {
  explicit World(const BiccSettings& s) : unit(s) {}
  World(const World&) = default;
  World& operator=(const World&) = default;

  BiccUnit unit;
  TimeNs now = 0;
  // A packet's number: its place among all that came, its flow, its PSN.
  std::uint32_t came = 0, gone = 0, strangers = 0, naks = 0;
  std::array<std::uint32_t, kFlows> next{}, acked{}, highest{};  // PSNs from 1; `next`: sent already
  std::array<std::uint32_t, kFlows> under_way{};                 // a bit for each PSN
  bool reordered = false, miscounted = false, too_much = false, idle = false;

  void release(BiccPacket packet) noexcept override {
    if (packet >> 16 != ++gone) reordered = true;
    const std::uint32_t flow = (packet >> 8 & 0xff) - 1, psn = packet & 0xff;
    if (flow >= kFlows) return;
    if (under_way[flow] >> psn != 0) under_way[flow] = 0;  // sent again
    under_way[flow] |= 1u << psn;
    highest[flow] = std::max(highest[flow], psn);
  }
  void arrive(std::uint32_t flow) {
    const std::uint32_t psn = flow == kFlows ? ++strangers : ++next[flow];
    const BiccPacket packet = std::uint64_t{++came} << 16 | (flow + 1) << 8 | psn;
    const auto verdict = unit.on_request(now,
                                         {.destination = kReceiver,
                                          .name = name_of(flow),
                                          .acknowledged = flow != kFlows,
                                          .psn = wire::Psn(psn),
                                          .bytes = kBytes,
                                          .packet = packet},
                                         *this);
    if (verdict != BiccVerdict::held) release(packet);
    look();
  }
  void acknowledge(std::uint32_t flow, std::uint32_t psn) {
    for (std::uint32_t i = 0; i <= psn; ++i) under_way[flow] &= ~(1u << i);
    acked[flow] = psn;
    unit.on_ack(now, name_of(flow), wire::Psn(psn), *this);
    look();
  }
  void miss(std::uint32_t flow) {
    ++naks;
    under_way[flow] = 0;
    next[flow] = acked[flow];
    unit.on_nak(now, name_of(flow), *this);
    look();
  }
  void pass_time(TimeNs by) {
    now += by;
    while (unit.next_deadline() <= now) expire();
    look();
  }
  void expire() {
    under_way = {};
    unit.on_timer(now, *this);
  }
  void look() {
    std::uint64_t bytes = 0;
    for (const std::uint32_t bits : under_way) bytes += kBytes * static_cast<unsigned>(__builtin_popcount(bits));
    for (const BiccQueue& queue : unit.queues()) {
      if (queue.destination == 0) continue;
      miscounted = miscounted || queue.in_flight != bytes;
      idle = idle || (queue.held != 0 && queue.in_flight + kBytes <= unit.settings().limit_bytes);
    }
    too_much = too_much || (bytes > unit.settings().limit_bytes && unit.counters().flushed == 0);
  }

  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t sum = 0xcbf29ce484222325;
    const auto add = [&](std::uint64_t v) { sum = (sum ^ v) * 0x9e3779b97f4a7c15 ^ (sum >> 29); };
    add(now);
    for (std::uint32_t i = 0; i < kFlows; ++i) {
      add(next[i] << 24 | acked[i] << 16 | highest[i] << 8 | under_way[i]);
    }
    add(std::uint64_t{came} << 32 | gone << 16 | strangers << 8 | naks);
    add((reordered ? 1 : 0) + (miscounted ? 2 : 0) + (too_much ? 4 : 0) + (idle ? 8 : 0) +
        (unit.counters().flushed != 0 ? 16 : 0));
    unit.hash_state(add, now);
    return sum;
  }
};

struct Explored {
  std::size_t states = 0, reordered = 0, miscounted = 0, too_much = 0, idle = 0, stuck = 0;
  TimeNs longest = 0;
};

// Without further events.
void finish(World world, Explored& result) {
  for (int i = 0; i < 100 && world.unit.next_deadline() != kNever; ++i) {
    world.now = std::max(world.now, world.unit.next_deadline());
    world.expire();
    world.look();
  }
  result.reordered += world.reordered ? 1 : 0;
  result.miscounted += world.miscounted ? 1 : 0;
  result.too_much += world.too_much ? 1 : 0;
  result.idle += world.idle ? 1 : 0;
  result.stuck += world.came == world.gone && world.unit.held() == 0 ? 0 : 1;
  result.longest = std::max(result.longest, world.unit.counters().longest_hold_ns);
}

Explored explore(const BiccSettings& s, std::uint32_t packets) {
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
        if (world.next[flow] < packets) step([flow](World& w) { w.arrive(flow); });
        for (std::uint32_t psn = world.acked[flow] + 1; psn <= world.highest[flow]; ++psn) {
          step([flow, psn](World& w) { w.acknowledge(flow, psn); });
        }
        if (world.naks == 0 && world.highest[flow] > world.acked[flow]) step([flow](World& w) { w.miss(flow); });
      }
      if (world.strangers < kStrangers) step([](World& w) { w.arrive(kFlows); });
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
  BiccSettings settings;
  std::uint32_t packets;  // of each flow
  std::size_t states;     // as they were counted when all of this was last looked at
};

TEST(BiccExhaustive, OrderIsKeptTheLimitHoldsAndNothingWaitsForEver) {
  const std::vector<Case> cases{
      {"one packet under way", settings(1, 8), 2, 40630},
      {"two packets under way", settings(2, 8), 3, 475637},
      {"two packets under way, room for one", settings(2, 1), 3, 70345},
  };
  for (const Case& one : cases) {
    if (mutant() && !mistakes().empty()) break;
    const Explored explored = explore(one.settings, one.packets);
    std::printf("%-36s %9zu states, held for at most %llu ns\n", one.name, explored.states,
                static_cast<unsigned long long>(explored.longest));
    check(explored.reordered == 0, std::string(one.name) + ": packets changed places");
    check(explored.miscounted == 0, std::string(one.name) + ": what is under way is counted wrong");
    check(explored.too_much == 0, std::string(one.name) + ": more is under way than the limit");
    check(explored.idle == 0, std::string(one.name) + ": a packet waits that would fit");
    check(explored.stuck == 0, std::string(one.name) + ": packets are held for ever");
    // Each silence lets at least one packet go.
    check(explored.longest <= (kFlows * one.packets * 2 + kStrangers) * kStale + kEnd,
          std::string(one.name) + ": packets are held too long");
    if (!mutant()) {
      EXPECT_EQ(explored.states, one.states) << one.name;
    }
  }
}

TEST(BiccExhaustive, MutantsAreNoticed) {
  if (mutant()) {
    EXPECT_FALSE(mistakes().empty()) << "the mutant lives";
  }
}

}  // namespace
}  // namespace weft::stages
