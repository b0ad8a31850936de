// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every interleaving of six packets on two or three paths that arrive at a ReorderBuffer. The paths deliver in order;
// every way to put the packets on them is explored (paths that are used for the first time later are the same case).
// At any moment the head of a path arrives or is lost, a path dies with all that is on it, the ToR starts anew, or
// time goes on by a tick; the bound is two ticks. A timer that is due may be called before or after any arrival of its
// tick. PSNs wrap in the middle.
//
// A build in which one condition of the unit is wrong says so by WEFT_EXPECT_VIOLATION, and must be caught.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "switch/stages/lb/reorder.h"

namespace weft::stages {
namespace {

using wire::Psn;

constexpr std::uint32_t kPackets = 6;
constexpr TimeNs kBound = 2;
constexpr Psn kFirst{0xfffffd};

struct Case {
  std::uint32_t room = kPackets;  ///< packets that may wait
  bool loss = false;              ///< one packet may be lost
  bool death = false;             ///< one path may die
  bool restart = false;           ///< the ToR may start anew once
  bool fresh = false;             ///< the flow is not known: the first packet starts its only message
};

struct Findings {
  std::uint64_t states = 0;
  std::uint64_t ends = 0;      ///< states in which nothing is left to happen
  std::uint64_t expiries = 0;  ///< steps in which a timer let packets go on
  std::uint64_t out_of_order = 0;
  std::set<std::string> violations{};
};

enum class Where : std::uint8_t { path, waits, delivered, lost };

struct State {
  explicit State(const Case& c)
      : buffer({.bound_ns = kBound, .flows = 1, .max_packets = c.room, .max_flow_packets = c.room, .max_bytes = 600}) {
    where.fill(Where::path);
  }
  ReorderBuffer buffer;
  std::array<Where, kPackets> where{};
  std::array<TimeNs, kPackets> came{};
  TimeNs now = 1;
  int newest = -1;        ///< the last PSN that was delivered, relative
  bool given_up = false;  ///< a bound, a full buffer or a restart has let packets go on
  bool lost = false, died = false, restarted = false;
};

class Explorer : public ReorderSink {
 public:
  Explorer(const Case& c, const std::array<std::uint32_t, kPackets>& path_of, std::uint32_t paths)
      : case_(c), path_of_(path_of), paths_(paths) {}

  void run(Findings& found) {
    found_ = &found;
    State start(case_);
    // A packet before the first: the flow is known.
    struct Nothing final : ReorderSink {
      void deliver(std::uint64_t) noexcept override {}
    } nothing;
    if (!case_.fresh) start.buffer.on_packet(0, 0, kFirst - 1, true, 100, 0, nothing);
    std::deque<State> next{start};
    std::set<std::vector<std::uint64_t>> seen{key(start)};
    // What is wrong once may go on for ever.
    while (!next.empty() && found.violations.empty()) {
      const State state = std::move(next.front());
      next.pop_front();
      ++found.states;
      bool any = false;
      expand(state, [&](State&& s) {
        any = true;
        if (seen.insert(key(s)).second) next.push_back(std::move(s));
      });
      if (any) continue;
      ++found.ends;
      for (const Where where : state.where) check(where != Where::waits, "something waits for ever");
      check(state.buffer.held() == 0 && state.buffer.held_bytes() == 0, "memory is kept for nothing");
    }
  }

 private:
  void deliver(std::uint64_t packet) noexcept override { delivered_.push_back(static_cast<std::uint32_t>(packet)); }

  void check(bool good, const char* what) {
    if (!good) found_->violations.insert(what);
  }

  template <typename Push>
  void expand(const State& state, Push&& push) {
    const bool due = state.buffer.next_deadline() <= state.now;
    for (std::uint32_t path = 0; path < paths_; ++path) {
      const std::uint32_t head = head_of(state, path);
      if (head == kPackets) continue;
      push(arrive(state, head));
      if (case_.loss && !state.lost) {
        State s = state;
        s.where[head] = Where::lost;
        s.lost = true;
        push(std::move(s));
      }
      if (case_.death && !state.died) {
        State s = state;
        for (std::uint32_t p = 0; p < kPackets; ++p) {
          if (path_of_[p] == path && s.where[p] == Where::path) s.where[p] = Where::lost;
        }
        s.died = true;
        push(std::move(s));
      }
    }
    if (due) push(fire(state));
    if (!due && state.buffer.held() != 0) {
      State s = state;
      ++s.now;
      check_times(s);
      push(std::move(s));
    }
    if (case_.restart && !state.restarted) push(restart(state));
  }

