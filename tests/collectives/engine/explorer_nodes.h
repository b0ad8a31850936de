// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The ranks and switches of an Explorer. Each state that one of them may be in is kept once, whatever the others do,
// and what comes of an input to it is found out once, by the production code; a search looks it up from then on.
//
// Where ranks may change places (explorer_symmetry.h), every input is also given in its place by each renaming: to who
// takes the node's place, as the packet that is sent in the packet's. The states that come of it are each other's
// images. So an image is what the production code makes of the renamed way, and nothing has to know how states look
// inside; and it must not depend on the way.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/engine/inc_engine.h"
#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"
#include "tests/collectives/engine/explorer_answers.h"
#include "tests/collectives/engine/explorer_case.h"
#include "tests/collectives/engine/explorer_symmetry.h"
#include "tests/collectives/engine/groups.h"
#include "tests/support/state_hash.h"

namespace weft::inc::testing {

class ExplorerNodes {
 public:
  /// Names a state of a node, or an input: a packet in a channel, or that time passes.
  using Id = std::uint32_t;

  /// A packet in a channel, kept once however often it is under way; or so much time, which is in no channel.
  struct Input {
    std::size_t channel = 0;
    nic::Packet packet{};
    Bytes payload{};
    bool marked = false;
    nic::Time passes = 0;
    std::uint64_t hash = 0;               ///< of a packet, without its channel; 0: time
    std::vector<Id> images{};             ///< by renaming
    std::vector<std::uint64_t> spread{};  ///< of the images, with their channels
  };
  /// What comes of an input.
  struct Change {
    Id node = 0;
    std::vector<Id> sent;      ///< in their order
    std::uint32_t copies = 0;  ///< packets among them that a switch has sent again
  };
  /// An edge: channel 2 i leads to `upper`, 2 i + 1 to `lower`.
  struct Edge {
    Site lower;
    std::size_t upper;                 ///< switch
    EndpointIndex at_lower, at_upper;  ///< the endpoint there
  };

  /// @param exact     states of nodes are told apart by every member, counters and clock included, and not by their
  /// hash
  /// @param symmetry  who may change places: symmetry_of()
  ExplorerNodes(const ExplorerCase& c, bool exact, Symmetry symmetry)
      : case_(c), ranks_(c.ranks()), exact_(exact), symmetry_(std::move(symmetry)) {
    config_.path_mtu = kMtu;
    config_.rto_ns = nic::kMs;
    config_.retry_count = 7;
    config_.send_queue_depth = 2;
    config_.receive_queue_depth = 16;
    for (std::uint32_t r = 0; r < ranks_; ++r) make_memory(r);
    const GroupConfig first = group();
    std::vector<Node> nodes;
    for (std::uint32_t r = 0; r < ranks_; ++r) nodes.push_back(make_rank(first, r));
    make_switches(first, nodes);
    begin(nodes);
  }

  /// The states that all begin in, by site, and the packets that are sent at once.
  [[nodiscard]] const std::vector<Id>& first() const noexcept { return first_; }
  [[nodiscard]] const std::vector<Id>& first_sent() const noexcept { return first_sent_; }

  /// What an input does to a node.
  const Change& change(Id node, Id input) {
    if (const auto known = changes_.find(key(node, input)); known != changes_.end()) return known->second;
    return find_out(node, input);
  }
  /// The input that so much time passes.
  Id passes(nic::Time time) {
    const auto [at, fresh] = times_.try_emplace(time, static_cast<Id>(inputs_.size()));
    if (fresh) {
      Input& in = inputs_.emplace_back();
      in.passes = time;
      in.images.assign(symmetry_.size(), at->second);
    }
    return at->second;
  }

