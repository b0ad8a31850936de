// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Explores every interleaving of a few messages that are sprayed over N paths, made of the units that run in products:
// the requester and responder of nic/rnic, PathCount for the choice of the path, NackFilterUnit at the receiver's ToR,
// and NackFrame, from which the stage makes the NACKs that it sends later. The paths deliver in order, and so do the
// last hop and both parts of the way back; what is on any of them is part of the state and can be lost.
//
//   requester -> N paths -> [ToR: on_data] -> last hop -> responder
//   requester <- way back <- [ToR: on_nack, on_receipt, compensations] <- way up <- responder
//
// There is no retransmission timeout: what would have to wait for one is an end state in which the messages are not
// complete, and is judged by whether the sender was told.
//
// One reduction: an ACK that nothing stands before on the way back reaches the requester at once. Until the next NACK
// it changes nothing that anybody could see. With `any_order_back`, where the sender's answers are sprayed as well,
// there is no such reduction: whatever is on the way back may arrive next.
//
// A blocked NACK that goes on as an ACK (`on_block: ack`) is made here as the stage makes it from a frame. The filter
// decides as if it was dropped; that the sender knows more then is what is explored.
//
// Not explored: lost ACKs and READ responses (to the filter they only mean that it knows less of what has been
// received: so does an ACK that the receiver has not sent yet), copies of data packets (the paths carry none, and a
// retransmission is one), timeouts while something is under way (they bring such copies).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"
#include "switch/stages/nack_filter/frame.h"
#include "switch/stages/nack_filter/unit.h"
#include "switch/wire/builder.h"
#include "switch/wire/headers.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/support/state_hash.h"
#include "tests/switch/stages/nack_filter/explorer_case.h"

namespace weft::stages::testing {

class NackExplorer {
 public:
  explicit NackExplorer(const NackCase& c, HashMistake mistake = HashMistake::none)
      : case_(c), mistake_(mistake), unit_(rules(c)), paths_(c.paths) {
    local_ = table_.add(nic::Pd{1}, nullptr, kMessageBytes, nic::Access::all, 0);
    remote_ = table_.add(nic::Pd{1}, nullptr, kMessageBytes, nic::Access::all, 0);
  }

  /// Breadth first, so that examples are the shortest there are, as long as few states wait to be gone on from; then
  /// the last one first, because a state takes some kilobytes while it waits and a few words afterwards.
  NackFindings run() {
    std::deque<std::pair<std::unique_ptr<State>, std::uint64_t>> next;
    std::vector<std::unique_ptr<State>> done;  // their memory is used again
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ways;
    next.emplace_back(std::make_unique<State>(start()), 0);
    seen_.emplace(next.front().second = hash(*next.front().first), Step{0, {}, 0, 0});
    while (!next.empty() && found_.states < kMaxStates) {
      const bool few = next.size() < kMostWaiting;
      auto [state, key] = std::move(few ? next.front() : next.back());
      few ? next.pop_front() : next.pop_back();
      ++found_.states;
      const std::uint32_t number = seen_.at(key).number;
      at_ = key;
      expand(*state, [&](Event event, std::uint32_t psn) {
        const std::uint64_t h = hash(*child_);
        const auto [there, is_new] = seen_.try_emplace(
            h, Step{key, event, static_cast<std::uint8_t>(psn), static_cast<std::uint32_t>(seen_.size())});
        ways.emplace_back(number, there->second.number);
        if (!is_new) return;
        next.emplace_back(std::move(child_), h);
        if (done.empty()) return;
        child_ = std::move(done.back());
        done.pop_back();
      });
      done.push_back(std::move(state));
    }
    found_.complete = next.empty();
    found_.cycle = found_.complete && has_cycle(ways);
    return found_;
  }

