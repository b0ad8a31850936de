// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Everything that can happen to a window of packets between a sender, two paths, a ReorderBuffer that hears the ACKs
// and NAKs of the receiver, and that receiver. Both go back (go-back-N), or both repeat only what is missing. Each
// packet takes any path, whenever it is sent; paths and answers keep their order. One packet may be lost, on a path or
// behind the buffer. Once, what is waited for may come later than the bound, which is two ticks. The sender's timeout
// is over only when nothing is under way. PSNs wrap in the middle.
//
// WEFT_EXHAUSTIVE=full takes six packets everywhere. A build in which one condition of the unit is wrong says so by
// WEFT_EXPECT_VIOLATION, and must be caught.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "switch/stages/lb/reorder.h"

namespace weft::stages {
namespace {

using wire::Psn;

constexpr TimeNs kBound = 2;
constexpr Psn kFirst{0xfffffd};
constexpr std::uint32_t kRoom = 12;

struct Case {
  std::uint32_t packets = 6;
  std::uint32_t in_flight = 6;  ///< the sender waits when so many are on the paths
  std::uint32_t losses = 0;     ///< at most
  std::uint32_t slow = 0;       ///< times that the bound may be over for a packet that is still to come
  bool selective = false;       ///< the receiver keeps what overtook, and the sender repeats what is missing alone
};

struct Findings {
  std::uint64_t states = 0;
  std::uint64_t ends = 0;
  std::uint64_t went_back = 0;  ///< steps in which order began anew
  std::set<std::string> violations{};
};

struct Answer {
  std::uint32_t wanted;  ///< all before it has come
  bool nak;
};

// Packets have numbers from 0 on, which are distances from kFirst.
struct State {
  ReorderBuffer buffer{{.bound_ns = kBound, .flows = 1, .max_packets = kRoom, .max_flow_packets = kRoom}};
  std::array<std::vector<std::uint32_t>, 2> path{};
  std::vector<Answer> said{};     ///< on their way to the buffer
  std::vector<Answer> answers{};  ///< from there to the sender
  std::vector<std::uint32_t> again{};
  std::uint32_t next = 0, acked = 0, expects = 0;
  std::uint32_t kept = 0;   ///< bits of packets
  std::uint32_t heard = 0;  ///< the buffer has heard that all before it have come
  std::uint32_t losses = 0, slow = 0;
  bool nacked = false, loses_next = false, timed_out = false;
  TimeNs now = 1;
};

class Explorer : public ReorderSink {
 public:
  explicit Explorer(const Case& c) : case_(c) {}

  Findings run() {
    State start;
    state_ = &start;
    start.buffer.on_packet(0, 0, kFirst - 1, true, 100, kBefore, *this);
    std::deque<State> next{start};
    std::set<std::vector<std::uint32_t>> seen{key(start)};
    while (!next.empty() && found_.violations.empty()) {
      const State state = std::move(next.front());
      next.pop_front();
      ++found_.states;
      bool any = false;
      const auto push = [&](State&& s) {
        any = true;
        check(s);
        if (seen.insert(key(s)).second) next.push_back(std::move(s));
      };
      expand(state, push);
      if (!any && state.acked < case_.packets) push(after(state, [&](State& s) { give_up(s); }));
      if (any) continue;
      ++found_.ends;
      expect(state.buffer.held() == 0, "something waits for ever");
      expect(state.expects == case_.packets, "the transfer never ends");
    }
    expect(case_.selective || found_.went_back != 0, "order never begins anew");
    return found_;
  }

 private:
  static constexpr std::uint64_t kBefore = 255;

  void expect(bool good, const char* what) {
    if (!good) found_.violations.insert(what);
  }