  [[nodiscard]] const Input& input(Id i) const { return inputs_[i]; }
  [[nodiscard]] const Edge& edge(std::size_t e) const { return edges_[e]; }
  [[nodiscard]] std::size_t channels() const noexcept { return 2 * edges_.size(); }
  [[nodiscard]] const Symmetry& symmetry() const noexcept { return symmetry_; }
  /// Hashes of a node's images in their places, by renaming.
  [[nodiscard]] const std::vector<std::uint64_t>& spread(Id node) const { return nodes_[node].spread; }
  /// How long a node wants to be let alone; nic::kNever: until a packet comes. Negative: its time is over.
  [[nodiscard]] nic::Time left(Id node) const {
    const nic::Time deadline = nodes_[node].deadline;
    return deadline == nic::kNever ? nic::kNever : deadline - nodes_[node].now;
  }
  /// A rank that has all, and that everybody has heard of; every switch.
  [[nodiscard]] bool done(Id node) const {
    const auto& rank = nodes_[node].rank;
    return !rank || (rank->current == case_.program.size() && rank->outstanding == 0);
  }
  [[nodiscard]] std::uint64_t hash(Id node) const { return nodes_[node].hash; }
  /// Of nodes that were told apart exactly: states with the same hash have done the same.
  [[nodiscard]] bool hash_holds() const noexcept { return hash_holds_; }
  /// What is not as it must be.
  [[nodiscard]] const std::optional<std::string>& violation() const noexcept { return violation_; }
  /// Of all steps that have been found out. The NAKs of Mode II's switches are those of hosts, passed on: however often
  /// they arrive.
  void check_naks() {
    const auto watched = [this](Id n) { return nodes_[n].rank != nullptr || case_.mode != Mode::ii; };
    require(!asks_twice(nodes_.size(), changes_, watched, [this](Id i) -> const Input& { return inputs_[i]; }),
            "at most one NAK for each gap of a flow");
  }

 private:
  struct Rank {
    Rank(const nic::QpConfig& config, nic::MemoryTable& table)
        : requester(config, nic::Pd{1}, table, wire::Qpn(17)), responder(config, nic::Pd{1}, table, wire::Qpn(18)) {}
    nic::Requester requester;
    nic::Responder responder;
    std::uint32_t current = 0, posted = 0, outstanding = 0;  ///< as in network.h
    std::uint32_t receiving = 0, arrived = 0;                ///< collective and message that come next

    friend bool operator==(const Rank&, const Rank&) = default;
  };
  /// A state of a rank or of a switch.
  struct Node {
    Site site = 0;
    std::shared_ptr<const Rank> rank{};
    std::shared_ptr<const IncEngine> unit{};
    nic::Time now = nic::kMs, deadline = nic::kNever;
    std::uint64_t hash = 0;
    std::vector<Id> images{};             ///< by renaming
    std::vector<std::uint64_t> spread{};  ///< of the images, with their sites

    [[nodiscard]] bool same(const Node& o) const {
      if (now != o.now) return false;
      return rank ? rank == o.rank || *rank == *o.rank : unit == o.unit || *unit == *o.unit;
    }
  };
  static constexpr std::uint32_t kRegion = 1u << 14, kReceive = 1u << 13;
  static constexpr Id kNone = std::numeric_limits<Id>::max();

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
  [[nodiscard]] GroupConfig group() const {
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
    g.adaptive_timeouts = case_.adaptive_timeouts;
    return g;
  }

  Node make_rank(const GroupConfig& first, std::uint32_t r) {
    const auto rank = std::make_shared<Rank>(config_, *tables_[r]);
    rank->requester.connect(first.endpoints[r % 2].first_rx);
    rank->responder.connect(first.endpoints[r % 2].first_tx);
    for (std::size_t k = 0; k < case_.program.size(); ++k) {
      for (std::uint32_t m = 0; case_.receives(case_.program[k], r) && m < case_.messages(case_.program[k]); ++m) {
        nic::RecvWr wr;
        wr.with({kReceive + case_.place(k, m), case_.message_bytes(), mrs_[r].key});
        require(rank->responder.post(wr, receive_cq_) == nic::PostResult::ok, "posted");
      }
    }
    return {.site = r, .rank = rank};
  }

