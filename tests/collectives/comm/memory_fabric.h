// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Reliable connections between ranks in memory, and a switch that adds up what they send: what the host library needs
// of an RNIC and of the inc stage. Which message arrives next is drawn; a message waits for a receive.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/comm/combine.h"
#include "collectives/comm/rank_progress.h"
#include "collectives/comm/transport.h"
#include "collectives/engine/control_message.h"
#include "switch/base/rng.h"

namespace weft::inc::comm::testing {

using Bytes = std::vector<std::uint8_t>;

struct Message {
  Bytes data;
  std::optional<std::uint32_t> immediate;
  // Where it was sent from.
  const std::uint8_t* from = nullptr;
  std::uint32_t key = 0;
};

class Fabric;

class MemoryPair final : public QueuePair {
 public:
  MemoryPair(Fabric& fabric, const wire::IpAddress& address, std::uint32_t qpn, const QpSettings& settings);
  ~MemoryPair() override;

  QpEnd end() const override { return {address_, qpn_, qpn_ * 16 + 1, qpn_ * 16 + 2}; }
  ConnectState connect(const QpEnd& peer, std::optional<std::uint32_t> psn_of_peer) override;
  bool send(std::uint64_t wr_id, const void* data, std::uint32_t bytes, std::uint32_t key,
            std::optional<std::uint32_t> immediate) override;
  bool receive(std::uint64_t wr_id, void* data, std::uint32_t bytes, std::uint32_t key) override;
  std::size_t poll_sent(std::span<Completion> out) override { return poll(sent_, out); }
  std::size_t poll_received(std::span<Completion> out) override { return poll(received_, out); }

 private:
  friend class Fabric;
  struct Receive {
    std::uint64_t wr_id;
    std::uint8_t* data;
    std::uint32_t bytes;
  };
  static std::size_t poll(std::deque<Completion>& from, std::span<Completion> out) {
    std::size_t n = 0;
    for (; n < out.size() && !from.empty(); ++n) {
      out[n] = from.front();
      from.pop_front();
    }
    return n;
  }

  Fabric& fabric_;
  wire::IpAddress address_;
  std::uint32_t qpn_;
  QpSettings settings_;
  std::optional<QpEnd> peer_;
  std::uint32_t outstanding_ = 0;
  std::deque<std::pair<std::uint64_t, Message>> sending_;  ///< on their way
  std::deque<Receive> receives_;
  std::deque<Completion> sent_, received_;
};

/// The switches of one group: messages of a collective are added up when all that give one have.
class Adder {
 public:
  explicit Adder(std::uint32_t ranks) : ranks_(ranks), streams_(ranks), next_(ranks), out_(ranks) {}

  void on_message(std::uint32_t rank, const Message& m) {
    if (m.immediate) {
      ControlMessage control;
      ASSERT_EQ(read_control(*m.immediate, m.data, control), std::nullopt);
      if (control.sequence == collectives_.size()) {
        collectives_.push_back({control, std::vector<std::vector<Message>>(ranks_), std::vector<Handed>(ranks_)});
      }
      ASSERT_LT(control.sequence, collectives_.size());
      ASSERT_EQ(collectives_[control.sequence].control, control) << "rank " << rank;
      streams_[rank] = control.sequence;
    }
    collectives_[streams_[rank]].given[rank].push_back(m);
    hand_out();
  }
  std::deque<Message>& out(std::uint32_t rank) { return out_[rank]; }
  /// Whether a turn is refused that a collective with this number asks for.
  std::function<bool(std::uint16_t sequence)> refuses = [](std::uint16_t) { return false; };
  [[nodiscard]] std::size_t collectives() const { return collectives_.size(); }
  [[nodiscard]] const ControlMessage& collective(std::size_t number) const { return collectives_[number].control; }

 private:
  /// Of a result, with its control message, and bytes of data.
  struct Handed {
    std::size_t messages = 0;
    std::uint64_t bytes = 0;
  };
  struct Running {
    ControlMessage control;
    std::vector<std::vector<Message>> given;  ///< by rank
    std::vector<Handed> handed;               ///< by rank
  };

  /// Results leave in the order of collectives in every stream.
  void hand_out() {
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      for (; next_[to] < collectives_.size(); ++next_[to]) {
        Running& c = collectives_[next_[to]];
        if (!rank_receives(c.control, to)) continue;
        Handed& handed = c.handed[to];
        while (auto m = result(c, handed.messages)) {
          if (handed.messages++ > 0) handed.bytes += m->data.size();
          out_[to].push_back(*m);
        }
        if (handed.messages == 0 || handed.bytes < c.control.bytes) break;
      }
    }
  }