  /// The same with states told apart by all they are made of instead of by their hash. Counts states that the hash
  /// takes for equal though what can happen next is not.
  NackFindings run_exact() {
    std::deque<State> next{start()};
    std::set<std::vector<std::uint64_t>> seen{exact(next.front())};
    std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> futures;
    std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> words;
    while (!next.empty() && found_.states < kMaxStates) {
      const State state = std::move(next.front());
      next.pop_front();
      ++found_.states;
      std::vector<std::uint64_t> future;
      expand(state, [&](Event event, std::uint32_t psn) {
        future.insert(future.end(), {static_cast<std::uint64_t>(event), psn, hash(*child_)});
        if (seen.insert(exact(*child_)).second) next.push_back(*child_);
      });
      const std::uint64_t key = hash(state);
      const bool same_future = futures.try_emplace(key, future).first->second == future;
      const bool same_words = words.try_emplace(key, all_words(state)).first->second == all_words(state);
      found_.forgotten += same_future && same_words ? 0 : 1;
    }
    found_.complete = next.empty();
    return found_;
  }

 private:
  static constexpr std::uint32_t kMtu = 256;
  static constexpr std::uint32_t kMaxPackets = 8;
  static constexpr std::uint32_t kMaxPaths = 4;
  static constexpr std::uint32_t kMessageBytes = kMaxPackets * kMtu;
  static constexpr std::uint64_t kMaxStates = 40'000'000;
  static constexpr std::size_t kMostWaiting = 3'000;

  using Event = NackEvent;
  using Item = NackItem;
  template <std::size_t kRoom>
  using Fifo = NackFifo<Item, kRoom>;
  struct alignas(64) FilterMemory {
    std::array<std::byte, 256> bytes{};
  };
  struct State {
    nic::Requester requester;
    nic::Responder responder;
    nic::Cq send_cq{4}, receive_cq{4};
    FilterMemory filter{};
    NackFrame frame{};
    std::array<Fifo<16>, kMaxPaths> paths{};
    Fifo<16> last_hop{};
    Fifo<16> up{}, back{};
    Fifo<4> late{};  ///< copies of NACKs, which reach the ToR in any order
    std::uint32_t losses = 0, copies = 0;
    std::uint32_t uplinks_down = 0;
    std::uint32_t nacked = 0, told = 0, nack_lost = 0, copied = 0;  ///< by relative PSN
  };
  struct Step {
    std::uint64_t from;
    Event event;
    std::uint8_t psn;
    std::uint32_t number;  ///< in the order in which states were found
  };

  static NackRules rules(const NackCase& c) {
    NackRules r;
    r.check = c.check;
    r.paths = r.uplinks = c.paths;
    r.weights.fill(1);
    r.window_psns = 64;
    r.ring_entries = 32;
    r.gbn_proofs = c.gbn_proofs;
    r.guard_ns = c.guard == NackCase::Guard::off ? 0 : 1;
    return r;
  }
  static nic::QpConfig config(const NackCase& c) {
    nic::QpConfig q;
    q.path_mtu = kMtu;
    q.loss_recovery = c.recovery;
    q.renack = c.renack;
    q.reorder_window = kMaxPackets;
    q.rto_ns = 0;
    q.ack_every = 1;
    q.send_queue_depth = q.receive_queue_depth = 3;
    q.max_rd_atomic = q.max_dest_rd_atomic = 1;
    return q;
  }

  State start() {
    State s{nic::Requester(config(case_), nic::Pd{1}, table_, wire::Qpn(17)),
            nic::Responder(config(case_), nic::Pd{1}, table_, wire::Qpn(18))};
    s.losses = case_.losses;
    s.copies = case_.copies;
    s.requester.connect(case_.first);
    s.responder.connect(case_.first);
    const auto post = [&](nic::WrOpcode opcode, std::uint32_t packets) {
      nic::SendWr wr;
      wr.opcode = opcode;
      wr.with({0, packets * kMtu, local_.key});
      wr.rkey = remote_.key;
      if (s.requester.post(wr, s.send_cq) != nic::PostResult::ok) std::abort();
    };
    if (case_.read == 0) {
      post(nic::WrOpcode::write, case_.packets);
    } else {
      post(nic::WrOpcode::write, case_.packets / 2);
      post(nic::WrOpcode::read, case_.read);
      post(nic::WrOpcode::write, case_.packets - case_.packets / 2);
    }
    if (unit_.bytes() > sizeof(FilterMemory)) std::abort();
    unit_.start(filter(s), case_.first_known ? std::optional(case_.first) : std::nullopt);
    return s;
  }

