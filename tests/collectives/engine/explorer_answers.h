// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the nodes of an Explorer may answer: one NAK for each gap of a flow (EPIC appendix H.4), and a bounded number of
// copies for each packet that comes again (appendix D).
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collectives/engine/context.h"
#include "tests/collectives/engine/explorer_case.h"

namespace weft::inc::testing {

inline constexpr std::size_t kMostChannels = 12;

inline bool is_sequence_nak(const nic::Packet& p) {
  return p.opcode == wire::Opcode::RC_ACKNOWLEDGE && wire::Syndrome(p.syndrome).is_sequence_nak();
}

/// What a step of a switch brought.
struct StepOfSwitch {
  const nic::Packet* packet = nullptr;  ///< that arrived; nullptr: a timer expired
  GroupCounters before, after;
  std::size_t endpoints = 0;
  std::array<std::uint32_t, kMostChannels> requests{}, naks{};  ///< sent, by channel
};

/// What is wrong with it; nullptr: nothing. Of copies, a switch that answers its neighbours itself (modes I and III)
/// makes none because of a packet that comes again, and a NAK or a timer has it repeat what a flow has in slots: those
/// of one pipe, or of both where one primitive follows another. In mode II, one copy answers a packet that comes again,
/// of a Broadcast one for each receiver; where the paper's `reforward` is in force, one for each endpoint.
inline const char* wrong_answer(const ExplorerCase& c, const StepOfSwitch& s) {
  std::uint32_t requests = 0, naks = 0, most_requests = 0, most_naks = 0;
  for (std::size_t channel = 0; channel < kMostChannels; ++channel) {
    requests += s.requests[channel];
    naks += s.naks[channel];
    most_requests = std::max(most_requests, s.requests[channel]);
    most_naks = std::max(most_naks, s.naks[channel]);
  }
  if (most_naks > 1) return "a step asks a neighbour for one gap once";
  const bool on_request = s.packet != nullptr && s.packet->info().is_request();
  if (c.mode != Mode::ii) {
    const auto other = [&](const Step& step) { return step.primitive != c.program.front().primitive; };
    const bool both_pipes = c.mode == Mode::iii && std::any_of(c.program.begin(), c.program.end(), other);
    const std::uint64_t resent = s.after.resent - s.before.resent;
    const std::uint64_t slots = (both_pipes ? 4 : 2) * std::uint64_t{c.message_packets};
    if (on_request && resent != 0) return "a packet from a neighbour has nothing sent again";
    const std::uint64_t flows = s.packet != nullptr ? 1 : s.endpoints;
    return resent > slots * flows ? "no more is sent again than a flow's slots" : nullptr;
  }
  if (!on_request) return requests != 0 ? "in mode II answers bring no data" : nullptr;
  if (naks != 0) return "in mode II the switch has no NAKs of its own";
  if (most_requests > 1) return "one packet brings one to each neighbour";
  if (s.after.duplicates == s.before.duplicates) return nullptr;
  bool broadcasts = false;
  for (const Step& step : c.program) broadcasts |= step.primitive == Primitive::broadcast;
  const std::size_t bound = c.answers == Duplicates::reforward ? s.endpoints : broadcasts ? s.endpoints - 1 : 1;
  return requests > bound ? "copies for each packet that comes again are bounded" : nullptr;
}

/// Whether on some way a node of those that are `watched` sends two NAKs for the same packet of a flow. States of nodes
/// and the changes between them are a graph; what a node has asked for on any way to one of its states is carried along
/// it until nothing is added. Where two ways lead to one state, only one of which has a NAK, the node does the same
/// behind both: so it may not send that NAK there either.
/// @param changes  by node << 32 | input: where it leads, and what is sent
/// @param sent     the input of a name: its channel and packet
template <class Changes, class Watched, class Sent>
bool asks_twice(std::size_t nodes, const Changes& changes, Watched&& watched, Sent&& sent) {
  // Flows have fewer than 16 packets.
  using Asked = std::bitset<kMostChannels * 16>;
  std::vector<Asked> asked(nodes);
  std::vector<std::vector<const typename Changes::value_type*>> from(nodes);
  std::vector<std::uint32_t> open;
  for (const auto& change : changes) {
    const auto node = static_cast<std::uint32_t>(change.first >> 32);
    if (!watched(node)) continue;
    if (from[node].empty()) open.push_back(node);
    from[node].push_back(&change);
  }
  while (!open.empty()) {
    const std::uint32_t node = open.back();
    open.pop_back();
    for (const auto* change : from[node]) {
      Asked all = asked[node];
      for (const auto id : change->second.sent) {
        const auto& in = sent(id);
        if (!is_sequence_nak(in.packet)) continue;
        const std::size_t gap = in.channel * 16 + (in.packet.psn.value() & 15);
        if (all.test(gap)) return true;
        all.set(gap);
      }
      Asked& there = asked[change->second.node];
      if ((there | all) == there) continue;
      there |= all;
      open.push_back(change->second.node);
    }
  }
  return false;
}

}  // namespace weft::inc::testing