  std::optional<Message> result(const Running& c, std::size_t number) const {
    std::optional<Message> sum;
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      if (!rank_sends(c.control, from)) continue;
      if (c.given[from].size() <= number) return std::nullopt;
      const Message& m = c.given[from][number];
      if (!sum) {
        sum = m;
      } else if (number > 0) {
        EXPECT_EQ(sum->data.size(), m.data.size());
        combine(c.control.type, c.control.op, sum->data.data(), m.data.data(), m.data.size());
      }
    }
    if (sum && c.control.turn == Turn::take) {
      ControlMessage answer = c.control;
      answer.refused = refuses(answer.sequence);
      const auto payload = control_payload(answer);
      sum->data.assign(payload.begin(), payload.end());
    }
    return sum;
  }

  std::uint32_t ranks_;
  std::vector<std::size_t> streams_;  ///< by rank: the collective that it sends in
  std::vector<std::size_t> next_;     ///< by rank: the first whose result it does not have in whole
  std::vector<std::deque<Message>> out_;
  std::deque<Running> collectives_;
};

class Fabric {
 public:
  static constexpr std::uint32_t kFirstSwitchQp = 1000;

  Fabric(std::uint64_t seed, std::uint32_t ranks) : adder(ranks), ranks_(ranks), draw_(seed) {}

  static wire::IpAddress address(std::uint32_t rank) { return wire::IpAddress::v4(0x0a000001 + rank); }
  static wire::IpAddress switch_address() { return wire::IpAddress::v4(0x0aff0001); }

  /// Something arrives somewhere. False: nothing is under way, or waits for receives.
  bool step() {
    std::vector<MemoryPair*> able;
    for (auto& [name, pair] : pairs_) {
      if (!pair->peer_) continue;
      if (switches_lost && to_switch(*pair)) continue;
      const bool results = to_switch(*pair) && !pair->receives_.empty() && !results_of(*pair).empty();
      if (results || (!pair->sending_.empty() && takes(*pair))) able.push_back(pair);
    }
    const bool late = late_acks && !unacknowledged_.empty();
    if (late && (able.empty() || draw_.below(8) == 0)) {
      acknowledge_first();
      return true;
    }
    if (able.empty()) return false;
    MemoryPair& p = *able[draw_.below(able.size())];
    if (!p.sending_.empty() && takes(p)) {
      carry(p);
    } else {
      deliver(p, results_of(p).front());
      results_of(p).pop_front();
    }
    return true;
  }

  /// The switches forget the group; `adder` is what the next one has.
  void lose_switches() {
    switches_lost = true;
    adder = Adder(ranks_);
  }

  /// The switches have ended the group: they refuse what ranks send.
  void refuse() { refuses = true; }

  /// The acknowledgements that were held back. Until then the RNIC could have had to send from its memory once more.
  void release_acks() {
    for (holds_acks = holds_acks_of_hosts = false; !unacknowledged_.empty();) acknowledge_first();
  }

  [[nodiscard]] std::size_t unacknowledged() const { return unacknowledged_.size(); }

  Adder adder;
  bool holds_acks = false;  ///< switches acknowledge nothing before release_acks()
  bool holds_acks_of_hosts = false;
  bool late_acks = false;      ///< hosts acknowledge later than they take
  bool switches_lost = false;  ///< nothing comes to them, or from them
  bool refuses = false;
  std::set<wire::IpAddress> unreachable;
  std::uint32_t next_qpn = 17;
  /// Registered regions: key, address, bytes.
  std::map<std::uint32_t, std::pair<std::uintptr_t, std::size_t>> regions;
  std::uint32_t next_key = 1;

