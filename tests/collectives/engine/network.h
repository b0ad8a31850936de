// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Tree-3-2: four ranks with the software RNIC's own requester and responder, two leaves, a root. Channels are in order
// but for the faults that a test asks for; which channel delivers next is drawn. Time passes when nothing is under way.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/engine/inc_engine.h"
#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"
#include "switch/base/rng.h"
#include "switch/wire/payload_crc.h"
#include "tests/collectives/engine/groups.h"
#include "tests/support/state_hash.h"

namespace weft::inc::testing {

inline constexpr std::size_t kRanks = 4, kLeaves = 2;

/// Chances per packet.
struct Faults {
  double loss = 0, duplicate = 0, overtake = 0, mark = 0;
  double late = 0;  ///< a copy comes as well, at any time
};

/// One collective as all ranks run it.
struct Collective {
  Primitive primitive = Primitive::allreduce;
  std::uint16_t root = 0;
  std::uint32_t packets = 1;  ///< of data
  Turn turn = Turn::none;     ///< of a Barrier
};

/// How ranks send the messages of data; control messages are SENDs.
enum class Verb : std::uint8_t { send, write_imm };

/// A rank: an RC queue pair, and what an application does with it: one collective after the other, each begun when it
/// has all that the earlier ones bring it, with W messages under way.
class Rank {
 public:
  Rank(std::uint16_t rank, const GroupConfig& group, const nic::QpConfig& config, std::vector<Collective> program,
       Verb verb)
      : rank_(rank),
        verb_(verb),
        window_(group.window),
        message_packets_(group.message_packets),
        memory_(kMemory),
        mr_(table_.add(nic::Pd{1}, memory_.data(), memory_.size(), nic::Access::all, region(rank))),
        requester_(config, nic::Pd{1}, table_, wire::Qpn(17)),
        responder_(config, nic::Pd{1}, table_, wire::Qpn(18)) {
    requester_.connect(group.endpoints[rank % 2].first_rx);
    responder_.connect(group.endpoints[rank % 2].first_tx);
    append(std::move(program));
  }

  /// More to run.
  void append(std::vector<Collective> more) {
    const std::size_t before = program_.size();
    program_.insert(program_.end(), more.begin(), more.end());
    received_.resize(program_.size());
    for (std::size_t k = before; k < program_.size(); ++k) {
      if (!receives(k)) continue;
      for (std::uint32_t i = 0; i <= messages(k); ++i) {
        nic::RecvWr wr;
        wr.wr_id = k;
        wr.with({region(rank_) + place(k, i), message_packets_ * kMtu, mr_.key});
        EXPECT_EQ(responder_.post(wr, receive_cq_), nic::PostResult::ok);
      }
    }
  }

  /// The addresses that a rank's memory has; each rank has others.
  [[nodiscard]] static std::uint64_t region(std::uint16_t rank) { return 0x5000'0000 + 0x100'0000ull * rank; }
  /// Where in it results are: what an endpoint of a group says of its rank.
  [[nodiscard]] static std::uint64_t results(std::uint16_t rank) { return region(rank) + kReceive; }
  [[nodiscard]] std::uint32_t key() const { return mr_.key; }

  [[nodiscard]] bool sends(std::size_t k) const {
    const Collective& c = program_[k];
    return c.primitive == Primitive::reduce ? c.root != rank_ : c.primitive != Primitive::broadcast || c.root == rank_;
  }
  [[nodiscard]] bool receives(std::size_t k) const {
    const Collective& c = program_[k];
    return c.primitive == Primitive::reduce ? c.root == rank_ : c.primitive != Primitive::broadcast || c.root != rank_;
  }
  /// Messages of data.
  [[nodiscard]] std::uint32_t messages(std::size_t k) const {
    return (packets(k) + message_packets_ - 1) / message_packets_;
  }
  [[nodiscard]] std::uint32_t packets(std::size_t k) const {
    return program_[k].primitive == Primitive::barrier ? 0 : program_[k].packets;
  }
  /// Bytes of the i-th of them, from 1.
  [[nodiscard]] std::uint32_t bytes(std::size_t k, std::uint32_t i) const {
    return kMtu * std::min(message_packets_, packets(k) - (i - 1) * message_packets_);
  }
  /// What a rank gives for an element of a collective.
  static std::uint32_t value(std::size_t rank, std::size_t k, std::size_t element) {
    return static_cast<std::uint32_t>((1u << 8 * rank) + 7 * k + element);
  }
  /// What must arrive.
  [[nodiscard]] std::uint32_t expected(std::size_t k, std::size_t element) const {
    const Collective& c = program_[k];
    if (c.primitive == Primitive::broadcast) return value(c.root, k, element);
    std::uint32_t sum = 0;
    for (std::size_t r = 0; r < kRanks; ++r) {
      sum += c.primitive == Primitive::reduce && r == rank_ ? 0 : value(r, k, element);
    }
    return sum;
  }

