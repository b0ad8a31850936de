// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Explores every interleaving of one message that is sprayed over N paths, made of the units that run in products: the
// requester and responder of nic/rnic, PathCount for the choice of the path, NackFilterUnit at the receiver's ToR. The
// paths deliver in order, and so do the last hop and both parts of the way back; what is on any of them is part of the
// state and can be lost.
//
//   requester -> N paths -> [ToR: on_data] -> last hop -> responder
//   requester <- way back <- [ToR: on_nack, on_receipt, compensations] <- way up <- responder
//
// There is no retransmission timeout: what would have to wait for one is an end state in which the message is not
// complete, and is judged by whether the sender was told.
//
// One reduction: an ACK that nothing stands before on the way back reaches the requester at once. Until the next NACK
// it changes nothing that anybody could see. With `any_order_back`, where the sender's answers are sprayed as well,
// there is no such reduction: whatever is on the way back may arrive next.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"
#include "switch/stages/nack_filter/unit.h"

namespace weft::stages::testing {

struct NackCase {
  NackCheck check = NackCheck::gap;
  nic::Renack renack = nic::Renack::lazy;
  std::uint32_t paths = 2;
  std::uint32_t packets = 5;
  std::uint32_t losses = 1;
  enum class Guard : std::uint8_t {
    off,
    bounded,  ///< fires only when all that was under way when it began, and the answers to that, have arrived
    early,    ///< fires at any time
  } guard = Guard::off;
  bool path_down = false;  ///< the first path may go down, for good: what is on it or is sent over it later is lost
  bool any_order_back = false;  ///< ACKs and NACKs overtake each other between the ToR and the requester
};

/// What a case came to.
struct NackFindings {
  std::uint64_t states = 0, transitions = 0;
  std::uint64_t false_nacks = 0;  ///< transitions that let the sender see a NACK for a packet that is not lost
  std::uint64_t in_vain = 0;      ///< transitions in which the sender repeats a packet that is not lost
  std::uint64_t missed = 0;       ///< end states in which a NACK that was not lost was kept from the sender
  std::uint64_t stuck = 0;        ///< end states that wait for a timeout for all other reasons
  bool complete = true;           ///< all states were visited
  bool cycle = false;
  std::string false_example{}, missed_example{};  ///< shortest ones
};

class NackExplorer {
 public:
  explicit NackExplorer(const NackCase& c, std::uint64_t max_states = 40'000'000)
      : case_(c), max_states_(max_states), unit_(rules(c)), paths_(c.paths) {
    local_ = table_.add(nic::Pd{1}, nullptr, kMessageBytes, nic::Access::all, 0);
    remote_ = table_.add(nic::Pd{1}, nullptr, kMessageBytes, nic::Access::all, 0);
  }

  /// Breadth first: examples are the shortest there are.
  NackFindings run() {
    std::deque<std::pair<State, std::uint64_t>> next;
    next.emplace_back(start(), 0);
    seen_.emplace(next.front().second = hash(next.front().first), Step{0, {}, 0});
    while (!next.empty() && found_.states < max_states_) {
      auto [state, key] = std::move(next.front());
      next.pop_front();
      ++found_.states;
      at_ = key;
      expand(state, [&](State&& s, Event event, std::uint32_t psn) {
        const std::uint64_t h = hash(s);
        if (seen_.emplace(h, Step{key, event, static_cast<std::uint8_t>(psn)}).second)
          next.emplace_back(std::move(s), h);
      });
    }
    found_.complete = next.empty();
    return found_;
  }

  /// Depth first, to see that no way leads back to where it has been.
  NackFindings run_for_cycles() {
    walk(start());
    return found_;
  }

 private:
  static constexpr std::uint32_t kMtu = 256;
  static constexpr std::uint32_t kMaxPackets = 8;
  static constexpr std::uint32_t kMaxPaths = 4;
  static constexpr std::uint32_t kMessageBytes = kMaxPackets * kMtu;
  // PSNs wrap on the way.
  static constexpr wire::Psn kFirst{0xfffffd};

