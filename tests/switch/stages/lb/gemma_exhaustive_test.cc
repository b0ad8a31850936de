// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Gemma, in two halves.
//
// The flow: every interleaving of packets of one flow from a GemmaSource over paths to a ReorderBuffer. Paths deliver
// in order. At any moment the sender sends its next packet, with any score of each path and any draw among equals, the
// head of a path arrives or is lost, a path dies with all that is on it, the receiver's ToR starts anew, or time goes
// on by a tick. A timer that is due may be called before or after any arrival of its tick. PSNs wrap on the way.
//
// The reports: a GemmaReporter whose looks find any length, reports that arrive in order or are lost, and a
// DownlinkTable, at any times.
//
// A build in which one condition of the units is wrong says so by WEFT_EXPECT_VIOLATION, and must be caught.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "switch/stages/lb/downlink_table.h"
#include "switch/stages/lb/gemma_reporter.h"
#include "switch/stages/lb/gemma_source.h"
#include "switch/stages/lb/reorder.h"

namespace weft::stages {
namespace {

struct Findings {
  std::uint64_t states = 0;
  std::uint64_t ends = 0;      ///< states in which nothing is left to happen
  std::uint64_t reroutes = 0;  ///< steps in which the flow moved to a better path
  std::uint64_t held = 0;      ///< steps in which a packet had to wait
  std::uint64_t reports = 0;   ///< steps in which a report was sent
  std::set<std::string> violations{};
};

std::set<std::string> all_violations;

bool is_mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION") != nullptr;
}

// Explorer has State begin(), expand(state, push), judge_end(state) and key(state).
template <typename Explorer>
Findings explore(Explorer&& explorer) {
  Findings& found = explorer.found;
  std::deque next{explorer.begin()};
  std::unordered_set<std::string> seen{explorer.key(next.front())};
  // What is wrong once may go on for ever.
  while (!next.empty() && found.violations.empty()) {
    const auto state = std::move(next.front());
    next.pop_front();
    ++found.states;
    bool any = false;
    explorer.expand(state, [&](auto&& s) {
      any = true;
      if (seen.insert(explorer.key(s)).second) next.push_back(std::move(s));
    });
    if (any) continue;
    ++found.ends;
    explorer.judge_end(state);
  }
  std::string text;
  for (const std::string& violation : found.violations) text += violation + "\n";
  if (!is_mutant()) {
    EXPECT_EQ(text, "");
  }
  all_violations.insert(found.violations.begin(), found.violations.end());
  return found;
}

// --- the flow --------------------------------------------------------------------------------------------------------

constexpr std::uint32_t kPackets = 6;
constexpr TimeNs kTick = 1000;
constexpr TimeNs kGuard = 2 * kTick, kNew = 3 * kTick, kBound = 3 * kTick;
constexpr std::uint32_t kFirstPsn = 0xfffffe;
constexpr FlowKey kFlow{1, 2};
constexpr std::uint64_t kSmooth = 2, kGap = 2;
// Smooth, congested, and more: by the gap, and by more than that.
constexpr std::array<std::uint64_t, 4> kScores{1, 3, 5, 6};

struct Case {
  std::uint32_t packets = kPackets;
  std::uint16_t paths = 2;
  unsigned ticks = 4;  ///< that pass while packets are under way or to be sent
  bool loss = false;   ///< one packet may be lost
  bool death = false;  ///< one path may die
  bool restart = false;
};

using Scores = std::array<std::uint64_t, 3>;

class Choice final : public GemmaPaths {
 public:
  Choice(std::uint16_t paths, unsigned dead, const Scores& scores, unsigned draw)
      : paths_(paths), dead_(dead), scores_(scores), draw_(draw) {}
  [[nodiscard]] bool up(std::uint16_t path) noexcept override { return path < paths_ && (dead_ >> path & 1) == 0; }
  [[nodiscard]] std::uint64_t score(std::uint16_t path) noexcept override { return scores_[path]; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return paths_; }
  [[nodiscard]] std::uint16_t at(std::uint32_t i) const noexcept override { return static_cast<std::uint16_t>(i); }
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) noexcept override {
    return bound - 1 <= draw_ ? 0 : bound - 1;
  }

 private:
  std::uint16_t paths_;
  unsigned dead_;
  Scores scores_;
  unsigned draw_;  ///< among equals the one with this number
};