  template <typename Do>
  State after(const State& state, Do&& what) {
    State s = state;
    state_ = &s;
    const std::uint64_t before = s.buffer.counts().went_back;
    what(s);
    if (s.buffer.counts().went_back != before) {
      ++found_.went_back;
      // One that repeats after a timeout what has come looks like it.
      expect(!case_.selective || s.timed_out, "order begins anew for a sender that does not go back");
    }
    return s;
  }

  template <typename Push>
  void expand(const State& state, Push&& push) {
    for (std::uint32_t path = 0; path < 2; ++path) {
      if (may_send(state)) push(after(state, [&](State& s) { send(s, path); }));
      if (state.path[path].empty()) continue;
      push(after(state, [&](State& s) { arrive(s, path); }));
      if (state.losses == case_.losses) continue;
      push(after(state, [&](State& s) {
        ++s.losses;
        s.path[path].erase(s.path[path].begin());
      }));
      push(after(state, [&](State& s) {
        ++s.losses;
        s.loses_next = true;
        arrive(s, path);
        s.loses_next = false;
      }));
    }
    if (!state.said.empty()) push(after(state, [&](State& s) { hear(s); }));
    if (!state.answers.empty()) push(after(state, [&](State& s) { receive(s); }));
    tick(state, push);
  }

  template <typename Push>
  void tick(const State& state, Push&& push) {
    const TimeNs deadline = state.buffer.next_deadline();
    if (deadline <= state.now) {
      push(after(state, [&](State& s) { s.buffer.on_timer(s.now, *this); }));
    } else if (state.buffer.held() != 0) {
      const bool is_slow = deadline == state.now + 1 && may_come(state);
      if (is_slow && state.slow == case_.slow) return;
      push(after(state, [&](State& s) {
        ++s.now;
        s.slow += is_slow ? 1 : 0;
      }));
    }
  }

  [[nodiscard]] std::uint32_t expected(const State& s) const {
    return static_cast<std::uint32_t>(s.buffer.expected(0).distance_from(kFirst));
  }

  // What the buffer waits for is on its way, or something that makes the sender send it.
  [[nodiscard]] bool may_come(const State& s) const {
    const std::uint32_t wanted = expected(s);
    const auto has = [&](const std::vector<std::uint32_t>& of) {
      return std::count(of.begin(), of.end(), wanted) != 0;
    };
    return has(s.path[0]) || has(s.path[1]) || has(s.again) || s.next <= wanted || !s.said.empty() ||
           !s.answers.empty();
  }

  [[nodiscard]] bool may_send(const State& s) const {
    return s.path[0].size() + s.path[1].size() < case_.in_flight && (!s.again.empty() || s.next < case_.packets);
  }

  static void send(State& s, std::uint32_t path) {
    if (s.again.empty()) return s.path[path].push_back(s.next++);
    s.path[path].push_back(s.again.front());
    s.again.erase(s.again.begin());
  }

  void arrive(State& s, std::uint32_t path) {
    const std::uint32_t p = s.path[path].front();
    s.path[path].erase(s.path[path].begin());
    const ReorderBuffer::Back was = s.buffer.back(0);
    const std::uint64_t before = s.buffer.counts().went_back;
    s.buffer.on_packet(s.now, 0, kFirst + p, true, 100, s.now << 8 | p, *this);
    const bool begins_early = s.buffer.counts().went_back != before && was.wanted != kFirst + p;
    expect(!begins_early || s.buffer.expected(0) == was.wanted, "order begins anew elsewhere than asked");
  }

  void hear(State& s) {
    const Answer answer = s.said.front();
    s.said.erase(s.said.begin());
    add(s.answers, answer);
    const Psn wanted = kFirst + answer.wanted;
    if (!answer.nak && !s.buffer.follows_acks()) return;
    s.heard = std::max(s.heard, answer.wanted);
    if (!answer.nak) return s.buffer.on_ack(0, wanted - 1, *this);
    const std::uint32_t before = expected(s);
    const ReorderBuffer::Back was = s.buffer.back(0);
    s.buffer.on_nak(0, wanted);
    const ReorderBuffer::Back is = s.buffer.back(0);
    if (answer.wanted >= before) {
      expect(expected(s) == before && is.nacked == was.nacked, "a NAK for what has not gone on changes something");
    } else {
      expect(was.goes_back ? expected(s) == answer.wanted : is.nacked && is.wanted == wanted, "a NAK is not heard");
    }
  }

