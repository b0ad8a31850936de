// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Explores everything that can happen when ranks run a few collectives over one or three switches: the
// production engine, and the software RNIC's own requesters and responders. Every packet under way may be the next that
// arrives; a channel between two ends delivers in order but for the faults of the case: losses, duplications, packets
// that overtake the one in front; or in any order. Time passes when nothing is under way, and as often as the case
// allows while something is.
//
// Each state is visited once, told apart by a 64-bit hash of what decides its future. Judged are: every result is a
// single machine's, no work request fails, every way comes to an end and no way leads back, and then everyone is done.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collectives/engine/inc_engine.h"
#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"
#include "tests/collectives/engine/explorer_case.h"
#include "tests/collectives/engine/groups.h"
#include "tests/support/fingerprints.h"
#include "tests/support/state_hash.h"

namespace weft::inc::testing {

class Explorer {
 public:
  explicit Explorer(ExplorerCase c) : case_(std::move(c)), ranks_(case_.ranks()) {
    config_.path_mtu = kMtu;
    config_.rto_ns = nic::kMs;
    config_.retry_count = 7;
    config_.send_queue_depth = 2;
    config_.receive_queue_depth = 16;
    for (std::uint32_t r = 0; r < ranks_; ++r) make_memory(r);
  }

  /// Runs through all states. Returns the first violation, and the way to it.
  std::optional<std::string> run() {
    State s = start();
    explore(s, hash(s), 0);
    return violation_;
  }
  /// Runs through all states that differ in any member, counters and clock included. Of those with the same hash each
  /// must allow the same steps, to states of the same hash: then run() leaves nothing out. Says where that is not so.
  std::optional<std::string> compare(std::uint64_t& exact) {
    struct Class {
      std::vector<std::size_t> members;
      std::vector<std::array<std::uint64_t, 3>> results;
      bool visited = false;
    };
    std::unordered_map<std::uint64_t, Class> classes;
    std::deque<State> all;
    const auto visit = [&](const State& s) {
      auto& members = classes[hash(s)].members;
      for (const std::size_t member : members) {
        if (same(all[member], s)) return;
      }
      members.push_back(all.size());
      all.push_back(s);
    };
    visit(start());
    for (std::size_t i = 0; i < all.size() && !violation_; ++i) {
      std::vector<std::array<std::uint64_t, 3>> results;
      expand(all[i], [&](const State& next) {
        const Taken& by = way_.back();
        results.push_back({reinterpret_cast<std::uintptr_t>(by.what), by.channel ^ by.flight->hash, hash(next)});
        visit(next);
      });
      std::sort(results.begin(), results.end());
      Class& c = classes.at(hash(all[i]));
      if (c.visited && c.results != results) return case_.name + ": states with the same hash go on differently";
      c.visited = true;
      c.results = std::move(results);
    }
    exact = all.size();
    return violation_;
  }
  [[nodiscard]] std::uint64_t states() const noexcept { return seen_.size(); }
  /// There are more states than the case allows, and not all have been visited.
  [[nodiscard]] bool cut_short() const noexcept { return seen_.size() > case_.most_states; }
  [[nodiscard]] std::uint64_t transitions() const noexcept { return transitions_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return seen_.bytes(); }
  [[nodiscard]] std::uint32_t diameter() const noexcept { return deepest_; }
  /// The states in which nothing is under way: time passes, or this is the end.
  [[nodiscard]] const std::set<std::uint64_t>& quiet() const noexcept { return quiet_; }
  /// Most packets that a switch has sent again, on any way.
  [[nodiscard]] std::uint64_t copies() const noexcept { return copies_; }

 private:
  /// A packet, kept once however often it is under way.
  struct Flight {
    nic::Packet packet;
    Bytes payload;
    bool marked = false;
    std::uint64_t hash = 0;
  };

  struct Rank {
    Rank(const nic::QpConfig& config, nic::MemoryTable& table)
        : requester(config, nic::Pd{1}, table, wire::Qpn(17)), responder(config, nic::Pd{1}, table, wire::Qpn(18)) {}
    nic::Requester requester;
    nic::Responder responder;
    std::uint32_t current = 0, posted = 0, outstanding = 0;  ///< as in network.h
    std::uint32_t receiving = 0, arrived = 0;                ///< collective and message that come next