  /// Posts what may be posted, and takes completions.
  void work() {
    std::array<nic::Wc, 64> wc;
    for (std::size_t n = receive_cq_.poll(wc); n > 0; n = receive_cq_.poll(wc)) {
      for (std::size_t i = 0; i < n; ++i) received(wc[i]);
    }
    for (std::size_t n = send_cq_.poll(wc); n > 0; n = send_cq_.poll(wc)) {
      for (std::size_t i = 0; i < n; ++i) {
        note(wc[i]);
        --outstanding_;
      }
    }
    for (; current_ < program_.size(); ++current_, posted_ = 0) {
      const std::uint32_t all = messages(current_) + 1;
      // A turn ends when all that was sent in it has been acknowledged.
      if (program_[current_].turn == Turn::give && posted_ == 0 && outstanding_ > 0) return;
      while (sends(current_) && posted_ < all && outstanding_ < window_ && !late) post();
      if (sends(current_) && posted_ < all) return;
      if (receives(current_) && received_[current_] < all) return;
    }
  }
  [[nodiscard]] bool done() const { return current_ == program_.size() && outstanding_ == 0; }
  [[nodiscard]] bool failed() const { return failed_; }
  /// Has sent what nobody has answered.
  [[nodiscard]] bool waits() const { return outstanding_ != 0; }
  [[nodiscard]] const std::string& why() const { return why_; }

  nic::Requester& requester() { return requester_; }
  nic::Responder& responder() { return responder_; }
  nic::Cq& send_cq() { return send_cq_; }
  nic::Cq& receive_cq() { return receive_cq_; }
  bool late = false;  ///< does not begin yet
  /// What this rank runs after a Barrier that asked for a turn.
  std::function<std::vector<Collective>(bool refused)> after_take{};

 private:
  static constexpr std::uint32_t kReceive = 1u << 16, kMemory = 1u << 18;

  // Where message `i` of a collective is received, counted from the region's begin: the same at all ranks.
  [[nodiscard]] std::uint64_t place(std::size_t k, std::uint32_t i) const {
    std::uint64_t before = i;
    for (std::size_t earlier = 0; earlier < k; ++earlier) before += messages(earlier) + 1;
    EXPECT_LE(kReceive + (before + 1) * message_packets_ * kMtu, kMemory);
    return kReceive + before * message_packets_ * kMtu;
  }

  void post() {
    nic::SendWr wr;
    const std::uint32_t at = (sent_++ % 64) * message_packets_ * kMtu;
    const std::uint64_t address = region(rank_) + at;
    if (posted_ == 0) {
      ControlMessage m = message(program_[current_].primitive, static_cast<std::uint16_t>(current_),
                                 std::uint64_t{packets(current_)} * kMtu, program_[current_].root);
      m.turn = program_[current_].turn;
      const auto payload = control_payload(m);
      std::copy(payload.begin(), payload.end(), memory_.begin() + at);
      wr.opcode = nic::WrOpcode::send_imm;
      wr.immediate = control_immediate(m);
      wr.with({address, kControlPayloadBytes, mr_.key});
    } else {
      for (std::uint32_t i = 0; i < bytes(current_, posted_) / 4; ++i) {
        const std::uint32_t v = value(rank_, current_, (posted_ - 1) * message_packets_ * (kMtu / 4) + i);
        std::memcpy(memory_.data() + at + 4 * i, &v, 4);
      }
      wr.with({address, bytes(current_, posted_), mr_.key});
      if (verb_ == Verb::write_imm) {
        wr.opcode = nic::WrOpcode::write_imm;
        wr.immediate = posted_;
        // The switch stands for the rank itself: it is told where in the rank's own results this will be.
        wr.remote_address = region(rank_) + place(current_, posted_);
        wr.rkey = mr_.key;
      }
    }
    ASSERT_EQ(requester_.post(wr, send_cq_), nic::PostResult::ok);
    ++posted_;
    ++outstanding_;
  }

