// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What NackExplorer explores, and what it finds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "nic/rnic/config.h"
#include "switch/stages/nack_filter/unit.h"
#include "switch/wire/ib.h"

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
  std::uint32_t copies = 0;   ///< NACKs that reach the ToR a second time, at any time after the first
  std::uint32_t read = 0;     ///< PSNs of a READ behind the first `packets / 2`; 0: one WRITE of all packets
  wire::Psn first{0xfffffd};  ///< of the first packet: PSNs wrap on the way
  nic::LossRecovery recovery = nic::LossRecovery::nic_sr;  ///< of both hosts
  std::uint8_t gbn_proofs = 3;
  bool last_hop_losses = true;
  bool path_down = false;  ///< the first path may go down, for good: what is on it or is sent over it later is lost
  bool any_order_back = false;  ///< ACKs and NACKs overtake each other between the ToR and the requester
  /// The ToR takes a READ for any number of PSNs from one to the right one, each time anew: as where the path MTU is
  /// not known, or becomes known.
  bool guessed_spans = false;
  bool blocked_as_acks = false;  ///< `on_block: ack`
  bool acks_too_far = false;     ///< a mistake that must be noticed: these say that what the NACK asks for has arrived
  bool first_known = true;       ///< the filter knows the PSN of the first packet
};

/// What a case came to.
struct NackFindings {
  std::uint64_t states = 0, transitions = 0;
  /// Transitions that let the sender see a NACK for a packet that is not lost, other than a second one where the
  /// receiver's NACK came twice.
  std::uint64_t false_nacks = 0;
  std::uint64_t in_vain = 0;     ///< transitions in which the sender repeats a packet that is not lost
  std::uint64_t missed = 0;      ///< end states in which a NACK that was not lost was kept from the sender
  std::uint64_t stuck = 0;       ///< end states that wait for a timeout for all other reasons
  std::uint64_t false_acks = 0;  ///< transitions after which the sender believes that more has arrived than has
  std::uint64_t bad_frames = 0;  ///< transitions in which the NACK that is sent later is no valid frame
  std::uint64_t forgotten = 0;   ///< run_exact(): states that the hash takes for equal and that go on differently
  std::uint64_t in_order = 0;    ///< states in which the receiver is taken for one that keeps no early packets
  std::uint64_t keeps = 0;       ///< states in which something has shown that it does
  bool complete = true;          ///< all states were visited
  bool cycle = false;            ///< some way leads back to where it has been
  std::string false_example{}, missed_example{};  ///< shortest ones
};

/// What can happen. PSNs in a trace are those of the packet, relative to the first one.
enum class NackEvent : std::uint8_t {
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
  answer_to_tor_twice,
  copy_to_tor,
};
[[nodiscard]] inline const char* name(NackEvent event) {
  constexpr std::array<const char*, 13> kNames{
      "send",        "ToR",  "lose on path", "NIC",   "lose on last hop", "answer at ToR",
      "lose answer", "back", "lose back",    "guard", "path down",        "answer at ToR, which comes again",
      "copy at ToR"};
  return kNames[static_cast<std::size_t>(event)];
}

/// A packet under way. `old`: it, or what it answers, was under way when the guard began.
struct NackItem {
  std::uint8_t psn;  ///< relative to the first one, of an ACK one more than its own
  bool nack;
  bool ack_req;
  bool old;
  std::uint8_t syndrome;
  std::uint8_t msn;
  wire::Opcode opcode = wire::Opcode::RC_ACKNOWLEDGE;  ///< of answers

  [[nodiscard]] std::uint64_t word() const {
    return psn | std::uint64_t{syndrome} << 8 | std::uint64_t{msn} << 16 |
           std::uint64_t{static_cast<std::uint8_t>(opcode)} << 24 | (nack ? 1ull << 32 : 0) |
           (ack_req ? 1ull << 33 : 0) | (old ? 1ull << 34 : 0);
  }
};

/// Mistakes in the hash of states that run_exact() has to notice.
enum class HashMistake : std::uint8_t {
  none,
  lane_as_sum,       ///< the order of packets on a lane is lost
  forgets_the_mark,  ///< which packet of the first path left last
};

/// Whether some way leads back to where it has been. Takes away, one after the other, states to which no way is left:
/// what remains is on cycles or behind them.
/// @param ways  from state to state, by their numbers; 0 is where all begin. Sorted afterwards.
inline bool has_cycle(std::vector<std::pair<std::uint32_t, std::uint32_t>>& ways) {
  std::sort(ways.begin(), ways.end());
  std::uint32_t states = 1;
  for (const auto& [from, to] : ways) states = std::max({states, from + 1, to + 1});
  std::vector<std::uint32_t> ways_to(states), begin(states + 1);
  for (const auto& [from, to] : ways) {
    ++ways_to[to];
    ++begin[from + 1];
  }
  for (std::uint32_t i = 0; i < states; ++i) begin[i + 1] += begin[i];
  std::vector<std::uint32_t> free{0};
  std::uint32_t taken = ways_to[0] == 0 ? 0 : states + 1;
  while (!free.empty() && taken <= states) {
    const std::uint32_t from = free.back();
    free.pop_back();
    ++taken;
    for (std::uint32_t i = begin[from]; i < begin[from + 1]; ++i) {
      if (--ways_to[ways[i].second] == 0) free.push_back(ways[i].second);
    }
  }
  return taken != states;
}

/// What is on a way whose packets keep their order. Copied with the state that has it.
template <typename Item, std::size_t kRoom>
struct NackFifo {
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

}  // namespace weft::stages::testing