    friend bool operator==(const Rank&, const Rank&) = default;
  };
  /// Nodes that do nothing in a step are the same objects before and after it.
  struct State {
    std::vector<std::shared_ptr<const Rank>> ranks;
    std::vector<std::shared_ptr<const IncEngine>> switches;
    std::vector<std::uint64_t> hashes;   ///< of the ranks, then of the switches
    std::vector<std::uint32_t> flights;  ///< channel << 24 | number of the packet; those of a channel in their order
    nic::Time now = nic::kMs;
    std::uint8_t losses = 0, duplicates = 0, overtakes = 0, early_timeouts = 0;
  };
  /// An edge: channel 2 i leads to `upper`, 2 i + 1 to `lower`.
  struct Edge {
    std::size_t lower;                 ///< rank, or ranks_ + switch
    std::size_t upper;                 ///< switch
    EndpointIndex at_lower, at_upper;  ///< the endpoint there
  };
  static constexpr std::uint32_t kRegion = 1u << 14, kReceive = 1u << 13;

  // --- the case ---

  /// What a rank sends stays where it is; what it receives is looked at when it has arrived, and then forgotten. So the
  /// memory is no part of a state.
  void make_memory(std::uint32_t r) {
    memory_.emplace_back(kRegion);
    tables_.push_back(std::make_unique<nic::MemoryTable>());
    mrs_.push_back(tables_[r]->add(nic::Pd{1}, memory_[r].data(), kRegion, nic::Access::all, 0));
    std::uint32_t at = 0;
    for (std::size_t k = 0; k < case_.program.size(); ++k) {
      for (std::uint32_t m = 0; m < case_.messages(case_.program[k]); ++m, at += case_.message_bytes()) {
        if (m == 0) {
          const auto payload = control_payload(case_.announcement(k));
          std::memcpy(memory_[r].data() + at, payload.data(), payload.size());
        }
        for (std::uint32_t i = 0; m > 0 && i < case_.bytes(case_.program[k], m) / 4; ++i) {
          const std::uint32_t v = case_.value(r, k, m, i);
          std::memcpy(memory_[r].data() + at + 4 * i, &v, 4);
        }
      }
    }
  }
  GroupConfig group() const {
    GroupConfig g = case_.tree ? leaf() : star(2);
    g.slots = 2 * case_.message_packets;
    g.message_packets = case_.message_packets;
    for (EndpointConfig& e : g.endpoints) e.address = e.rkey = 0;
    g.invocations = 4;  // more than a program has; every state copies them
    g.mode = case_.mode;
    g.duplicates = case_.answers;
    g.acks = case_.acks;
    g.early_cnp = false;  // ranks have no rate control here
    // Whoever is told to wait sleeps longer than others need to find out what was lost: otherwise each way would be
    // walked once for every time that they wake up in vain.
    g.rnr_timer = 15;
    g.rnr_acks = case_.rnr_acks;
    g.timeout = 8;
    return g;
  }

  State start() {
    State s;
    s.losses = case_.losses;
    s.duplicates = case_.duplicates;
    s.overtakes = case_.overtakes;
    s.early_timeouts = case_.early_timeouts;
    const GroupConfig first = group();
    std::vector<std::shared_ptr<Rank>> all;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      all.push_back(std::make_shared<Rank>(config_, *tables_[r]));
      all[r]->requester.connect(first.endpoints[r % 2].first_rx);
      all[r]->responder.connect(first.endpoints[r % 2].first_tx);
      for (std::size_t k = 0; k < case_.program.size(); ++k) {
        for (std::uint32_t m = 0; case_.receives(case_.program[k], r) && m < case_.messages(case_.program[k]); ++m) {
          nic::RecvWr wr;
          wr.with({kReceive + case_.place(k, m), case_.message_bytes(), mrs_[r].key});
          require(all[r]->responder.post(wr, receive_cq_) == nic::PostResult::ok, "posted");
        }
      }
    }
    make_switches(s, first);
    for (std::uint32_t r = 0; r < ranks_; ++r) settle(s, *all[r], r);
    s.ranks.assign(all.begin(), all.end());
    s.hashes.resize(ranks_ + s.switches.size());
    for (std::uint32_t r = 0; r < ranks_; ++r) hash_rank(s, r);
    for (std::size_t n = 0; n < s.switches.size(); ++n) hash_switch(s, n);
    return s;
  }

