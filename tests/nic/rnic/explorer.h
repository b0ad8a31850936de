// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Explores every order, loss and duplication of a few messages between a requester and a responder, and judges every
// state: each byte is placed exactly once, each work request completes once, in order, and not before its data is
// there, and in the end everything has. Scenarios are in exhaustive_test.cc.
//
// Both halves send at once what they can; the network then delivers, loses or doubles any packet that is under way.
// Time passes when nothing is: then the timeouts expire.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"

namespace weft::nic::testing {

inline constexpr std::uint32_t kMtu = 256;
inline constexpr std::size_t kMemoryBytes = 2048;

struct Message {
  WrOpcode opcode = WrOpcode::send;
  std::uint32_t bytes = 0;
};

struct Scenario {
  std::string name;
  std::vector<Message> messages;
  unsigned losses = 2;
  unsigned duplicates = 1;
  bool late_receives = false;  ///< the receives are posted when the first RNR NAK has left
};

class Explorer {
 public:
  Explorer(const QpConfig& config, Scenario scenario) : config_(config), scenario_(std::move(scenario)) {
    local_ = table_.add(Pd{1}, memory_.local.data(), kMemoryBytes, Access::all, 0);
    remote_ = table_.add(Pd{1}, memory_.remote.data(), kMemoryBytes, Access::all, 0);
  }

  /// Runs through all states. Returns the first violation, and the steps that lead to it.
  std::optional<std::string> run() {
    for (std::size_t i = 0; i < kMemoryBytes; ++i) {
      memory_.local[i] = static_cast<std::uint8_t>(i * 7 + 1);
      memory_.remote[i] = static_cast<std::uint8_t>(i * 13 + 5);
    }
    std::memset(memory_.remote.data(), 0, 8);  // for atomics
    State start(config_, table_, scenario_);
    original_ = memory_;
    post_sends(start);
    if (!scenario_.late_receives) post_receives(start);
    settle(start);
    explore(start);
    return violation_;
  }
  [[nodiscard]] std::uint64_t states() const noexcept { return states_; }
  [[nodiscard]] std::uint64_t transitions() const noexcept { return transitions_; }