  bool note(const nic::Wc& wc) {
    if (wc.status == nic::WcStatus::success) return true;
    if (!failed_) why_ = "rank " + std::to_string(rank_) + ": " + std::string(nic::name(wc.status));
    failed_ = true;
    return false;
  }

  void received(const nic::Wc& wc) {
    if (!note(wc)) return;
    // What belongs to a later collective may come while this rank still sends in an earlier one.
    const auto k = static_cast<std::size_t>(wc.wr_id);
    EXPECT_EQ(wc.with_immediate, received_[k] == 0 || verb_ == Verb::write_imm) << "rank " << rank_;
    if (received_[k] > 0) {
      EXPECT_EQ(wc.byte_length, bytes(k, received_[k]));
      if (verb_ == Verb::write_imm) {
        EXPECT_EQ(wc.immediate, received_[k]);
      }
      for (std::uint32_t i = 0; i < wc.byte_length / 4; ++i) {
        std::uint32_t v = 0;
        std::memcpy(&v, memory_.data() + place(k, received_[k]) + 4 * i, 4);
        const std::size_t element = (received_[k] - 1) * message_packets_ * (kMtu / 4) + i;
        ASSERT_EQ(v, expected(k, element)) << "rank " << rank_ << ", collective " << k << ", " << element;
      }
    }
    ++received_[k];
    if (program_[k].turn != Turn::take || !after_take) return;
    ControlMessage m;
    ASSERT_EQ(read_control(wc.immediate, {memory_.data() + place(k, 0), wc.byte_length}, m), std::nullopt);
    append(after_take(m.refused));
  }

  std::uint16_t rank_;
  Verb verb_;
  std::uint32_t window_, message_packets_;
  std::vector<Collective> program_;
  std::vector<std::uint8_t> memory_;
  nic::MemoryTable table_;
  nic::Mr mr_;
  nic::Cq send_cq_{256}, receive_cq_{256};
  nic::Requester requester_;
  nic::Responder responder_;
  std::size_t current_ = 0;
  std::vector<std::uint32_t> received_;  ///< messages, by collective
  std::uint32_t posted_ = 0, outstanding_ = 0, sent_ = 0;
  bool failed_ = false;
  std::string why_;
};

/// Makes the engine of a switch: leaves are 0 and 1, the root is 2.
using MakeEngine = std::function<IncEngine(const GroupConfig& group, std::size_t node)>;

class Network {
 public:
  Network(
      GroupConfig leaf_group, nic::QpConfig config, const std::vector<Collective>& program, Faults faults,
      std::uint64_t seed, Verb verb = Verb::send,
      const MakeEngine& make = [](const GroupConfig& group, std::size_t) { return IncEngine(group); })
      : config_(config), verb_(verb), faults_(faults), rng_(seed) {
    for (EndpointConfig& e : leaf_group.endpoints) {
      if (e.rank) e.loss_recovery = config.loss_recovery;
    }
    for (std::uint16_t r = 0; r < kRanks; ++r) {
      ranks_.push_back(std::make_unique<Rank>(r, leaf_group, config, program, verb));
    }
    GroupConfig root = leaf_group;
    root.parent.reset();
    root.endpoints.assign(kLeaves, leaf_group.endpoints[2]);
    for (EndpointConfig& e : root.endpoints) std::swap(e.first_rx, e.first_tx);
    root.way = {0, 0, 1, 1};
    for (std::uint16_t l = 0; l < kLeaves; ++l) {
      GroupConfig g = leaf_group;
      g.endpoints[0].rank = 2 * l;
      g.endpoints[1].rank = 2 * l + 1;
      for (std::uint16_t e = 0; e < 2; ++e) {
        const auto r = static_cast<std::uint16_t>(2 * l + e);
        g.endpoints[e].address = Rank::results(r);
        g.endpoints[e].rkey = ranks_[r]->key();
      }
      g.way = l == 0 ? std::vector<EndpointIndex>{0, 1, 2, 2} : std::vector<EndpointIndex>{2, 2, 0, 1};
      EXPECT_EQ(IncEngine::check(g), std::nullopt);
      switches_.push_back(make(g, l));
    }
    EXPECT_EQ(IncEngine::check(root), std::nullopt);
    switches_.push_back(make(root, kLeaves));
  }

