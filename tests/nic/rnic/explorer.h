// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Explores every order, loss and duplication of a few messages between a requester and a responder, and judges every
// state: each byte is placed exactly once, each work request completes once, in order, and not before its data is
// there, and in the end everything has. Scenarios are in exhaustive_test.cc.
//
// Both halves send at once what they can; the network then delivers, loses or doubles any packet that is under way.
// Delivery takes no time. Timers expire when nothing is under way, and as often as the scenario allows while something
// still is: a retransmission timeout that is too short.
//
// run() visits each state once and tells states apart by a hash of what they feed to hash_state(). Whether that is
// enough is what compare() finds out: it visits states that differ in any member, and checks that those which run()
// takes for one do the same.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/nic/rnic/explorer_state.h"

namespace weft::nic::testing {

/// What compare() found.
struct Comparison {
  std::uint64_t exact = 0;                ///< states that differ in any member
  std::uint64_t classes = 0;              ///< states by hash
  std::optional<std::string> difference;  ///< two states of one hash that go on differently
};

class Explorer {
 public:
  Explorer(const QpConfig& config, Scenario scenario) : config_(config), scenario_(std::move(scenario)) {
    config_.end_to_end_credits = scenario_.credits;
    local_ = table_.add(Pd{1}, memory_.local.data(), kMemoryBytes, Access::all, 0);
    remote_ = table_.add(Pd{1}, memory_.remote.data(), kMemoryBytes, Access::all, 0);
    for (const Message& m : scenario_.messages) {
      receives_ += consumes_receive(m.opcode) ? 1 : 0;
      placed_ += is_read_or_atomic(m.opcode) ? 0 : m.bytes;
    }
  }

  /// Runs through all states. Returns the first violation, and the steps that lead to it.
  std::optional<std::string> run() {
    const State first = start();
    explore(first, hash(first));
    return violation_;
  }
  [[nodiscard]] std::uint64_t states() const noexcept { return seen_.size(); }
  [[nodiscard]] std::uint64_t transitions() const noexcept { return transitions_; }

  /// Runs through all states that differ in any member, counters and clock included. Of those with the same hash each
  /// must allow the same actions, with results of the same hash: then run() leaves nothing out.
  Comparison compare() {
    Comparison found;
    std::unordered_map<std::uint64_t, Class> classes;
    std::deque<State> states;
    const auto visit = [&](const State& s, std::uint64_t key) {
      auto& members = classes[key].members;
      for (const State* member : members) {
        if (*member == s) return;
      }
      states.push_back(s);
      members.push_back(&states.back());
    };
    const State first = start();
    visit(first, hash(first));
    for (std::size_t i = 0; i < states.size() && !violation_ && !found.difference; ++i) {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> results;
      expand(states[i], [&](const State& next, const Action& action) {
        const std::uint64_t key = hash(next);
        results.emplace_back(action.word(), key);
        visit(next, key);
      });
      std::sort(results.begin(), results.end());
      Class& c = classes.at(hash(states[i]));
      if (c.visited && c.results != results) {
        found.difference = scenario_.name + ": states with the same hash go on differently, state " + std::to_string(i);
      }
      c.visited = true;
      c.results = std::move(results);
    }
    if (violation_) found.difference = violation_;
    found.exact = states.size();
    found.classes = classes.size();
    return found;
  }

 private:
  struct Class {
    std::vector<const State*> members;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> results;  ///< action, and the hash that it leads to
    bool visited = false;
  };

  static std::uint64_t hash(const State& s) {
    weft::testing::StateHash h;
    s.hash_state(h);
    return h.value();
  }

  State start() {
    for (std::size_t i = 0; i < kMemoryBytes; ++i) {
      memory_.local[i] = static_cast<std::uint8_t>(i * 7 + 1);
      memory_.remote[i] = static_cast<std::uint8_t>(i * 13 + 5);
    }
    std::memset(memory_.remote.data(), 0, 8);  // for atomics
    original_ = memory_;
    State s(config_, table_, scenario_);
    post_sends(s);
    if (scenario_.receives == Receives::at_start) post_receives(s);
    settle(s);
    return s;
  }

  // --- what can happen ---