  NackQp filter(State& s) const { return unit_.view(s.filter.bytes.data()); }
  NackQp filter(const State& s) const { return filter(const_cast<State&>(s)); }
  [[nodiscard]] wire::Psn psn_of(std::uint32_t relative) const { return case_.first + relative; }
  [[nodiscard]] std::uint8_t relative(wire::Psn psn) const {
    return static_cast<std::uint8_t>(psn.distance_from(case_.first));
  }

  // --- what can happen ---

  // Calls `visit` for each, with what it leads to in child_.
  template <typename Visit>
  void expand(const State& s, Visit&& visit) {
    found_.in_order += (filter(s).state().flags & NackFlag::in_order) != 0 ? 1 : 0;
    found_.keeps += filter(s).state().kept_proofs != 0 ? 1 : 0;
    const std::uint64_t before = found_.transitions;
    const auto step = [&](Event event, std::uint32_t psn, auto&& change) {
      ++found_.transitions;
      if (child_ == nullptr) child_ = std::make_unique<State>(s);
      State& n = *child_;
      n = s;
      event_ = {at_, event, static_cast<std::uint8_t>(psn), 0};
      change(n);
      if (unit_guard_idle(n)) forget_age(n);
      visit(event, psn);
    };
    if (s.requester.can_transmit()) step(Event::send, 0, [&](State& n) { send(n); });
    for (std::uint32_t i = 0; i < case_.paths; ++i) {
      if (s.paths[i].empty()) continue;
      const std::uint8_t psn = s.paths[i].items[0].psn;
      for (std::uint32_t psns = case_.guessed_spans ? 1 : span_of(psn); psns <= span_of(psn); ++psns) {
        step(Event::to_tor, psn, [&](State& n) { arrive(n, n.paths[i].pop(), i, psns); });
      }
      if (s.losses > 0) step(Event::lose_on_path, psn, [&](State& n) { lose(n, n.paths[i].pop()); });
    }
    if (!s.last_hop.empty()) {
      const std::uint8_t psn = s.last_hop.items[0].psn;
      step(Event::receive, psn, [&](State& n) { receive(n, n.last_hop.pop()); });
      if (s.losses > 0 && case_.last_hop_losses)
        step(Event::lose_on_last_hop, psn, [&](State& n) { lose(n, n.last_hop.pop()); });
    }
    if (!s.up.empty()) {
      const Item& first = s.up.items[0];
      step(Event::answer_to_tor, first.psn, [&](State& n) { judge(n, n.up.pop()); });
      if (s.losses > 0 && first.nack) step(Event::lose_answer, first.psn, [&](State& n) { lose(n, n.up.pop()); });
      if (s.copies > 0 && first.nack) {
        step(Event::answer_to_tor_twice, first.psn, [&](State& n) {
          Item copy = n.up.pop();
          judge(n, copy);
          --n.copies;
          n.copied |= 1u << copy.psn;
          copy.old = false;
          n.late.push(copy);
        });
      }
    }
    for (std::uint8_t i = 0; i < s.late.size; ++i) {
      step(Event::copy_to_tor, s.late.items[i].psn, [&](State& n) { judge(n, n.late.take(i)); });
    }
    const std::uint8_t may_come = case_.any_order_back ? s.back.size : std::min<std::uint8_t>(s.back.size, 1);
    for (std::uint8_t i = 0; i < may_come; ++i) {
      const Item& next = s.back.items[i];
      step(Event::back, next.psn, [&](State& n) { come_back(n, n.back.take(i)); });
      if (s.losses > 0 && next.nack) step(Event::lose_back, next.psn, [&](State& n) { lose(n, n.back.take(i)); });
    }
    if (filter(s).state().guard_at != 0 && (case_.guard == NackCase::Guard::early || !has_old(s))) {
      step(Event::guard, relative(wire::Psn(filter(s).state().blocked)), [&](State& n) {
        if (unit_.on_guard(filter(n), 2)) compensate(n);
      });
    }
    if (case_.path_down && s.uplinks_down == 0) step(Event::path_down, 0, [&](State& n) { cut(n); });
    if (found_.transitions == before) end(s);
  }