 private:
  friend class MemoryPair;
  static bool to_switch(const MemoryPair& p) { return p.peer_->address == switch_address(); }
  std::deque<Message>& results_of(const MemoryPair& p) { return adder.out(p.peer_->qpn - kFirstSwitchQp); }
  MemoryPair* peer_of(const MemoryPair& p) {
    const auto found = pairs_.find({p.peer_->address, p.peer_->qpn});
    return found == pairs_.end() ? nullptr : found->second;
  }
  bool takes(const MemoryPair& p) {
    if (to_switch(p)) return true;
    const MemoryPair* to = peer_of(p);
    return to != nullptr && to->peer_ && !to->receives_.empty();
  }
  void carry(MemoryPair& p) {
    auto [id, message] = std::move(p.sending_.front());
    p.sending_.pop_front();
    if (to_switch(p) && refuses) {
      --p.outstanding_;
      p.sent_.push_back({id, 0, {}, "remote operation error"});
      return;
    }
    if (to_switch(p)) {
      adder.on_message(p.peer_->qpn - kFirstSwitchQp, message);
    } else {
      deliver(*peer_of(p), message);
    }
    if (to_switch(p) ? holds_acks : late_acks || holds_acks_of_hosts) {
      unacknowledged_.push_back({&p, id, message});
    } else {
      acknowledge(p, id);
    }
  }
  /// What is not acknowledged can be asked for once more.
  void acknowledge_first() {
    const auto [pair, id, message] = unacknowledged_.front();
    unacknowledged_.pop_front();
    expect_registered(message.from, message.data.size(), message.key);
    EXPECT_EQ(std::memcmp(message.from, message.data.data(), message.data.size()), 0) << "it was overwritten";
    acknowledge(*pair, id);
  }
  static void acknowledge(MemoryPair& p, std::uint64_t id) {
    --p.outstanding_;
    p.sent_.push_back({id, 0, {}, {}});
  }
  static void deliver(MemoryPair& to, const Message& m) {
    const auto r = to.receives_.front();
    to.receives_.pop_front();
    ASSERT_LE(m.data.size(), r.bytes);
    if (!m.data.empty()) std::memcpy(r.data, m.data.data(), m.data.size());
    to.received_.push_back({r.wr_id, static_cast<std::uint32_t>(m.data.size()), m.immediate, {}});
  }
  void expect_registered(const void* data, std::size_t bytes, std::uint32_t key) const {
    const auto region = regions.find(key);
    ASSERT_NE(region, regions.end()) << "key " << key;
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    ASSERT_TRUE(at >= region->second.first && at + bytes <= region->second.first + region->second.second);
  }

  struct Unacknowledged {
    MemoryPair* pair;
    std::uint64_t id;
    Message message;
  };
  std::uint32_t ranks_;
  Rng draw_;
  std::map<std::pair<wire::IpAddress, std::uint32_t>, MemoryPair*> pairs_;
  std::deque<Unacknowledged> unacknowledged_;
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(Fabric& fabric, std::uint32_t rank) : fabric_(fabric), address_(Fabric::address(rank)) {}

  std::uint32_t largest_mtu() const override { return 4096; }
  std::unique_ptr<QueuePair> create_qp(const QpSettings& settings) override {
    return std::make_unique<MemoryPair>(fabric_, address_, fabric_.next_qpn++, settings);
  }
  std::uint32_t register_memory(const void* data, std::size_t bytes) override {
    fabric_.regions[fabric_.next_key] = {reinterpret_cast<std::uintptr_t>(data), bytes};
    return fabric_.next_key++;
  }
  void forget(std::uint32_t key) override { EXPECT_EQ(fabric_.regions.erase(key), 1u); }

 private:
  Fabric& fabric_;
  wire::IpAddress address_;
};

inline MemoryPair::MemoryPair(Fabric& fabric, const wire::IpAddress& address, std::uint32_t qpn,
                              const QpSettings& settings)
    : fabric_(fabric), address_(address), qpn_(qpn), settings_(settings) {
  fabric_.pairs_[{address_, qpn_}] = this;
}
inline MemoryPair::~MemoryPair() {
  fabric_.pairs_.erase({address_, qpn_});
}
inline ConnectState MemoryPair::connect(const QpEnd& peer, std::optional<std::uint32_t> psn_of_peer) {
  if (fabric_.unreachable.count(peer.address) != 0) return ConnectState::unreachable;
  EXPECT_FALSE(peer_.has_value());
  EXPECT_EQ(psn_of_peer.has_value(), peer.address != Fabric::switch_address());
  if (psn_of_peer) {
    EXPECT_EQ(*psn_of_peer, peer.first_psn);
  }
  peer_ = peer;
  return ConnectState::connected;
}
inline bool MemoryPair::send(std::uint64_t wr_id, const void* data, std::uint32_t bytes, std::uint32_t key,
                             std::optional<std::uint32_t> immediate) {
  if (outstanding_ == settings_.send_depth || !peer_) return false;
  fabric_.expect_registered(data, bytes, key);
  const auto* from = static_cast<const std::uint8_t*>(data);
  ++outstanding_;
  sending_.push_back({wr_id, {Bytes(from, from + bytes), immediate, from, key}});
  return true;
}
inline bool MemoryPair::receive(std::uint64_t wr_id, void* data, std::uint32_t bytes, std::uint32_t key) {
  if (receives_.size() == settings_.receive_depth) return false;
  fabric_.expect_registered(data, bytes, key);
  receives_.push_back({wr_id, static_cast<std::uint8_t*>(data), bytes});
  return true;
}

}  // namespace weft::inc::comm::testing