  void make_switches(const GroupConfig& first, std::vector<Node>& nodes) {
    const auto add = [&](const GroupConfig& g) {
      nodes.push_back({.site = nodes.size(), .unit = std::make_shared<IncEngine>(g)});
    };
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

  /// Everyone begins: ranks send what they may.
  void begin(std::vector<Node>& nodes) {
    std::vector<std::vector<Id>> sent(nodes.size());
    for (Node& node : nodes) {
      if (node.rank) {
        const auto rank = std::make_shared<Rank>(*node.rank);
        settle(*rank, node, sent[node.site]);
        node.rank = rank;
      }
      first_.push_back(keep(node));
      first_sent_.insert(first_sent_.end(), sent[node.site].begin(), sent[node.site].end());
    }
    for (const Node& node : nodes) {
      std::vector<Change> all;
      for (const Renaming& by : symmetry_.renamings) {
        const Site there = by.sites[node.site];
        all.push_back({first_[there], sent[there], 0});
      }
      make_images(all);
    }
  }

  // --- what is known ---

  [[nodiscard]] static std::uint64_t key(Id node, Id input) { return std::uint64_t{node} << 32 | input; }
  [[nodiscard]] weft::testing::StateHash seeded() const {
    weft::testing::StateHash h;
    h(case_.seed);
    return h;
  }
  [[nodiscard]] std::uint64_t hash_of(const Node& node) const {
    weft::testing::StateHash h = seeded();
    h(node.site);
    if (node.unit) {
      node.unit->hash_state(h, node.now);
      return h.value();
    }
    const Rank& rank = *node.rank;
    rank.requester.hash_state(h, node.now);
    rank.responder.hash_state(h, node.now);
    h(std::uint64_t{rank.current} << 32 | rank.posted << 16 | rank.outstanding);
    h(std::uint64_t{rank.receiving} << 32 | rank.arrived);
    return h.value();
  }

  /// The name of a node's state, which is new or not.
  Id keep(Node node) {
    node.hash = hash_of(node);
    node.deadline = node.rank ? node.rank->requester.next_deadline() : node.unit->next_deadline();
    std::vector<Id>& like = known_[node.hash];
    for (const Id one : like) {
      if (!exact_ || nodes_[one].same(node)) return one;
    }
    like.push_back(static_cast<Id>(nodes_.size()));
    nodes_.push_back(std::move(node));
    return like.back();
  }

  /// The name of a packet that is sent into a channel.
  Id put(std::size_t channel, const nic::Packet& p, bool marked) {
    Input in{.channel = channel, .packet = p, .marked = marked};
    for (std::size_t i = 0; i < p.payload.count; ++i) {
      const auto& piece = p.payload.pieces[i];
      in.payload.insert(in.payload.end(), piece.data, piece.data + piece.bytes);
    }
    weft::testing::StateHash h = seeded();
    nic::hash_headers(p, h);
    h(marked ? 1 : 0);
    for (const std::uint8_t byte : in.payload) h(byte);
    in.hash = h.value();
    h(channel);
    const auto [at, fresh] = packets_.try_emplace(h.value(), static_cast<Id>(inputs_.size()));
    if (fresh) {
      inputs_.push_back(std::move(in));
      Input& kept = inputs_.back();
      kept.packet.payload.set(kept.payload.data(), static_cast<std::uint32_t>(kept.payload.size()));
    }
    return at->second;
  }

  /// Finds out what comes of an input, and of all its images.
  const Change& find_out(Id node, Id input) {
    std::vector<Change> all;
    for (std::uint32_t r = 0; r < symmetry_.size() && !violation_; ++r) {
      const Id n = nodes_[node].images[r], i = inputs_[input].images[r];
      const auto known = changes_.find(key(n, i));
      all.push_back(known != changes_.end() ? known->second : run(n, i));
      if (!violation_) changes_.emplace(key(n, i), all.back());
    }
    if (violation_) return changes_.insert_or_assign(key(node, input), all.front()).first->second;
    make_images(all);
    return changes_.at(key(node, input));
  }

  /// `all` came of inputs that are each other's images, by renaming of the first: so their results are.
  void make_images(const std::vector<Change>& all) {
    std::vector<Id> row(all.size());
    for (std::size_t r = 0; r < all.size(); ++r) row[r] = all[r].node;
    image([this](Id id) -> Node& { return nodes_[id]; }, row, [](const Node& n) { return n.hash; });
    // Packets that are sent into different channels have no order among each other.
    const std::vector<std::vector<Id>> first = by_channel(all.front().sent);
    std::vector<std::vector<std::vector<Id>>> others;
    for (const Change& one : all) others.push_back(by_channel(one.sent));
    for (std::size_t c = 0; c < first.size(); ++c) {
      for (std::size_t i = 0; i < first[c].size(); ++i) {
        for (std::size_t r = 0; r < all.size(); ++r) {
          const std::vector<Id>& there = others[r][symmetry_.renamings[r].channels[c]];
          if (there.size() != first[c].size()) return require(false, "equal ranks are treated alike: packets sent");
          row[r] = there[i];
        }
        image([this](Id id) -> Input& { return inputs_[id]; }, row,
              [](const Input& in) {
                weft::testing::StateHash h;
                h(in.hash);
                h(in.channel);
                return h.value();
              });
      }
    }
  }
  /// `row` has the images of its first one: so row[after[b][a]] is the image of row[a] by renaming b.
  template <class At, class Hash>
  void image(At&& at, const std::vector<Id>& row, Hash&& hash) {
    for (std::uint32_t a = 0; a < row.size(); ++a) {
      auto& one = at(row[a]);
      const bool fresh = one.images.empty();
      if (fresh) one.images.assign(row.size(), kNone);
      for (std::uint32_t b = 0; b < row.size(); ++b) {
        const Id other = row[symmetry_.after[b][a]];
        if (fresh) {
          one.images[b] = other;
          one.spread.push_back(hash(at(other)));
        }
        require(one.images[b] == other, "equal ranks are treated alike: states");
      }
    }
  }
  [[nodiscard]] std::vector<std::vector<Id>> by_channel(const std::vector<Id>& sent) const {
    std::vector<std::vector<Id>> all(2 * edges_.size());
    for (const Id one : sent) all[inputs_[one].channel].push_back(one);
    return all;
  }

  // --- what happens ---

  /// An input meets a node: what the production code makes of it.
  Change run(Id id, Id input) {
    const Node& from = nodes_[id];
    const Input& in = inputs_[input];
    Node node{.site = from.site, .rank = from.rank, .unit = from.unit, .now = from.now + in.passes};
    Change out;
    const bool timer = in.hash == 0 && from.deadline <= node.now;
    if (in.hash != 0 || timer) node.rank ? step_rank(node, in, timer, out) : step_switch(node, in, timer, out);
    out.node = keep(std::move(node));
    if (exact_) compare(id, input, out);
    return out;
  }

  /// States of a node that share a hash must do the same.
  void compare(Id id, Id input, const Change& change) {
    weft::testing::StateHash before, behind;
    before(nodes_[id].hash);
    before(input);
    behind(nodes_[change.node].hash);
    for (const Id sent : change.sent) behind(sent);
    const auto [at, fresh] = results_.try_emplace(before.value(), behind.value());
    hash_holds_ = hash_holds_ && (fresh || at->second == behind.value());
  }

  void step_rank(Node& node, const Input& in, bool timer, Change& out) {
    const auto rank = std::make_shared<Rank>(*node.rank);
    if (timer) {
      rank->requester.on_timer(node.now, send_cq_);
    } else if (in.packet.info().is_request()) {
      rank->responder.on_request(node.now, in.packet, receive_cq_);
    } else {
      static_cast<void>(rank->requester.on_response(node.now, in.packet, send_cq_));
    }
    settle(*rank, node, out.sent);
    node.rank = rank;
  }

  /// A rank posts what it may, and sends what it can.
  void settle(Rank& rank, const Node& node, std::vector<Id>& sent) {
    const auto r = static_cast<std::uint32_t>(node.site);
    const std::size_t up = 2 * node.site;  // edges of ranks come first, in their order
    for (bool more = true; more && !violation_;) {
      more = work(rank, r);
      nic::Packet p;
      while (rank.responder.transmit(p, receive_cq_)) sent.push_back(put(up, p, false)), more = true;
      while (rank.requester.transmit(node.now, p, send_cq_)) sent.push_back(put(up, p, false)), more = true;
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

  /// Where a switch sends its packets.
  struct Out final : Sink {
    Out(ExplorerNodes& all, Site at, std::vector<Id>& packets) : nodes(all), site(at), sent(packets) {}
    void send(EndpointIndex to, const nic::Packet& p, bool marked) override {
      for (std::size_t e = 0; e < nodes.edges_.size(); ++e) {
        const Edge& one = nodes.edges_[e];
        const bool down = nodes.ranks_ + one.upper == site && one.at_upper == to;
        if (down || (one.lower == site && one.at_lower == to)) {
          return sent.push_back(nodes.put(2 * e + (down ? 1 : 0), p, marked));
        }
      }
    }
    ExplorerNodes& nodes;
    Site site;
    std::vector<Id>& sent;
  };

  void step_switch(Node& node, const Input& in, bool timer, Change& out) {
    Out sink(*this, node.site, out.sent);
    const auto unit = std::make_shared<IncEngine>(*node.unit);
    const Edge& e = edges_[in.channel / 2];
    const auto copies = [](const GroupCounters& c) { return c.copies + c.resent; };
    StepOfSwitch step{.packet = timer ? nullptr : &in.packet,
                      .before = unit->counters(),
                      .after = {},
                      .endpoints = unit->context().group().endpoints.size()};
    if (timer) {
      unit->on_timer(node.now, sink);
    } else {
      // The sink may add inputs, which stay where they are.
      unit->on_packet(node.now, in.channel % 2 == 0 ? e.at_upper : e.at_lower, in.packet, in.marked, sink);
    }
    require(!unit->failure(), "no group fails");
    step.after = unit->counters();
    for (const Id one : out.sent) {
      const Input& sent = inputs_[one];
      step.requests[sent.channel] += sent.packet.info().is_request() ? 1 : 0;
      step.naks[sent.channel] += is_sequence_nak(sent.packet) ? 1 : 0;
    }
    const char* const wrong = wrong_answer(case_, step);
    require(wrong == nullptr, wrong);
    out.copies = static_cast<std::uint32_t>(copies(step.after) - copies(step.before));
    node.unit = unit;
  }

  void require(bool condition, const char* what) {
    if (!condition && !violation_) violation_ = what;
  }

  ExplorerCase case_;
  std::uint32_t ranks_;
  bool exact_;
  Symmetry symmetry_;
  nic::QpConfig config_;
  std::deque<std::vector<std::uint8_t>> memory_;
  std::vector<std::unique_ptr<nic::MemoryTable>> tables_;
  std::vector<nic::Mr> mrs_;
  std::vector<Edge> edges_;
  nic::Cq send_cq_{16}, receive_cq_{16};  ///< empty between two steps
  std::vector<Id> first_, first_sent_;
  std::deque<Node> nodes_;
  std::unordered_map<std::uint64_t, std::vector<Id>> known_;  ///< nodes by hash
  std::deque<Input> inputs_;
  std::unordered_map<std::uint64_t, Id> packets_;  ///< by hash and channel
  std::unordered_map<nic::Time, Id> times_;
  std::unordered_map<std::uint64_t, Change> changes_;         ///< by node and input
  std::unordered_map<std::uint64_t, std::uint64_t> results_;  ///< of what has which hash, where nodes are exact
  bool hash_holds_ = true;
  std::optional<std::string> violation_;
};

}  // namespace weft::inc::testing