  [[nodiscard]] std::uint32_t head_of(const State& state, std::uint32_t path) const {
    std::uint32_t p = 0;
    while (p < kPackets && (path_of_[p] != path || state.where[p] != Where::path)) ++p;
    return p;
  }

  State arrive(const State& state, std::uint32_t p) {
    State s = state;
    s.came[p] = s.now;
    s.where[p] = Where::waits;
    const bool full = s.buffer.held() == case_.room;
    const std::uint64_t overflowed = s.buffer.counts().overflowed;
    delivered_.clear();
    s.buffer.on_packet(s.now, 0, kFirst + p, p == 0 || !case_.fresh, 100, p, *this);
    check(s.buffer.counts().overflowed == overflowed || full, "a buffer with room says that it has none");
    s.given_up = s.given_up || s.buffer.counts().overflowed != overflowed;
    take(s);
    return s;
  }

  State fire(const State& state) {
    State s = state;
    delivered_.clear();
    s.buffer.on_timer(s.now, *this);
    if (!delivered_.empty()) {
      ++found_->expiries;
      s.given_up = true;
    }
    check(s.buffer.next_deadline() > s.now, "a timer that does nothing");
    take(s);
    return s;
  }

  State restart(const State& state) {
    State s = state;
    delivered_.clear();
    s.buffer.flush(*this);
    s.restarted = s.given_up = true;
    take(s);
    check(s.buffer.held() == 0, "a restart keeps packets");
    // It knows nothing of what went on before.
    s.buffer = State(case_).buffer;
    s.newest = -1;
    return s;
  }

  // What the buffer has let go on in one step.
  void take(State& s) {
    int before = -1;
    for (const std::uint32_t p : delivered_) {
      check(s.where[p] == Where::waits, "a packet goes on twice, or never came");
      check(s.now - s.came[p] <= kBound, "a packet waits beyond the bound");
      check(before < static_cast<int>(p), "packets of one step are out of order");
      if (static_cast<int>(p) < s.newest) {
        ++found_->out_of_order;
        check(s.given_up, "out of order though nothing was given up");
        check(s.came[p] == s.now, "a packet that was overtaken waits");
      }
      before = static_cast<int>(p);
      s.newest = std::max(s.newest, before);
      s.where[p] = Where::delivered;
    }
    check_times(s);
  }

  void check_times(const State& s) {
    TimeNs first = kNever;
    std::uint32_t waits = 0;
    for (std::uint32_t p = 0; p < kPackets; ++p) {
      if (s.where[p] != Where::waits) continue;
      ++waits;
      first = std::min(first, s.came[p] + kBound);
      check(s.now <= s.came[p] + kBound, "a packet waits beyond the bound");
      check(static_cast<int>(p) > s.newest + 1, "a packet waits though all before it have gone on");
    }
    check(s.buffer.held() == waits && s.buffer.held_bytes() == 100 * waits, "wrong count of what waits");
    check(waits <= case_.room, "more waits than there is room for");
    check(waits == 0 ? s.buffer.next_deadline() == kNever : s.buffer.next_deadline() <= first, "no timer is set");
  }

  // All that what can happen next depends on, with times relative to now.
  [[nodiscard]] static std::vector<std::uint64_t> key(const State& s) {
    std::vector<std::uint64_t> words;
    for (std::uint32_t p = 0; p < kPackets; ++p) {
      words.push_back(static_cast<std::uint64_t>(s.where[p]) << 8 |
                      (s.where[p] == Where::waits ? s.now - s.came[p] : 0));
    }
    words.push_back(s.buffer.is_known(0) ? s.buffer.expected(0).value() : ~0u);
    words.push_back(s.buffer.next_deadline() == kNever ? kNever : s.buffer.next_deadline() - s.now);
    words.push_back(static_cast<std::uint64_t>(s.newest + 1));
    words.push_back((s.given_up ? 1u : 0u) | (s.lost ? 2u : 0u) | (s.died ? 4u : 0u) | (s.restarted ? 8u : 0u));
    return words;
  }