struct Packet {
  enum class Where : std::uint8_t { unsent, path0, path1, path2, waits, delivered, lost };
  Where where = Where::unsent;
  TimeNs came = 0;
};
using Where = Packet::Where;

struct FlowState {
  explicit FlowState(const Case& c)
      : source({.reroute_bytes = kSmooth, .gap_bytes = kGap, .guard_ns = kGuard, .new_ns = kNew, .flows = 4}),
        far({.bound_ns = kBound,
             .flows = 1,
             .max_packets = c.packets,
             .max_flow_packets = c.packets,
             .max_bytes = 600}) {}
  GemmaSource source;
  ReorderBuffer far;
  std::array<Packet, kPackets> packets{};
  TimeNs now = kTick;
  unsigned ticks = 0;
  unsigned dead = 0;     ///< paths, a bit for each
  int newest = -1;       ///< the last packet that was delivered
  bool excused = false;  ///< a bound, a loss or a restart may have cost order
  bool lost = false, restarted = false;
  std::optional<std::uint16_t> path{};  ///< of the last packet
  TimeNs sent_at = 0;
  std::optional<TimeNs> moved_at{};
};

class FlowExplorer : public ReorderSink {
 public:
  explicit FlowExplorer(const Case& c) : case_(c) {}
  Findings found;

  FlowState begin() const { return FlowState(case_); }

  template <typename Push>
  void expand(const FlowState& state, Push&& push) {
    const std::uint32_t unsent = first(state, Where::unsent);
    if (unsent < case_.packets) expand_send(state, unsent, push);
    bool under_way = unsent < case_.packets;
    for (std::uint16_t path = 0; path < case_.paths; ++path) {
      const std::uint32_t head = first(state, on(path));
      if (head < kPackets) {
        under_way = true;
        push(arrive(state, head));
        if (case_.loss && !state.lost) push(lose(state, head));
      }
      if (case_.death && state.dead == 0) push(die(state, path));
    }
    const bool due = state.far.next_deadline() <= state.now;
    if (due) push(fire(state));
    if (!due && (under_way ? state.ticks < case_.ticks : state.far.held() != 0)) push(tick(state, under_way));
    if (case_.restart && !state.restarted) push(restart(state));
  }

  void judge_end(const FlowState& state) {
    for (const Packet& packet : state.packets) check(packet.where != Where::waits, "something waits for ever");
    check(state.far.held() == 0, "memory is kept for nothing");
  }

  // All that what can happen next depends on, with times relative to now.
  [[nodiscard]] std::string key(const FlowState& s) const {
    std::string bytes;
    const auto add = [&](std::uint64_t value) { bytes.push_back(static_cast<char>(value & 0xff)); };
    const auto ago = [&](TimeNs time) { add(std::min<TimeNs>((s.now - time) / kTick, 60)); };
    for (std::uint32_t p = 0; p < case_.packets; ++p) {
      add(static_cast<std::uint64_t>(s.packets[p].where));
      if (s.packets[p].where == Where::waits) ago(s.packets[p].came);
    }
    add(s.path.value_or(9));
    ago(std::max(s.sent_at, s.now - std::min(s.now, kNew + kTick)));
    add(s.moved_at ? std::min<TimeNs>((s.now - *s.moved_at) / kTick, 3) : 9);
    add(s.far.next_deadline() == kNever ? 0xff : (s.far.next_deadline() + 64 * kTick - s.now) / kTick);
    add(s.far.is_known(0) ? s.far.expected(0).value() : 0x55);
    add(s.far.is_known(0) ? 1 : 0);
    add(s.ticks);
    add(s.dead);
    add(static_cast<std::uint64_t>(s.newest + 1));
    add((s.excused ? 1u : 0u) | (s.lost ? 2u : 0u) | (s.restarted ? 4u : 0u));
    return bytes;
  }

 private:
  void deliver(std::uint64_t packet) noexcept override { delivered_.push_back(static_cast<std::uint32_t>(packet)); }
  void check(bool good, const char* what) {
    if (!good) found.violations.insert(what);
  }
  static Where on(std::uint16_t path) { return static_cast<Where>(static_cast<unsigned>(Where::path0) + path); }
  [[nodiscard]] static std::uint32_t first(const FlowState& state, Where where) {
    std::uint32_t p = 0;
    while (p < kPackets && state.packets[p].where != where) ++p;
    return p;
  }