  enum class Event : std::uint8_t {
    send,
    to_tor,
    lose_on_path,
    receive,
    lose_on_last_hop,
    answer_to_tor,
    lose_answer,
    back,
    lose_back,
    guard,
    path_down,
  };
  // A packet under way. `old`: it, or what it answers, was under way when the guard began.
  struct Item {
    std::uint8_t psn;  ///< relative to kFirst, of an ACK one less than what it asks for
    bool nack;
    bool ack_req;
    bool old;
    std::uint8_t syndrome;
    std::uint8_t msn;
  };
  template <std::size_t kRoom>
  struct Fifo {
    std::array<Item, kRoom> items;
    std::uint8_t size = 0;
    void push(Item item) {
      if (size == kRoom) std::abort();
      items[size++] = item;
    }
    Item pop() { return take(0); }
    Item take(std::uint8_t place) {
      const Item taken = items[place];
      for (std::uint8_t i = place + 1u; i < size; ++i) items[i - 1u] = items[i];
      --size;
      return taken;
    }
    [[nodiscard]] bool empty() const { return size == 0; }
    template <typename F>
    void for_each(F&& f) {
      for (std::uint8_t i = 0; i < size; ++i) f(items[i]);
    }
  };
  struct alignas(64) FilterMemory {
    std::array<std::byte, 256> bytes{};
  };
  struct State {
    nic::Requester requester;
    nic::Responder responder;
    nic::Cq send_cq{4}, receive_cq{4};
    FilterMemory filter{};
    std::array<Fifo<8>, kMaxPaths> paths{};
    Fifo<16> last_hop{};
    Fifo<16> up{}, back{};
    std::uint32_t losses = 0;
    std::uint32_t uplinks_down = 0;
    std::uint32_t nacked = 0, told = 0, nack_lost = 0;  ///< by relative PSN
  };
  struct Step {
    std::uint64_t from;
    Event event;
    std::uint8_t psn;
  };

  static NackRules rules(const NackCase& c) {
    NackRules r;
    r.check = c.check;
    r.paths = r.uplinks = c.paths;
    r.weights.fill(1);
    r.window_psns = 64;
    r.ring_entries = 32;
    r.guard_ns = c.guard == NackCase::Guard::off ? 0 : 1;
    return r;
  }
  static nic::QpConfig config(const NackCase& c) {
    nic::QpConfig q;
    q.path_mtu = kMtu;
    q.loss_recovery = nic::LossRecovery::nic_sr;
    q.renack = c.renack;
    q.reorder_window = kMaxPackets;
    q.rto_ns = 0;
    q.ack_every = 1;
    q.send_queue_depth = q.receive_queue_depth = 1;
    q.max_rd_atomic = q.max_dest_rd_atomic = 1;
    return q;
  }

  State start() {
    State s{nic::Requester(config(case_), nic::Pd{1}, table_, wire::Qpn(17)),
            nic::Responder(config(case_), nic::Pd{1}, table_, wire::Qpn(18))};
    s.losses = case_.losses;
    s.requester.connect(kFirst);
    s.responder.connect(kFirst);
    nic::SendWr wr;
    wr.opcode = nic::WrOpcode::write;
    wr.with({0, case_.packets * kMtu, local_.key});
    wr.rkey = remote_.key;
    if (s.requester.post(wr, s.send_cq) != nic::PostResult::ok) std::abort();
    if (unit_.bytes() > sizeof(FilterMemory)) std::abort();
    unit_.start(filter(s), kFirst);
    return s;
  }

  NackQp filter(State& s) const { return unit_.view(s.filter.bytes.data()); }
  NackQp filter(const State& s) const { return filter(const_cast<State&>(s)); }
  static wire::Psn psn_of(std::uint32_t relative) { return kFirst + relative; }
  static std::uint8_t relative(wire::Psn psn) { return static_cast<std::uint8_t>(psn.distance_from(kFirst)); }

  // --- what can happen ---