  void make_switches(State& s, const GroupConfig& first) {
    const auto add = [&](const GroupConfig& g) { s.switches.push_back(std::make_shared<IncEngine>(g)); };
    if (!case_.tree) {
      add(first);
      edges_ = {{0, 0, 0, 0}, {1, 0, 0, 1}};
      return;
    }
    for (std::uint16_t l = 0; l < 2; ++l) {
      GroupConfig g = first;
      for (std::uint16_t e = 0; e < 2; ++e) {
        g.endpoints[e].rank = static_cast<std::uint16_t>(2 * l + e);
        edges_.push_back({2u * l + e, l, 0, static_cast<EndpointIndex>(e)});
      }
      g.way = l == 0 ? std::vector<EndpointIndex>{0, 1, 2, 2} : std::vector<EndpointIndex>{2, 2, 0, 1};
      add(g);
    }
    GroupConfig root = first;
    root.parent.reset();
    root.endpoints.assign(2, first.endpoints[2]);
    for (EndpointConfig& e : root.endpoints) std::swap(e.first_rx, e.first_tx);
    root.way = {0, 0, 1, 1};
    add(root);
    for (std::uint16_t l = 0; l < 2; ++l) edges_.push_back({ranks_ + l, 2, 2, static_cast<EndpointIndex>(l)});
  }

  // --- what happens ---

  void put(State& s, std::size_t channel, const nic::Packet& p, bool marked) {
    Flight f{p, {}, marked, 0};
    for (std::size_t i = 0; i < p.payload.count; ++i) {
      const auto& piece = p.payload.pieces[i];
      f.payload.insert(f.payload.end(), piece.data, piece.data + piece.bytes);
    }
    weft::testing::StateHash h = seeded();
    nic::hash_headers(p, h);
    h(marked ? 1 : 0);
    for (const std::uint8_t byte : f.payload) h(byte);
    f.hash = h.value();
    const auto [at, fresh] = numbers_.try_emplace(f.hash, static_cast<std::uint32_t>(flights_.size()));
    if (fresh) {
      flights_.push_back(std::move(f));
      Flight& kept = flights_.back();
      kept.packet.payload.set(kept.payload.data(), static_cast<std::uint32_t>(kept.payload.size()));
    }
    s.flights.push_back(static_cast<std::uint32_t>(channel << 24) | at->second);
  }
  [[nodiscard]] static std::size_t channel_of(std::uint32_t flight) { return flight >> 24; }
  [[nodiscard]] const Flight& packet_of(std::uint32_t flight) const { return flights_[flight & 0xffffff]; }

  /// A rank posts what it may, and sends what it can.
  void settle(State& s, Rank& rank, std::uint32_t r) {
    const std::size_t up = 2 * r;  // edges of ranks come first, in their order
    for (bool more = true; more && !violation_;) {
      more = work(rank, r);
      nic::Packet p;
      while (rank.responder.transmit(p, receive_cq_)) put(s, up, p, false), more = true;
      while (rank.requester.transmit(s.now, p, send_cq_)) put(s, up, p, false), more = true;
    }
  }

  bool work(Rank& rank, std::uint32_t r) {
    nic::Wc wc;
    bool any = false;
    while (receive_cq_.poll({&wc, 1}) == 1) {
      require(wc.status == nic::WcStatus::success, "a receive completes without error");
      received(rank, r, wc);
      any = true;
    }
    while (send_cq_.poll({&wc, 1}) == 1) {
      require(wc.status == nic::WcStatus::success, "a work request completes without error");
      --rank.outstanding;
      any = true;
    }
    for (; rank.current < case_.program.size() && !violation_; ++rank.current, rank.posted = 0, any = true) {
      const Step& c = case_.program[rank.current];
      while (case_.sends(c, r) && rank.posted < case_.messages(c) && rank.outstanding < 1) {
        post(rank, r);
        any = true;
      }
      if (case_.sends(c, r) && rank.posted < case_.messages(c)) break;
      if (case_.receives(c, r) && rank.receiving <= rank.current) break;
    }
    return any;
  }