  template <typename Push>
  void expand_send(const FlowState& state, std::uint32_t p, Push&& push) {
    const unsigned count = case_.paths == 2 ? 16 : 64;
    for (unsigned which = 0; which < count; ++which) {
      const Scores scores{kScores[which % 4], kScores[which / 4 % 4], kScores[which / 16]};
      for (unsigned draw = 0; draw < case_.paths; ++draw) push(send(state, p, scores, draw));
    }
  }

  FlowState send(const FlowState& state, std::uint32_t p, const Scores& scores, unsigned draw) {
    FlowState s = state;
    Choice choice(case_.paths, s.dead, scores, draw);
    const std::uint16_t path = s.source.on_packet(s.now, kFlow, choice);
    if (!choice.up(path)) {
      check(false, "a path that is not there though there is one");
      return s;
    }
    const bool is_new = !s.path || s.now - s.sent_at > kNew || !choice.up(*s.path);
    if (!is_new) judge_choice(s, path, scores, choice);
    if (!is_new && path != *s.path) {
      ++found.reroutes;
      s.moved_at = s.now;
    }
    // Of a flow that begins anew nobody knows when it moved.
    if (!s.path || s.now - s.sent_at > kNew) s.moved_at.reset();
    s.path = path;
    s.sent_at = s.now;
    s.packets[p].where = on(path);
    return s;
  }

  // The rule of the paper, written once more.
  void judge_choice(const FlowState& s, std::uint16_t path, const Scores& scores, Choice& choice) {
    const std::uint16_t before = *s.path;
    const bool stays = path == before;
    if (scores[before] <= kSmooth) return check(stays, "leaves a smooth path");
    if (s.moved_at && s.now - *s.moved_at < kGuard) return check(stays, "moves again within the guard");
    std::optional<std::uint64_t> least;
    for (std::uint16_t other = 0; other < case_.paths; ++other) {
      if (other == before || !choice.up(other)) continue;
      const bool candidate = scores[other] <= kSmooth || scores[other] + kGap < scores[before];
      if (candidate) least = std::min(least.value_or(scores[other]), scores[other]);
    }
    if (!least) return check(stays, "moves to a path that is not better");
    check(!stays && scores[path] == *least, "not the best of the better paths");
  }

  FlowState lose(const FlowState& state, std::uint32_t p) {
    FlowState s = state;
    s.packets[p].where = Where::lost;
    s.lost = s.excused = true;
    return s;
  }

  FlowState die(const FlowState& state, std::uint16_t path) {
    FlowState s = state;
    s.dead = 1u << path;
    for (Packet& packet : s.packets) {
      if (packet.where != on(path)) continue;
      packet.where = Where::lost;
      s.excused = true;
    }
    return s;
  }

  FlowState tick(const FlowState& state, bool under_way) {
    FlowState s = state;
    s.now += kTick;
    if (under_way) ++s.ticks;
    check_times(s);
    return s;
  }

  FlowState arrive(const FlowState& state, std::uint32_t p) {
    FlowState s = state;
    s.packets[p] = {Where::waits, s.now};
    delivered_.clear();
    s.far.on_packet(s.now, 0, wire::Psn((kFirstPsn + p) & 0xffffff), p == 0, 100, p, *this);
    if (delivered_.empty()) ++found.held;
    take(s);
    return s;
  }

  FlowState fire(const FlowState& state) {
    FlowState s = state;
    delivered_.clear();
    s.far.on_timer(s.now, *this);
    s.excused = s.excused || !delivered_.empty();
    take(s);
    check(s.far.next_deadline() > s.now, "a timer that stays due");
    return s;
  }

  FlowState restart(const FlowState& state) {
    FlowState s = state;
    delivered_.clear();
    s.far.flush(*this);
    s.restarted = s.excused = true;
    take(s);
    check(s.far.held() == 0, "a restart keeps packets");
    s.far = FlowState(case_).far;
    return s;
  }

  // What the far ToR has let go on in one step.
  void take(FlowState& s) {
    for (const std::uint32_t p : delivered_) {
      Packet& packet = s.packets[p];
      check(packet.where == Where::waits, "a packet goes on twice, or never came");
      check(s.now - packet.came <= kBound, "a packet waits beyond the bound");
      check(static_cast<int>(p) > s.newest || s.excused, "out of order though nothing was lost or given up");
      s.newest = std::max(s.newest, static_cast<int>(p));
      packet.where = Where::delivered;
    }
    check_times(s);
  }