  template <typename Visit>
  void expand(const State& s, Visit&& visit) {
    const std::uint64_t before = found_.transitions;
    const auto step = [&](Event event, std::uint32_t psn, auto&& change) {
      ++found_.transitions;
      State n = s;
      event_ = {at_, event, static_cast<std::uint8_t>(psn)};
      change(n);
      if (unit_guard_idle(n)) forget_age(n);
      visit(std::move(n), event, psn);
    };
    if (s.requester.can_transmit()) step(Event::send, 0, [&](State& n) { send(n); });
    for (std::uint32_t i = 0; i < case_.paths; ++i) {
      if (s.paths[i].empty()) continue;
      const std::uint8_t psn = s.paths[i].items[0].psn;
      step(Event::to_tor, psn, [&](State& n) { arrive(n, n.paths[i].pop(), i); });
      if (s.losses > 0) step(Event::lose_on_path, psn, [&](State& n) { lose(n, n.paths[i].pop()); });
    }
    if (!s.last_hop.empty()) {
      const std::uint8_t psn = s.last_hop.items[0].psn;
      step(Event::receive, psn, [&](State& n) { receive(n, n.last_hop.pop()); });
      if (s.losses > 0) step(Event::lose_on_last_hop, psn, [&](State& n) { lose(n, n.last_hop.pop()); });
    }
    if (!s.up.empty()) {
      const Item& first = s.up.items[0];
      step(Event::answer_to_tor, first.psn, [&](State& n) { judge(n, n.up.pop()); });
      if (s.losses > 0 && first.nack) step(Event::lose_answer, first.psn, [&](State& n) { lose(n, n.up.pop()); });
    }
    const std::uint8_t may_come = case_.any_order_back ? s.back.size : std::min<std::uint8_t>(s.back.size, 1);
    for (std::uint8_t i = 0; i < may_come; ++i) {
      const Item& next = s.back.items[i];
      step(Event::back, next.psn, [&](State& n) { come_back(n, n.back.take(i)); });
      if (s.losses > 0 && next.nack) step(Event::lose_back, next.psn, [&](State& n) { lose(n, n.back.take(i)); });
    }
    if (filter(s).state().guard_at != 0 && (case_.guard == NackCase::Guard::early || !has_old(s))) {
      step(Event::guard, relative(wire::Psn(filter(s).state().blocked)), [&](State& n) {
        if (unit_.on_guard(filter(n), 2)) tell(n, relative(wire::Psn(filter(n).state().blocked)));
      });
    }
    if (case_.path_down && s.uplinks_down == 0) step(Event::path_down, 0, [&](State& n) { cut(n); });
    if (found_.transitions == before) end(s);
  }

  void cut(State& n) {
    n.uplinks_down = 1;
    n.paths[0] = {};
    const wire::Psn blocked(filter(n).state().blocked);
    if (unit_.on_uplinks_down(filter(n), n.uplinks_down)) tell(n, relative(blocked));
  }

  void send(State& n) {
    nic::Packet p;
    if (!n.requester.transmit(0, p, n.send_cq)) return;
    const std::uint8_t psn = relative(p.psn);
    packets_[psn] = p;
    if (p.retransmission && !is_lost(n, psn)) ++found_.in_vain;
    if ((n.uplinks_down >> paths_.class_of(p.psn) & 1) != 0) return;
    n.paths[paths_.class_of(p.psn)].push({psn, false, p.ack_req, false, 0, 0});
  }

  // A data packet reaches the ToR and leaves on the last hop.
  void arrive(State& n, Item item, std::uint32_t path) {
    n.last_hop.push(item);
    const std::uint32_t blocked = filter(n).state().blocked;
    if (unit_.on_data(filter(n), psn_of(item.psn), path).compensate) tell(n, relative(wire::Psn(blocked)));
  }