  void cut(State& n) {
    n.uplinks_down = 1;
    n.paths[0] = {};
    if (unit_.on_uplinks_down(filter(n), n.uplinks_down)) compensate(n);
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

  // PSNs that a packet takes.
  [[nodiscard]] std::uint32_t span_of(std::uint8_t psn) const {
    const nic::Packet& p = packets_[psn];
    return p.opcode == wire::Opcode::RC_RDMA_READ_REQUEST ? nic::packets_of(p.dma_length, kMtu) : 1;
  }
  // A data packet reaches the ToR, which takes it for `psns` PSNs, and leaves on the last hop.
  void arrive(State& n, Item item, std::uint32_t path, std::uint32_t psns) {
    n.last_hop.push(item);
    if (unit_.on_data(filter(n), psn_of(item.psn), path, psns).compensate) compensate(n);
  }

  void receive(State& n, Item item) {
    nic::Packet p = packets_[item.psn];
    p.ack_req = item.ack_req;
    n.responder.on_request(0, p, n.receive_cq);
    nic::Packet answer;
    while (n.responder.transmit(answer, n.receive_cq)) {
      const bool acknowledges = answer.opcode == wire::Opcode::RC_ACKNOWLEDGE;
      const bool nack = acknowledges && wire::Syndrome(answer.syndrome).is_sequence_nak();
      const std::uint8_t psn = relative(nack ? answer.psn : answer.psn + 1);
      n.up.push({psn, nack, false, item.old, answer.syndrome, static_cast<std::uint8_t>(answer.msn), answer.opcode});
      if (nack) n.nacked |= 1u << psn;
    }
  }

  // An answer of the receiver reaches the ToR.
  void judge(State& n, Item item) {
    item.old = false;
    if (!item.nack) {
      unit_.on_receipt(filter(n), psn_of(item.psn) - 1);
      pass(n, item);
      return;
    }
    const std::uint64_t guard_before = filter(n).state().guard_at;
    const std::uint32_t blocked_before = filter(n).state().blocked;
    const NackVerdict verdict = unit_.on_nack(filter(n), 0, psn_of(item.psn), item.msn, n.uplinks_down);
    if (!stops(verdict)) return tell(n, item);
    if (verdict == NackVerdict::stored) store(n, item, guard_before, blocked_before);
    if (!case_.blocked_as_acks) return;
    item.nack = false;
    item.syndrome = wire::Syndrome::ack().raw();
    if (case_.acks_too_far) ++item.psn;
    pass(n, item);
  }
  void store(State& n, const Item& item, std::uint64_t guard_before, std::uint32_t blocked_before) {
    const auto& frame = frame_of(item);
    wire::Parsed parsed;
    wire::parse_frame(frame.data(), kNackBytes, kNackBytes, parsed);
    if (!n.frame.become(frame.data(), parsed)) std::abort();
    const NackState& f = filter(n).state();
    if (f.guard_at != 0 && (guard_before == 0 || blocked_before != f.blocked)) age(n);
  }

  // An ACK or a response goes on to the sender.
  void pass(State& n, const Item& item) {
    const bool acknowledges = item.opcode == wire::Opcode::RC_ACKNOWLEDGE;
    if (acknowledges && n.back.empty() && !case_.any_order_back) {
      come_back(n, item);
    } else {
      send_back(n, item);
    }
  }

  // The NACK of the receiver.
  using Frame = std::array<std::uint8_t, NackFrame::kMaxBytes>;
  const Frame& frame_of(const Item& item) {
    Frame& frame = frames_[std::size_t{item.psn} << 8 | item.msn];
    if (frame[0] != 0) return frame;
    const auto bytes = wire::FrameBuilder()
                           .eth(wire::MacAddress::from_u64(0x02aa00000001), wire::MacAddress::from_u64(0x02aa00000002))
                           .ipv4("10.0.3.2", "10.0.1.2")
                           .udp(50001)
                           .bth(wire::Opcode::RC_ACKNOWLEDGE, wire::Qpn(17), psn_of(item.psn))
                           .aeth(wire::Syndrome(item.syndrome), item.msn)
                           .build();
    if (bytes.size() != kNackBytes) std::abort();
    std::copy(bytes.begin(), bytes.end(), frame.begin());
    return frame;
  }

  // The blocked NACK is sent after all, as the stage sends it: what the sender reads is what stands in the frame.
  void compensate(State& n) {
    const NackState& s = filter(n).state();
    Frame frame{};
    wire::Parsed parsed;
    if (n.frame.known())
      n.frame.write(frame.data(), wire::Psn(s.blocked), s.blocked_msn, wire::IcrcMode::incremental, parsed);
    if (!n.frame.known() || !wire::icrc_ok(frame.data(), parsed) ||
        !wire::Syndrome(parsed.syndrome).is_sequence_nak()) {
      ++found_.bad_frames;
      return;
    }
    const auto& aeth =
        wire::header_at<wire::Aeth>(frame.data() + parsed.l4_offset + sizeof(wire::UdpHeader) + sizeof(wire::Bth));
    tell(n, {relative(parsed.psn), true, false, false, parsed.syndrome, static_cast<std::uint8_t>(aeth.msn.value())});
  }

  // The sender gets to see a NACK.
  void tell(State& n, const Item& item) {
    const bool again = ((n.copied & n.told) >> item.psn & 1) != 0;
    n.told |= 1u << item.psn;
    if (!is_lost(n, item.psn) && !again && found_.false_nacks++ == 0) {
      found_.false_example = trace() + " -> NACK(" + std::to_string(item.psn) + ") is false";
    }
    send_back(n, item);
  }
  // Where order means nothing, equal contents are the same state.
  void send_back(State& n, Item item) const {
    n.back.push(item);
    const auto key = [](const Item& i) { return i.word(); };
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
    p.opcode = item.opcode;
    if (item.opcode != wire::Opcode::RC_ACKNOWLEDGE) p.payload.set(nullptr, kMtu);
    p.syndrome = item.syndrome;
    p.psn = psn_of(item.psn) - (item.nack ? 0 : 1);
    p.msn = item.msn;
    static_cast<void>(n.requester.on_response(0, p, n.send_cq));
    nic::Wc done;
    while (n.send_cq.poll({&done, 1}) == 1) {
    }
    found_.false_acks += n.requester.acknowledged() > relative(n.responder.expected_psn()) ? 1 : 0;
  }

  void lose(State& n, const Item& item) {
    --n.losses;
    if (item.nack) n.nack_lost |= 1u << item.psn;
  }

  void end(const State& s) {
    const std::uint8_t waits_for = relative(s.responder.expected_psn());
    if (waits_for >= case_.packets + case_.read) return;
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

  // All that the hash is made of.
  template <typename Mix>
  void feed(const State& s, Mix&& mix) const {
    s.requester.hash_state(mix);
    s.responder.hash_state(mix);
    FilterMemory memory = s.filter;
    if (mistake_ == HashMistake::forgets_the_mark) unit_.view(memory.bytes.data()).path(0).last = 0;
    unit_.hash_state(unit_.view(memory.bytes.data()), mix);
    s.frame.hash_state(mix);
    feed_rest(s, mix);
  }
  template <typename Mix>
  void feed_rest(const State& s, Mix&& mix) const {
    const auto mix_fifo = [&](const auto& fifo) {
      mix(fifo.size);
      std::uint64_t sum = 0;
      for (std::uint8_t i = 0; i < fifo.size; ++i) {
        sum += fifo.items[i].word();
        if (mistake_ != HashMistake::lane_as_sum) mix(fifo.items[i].word());
      }
      if (mistake_ == HashMistake::lane_as_sum) mix(sum);
    };
    for (std::uint32_t i = 0; i < case_.paths; ++i) mix_fifo(s.paths[i]);
    mix_fifo(s.last_hop);
    mix_fifo(s.up);
    mix_fifo(s.back);
    mix_fifo(s.late);
    mix(s.uplinks_down);
    mix(s.losses | std::uint64_t{s.nacked} << 8 | std::uint64_t{s.told} << 24 | std::uint64_t{s.nack_lost} << 40 |
        std::uint64_t{s.copies} << 56);
    mix(s.copied);
  }
  [[nodiscard]] std::uint64_t hash(const State& s) const {
    weft::testing::StateHash hash;
    feed(s, hash);
    return hash.value();
  }
  [[nodiscard]] std::vector<std::uint64_t> all_words(const State& s) const {
    weft::testing::StateWords words;
    feed(s, words);
    return words.value();
  }
  // The filter's memory as it is, without what is only shown, and all else without mistakes.
  [[nodiscard]] std::vector<std::uint64_t> exact(const State& s) const {
    std::vector<std::uint64_t> words;
    const auto add = [&](std::uint64_t v) { words.push_back(v); };
    s.requester.hash_state(add);
    s.responder.hash_state(add);
    FilterMemory memory = s.filter;
    for (std::uint32_t i = 0; i < case_.paths; ++i) unit_.view(memory.bytes.data()).path(i).packets = 0;
    for (std::size_t at = 0; at < memory.bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, memory.bytes.data() + at, sizeof word);
      add(word);
    }
    s.frame.hash_state(add);
    const auto add_lane = [&](const auto& lane) {
      add(lane.size);
      for (std::uint8_t i = 0; i < lane.size; ++i) add(lane.items[i].word());
    };
    for (const auto& lane : s.paths) add_lane(lane);
    add_lane(s.last_hop);
    add_lane(s.up);
    add_lane(s.back);
    add_lane(s.late);
    add(std::uint64_t{s.uplinks_down} << 32 | s.losses << 8 | s.copies);
    add(s.nacked);
    add(std::uint64_t{s.told} << 32 | s.nack_lost);
    add(s.copied);
    return words;
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
    std::string text;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (step->event == Event::send) continue;
      text += (text.empty() ? "" : ", ") + std::string(name(step->event)) + " " + std::to_string(step->psn);
    }
    return text;
  }

  // Ethernet, IPv4, UDP, BTH, AETH, ICRC.
  static constexpr std::uint32_t kNackBytes = 14 + 20 + 8 + 12 + 4 + 4;

  NackCase case_;
  HashMistake mistake_;
  NackFilterUnit unit_;
  PathCount paths_;
  nic::MemoryTable table_;
  nic::Mr local_{}, remote_{};
  std::array<nic::Packet, kMaxPackets> packets_{};  ///< by relative PSN, the same for every copy
  // Apart from the states' own memory: what is known stays, and would stand in the gaps that they leave.
  std::pmr::monotonic_buffer_resource known_;
  std::pmr::unordered_map<std::uint64_t, Step> seen_{&known_};
  std::unordered_map<std::size_t, Frame> frames_;  ///< by PSN and MSN
  std::uint64_t at_ = 0;
  Step event_{};
  NackFindings found_;
  std::unique_ptr<State> child_;
};

}  // namespace weft::stages::testing
