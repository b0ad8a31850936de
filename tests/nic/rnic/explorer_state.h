// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What explorer.h explores: a scenario, and one state of a requester, a responder and the network between them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "nic/rnic/requester.h"
#include "nic/rnic/responder.h"
#include "tests/support/state_hash.h"

namespace weft::nic::testing {

inline constexpr std::uint32_t kMtu = 256;
/// Room for 4 packets behind the 8 bytes that atomics work on; a multiple of 8.
inline constexpr std::size_t kMemoryBytes = 8 + 4 * kMtu + 64;

struct Message {
  WrOpcode opcode = WrOpcode::send;
  std::uint32_t bytes = 0;
};

/// When receives are posted.
enum class Receives : std::uint8_t {
  at_start,
  after_rnr,    ///< all of them, when the first RNR NAK has left
  at_any_time,  ///< one by one, each at any time
};

struct Scenario {
  std::string name;
  std::vector<Message> messages;
  unsigned losses = 2;
  unsigned duplicates = 1;
  unsigned early_timeouts = 0;  ///< timers that may expire although something is still under way
  unsigned pauses = 0;          ///< times that kRepeatNackNs may pass, in which no timer expires
  Receives receives = Receives::at_start;
  bool credits = false;  ///< QpConfig::end_to_end_credits
};

/// Local and remote memory.
struct Buffers {
  alignas(64) std::array<std::uint8_t, kMemoryBytes> local{};
  std::array<std::uint8_t, kMemoryBytes> remote{};

  friend bool operator==(const Buffers&, const Buffers&) = default;
};

/// Every packet that was ever sent, once: a number stands for its headers and payload.
class Packets {
 public:
  using Id = std::uint16_t;

  Id number(const Packet& p) {
    Kept kept;
    kept.packet = p;
    kept.packet.retransmission = false;  // not on the wire
    std::size_t at = 0;
    for (std::size_t i = 0; i < p.payload.count; ++i) {
      std::memcpy(kept.bytes.data() + at, p.payload.pieces[i].data, p.payload.pieces[i].bytes);
      at += p.payload.pieces[i].bytes;
    }
    kept.packet.payload.set(nullptr, p.payload.bytes);
    weft::testing::StateHash h;
    hash_headers(kept.packet, h);
    h.bytes(kept.bytes);
    auto [first, last] = by_hash_.equal_range(h.value());
    for (; first != last; ++first) {
      if (all_[first->second] == kept) return first->second;
    }
    if (all_.size() > 0xffff) std::abort();
    const auto id = static_cast<Id>(all_.size());
    all_.push_back(kept);
    by_hash_.emplace(h.value(), id);
    return id;
  }
  /// As it arrives. The payload stays where it is until the next number().
  [[nodiscard]] Packet arrived(Id id) const {
    Packet p = all_[id].packet;
    p.payload.set(all_[id].bytes.data(), p.payload.bytes);
    return p;
  }
  [[nodiscard]] const Packet& headers(Id id) const { return all_[id].packet; }

 private:
  struct Kept {
    Packet packet;
    std::array<std::uint8_t, kMtu> bytes{};

    friend bool operator==(const Kept&, const Kept&) = default;
  };
  std::vector<Kept> all_;
  std::unordered_multimap<std::uint64_t, Id> by_hash_;
};

/// The packets under way in one direction. Their order means nothing, because the network may change it: they are kept
/// sorted, so that equal sets are equal.
class Lane {
 public:
  void add(Packets::Id id) {
    if (size_ == ids_.size()) std::abort();
    std::uint16_t at = size_++;
    for (; at > 0 && ids_[at - 1u] > id; --at) ids_[at] = ids_[at - 1u];
    ids_[at] = id;
  }
  void remove(std::uint16_t place) {
    for (std::uint16_t i = place + 1u; i < size_; ++i) ids_[i - 1u] = ids_[i];
    ids_[--size_] = 0;
  }
  [[nodiscard]] std::uint16_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Packets::Id operator[](std::uint16_t place) const { return ids_[place]; }
  /// True when the packet before is the same: what happens to this one happens to that one too.
  [[nodiscard]] bool repeats(std::uint16_t place) const { return place > 0 && ids_[place] == ids_[place - 1u]; }

  friend bool operator==(const Lane&, const Lane&) = default;
  template <class Hash>
  void hash_state(Hash&& h) const {
    h(size_);
    for (std::uint16_t i = 0; i < size_; ++i) h(ids_[i]);
  }

 private:
  std::array<Packets::Id, 47> ids_{};
  std::uint16_t size_ = 0;
};

struct State {
  State(const QpConfig& config, MemoryTable& table, const Scenario& s)
      : requester(config, Pd{1}, table, wire::Qpn(17)),
        responder(config, Pd{1}, table, wire::Qpn(18)),
        losses(s.losses),
        duplicates(s.duplicates),
        early_timeouts(s.early_timeouts),
        pauses(s.pauses) {
    // PSNs wrap on the way.
    requester.connect(wire::Psn(0xfffffe));
    responder.connect(wire::Psn(0xfffffe));
  }

  Requester requester;
  Responder responder;
  Lane requests, responses;  ///< under way
  Buffers memory;
  unsigned losses, duplicates, early_timeouts, pauses;  ///< that may still happen
  std::uint32_t sent = 0, received = 0;                 ///< completions
  std::uint32_t posted = 0;                             ///< receive work requests
  Time now = 1 * kMs;

  friend bool operator==(const State&, const State&) = default;
  /// Feeds what decides how it goes on.
  template <class Hash>
  void hash_state(Hash&& h) const {
    requester.hash_state(h, now);
    responder.hash_state(h, now);
    requests.hash_state(h);
    responses.hash_state(h);
    h.bytes(memory.local);
    h.bytes(memory.remote);
    h(std::uint64_t{losses} << 48 | std::uint64_t{duplicates} << 32 | std::uint64_t{early_timeouts} << 16 | pauses);
    h(std::uint64_t{sent} << 32 | std::uint64_t{received} << 16 | posted);
    h(responder.counters().bytes_placed);  // judged
  }
};

/// What can happen in a state.
struct Action {
  enum class Kind : std::uint8_t { deliver_request, deliver_response, lose, duplicate, expire, pause, post };
  Kind kind;
  Packets::Id packet = 0;  ///< the first four
  bool request = false;    ///< the packet is one

  /// As a number that no other action has.
  [[nodiscard]] std::uint64_t word() const {
    return std::uint64_t{packet} << 16 | static_cast<unsigned>(kind) << 8 | (request ? 1u : 0u);
  }
};

}  // namespace weft::nic::testing