  void check_times(const FlowState& s) {
    const auto waits = static_cast<std::uint32_t>(std::count_if(
        s.packets.begin(), s.packets.end(), [](const Packet& packet) { return packet.where == Where::waits; }));
    check(s.far.held() == waits && s.far.held_bytes() == 100 * waits, "wrong count of what waits");
    for (const Packet& packet : s.packets) {
      if (packet.where != Where::waits) continue;
      check(s.now <= packet.came + kBound, "a packet waits beyond the bound");
      check(s.far.next_deadline() <= packet.came + kBound, "no timer is set");
    }
  }

  Case case_;
  std::vector<std::uint32_t> delivered_;
};

// Numbers are those of a run that was looked at: another one means that something else is explored.
void expect_flow(const Case& c, std::uint64_t states, std::uint64_t ends, std::uint64_t reroutes) {
  const Findings found = explore(FlowExplorer(c));
  if (is_mutant()) return;
  EXPECT_EQ(found.states, states);
  EXPECT_EQ(found.ends, ends);
  EXPECT_EQ(found.reroutes, reroutes);
  EXPECT_GT(found.held, 0u);
}

TEST(GemmaExhaustive, AFlowMovesByTheRuleAndItsPacketsGoOnInOrder) {
  expect_flow({.ticks = 4}, 37119, 130, 77536);
}

TEST(GemmaExhaustive, ThreePaths) {
  expect_flow({.packets = 4, .paths = 3, .ticks = 3}, 8677, 111, 102726);
}

// tools/check --full: 13 s and 420 MB.
TEST(GemmaExhaustive, DISABLED_SixPacketsOverThreePathsOneOfThemLost) {
  expect_flow({.paths = 3, .ticks = 4, .loss = true}, 675809, 990, 8455122);
}

TEST(GemmaExhaustive, OneLoss) {
  expect_flow({.ticks = 3, .loss = true}, 96948, 442, 166016);
}

TEST(GemmaExhaustive, APathDies) {
  expect_flow({.packets = 5, .ticks = 3, .death = true}, 32470, 1048, 14368);
}

TEST(GemmaExhaustive, TheFarTorStartsAnew) {
  expect_flow({.packets = 4, .ticks = 3, .loss = true, .restart = true}, 36004, 1180, 37152);
}

// --- the reports -----------------------------------------------------------------------------------------------------

constexpr TimeNs kPeriod = kTick, kMost = 2 * kTick;
constexpr std::uint64_t kHigh = 1024;
constexpr std::array<std::uint64_t, 3> kLengths{0, kHigh, 2 * kHigh};  ///< short, between, and long
constexpr unsigned kLastTick = 8;
constexpr std::size_t kMostUnderWay = 2;
constexpr GemmaReporterRules kRules{.period_ns = kPeriod, .most_ns = kMost, .high_bytes = kHigh};

struct ReportState {
  explicit ReportState(TimeNs scan) : scan_ns(scan), table({.scan_ns = scan}, 1, 1) {}
  // Tables have atomic cells, so that a copy takes over what the other one knows.
  ReportState(const ReportState& o) : ReportState(o.scan_ns) { *this = o; }
  ReportState& operator=(const ReportState& o) {
    reporter = o.reporter;
    now = o.now;
    under_way = o.under_way;
    told = o.told;
    counts = o.counts;
    told_at = o.told_at;
    last_report = o.last_report;
    interval = o.interval;
    all_short = o.all_short;
    lost = o.lost;
    table.adopt(o.table);
    return *this;
  }

  TimeNs scan_ns;
  GemmaReporter reporter{kRules};
  DownlinkTable table;
  TimeNs now = kTick;
  std::vector<std::uint64_t> under_way{};
  // The table by its rule: what was told in the newest scan with anything, and what counts until that is over.
  std::optional<std::uint64_t> told{};
  std::uint64_t counts = 0;
  TimeNs told_at = 0;
  // The reporter by its rule.
  std::optional<TimeNs> last_report{};
  std::optional<TimeNs> interval{};  ///< between the last two reports
  bool all_short = false;            ///< the queue was, at each look from the last report on
  bool lost = false;
};

class ReportExplorer {
 public:
  explicit ReportExplorer(TimeNs scan) : scan_ns_(scan) {}
  Findings found;

  ReportState begin() const { return ReportState(scan_ns_); }