  void receive(State& s) const {
    const Answer answer = s.answers.front();
    s.answers.erase(s.answers.begin());
    s.acked = std::max(s.acked, answer.wanted);
    if (answer.nak) go_back(s, answer.wanted);
    s.next = std::max(s.next, s.acked);
  }

  // The sender's timeout.
  void give_up(State& s) const {
    s.timed_out = true;
    go_back(s, s.acked);
  }

  void go_back(State& s, std::uint32_t to) const {
    if (case_.selective) return s.again.push_back(to);
    s.next = to;
  }

  // The receiver.
  void deliver(std::uint64_t packet) noexcept override {
    if (packet == kBefore) return;
    State& s = *state_;
    const auto p = static_cast<std::uint32_t>(packet & 0xff);
    expect(s.now - (packet >> 8) <= kBound, "a packet waits beyond the bound");
    if (std::exchange(s.loses_next, false)) return;
    if (p > s.expects) {
      if (case_.selective) s.kept |= 1u << p;
      if (std::exchange(s.nacked, true)) return;
      return add(s.said, {s.expects, true});
    }
    if (p == s.expects) {
      s.nacked = false;
      do s.kept &= ~(1u << s.expects++);
      while ((s.kept >> s.expects & 1) != 0);
    }
    add(s.said, {s.expects, false});
  }

  // An ACK takes the place of one that is still on its way.
  static void add(std::vector<Answer>& to, const Answer& answer) {
    if (!answer.nak && !to.empty() && !to.back().nak) to.pop_back();
    to.push_back(answer);
  }

  void check(const State& s) {
    std::uint32_t waits = 0;
    TimeNs first = kNever;
    s.buffer.for_each([&](std::uint64_t packet) {
      ++waits;
      first = std::min(first, static_cast<TimeNs>(packet >> 8) + kBound);
      expect((packet & 0xff) != expected(s), "a packet waits though it is the next one");
    });
    expect(s.buffer.held() == waits && s.buffer.held_bytes() == 100 * waits, "wrong count of what waits");
    expect(waits == 0 || (first >= s.now && s.buffer.next_deadline() <= first), "no timer is set");
    expect(s.buffer.counts().overflowed == 0, "no room");
    expect(!s.buffer.back(0).goes_back || expected(s) >= s.heard, "order begins anew before what has come");
  }

  // All that what can happen next depends on, with times relative to now. Paths are alike.
  [[nodiscard]] static std::vector<std::uint32_t> key(const State& s) {
    std::vector<std::uint32_t> words{s.next,  s.acked,  s.expects, s.kept,
                                     s.heard, s.losses, s.slow,    (s.nacked ? 1u : 0u) | (s.timed_out ? 2u : 0u)};
    constexpr std::uint32_t kEnd = 99;
    const auto add = [&](const std::vector<std::uint32_t>& list) {
      words.insert(words.end(), list.begin(), list.end());
      words.push_back(kEnd);
    };
    add(std::min(s.path[0], s.path[1]));
    add(std::max(s.path[0], s.path[1]));
    add(s.again);
    for (const auto* list : {&s.said, &s.answers}) {
      for (const Answer& answer : *list) words.push_back(answer.wanted | (answer.nak ? 32u : 0u));
      words.push_back(kEnd);
    }
    s.buffer.for_each([&](std::uint64_t packet) {
      words.push_back(static_cast<std::uint32_t>(packet & 0xff) << 8 |
                      static_cast<std::uint32_t>(s.now - (packet >> 8)));
    });
    words.push_back(kEnd);
    const TimeNs deadline = s.buffer.next_deadline();
    words.push_back(deadline == kNever ? kEnd : static_cast<std::uint32_t>(deadline - s.now));
    words.push_back(s.buffer.expected(0).value());
    const ReorderBuffer::Back back = s.buffer.back(0);
    words.push_back(back.nacked ? back.wanted.value() : ~0u);
    words.push_back(back.gap_end.value());
    words.push_back((back.goes_back ? 1u : 0u) | (s.buffer.follows_acks() ? 2u : 0u));
    return words;
  }