  Case case_;
  std::array<std::uint32_t, kPackets> path_of_;
  std::uint32_t paths_;
  Findings* found_ = nullptr;
  std::vector<std::uint32_t> delivered_;
};

// All ways to put the packets on at most `paths` paths.
void explore(const Case& c, std::uint32_t paths, std::array<std::uint32_t, kPackets>& path_of, std::uint32_t packet,
             std::uint32_t used, Findings& found) {
  if (packet == kPackets) {
    if (used == paths) Explorer(c, path_of, used).run(found);
    return;
  }
  for (std::uint32_t path = 0; path < std::min(used + 1, paths); ++path) {
    path_of[packet] = path;
    explore(c, paths, path_of, packet + 1, std::max(used, path + 1), found);
  }
}

Findings explore(const Case& c, std::uint32_t paths) {
  Findings found;
  std::array<std::uint32_t, kPackets> path_of{};
  explore(c, paths, path_of, 0, 0, found);
  return found;
}

std::set<std::string> all_violations;

bool is_mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION") != nullptr;
}

/// What exploring one case finds. The numbers below are those of a run that was looked at: another one means that the
/// buffer or the explorer does something else.
struct Counts {
  std::uint64_t states, ends, expiries;
};

void judge(const Case& c, std::uint32_t paths, const Counts& pinned) {
  Findings found = explore(c, paths);
  std::string text;
  for (const std::string& violation : found.violations) text += violation + "\n";
  all_violations.merge(found.violations);
  if (is_mutant()) return;
  SCOPED_TRACE(std::to_string(paths) + " paths, room for " + std::to_string(c.room));
  EXPECT_EQ(text, "");
  EXPECT_EQ(found.states, pinned.states);
  EXPECT_EQ(found.ends, pinned.ends);
  EXPECT_EQ(found.expiries, pinned.expiries);
}

void judge(const Case& c, const Counts& of_two_paths, const Counts& of_three) {
  judge(c, 2, of_two_paths);
  judge(c, 3, of_three);
}

// Timers expire in it, because a path may be slower than the bound.
TEST(ReorderExhaustive, NothingIsLostAndAllGoesOnInOrderWithinTheBound) {
  judge({}, {2372, 62, 781}, {20770, 180, 9634});
}

TEST(ReorderExhaustive, OneLoss) {
  judge({.loss = true}, {17230, 278, 8527}, {107767, 810, 57659});
}

TEST(ReorderExhaustive, APathDies) {
  judge({.loss = true, .death = true}, {33167, 1252, 15386}, {231410, 3693, 116616});
}

TEST(ReorderExhaustive, TheTorStartsAnew) {
  judge({.loss = true, .restart = true}, {38113, 645, 16975}, {240123, 2430, 113703});
}

TEST(ReorderExhaustive, AFlowBegins) {
  judge({.fresh = true}, {2372, 62, 781}, {20770, 180, 9634});
  judge({.loss = true, .restart = true, .fresh = true}, {92269, 645, 49403}, {566540, 2430, 312923});
  judge({.room = 2, .loss = true, .fresh = true}, {8977, 278, 2743}, {54149, 810, 17633});
}

TEST(ReorderExhaustive, ThereIsNoRoom) {
  judge({.room = 1, .loss = true}, {4864, 278, 921}, {24607, 810, 5005});
  judge({.room = 2, .loss = true}, {8977, 278, 2743}, {54149, 810, 17633});
}

// Last, so that it sees what all the others have found.
TEST(ReorderExhaustive, ZMutantsAreCaught) {
  EXPECT_EQ(!all_violations.empty(), is_mutant());
}

}  // namespace
}  // namespace weft::stages