  /// Until all ranks are done, one of them has failed, or nothing will happen any more. Returns how it ended.
  std::string run(std::uint64_t most_steps = 2'000'000) {
    for (std::uint64_t n = 0; n < most_steps; ++n) {
      if (std::string end = step(); !end.empty()) return end;
    }
    return "endless";
  }
  /// One packet, or the next time at which something happens. Returns how it ended, "" when it goes on.
  std::string step() {
    for (auto& r : ranks_) pump(*r);
    if (::testing::Test::HasFatalFailure()) return "wrong";
    bool done = true, failed = false;
    for (auto& r : ranks_) {
      done &= r->done();
      failed |= r->failed();
    }
    if (failed && !patient) return "failed";
    if (done) return "done";
    return deliver() || pass_time() ? "" : "stuck";
  }

  /// What is still under way when all ranks are done.
  void drain() {
    while (deliver()) {
      for (auto& r : ranks_) pump(*r);
    }
  }

  /// One rank runs something else than the others.
  void set_program(std::uint16_t r, const GroupConfig& leaf_group, std::vector<Collective> program) {
    ranks_[r] = std::make_unique<Rank>(r, leaf_group, config_, std::move(program), verb_);
  }
  /// Why ranks have failed.
  [[nodiscard]] std::string why() const {
    std::string all;
    for (const auto& r : ranks_) all += r->why().empty() ? "" : r->why() + "; ";
    return all;
  }
  [[nodiscard]] IncEngine& at(std::size_t node) { return switches_[node]; }
  [[nodiscard]] Rank& rank(std::size_t r) { return *ranks_[r]; }
  nic::Time now = nic::kMs;
  std::uint64_t marked_arrivals = 0, cnps = 0;
  bool patient = false;  ///< goes on when a rank has failed
  std::function<void(nic::Time)> on_time{};
  /// Loses packets into a node: ranks are 0 to 3.
  std::function<bool(std::size_t node, const nic::Packet&)> lose{};

 private:
  // Nodes: ranks 0-3, leaves 4 and 5, the root 6. A packet lies in the channel into its node.
  struct Flight {
    nic::Packet packet;
    Bytes payload;
    bool marked = false;
  };
  struct Channel {
    std::size_t node;
    EndpointIndex endpoint;  ///< of the node, where it is a switch
    std::deque<Flight> flights;
  };
  static constexpr std::size_t kLeaf = kRanks, kRoot = kRanks + kLeaves;

  /// Where a switch sends its packets.
  struct Out final : Sink {
    Out(Network& net, std::size_t at) : network(net), node(at) {}
    void send(EndpointIndex to, const nic::Packet& p, bool marked) override {
      if (node == kRoot) return network.put(kLeaf + to, 2, p, marked);
      const std::size_t l = node - kLeaf;
      if (to == 2) return network.put(kRoot, static_cast<EndpointIndex>(l), p, marked);
      network.put(2 * l + to, 0, p, marked);
    }
    Network& network;
    std::size_t node;
  };

  void put(std::size_t node, EndpointIndex endpoint, const nic::Packet& p, bool marked) {
    if ((lose && lose(node, p)) || chance(faults_.loss)) return;
    Flight f{p, {}, marked || chance(faults_.mark)};
    for (std::size_t i = 0; i < p.payload.count; ++i) {
      const auto& piece = p.payload.pieces[i];
      f.payload.insert(f.payload.end(), piece.data, piece.data + piece.bytes);
    }
    Channel* channel = nullptr;
    for (Channel& c : channels_) channel = c.node == node && c.endpoint == endpoint ? &c : channel;
    if (channel == nullptr) channel = &channels_.emplace_back(Channel{node, endpoint, {}});
    if (chance(faults_.late)) late_.push_back({node, endpoint, {f}});
    const bool twice = chance(faults_.duplicate);
    const bool first = !channel->flights.empty() && chance(faults_.overtake);
    if (first) {
      channel->flights.push_front(f);
    } else {
      channel->flights.push_back(f);
    }
    if (twice) channel->flights.push_back(f);
  }

  void pump(Rank& r) {
    std::size_t n = 0;
    while (ranks_[n].get() != &r) ++n;
    r.work();
    nic::Packet p;
    const auto up = [&] { put(kLeaf + n / 2, static_cast<EndpointIndex>(n % 2), p, false); };
    while (r.responder().can_transmit() && r.responder().transmit(p, r.receive_cq())) up();
    while (r.requester().can_transmit() && r.requester().transmit(now, p, r.send_cq())) up();
    r.work();
  }