  void post(Rank& rank, std::uint32_t r) {
    nic::SendWr wr;
    const Step& c = case_.program[rank.current];
    const bool control = rank.posted == 0;
    const std::uint32_t length =
        control ? static_cast<std::uint32_t>(kControlPayloadBytes) : case_.bytes(c, rank.posted);
    wr.with({case_.place(rank.current, rank.posted), length, mrs_[r].key});
    if (control) {
      wr.opcode = nic::WrOpcode::send_imm;
      wr.immediate = control_immediate(case_.announcement(rank.current));
    }
    require(rank.requester.post(wr, send_cq_) == nic::PostResult::ok, "work is taken");
    ++rank.posted;
    ++rank.outstanding;
  }

  void received(Rank& rank, std::uint32_t r, const nic::Wc& wc) {
    const auto next = [&] {
      while (rank.receiving < case_.program.size() && !case_.receives(case_.program[rank.receiving], r))
        ++rank.receiving;
    };
    next();
    if (rank.receiving == case_.program.size()) return require(false, "nobody gets more than was sent");
    const std::size_t k = rank.receiving;
    const Step& c = case_.program[k];
    require(wc.with_immediate == (rank.arrived == 0), "the control message comes first");
    if (rank.arrived > 0) {
      require(wc.byte_length == case_.bytes(c, rank.arrived), "lengths are right");
      const std::uint8_t* at = memory_[r].data() + kReceive + case_.place(k, rank.arrived);
      for (std::uint32_t i = 0; i < case_.bytes(c, rank.arrived) / 4; ++i) {
        std::uint32_t v = 0;
        std::memcpy(&v, at + 4 * i, 4);
        require(v == case_.expected(k, rank.arrived, i), "a result is a single machine's");
      }
    }
    if (++rank.arrived < case_.messages(c)) return;
    rank.arrived = 0;
    ++rank.receiving;
    next();
  }

  /// A packet arrives at the end of a channel.
  void arrive(State& s, std::size_t channel, const Flight& f) {
    const Edge& edge = edges_[channel / 2];
    const bool up = channel % 2 == 0;
    if (!up && edge.lower < ranks_) {
      const auto r = static_cast<std::uint32_t>(edge.lower);
      const auto rank = std::make_shared<Rank>(*s.ranks[r]);
      if (f.packet.info().is_request()) {
        rank->responder.on_request(s.now, f.packet, receive_cq_);
      } else {
        static_cast<void>(rank->requester.on_response(s.now, f.packet, send_cq_));
      }
      settle(s, *rank, r);
      s.ranks[r] = rank;
      return hash_rank(s, r);
    }
    step_switch(s, up ? edge.upper : edge.lower - ranks_, [&](IncEngine& unit, Sink& out) {
      unit.on_packet(s.now, up ? edge.at_upper : edge.at_lower, f.packet, f.marked, out);
    });
  }

  /// Where a switch sends its packets.
  struct Out final : Sink {
    Out(Explorer& all, State& state, std::size_t number) : explorer(all), s(state), node(number) {}
    void send(EndpointIndex to, const nic::Packet& p, bool marked) override {
      for (std::size_t e = 0; e < explorer.edges_.size(); ++e) {
        const Edge& one = explorer.edges_[e];
        if (one.upper == node && one.at_upper == to) return explorer.put(s, 2 * e + 1, p, marked);
        if (one.lower == explorer.ranks_ + node && one.at_lower == to) return explorer.put(s, 2 * e, p, marked);
      }
    }
    Explorer& explorer;
    State& s;
    std::size_t node;
  };

  template <class Change>
  void step_switch(State& s, std::size_t node, Change&& change) {
    Out out(*this, s, node);
    const auto unit = std::make_shared<IncEngine>(*s.switches[node]);
    change(*unit, out);
    require(!unit->failure(), "no group fails");
    copies_ = std::max(copies_, unit->counters().copies + unit->counters().resent);
    s.switches[node] = unit;
    hash_switch(s, node);
  }

  // --- the search ---