  Case case_;
  State* state_ = nullptr;
  Findings found_;
};

bool is_mutant() {
  return std::getenv("WEFT_EXPECT_VIOLATION") != nullptr;
}

bool is_full() {
  const char* const wish = std::getenv("WEFT_EXHAUSTIVE");
  return wish != nullptr && std::string(wish) == "full";
}

std::set<std::string> all_violations;

/// What exploring one case finds. The numbers below are those of a run that was looked at.
struct Counts {
  std::uint64_t states, ends, went_back;
};

void judge(const Case& c, const Counts& pinned) {
  Findings found = Explorer(c).run();
  std::string text;
  for (const std::string& violation : found.violations) text += violation + "\n";
  all_violations.merge(found.violations);
  std::printf("%u packets, %u in flight, %u lost, %u slow%s: {%llu, %llu, %llu}\n", c.packets, c.in_flight, c.losses,
              c.slow, c.selective ? ", selective" : "", static_cast<unsigned long long>(found.states),
              static_cast<unsigned long long>(found.ends), static_cast<unsigned long long>(found.went_back));
  if (is_mutant()) return;
  EXPECT_EQ(text, "");
  EXPECT_EQ(found.states, pinned.states);
  EXPECT_EQ(found.ends, pinned.ends);
  EXPECT_EQ(found.went_back, pinned.went_back);
}

// The larger cases take two minutes.
void judge_in_full(const Case& c, const Counts& pinned) {
  if (is_full()) return judge(c, pinned);
  std::printf("%u packets, %u in flight: not run, only with WEFT_EXHAUSTIVE=full\n", c.packets, c.in_flight);
}

TEST(ReorderBackExhaustive, OneLoss) {
  judge({.packets = 4, .in_flight = 4, .losses = 1}, {30678, 11, 5195});
  if (is_mutant()) return;
  judge({.in_flight = 2, .losses = 1}, {243272, 14, 21011});
  judge_in_full({.in_flight = 3, .losses = 1}, {1974230, 25, 140218});
}

TEST(ReorderBackExhaustive, APathIsSlowOnce) {
  judge({.packets = 4, .in_flight = 4, .slow = 1}, {69338, 9, 10038});
  if (is_mutant()) return;
  judge({.in_flight = 2, .slow = 1}, {149999, 11, 10746});
  judge_in_full({.in_flight = 3, .slow = 1}, {3069977, 23, 205234});
}

TEST(ReorderBackExhaustive, ALossAndASlowPath) {
  judge({.packets = 4, .in_flight = 3, .losses = 1, .slow = 1}, {152169, 30, 24799});
  judge_in_full({.in_flight = 2, .losses = 1, .slow = 1}, {1753744, 52, 125804});
}

TEST(ReorderBackExhaustive, OnlyWhatIsMissingIsRepeated) {
  judge({.losses = 1, .selective = true}, {13302, 8, 0});
  judge({.slow = 1, .selective = true}, {25550, 7, 0});
  judge({.in_flight = 4, .losses = 1, .slow = 1, .selective = true}, {107501, 30, 10});
}

// Last, so that it sees what all the others have found.
TEST(ReorderBackExhaustive, ZMutantsAreCaught) {
  EXPECT_EQ(!all_violations.empty(), is_mutant());
}

}  // namespace
}  // namespace weft::stages