  bool deliver() {
    std::vector<Channel*> ready;
    for (Channel& c : channels_) {
      if (!c.flights.empty()) ready.push_back(&c);
    }
    if (!late_.empty() && rng_.below(20) == 0) {
      std::swap(late_[rng_.below(late_.size())], late_.back());
      const Channel late = std::move(late_.back());
      late_.pop_back();
      return arrive(late, late.flights.front());
    }
    if (ready.empty()) return false;
    Channel& c = *ready[rng_.below(ready.size())];
    Flight f = std::move(c.flights.front());
    c.flights.pop_front();
    return arrive(c, std::move(f));
  }

  bool arrive(const Channel& c, Flight f) {
    f.packet.payload.set(f.payload.data(), static_cast<std::uint32_t>(f.payload.size()));
    const std::size_t node = c.node;
    if (node < kRanks) {
      Rank& r = *ranks_[node];
      marked_arrivals += f.marked ? 1 : 0;
      if (f.packet.opcode == wire::Opcode::CNP) {
        ++cnps;  // for a rate control, which these ranks have not
      } else if (f.packet.info().is_request()) {
        r.responder().on_request(now, f.packet, r.receive_cq());
      } else {
        static_cast<void>(r.requester().on_response(now, f.packet, r.send_cq()));
      }
      return true;
    }
    Out out(*this, node);
    IncEngine& at = switches_[node - kRanks];
    // Half of the packets come as they do from a wire, their CRC still to be checked.
    if (f.payload.empty() || f.payload.size() % 4 != 0 || f.packet.psn.value() % 2 == 0) {
      at.on_packet(now, c.endpoint, f.packet, f.marked, out);
      return true;
    }
    const std::uint32_t crc = wire::payload_crc(f.payload);
    const bool look = f.packet.psn.value() % 32 == 1;
    const std::uint64_t before = look ? hash_of(at) : 0;
    EXPECT_FALSE(at.on_unchecked(now, c.endpoint, f.packet, ~crc, f.marked, out));
    EXPECT_EQ(look ? hash_of(at) : 0, before);
    EXPECT_TRUE(at.on_unchecked(now, c.endpoint, f.packet, crc, f.marked, out));
    return true;
  }

  std::uint64_t hash_of(const IncEngine& engine) const {
    weft::testing::StateHash h;
    engine.hash_state(h, now);
    return h.value();
  }

  bool pass_time() {
    nic::Time next = nic::kNever;
    for (auto& r : ranks_) next = std::min(next, r->requester().next_deadline());
    for (const IncEngine& s : switches_) next = std::min(next, s.next_deadline());
    if (next == nic::kNever) return false;
    now = std::max(now, next);
    if (on_time) on_time(now);
    for (auto& r : ranks_) {
      if (r->requester().next_deadline() <= now) r->requester().on_timer(now, r->send_cq());
    }
    for (std::size_t n = 0; n < switches_.size(); ++n) {
      Out out(*this, kRanks + n);
      if (switches_[n].next_deadline() <= now) switches_[n].on_timer(now, out);
    }
    return true;
  }

  bool chance(double p) { return p > 0 && static_cast<double>(rng_.below(1u << 20)) < p * (1u << 20); }

  nic::QpConfig config_;
  Verb verb_;
  Faults faults_;
  Rng rng_;
  std::vector<IncEngine> switches_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::deque<Channel> channels_;
  std::vector<Channel> late_;
};

/// For Network::lose: an ACK of the packet before must follow each RNR NAK to a rank.
struct RnrWatch {
  std::map<std::size_t, wire::Psn> open{};
  std::uint64_t naks = 0, without_ack = 0;

  bool operator()(std::size_t node, const nic::Packet& p) {
    if (node > 3 || p.opcode != wire::Opcode::RC_ACKNOWLEDGE) return false;
    const wire::Syndrome syndrome(p.syndrome);
    if (const auto it = open.find(node); it != open.end()) {
      without_ack += syndrome.is_ack() && p.psn + 1 == it->second ? 0 : 1;
      open.erase(it);
    }
    if (!syndrome.is_rnr_nak()) return false;
    ++naks;
    open.emplace(node, p.psn);
    return false;
  }
};

}  // namespace weft::inc::testing