  void receive(State& n, Item item) {
    nic::Packet p = packets_[item.psn];
    p.ack_req = item.ack_req;
    n.responder.on_request(0, p, n.receive_cq);
    nic::Packet answer;
    while (n.responder.transmit(answer, n.receive_cq)) {
      const bool nack = wire::Syndrome(answer.syndrome).is_sequence_nak();
      const std::uint8_t psn = relative(nack ? answer.psn : answer.psn + 1);
      n.up.push({psn, nack, false, item.old, answer.syndrome, static_cast<std::uint8_t>(answer.msn)});
      if (nack) n.nacked |= 1u << psn;
    }
  }

  // An ACK or NACK of the receiver reaches the ToR.
  void judge(State& n, Item item) {
    item.old = false;
    if (!item.nack) {
      unit_.on_receipt(filter(n), psn_of(item.psn) - 1);
      if (n.back.empty() && !case_.any_order_back) {
        come_back(n, item);
      } else {
        send_back(n, item);
      }
      return;
    }
    const std::uint64_t guard_before = filter(n).state().guard_at;
    const std::uint32_t blocked_before = filter(n).state().blocked;
    if (!stops(unit_.on_nack(filter(n), 0, psn_of(item.psn), item.msn, n.uplinks_down)))
      return tell(n, item.psn, item);
    const NackState& f = filter(n).state();
    if (f.guard_at != 0 && (guard_before == 0 || blocked_before != f.blocked)) age(n);
  }

  // The sender gets to see a NACK.
  void tell(State& n, std::uint8_t psn) {
    tell(n, psn,
         {psn, true, false, false, wire::Syndrome::nak(wire::NakCode::psn_sequence_error).raw(),
          static_cast<std::uint8_t>(0)});
  }
  void tell(State& n, std::uint8_t psn, Item item) {
    n.told |= 1u << psn;
    if (!is_lost(n, psn)) {
      if (found_.false_nacks++ == 0) found_.false_example = trace() + " -> NACK(" + std::to_string(psn) + ") is false";
    }
    send_back(n, item);
  }
  // Where order means nothing, equal contents are the same state.
  void send_back(State& n, Item item) const {
    n.back.push(item);
    const auto key = [](const Item& i) { return i.psn << 1 | (i.nack ? 1 : 0); };
    if (!case_.any_order_back) return;
    for (std::uint8_t i = n.back.size - 1u; i > 0 && key(n.back.items[i]) < key(n.back.items[i - 1u]); --i) {
      std::swap(n.back.items[i], n.back.items[i - 1u]);
    }
  }
  // No copy of a packet is there or under way.
  bool is_lost(State& n, std::uint8_t psn) const {
    if (n.responder.expected_psn().distance_from(psn_of(psn)) > 0) return false;
    bool under_way = false;
    const auto look = [&](const Item& item) { under_way = under_way || item.psn == psn; };
    n.paths[paths_.class_of(psn_of(psn))].for_each(look);
    n.last_hop.for_each(look);
    return !under_way;
  }

  void come_back(State& n, const Item& item) {
    nic::Packet p;
    p.opcode = wire::Opcode::RC_ACKNOWLEDGE;
    p.syndrome = item.syndrome;
    p.psn = psn_of(item.psn) - (item.nack ? 0 : 1);
    p.msn = item.msn;
    static_cast<void>(n.requester.on_response(0, p, n.send_cq));
    nic::Wc done;
    while (n.send_cq.poll({&done, 1}) == 1) {
    }
  }

  void lose(State& n, const Item& item) {
    --n.losses;
    if (item.nack) n.nack_lost |= 1u << item.psn;
  }

  void end(const State& s) {
    const std::uint8_t waits_for = relative(s.responder.expected_psn());
    if (waits_for >= case_.packets) return;
    const std::uint32_t bit = 1u << waits_for;
    if ((s.nacked & bit) == 0 || ((s.told | s.nack_lost) & bit) != 0) {
      ++found_.stuck;
    } else if (found_.missed++ == 0) {
      event_ = seen_.contains(at_) ? seen_.at(at_) : Step{};
      found_.missed_example = trace() + " -> nobody tells the sender about " + std::to_string(waits_for);
    }
  }