  /// Calls visit(State, Action) for everything that can happen.
  template <class Visit>
  void expand(const State& s, Visit&& visit) {
    const auto step = [&](const Action& action, auto&& change) {
      if (violation_) return;
      ++transitions_;
      way_.push_back(action);
      State next = s;
      memory_ = s.memory;
      change(next);
      settle(next);
      if (!violation_) visit(next, action);
      way_.pop_back();
    };
    for (const bool request : {true, false}) {
      const Lane& lane = request ? s.requests : s.responses;
      for (std::uint16_t i = 0; i < lane.size(); ++i) {
        if (!lane.repeats(i)) carry(s, request, i, step);
      }
    }
    if (scenario_.receives == Receives::at_any_time && s.posted < receives_) {
      step({Action::Kind::post}, [&](State& n) { post_receive(n); });
    }
    pass_time(s, step);
  }

  template <class Step>
  void carry(const State& s, bool request, std::uint16_t i, Step&& step) {
    const auto lane_of = [request](State& n) -> Lane& { return request ? n.requests : n.responses; };
    const Packets::Id id = request ? s.requests[i] : s.responses[i];
    step({request ? Action::Kind::deliver_request : Action::Kind::deliver_response, id, request}, [&](State& n) {
      lane_of(n).remove(i);
      const Packet p = packets_.arrived(id);
      if (request) {
        n.responder.on_request(n.now, p, receive_cq_);
      } else {
        static_cast<void>(n.requester.on_response(n.now, p, send_cq_));
      }
    });
    if (s.losses > 0) {
      step({Action::Kind::lose, id, request}, [&](State& n) {
        lane_of(n).remove(i);
        --n.losses;
      });
    }
    if (s.duplicates > 0) {
      step({Action::Kind::duplicate, id, request}, [&](State& n) {
        lane_of(n).add(id);
        --n.duplicates;
      });
    }
  }

  template <class Step>
  void pass_time(const State& s, Step&& step) {
    const Time deadline = s.requester.next_deadline();
    // A requester whose peer has not posted a receive would ask for ever: that, too, is counted.
    const bool early = !s.requests.empty() || !s.responses.empty() ||
                       (scenario_.receives == Receives::at_any_time && s.posted < receives_);
    if (deadline != kNever && (!early || s.early_timeouts > 0)) {
      step({Action::Kind::expire}, [&](State& n) {
        n.early_timeouts -= early ? 1 : 0;
        n.now = std::max(n.now, deadline);
        n.requester.on_timer(n.now, send_cq_);
      });
    }
    if (s.pauses > 0 && early && deadline > s.now + kRepeatNackNs) {
      step({Action::Kind::pause}, [&](State& n) {
        --n.pauses;
        n.now += kRepeatNackNs;
      });
    }
    if (deadline == kNever && !early) judge_end(s);
  }

  void post_sends(State& s) {
    std::uint64_t at = 8;
    for (std::size_t i = 0; i < scenario_.messages.size(); ++i) {
      const Message& m = scenario_.messages[i];
      SendWr wr;
      wr.wr_id = i;
      wr.opcode = m.opcode;
      wr.with({at, m.bytes, local_.key});
      wr.remote_address = is_atomic(m.opcode) ? 0 : at;
      wr.rkey = remote_.key;
      wr.compare_add = 1;
      require(s.requester.post(wr, send_cq_) == PostResult::ok, "work is taken");
      at += m.bytes;
    }
  }
  void post_receive(State& s) {
    std::uint64_t at = 8;
    std::uint32_t before = s.posted;
    for (const Message& m : scenario_.messages) {
      if (consumes_receive(m.opcode) && before-- == 0) {
        require(s.responder.post(RecvWr().with({at, m.bytes, remote_.key}), receive_cq_) == PostResult::ok, "posted");
      }
      at += m.bytes;
    }
    ++s.posted;
  }
  void post_receives(State& s) {
    while (s.posted < receives_) post_receive(s);
  }

  /// Lets both halves send, reads completions, judges, and keeps the memory with the state.
  void settle(State& s) {
    for (Packet p; s.requester.transmit(s.now, p, send_cq_); p = {}) s.requests.add(packets_.number(p));
    for (Packet p; s.responder.transmit(p, receive_cq_); p = {}) s.responses.add(packets_.number(p));
    if (scenario_.receives == Receives::after_rnr && s.posted == 0 && s.responder.counters().rnr_naks_sent > 0) {
      post_receives(s);
    }
    judge(s);
    s.memory = memory_;
  }