 private:
  struct Buffers {
    std::array<std::uint8_t, kMemoryBytes> local{}, remote{};
  };
  struct Carried {
    explicit Carried(const Packet& p) : packet(p) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < p.payload.count; ++i) {
        std::memcpy(bytes.data() + at, p.payload.pieces[i].data, p.payload.pieces[i].bytes);
        at += p.payload.pieces[i].bytes;
      }
    }
    [[nodiscard]] Packet arrived() const {
      Packet p = packet;
      p.payload.set(bytes.data(), packet.payload.bytes);
      return p;
    }
    Packet packet;
    std::array<std::uint8_t, kMtu> bytes{};
  };
  struct State {
    State(const QpConfig& c, MemoryTable& t, const Scenario& s)
        : requester(c, Pd{1}, t, wire::Qpn(17)),
          responder(c, Pd{1}, t, wire::Qpn(18)),
          losses(s.losses),
          duplicates(s.duplicates) {
      // PSNs wrap on the way.
      requester.connect(wire::Psn(0xfffffe));
      responder.connect(wire::Psn(0xfffffe));
    }
    Requester requester;
    Responder responder;
    Cq send_cq{16}, receive_cq{16};
    std::vector<Carried> requests, responses;  ///< under way
    Buffers memory;
    unsigned losses, duplicates;
    std::size_t sent = 0, received = 0;  ///< completions
    bool posted = false;
    Time now = 1000;
  };

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
      require(s.requester.post(wr, s.send_cq) == PostResult::ok, "work is taken");
      at += m.bytes;
    }
  }
  void post_receives(State& s) {
    s.posted = true;
    std::uint64_t at = 8;
    for (const Message& m : scenario_.messages) {
      if (consumes_receive(m.opcode)) {
        require(s.responder.post(RecvWr().with({at, m.bytes, remote_.key}), s.receive_cq) == PostResult::ok, "posted");
      }
      at += m.bytes;
    }
  }

  /// Lets both halves send, reads completions, judges, and keeps the memory with the state.
  void settle(State& s) {
    Packet p;
    while (s.requester.transmit(s.now, p, s.send_cq)) s.requests.emplace_back(p);
    while (s.responder.transmit(p, s.receive_cq)) s.responses.emplace_back(p);
    if (!s.posted && s.responder.counters().rnr_naks_sent > 0) post_receives(s);
    judge(s);
    s.memory = memory_;
  }

  void judge(State& s) {
    Wc wc;
    while (s.receive_cq.poll({&wc, 1}) == 1) {
      require(wc.status == WcStatus::success, "a receive completes without error");
      ++s.received;
    }
    while (s.send_cq.poll({&wc, 1}) == 1) {
      require(wc.status == WcStatus::success, "a work request completes without error");
      require(wc.wr_id == s.sent, "completions come once and in order");
      if (s.sent < scenario_.messages.size()) require_data(s.sent);
      ++s.sent;
    }
    std::size_t receives = 0, bytes = 0;
    for (const Message& m : scenario_.messages) {
      receives += consumes_receive(m.opcode) ? 1 : 0;
      bytes += is_read_or_atomic(m.opcode) ? 0 : m.bytes;
    }
    require(s.received <= receives, "no message is received twice");
    require(s.responder.counters().bytes_placed <= bytes, "no byte is placed twice");
    if (scenario_.losses == 0) {
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

  void explore(const State& s) {
    if (violation_) return;
    const std::uint64_t key = hash(s);
    if (on_path_.contains(key)) return require(false, "it comes to an end");
    if (!seen_.insert(key).second) return;
    ++states_;
    on_path_.insert(key);
    if (s.requests.empty() && s.responses.empty()) {
      pass_time(s);
    } else {
      for (const bool request : {true, false}) {
        const auto& lane = request ? s.requests : s.responses;
        for (std::size_t i = 0; i < lane.size(); ++i) carry(s, request, i);
      }
    }
    on_path_.erase(key);
  }

  void carry(const State& s, bool request, std::size_t i) {
    const Carried& c = request ? s.requests[i] : s.responses[i];
    const std::string what = std::string(opcode_name(c.packet.opcode)) + " " + std::to_string(c.packet.psn.value());
    step(s, "deliver " + what, [&](State& n) {
      take(n, request, i);
      const Packet p = c.arrived();
      if (request) {
        n.responder.on_request(n.now, p, n.receive_cq);
      } else {
        static_cast<void>(n.requester.on_response(n.now, p, n.send_cq));
      }
    });
    if (s.losses > 0) {
      step(s, "lose " + what, [&](State& n) {
        take(n, request, i);
        --n.losses;
      });
    }
    if (s.duplicates > 0) {
      step(s, "double " + what, [&](State& n) {
        (request ? n.requests : n.responses).push_back(c);
        --n.duplicates;
      });
    }
  }
  static void take(State& n, bool request, std::size_t i) {
    auto& lane = request ? n.requests : n.responses;
    lane.erase(lane.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void pass_time(const State& s) {
    const Time deadline = s.requester.next_deadline();
    if (deadline != kNever) {
      step(s, "time passes", [&](State& n) {
        n.now = std::max(n.now, deadline);
        n.requester.on_timer(n.now, n.send_cq);
      });
      return;
    }
    require(s.sent == scenario_.messages.size(), "in the end everything has completed");
    require(s.requester.outstanding() == 0, "nothing is left over");
    memory_ = s.memory;
    for (std::size_t i = 0; i < scenario_.messages.size(); ++i) require_data(i);
  }

  template <class Change>
  void step(const State& s, std::string what, Change&& change) {
    if (violation_) return;
    ++transitions_;
    way_.push_back(std::move(what));
    State next = s;
    memory_ = s.memory;
    change(next);
    settle(next);
    explore(next);
    way_.pop_back();
  }

  [[nodiscard]] std::uint64_t hash(const State& s) const {
    std::uint64_t h = 0xcbf29ce484222325;
    const auto mix = [&h](std::uint64_t v) {
      h = (h ^ v) * 0x9e3779b97f4a7c15;
      h ^= h >> 29;
    };
    s.requester.hash_state(mix);
    s.responder.hash_state(mix);
    for (const auto* lane : {&s.requests, &s.responses}) {
      std::uint64_t sum = 0;  // the order in which they stand means nothing
      for (const Carried& c : *lane) {
        std::uint64_t one = std::uint64_t{c.packet.psn.value()} << 32 | std::uint64_t{c.packet.msn} << 8 |
                            static_cast<std::uint8_t>(c.packet.opcode);
        one ^= std::uint64_t{c.packet.syndrome} << 56 | (c.packet.ack_req ? 1ull << 63 : 0);
        one ^= (std::uint64_t{c.packet.dma_length} << 20) ^ c.packet.compare;
        sum += (one ^ one >> 31) * 0xd6e8feb86659fd93;
      }
      mix(sum);
      mix(lane->size());
    }
    for (const auto* side : {&s.memory.local, &s.memory.remote}) {
      for (std::size_t i = 0; i < side->size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, side->data() + i, sizeof word);
        mix(word);
      }
    }
    mix(std::uint64_t{s.losses} << 32 | s.duplicates);
    mix(s.sent << 16 | s.received << 1 | (s.posted ? 1 : 0));
    return h;
  }

  void require(bool condition, const char* what) {
    if (condition || violation_) return;
    violation_ = std::string("not true: ") + what + "; " + scenario_.name + ":";
    for (const auto& w : way_) *violation_ += "\n  " + w;
  }

  QpConfig config_;
  Scenario scenario_;
  MemoryTable table_;
  Buffers memory_, original_;
  Mr local_{}, remote_{};
  std::unordered_set<std::uint64_t> seen_, on_path_;
  std::vector<std::string> way_;
  std::optional<std::string> violation_;
  std::uint64_t states_ = 0, transitions_ = 0;
};

}  // namespace weft::nic::testing