  // --- how long the guard waits ---

  void age(State& n) const {
    for_each_under_way(n, [](Item& item) { item.old = true; });
  }
  void forget_age(State& n) const {
    for_each_under_way(n, [](Item& item) { item.old = false; });
  }
  bool has_old(const State& s) const {
    bool old = false;
    for_each_under_way(const_cast<State&>(s), [&](const Item& item) { old = old || item.old; });
    return old;
  }
  bool unit_guard_idle(const State& s) const {
    return case_.guard != NackCase::Guard::bounded || filter(s).state().guard_at == 0;
  }
  template <typename F>
  void for_each_under_way(State& n, F&& f) const {
    for (std::uint32_t i = 0; i < case_.paths; ++i) n.paths[i].for_each(f);
    n.last_hop.for_each(f);
    n.up.for_each(f);
  }

  // --- states ---

  void walk(const State& s) {
    const std::uint64_t key = hash(s);
    if (on_path_.contains(key)) {
      found_.cycle = true;
      return;
    }
    if (!visited_.insert(key).second) return;
    ++found_.states;
    on_path_.insert(key);
    expand(s, [&](State&& n, Event, std::uint32_t) { walk(n); });
    on_path_.erase(key);
  }

  [[nodiscard]] std::uint64_t hash(const State& s) const {
    std::uint64_t h = 0xcbf29ce484222325;
    const auto mix = [&h](std::uint64_t v) {
      h = (h ^ v) * 0x9e3779b97f4a7c15;
      h ^= h >> 29;
    };
    s.requester.hash_state(mix);
    s.responder.hash_state(mix);
    unit_.hash_state(filter(s), mix);
    const auto mix_fifo = [&](const auto& fifo) {
      mix(fifo.size);
      for (std::uint8_t i = 0; i < fifo.size; ++i) {
        const Item& item = fifo.items[i];
        mix(item.psn | std::uint64_t{item.syndrome} << 8 | std::uint64_t{item.msn} << 16 |
            (item.nack ? 1ull << 32 : 0) | (item.ack_req ? 1ull << 33 : 0) | (item.old ? 1ull << 34 : 0));
      }
    };
    for (std::uint32_t i = 0; i < case_.paths; ++i) mix_fifo(s.paths[i]);
    mix_fifo(s.last_hop);
    mix_fifo(s.up);
    mix_fifo(s.back);
    mix(s.uplinks_down);
    mix(s.losses | std::uint64_t{s.nacked} << 8 | std::uint64_t{s.told} << 24 | std::uint64_t{s.nack_lost} << 40);
    return h;
  }

  // The way to the event at hand.
  std::string trace() const {
    std::vector<Step> steps{event_};
    for (std::uint64_t key = event_.from; key != 0;) {
      const auto found = seen_.find(key);
      if (found == seen_.end() || found->second.from == 0) break;
      steps.push_back(found->second);
      key = found->second.from;
    }
    constexpr std::array<const char*, 11> kNames{
        "send",        "ToR",  "lose on path", "NIC",   "lose on last hop", "answer at ToR",
        "lose answer", "back", "lose back",    "guard", "path down"};
    std::string text;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (step->event == Event::send) continue;
      text += (text.empty() ? "" : ", ") + std::string(kNames[static_cast<std::size_t>(step->event)]) + " " +
              std::to_string(step->psn);
    }
    return text;
  }

  NackCase case_;
  std::uint64_t max_states_;
  NackFilterUnit unit_;
  PathCount paths_;
  nic::MemoryTable table_;
  nic::Mr local_{}, remote_{};
  std::array<nic::Packet, kMaxPackets> packets_{};  ///< by relative PSN, the same for every copy
  std::unordered_map<std::uint64_t, Step> seen_;
  std::unordered_set<std::uint64_t> visited_, on_path_;
  std::uint64_t at_ = 0;
  Step event_{};
  NackFindings found_;
};

}  // namespace weft::stages::testing