  [[nodiscard]] weft::testing::StateHash seeded() const {
    weft::testing::StateHash h;
    h(case_.seed);
    return h;
  }
  void hash_rank(State& s, std::uint32_t r) const {
    weft::testing::StateHash h = seeded();
    const Rank& rank = *s.ranks[r];
    rank.requester.hash_state(h, s.now);
    rank.responder.hash_state(h, s.now);
    h(std::uint64_t{rank.current} << 32 | rank.posted << 16 | rank.outstanding);
    h(std::uint64_t{rank.receiving} << 32 | rank.arrived);
    s.hashes[r] = h.value();
  }
  void hash_switch(State& s, std::size_t node) const {
    weft::testing::StateHash h = seeded();
    s.switches[node]->hash_state(h, s.now);
    s.hashes[ranks_ + node] = h.value();
  }
  /// Channels have an order each, or none, and none among each other.
  [[nodiscard]] std::uint64_t hash(const State& s) const {
    weft::testing::StateHash h = seeded();
    for (const std::uint64_t node : s.hashes) h(node);
    std::vector<std::uint64_t> packets;
    for (std::size_t c = 0; c < 2 * edges_.size(); ++c) {
      packets.clear();
      for (const std::uint32_t f : s.flights) {
        if (channel_of(f) == c) packets.push_back(packet_of(f).hash);
      }
      if (case_.any_order) std::sort(packets.begin(), packets.end());
      for (const std::uint64_t packet : packets) h(packet);
      h(packets.size());
    }
    h(std::uint64_t{s.early_timeouts} << 24 | std::uint64_t{s.losses} << 16 | s.duplicates << 8 | s.overtakes);
    return h.value();
  }

  [[nodiscard]] static bool same(const State& a, const State& b) {
    const auto equal = [](const auto& x, const auto& y) { return x == y || *x == *y; };
    return a.now == b.now && a.losses == b.losses && a.duplicates == b.duplicates && a.overtakes == b.overtakes &&
           a.early_timeouts == b.early_timeouts && a.flights == b.flights &&
           std::equal(a.ranks.begin(), a.ranks.end(), b.ranks.begin(), b.ranks.end(), equal) &&
           std::equal(a.switches.begin(), a.switches.end(), b.switches.begin(), b.switches.end(), equal);
  }