  // --- what must be true ---

  void judge(State& s) {
    Wc wc;
    while (receive_cq_.poll({&wc, 1}) == 1) {
      require(wc.status == WcStatus::success, "a receive completes without error");
      ++s.received;
    }
    while (send_cq_.poll({&wc, 1}) == 1) {
      require(wc.status == WcStatus::success, "a work request completes without error");
      require(wc.wr_id == s.sent, "completions come once and in order");
      if (s.sent < scenario_.messages.size()) require_data(s.sent);
      ++s.sent;
    }
    require(s.received <= receives_, "no message is received twice");
    require(s.responder.counters().bytes_placed <= placed_, "no byte is placed twice");
    if (scenario_.losses == 0 && scenario_.early_timeouts == 0) {
      require(s.requester.counters().timeouts == 0, "without a loss nothing has to wait for a timeout");
    }
  }

  /// What a completed message was to bring is there.
  void require_data(std::size_t index) {
    std::uint64_t at = 8, adds = 0;
    for (std::size_t i = 0; i < index; ++i) {
      at += scenario_.messages[i].bytes;
      adds += is_atomic(scenario_.messages[i].opcode) ? 1 : 0;
    }
    const Message& m = scenario_.messages[index];
    if (is_atomic(m.opcode)) {
      std::uint64_t before = 0;
      std::memcpy(&before, memory_.local.data() + at, sizeof before);
      return require(before == adds, "an atomic is done once, in order");
    }
    const auto& source = m.opcode == WrOpcode::read ? original_.remote : original_.local;
    const auto& target = m.opcode == WrOpcode::read ? memory_.local : memory_.remote;
    require(std::memcmp(source.data() + at, target.data() + at, m.bytes) == 0,
            "data is there when its message completes");
  }

  /// Nothing is under way, and no timer runs.
  void judge_end(const State& s) {
    require(s.sent == scenario_.messages.size(), "in the end everything has completed");
    require(s.requester.outstanding() == 0, "nothing is left over");
    memory_ = s.memory;
    for (std::size_t i = 0; i < scenario_.messages.size(); ++i) require_data(i);
  }

  void require(bool condition, const char* what) {
    if (condition || violation_) return;
    violation_ = std::string("not true: ") + what + "; " + scenario_.name + ":";
    for (const Action& action : way_) *violation_ += "\n  " + text(action);
  }

  [[nodiscard]] std::string text(const Action& action) const {
    constexpr const char* kNames[] = {
        "deliver", "deliver", "lose", "double", "a timer expires", "some time passes", "a receive is posted"};
    std::string words = kNames[static_cast<std::size_t>(action.kind)];
    if (action.kind >= Action::Kind::expire) return words;
    const Packet& p = packets_.headers(action.packet);
    words += " " + std::string(opcode_name(p.opcode)) + " " + std::to_string(p.psn.value());
    if (p.info().has(wire::HeaderMask::aeth) && !wire::Syndrome(p.syndrome).is_ack()) words += " (NAK)";
    return words;
  }

  // --- the search ---

  void explore(const State& s, std::uint64_t key) {
    if (violation_) return;
    const auto [at, fresh] = seen_.try_emplace(key, true);
    if (!fresh) return require(!at->second, "it comes to an end");
    expand(s, [&](const State& next, const Action&) { explore(next, hash(next)); });
    seen_[key] = false;
  }

  QpConfig config_;
  Scenario scenario_;
  std::uint32_t receives_ = 0;  ///< that the messages need
  std::uint64_t placed_ = 0;    ///< bytes that the messages bring
  MemoryTable table_;
  Buffers memory_, original_;
  Mr local_{}, remote_{};
  Cq send_cq_{16}, receive_cq_{16};  ///< empty between two steps
  Packets packets_;
  std::unordered_map<std::uint64_t, bool> seen_;  ///< by hash; true while a way that goes through it is explored
  std::vector<Action> way_;
  std::optional<std::string> violation_;
  std::uint64_t transitions_ = 0;
};

}  // namespace weft::nic::testing