  template <typename Push>
  void expand(const ReportState& state, Push&& push) {
    const bool due = state.reporter.next_deadline() <= state.now;
    if (due) {
      for (const std::uint64_t bytes : kLengths) push(look(state, bytes));
    }
    if (!state.under_way.empty()) {
      push(arrive(state));
      if (!state.lost) push(lose(state));
    }
    if (!due && state.now < kLastTick * kTick && state.under_way.size() < kMostUnderWay) {
      ReportState s = state;
      s.now += kTick;
      check_table(s);
      push(std::move(s));
    }
  }

  void judge_end(const ReportState& state) { check(state.last_report.has_value(), "nothing is ever told"); }

  [[nodiscard]] std::string key(const ReportState& s) const {
    std::string text;
    const auto add = [&](std::uint64_t value) { text += std::to_string(value) + ","; };
    add(s.now);
    add(s.reporter.next_deadline());
    add(s.reporter.interval_ns());
    for (const std::uint64_t bytes : s.under_way) add(bytes);
    text += ";";
    add(s.told.value_or(7));
    add(s.counts);
    add(s.told_at);
    add(s.last_report.value_or(7));
    add(s.interval.value_or(7));
    add((s.all_short ? 1u : 0u) | (s.lost ? 2u : 0u));
    return text;
  }

 private:
  void check(bool good, const char* what) {
    if (!good) found.violations.insert(what);
  }

  ReportState look(const ReportState& state, std::uint64_t bytes) {
    ReportState s = state;
    const bool is_short = bytes < kHigh / 2;
    const bool reported = s.reporter.on_look(s.now, bytes);
    check(s.reporter.next_deadline() == s.now + kPeriod, "it does not look once per period");
    if (!s.last_report) check(reported, "the first look is not told");
    if (bytes > kHigh) check(reported, "a long queue is not told at once");
    if (s.last_report) judge_interval(s, bytes, reported, s.now - *s.last_report);
    s.all_short = (reported || s.all_short) && is_short;
    if (!reported) return s;
    ++found.reports;
    if (s.last_report) s.interval = s.now - *s.last_report;
    s.last_report = s.now;
    s.under_way.push_back(bytes);
    return s;
  }

  void judge_interval(const ReportState& s, std::uint64_t bytes, bool reported, TimeNs silent) {
    check(!reported || silent >= kPeriod, "two reports within a period");
    check(reported || silent < kMost, "silent for longer than the longest interval");
    const bool stays_short = s.all_short && bytes < kHigh / 2;
    if (!stays_short || !s.interval) return;
    check(reported == (silent >= std::min(2 * *s.interval, kMost)), "short queues are not told ever more rarely");
  }

  ReportState arrive(const ReportState& state) {
    ReportState s = state;
    const std::uint64_t bytes = s.under_way.front();
    s.under_way.erase(s.under_way.begin());
    if (s.told && is_over(s)) s.counts = *s.told;
    s.told = bytes;
    s.told_at = s.now;
    check(s.table.on_told(0, 0, bytes, s.now), "a report is refused");
    check_table(s);
    return s;
  }

  ReportState lose(const ReportState& state) {
    ReportState s = state;
    s.under_way.erase(s.under_way.begin());
    s.lost = true;
    return s;
  }

  // A scan has taken over what was told.
  [[nodiscard]] bool is_over(const ReportState& s) const {
    return scan_ns_ == 0 || s.now / scan_ns_ != s.told_at / scan_ns_;
  }
  void check_table(const ReportState& s) {
    const std::uint64_t counts = s.told && is_over(s) ? *s.told : s.counts;
    check(s.table.bytes(0, 0, s.now) == counts, "what counts is not what the last scan has found");
  }

  TimeNs scan_ns_;
};

void expect_reports(TimeNs scan, std::uint64_t states, std::uint64_t reports) {
  const Findings found = explore(ReportExplorer(scan));
  if (is_mutant()) return;
  EXPECT_EQ(found.states, states);
  EXPECT_EQ(found.reports, reports);
}

TEST(GemmaExhaustive, ReportsFollowTheLoadAndCountFromTheNextScanOn) {
  expect_reports(2 * kTick, 8230, 6308);
}

TEST(GemmaExhaustive, WithoutScansReportsCountAtOnce) {
  expect_reports(0, 7655, 5828);
}

// Last, so that it sees what all the others have found.
TEST(GemmaExhaustive, ZMutantsAreCaught) {
  EXPECT_EQ(!all_violations.empty(), is_mutant());
}

}  // namespace
}  // namespace weft::stages