  template <class Visit>
  void expand(const State& s, Visit&& visit) {
    const auto step = [&](const char* what, std::size_t channel, const Flight& f, auto&& change) {
      if (violation_) return;
      ++transitions_;
      way_.push_back({what, channel, &f});
      State next = s;
      change(next);
      if (!violation_) visit(next);
      way_.pop_back();
    };
    std::uint32_t seen = 0, second_seen = 0;  // channels of which a packet, or two, have been looked at
    const std::optional<std::size_t> only = alone(s);
    for (std::size_t i = 0; i < s.flights.size(); ++i) {
      const std::size_t c = channel_of(s.flights[i]);
      if (only && c != *only) continue;
      const Flight& f = packet_of(s.flights[i]);
      const auto take = [i](State& n) { n.flights.erase(n.flights.begin() + static_cast<std::ptrdiff_t>(i)); };
      if (case_.any_order) {
        const auto at = s.flights.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(s.flights.begin(), at, *at) != at) continue;  // its like has had its turn
      } else if ((seen >> c & 1) != 0) {
        if (s.overtakes == 0 || (second_seen >> c & 1) != 0) continue;
        second_seen |= 1u << c;
        step("overtakes", c, f, [&](State& n) {
          take(n);
          --n.overtakes;
          arrive(n, c, f);
        });
        continue;
      }
      seen |= 1u << c;
      step("arrives", c, f, [&](State& n) {
        take(n);
        arrive(n, c, f);
      });
      if (s.losses > 0) {
        step("is lost", c, f, [&](State& n) {
          take(n);
          --n.losses;
        });
      }
      if (s.duplicates > 0) {
        step("arrives, and will again", c, f, [&](State& n) {
          --n.duplicates;
          arrive(n, c, f);
        });
      }
    }
    if (s.flights.empty()) quiet_.insert(hash(s));
    if (s.flights.empty() || s.early_timeouts > 0) pass_time(s, step);
  }

  /// A channel that leads to a rank, with a packet in it. A rank has no other channel, and this one keeps its order
  /// once no packet may overtake: whatever else happens meanwhile, what happens to its first packet comes to the same.
  /// So it is enough to let that happen first. A fault here may be moved in front of others for the same reason: they
  /// take no more of what is left when they come later. Time must not be ahead of any packet.
  [[nodiscard]] std::optional<std::size_t> alone(const State& s) const {
    if (case_.every_order || case_.any_order || s.overtakes != 0 || s.early_timeouts != 0) return std::nullopt;
    for (const std::uint32_t f : s.flights) {
      const std::size_t c = channel_of(f);
      if (c % 2 == 1 && edges_[c / 2].lower < ranks_) return c;
    }
    return std::nullopt;
  }

  template <class Step>
  void pass_time(const State& s, Step&& step) {
    nic::Time next = nic::kNever;
    for (const auto& r : s.ranks) next = std::min(next, r->requester.next_deadline());
    for (const auto& unit : s.switches) next = std::min(next, unit->next_deadline());
    const bool early = !s.flights.empty();
    if (next == nic::kNever) {
      for (const auto& r : s.ranks) {
        require(early || (r->current == case_.program.size() && r->outstanding == 0), "in the end everyone is done");
      }
      return;
    }
    step("time passes", 0, nothing_, [&](State& n) {
      n.early_timeouts -= early ? 1 : 0;
      n.now = std::max(n.now, next);
      for (std::uint32_t r = 0; r < ranks_; ++r) {
        if (n.ranks[r]->requester.next_deadline() <= n.now) {
          const auto rank = std::make_shared<Rank>(*n.ranks[r]);
          rank->requester.on_timer(n.now, send_cq_);
          settle(n, *rank, r);
          n.ranks[r] = rank;
        }
        hash_rank(n, r);  // what is left of times has changed for all
      }
      for (std::size_t node = 0; node < n.switches.size(); ++node) {
        if (n.switches[node]->next_deadline() <= n.now) {
          step_switch(n, node, [&](IncEngine& unit, Sink& out) { unit.on_timer(n.now, out); });
        }
        hash_switch(n, node);
      }
    });
  }

  void explore(const State& s, std::uint64_t key, std::uint32_t depth) {
    if (violation_ || cut_short()) return;
    deepest_ = std::max(deepest_, depth);
    if (!seen_.insert(key)) return require(!behind_.contains(key), "no way leads back to where it has been");
    behind_.insert(key);
    expand(s, [&](const State& next) { explore(next, hash(next), depth + 1); });
    behind_.erase(key);
  }

  void require(bool condition, const char* what) {
    if (condition || violation_) return;
    violation_ = std::string("not true: ") + what + "; " + case_.name + ":";
    for (const Taken& one : way_) *violation_ += "\n  " + text(one.what, one.channel, *one.flight);
  }
  [[nodiscard]] std::string text(const char* what, std::size_t channel, const Flight& f) const {
    if (f.hash == 0) return what;
    const Edge& e = edges_[channel / 2];
    const auto node = [&](std::size_t n) {
      return n < ranks_ ? "rank " + std::to_string(n) : "switch " + std::to_string(n - ranks_);
    };
    const std::string to = channel % 2 == 0 ? node(ranks_ + e.upper) : node(e.lower);
    return std::string(wire::opcode_name(f.packet.opcode)) + " " + std::to_string(f.packet.psn.value()) + " to " + to +
           " " + what;
  }

  ExplorerCase case_;
  std::uint32_t ranks_;
  nic::QpConfig config_;
  std::deque<std::vector<std::uint8_t>> memory_;
  std::vector<std::unique_ptr<nic::MemoryTable>> tables_;
  std::vector<nic::Mr> mrs_;
  std::vector<Edge> edges_;
  nic::Cq send_cq_{16}, receive_cq_{16};  ///< empty between two steps
  weft::testing::Fingerprints seen_;
  std::unordered_set<std::uint64_t> behind_;  ///< states on the way here
  std::set<std::uint64_t> quiet_;
  struct Taken {
    const char* what;
    std::size_t channel;
    const Flight* flight;
  };
  std::vector<Taken> way_;
  Flight nothing_{};
  std::deque<Flight> flights_;  ///< all packets that there ever were
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
  std::optional<std::string> violation_;
  std::uint64_t transitions_ = 0, copies_ = 0;
  std::uint32_t deepest_ = 0;
};

}  // namespace weft::inc::testing
