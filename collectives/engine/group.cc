// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/group.h"

namespace weft::inc {
namespace {

/// PSNs that one invocation and what may be repeated behind it take, at most; half of all must stay free, so that a PSN
/// names one packet.
constexpr std::uint32_t kMaxSlots = 1u << 20;

std::optional<std::string> check_members(const GroupConfig& g) {
  if (g.endpoints.size() < 2) return "a group needs two endpoints at least";
  if (g.endpoints.size() > kMaxEndpoints) return "a group has 64 children and a parent at most";
  if (!g.parent && g.endpoints.size() == kMaxEndpoints) return "a group has 64 children at most";
  if (g.parent && *g.parent >= g.endpoints.size()) return "the parent is no endpoint";
  if (g.parent && g.endpoints[*g.parent].rank) return "the parent is a switch, not a rank";
  if (g.way.size() < 2) return "a group needs two ranks at least";
  if (g.way.size() > kMaxRanks) return "a group has 65536 ranks at most";
  for (std::size_t rank = 0; rank < g.way.size(); ++rank) {
    if (g.way[rank] >= g.endpoints.size()) return "rank " + std::to_string(rank) + " is behind no endpoint";
  }
  for (std::size_t e = 0; e < g.endpoints.size(); ++e) {
    const auto& rank = g.endpoints[e].rank;
    if (!rank) continue;
    if (*rank >= g.way.size() || g.way[*rank] != e) {
      return "endpoint " + std::to_string(e) + " is rank " + std::to_string(*rank) + ", whose way is another";
    }
    for (std::size_t other = 0; other < g.way.size(); ++other) {
      if (other != *rank && g.way[other] == e) {
        return "rank " + std::to_string(other) + " is behind endpoint " + std::to_string(e) + ", which is a rank";
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(Mode mode) noexcept {
  switch (mode) {
    case Mode::i:
      return "i";
    case Mode::ii:
      return "ii";
    case Mode::iii:
      break;
  }
  return "iii";
}

std::optional<std::string> check(const GroupConfig& g) {
  if (auto error = check_members(g)) return error;
  if (!nic::is_path_mtu(g.mtu)) return "mtu is one of 256, 512, 1024, 2048, 4096";
  if (g.message_packets == 0 || g.message_packets > (nic::kMaxMessageBytes / g.mtu)) return "a message has a packet";
  if (g.window == 0) return "the window is one message at least";
  if (g.slots < 2 || g.slots > kMaxSlots) return "slots are 2 to " + std::to_string(kMaxSlots);
  if (g.invocations < 2 || g.invocations > kMaxInvocations) {
    return "invocations are 2 to " + std::to_string(kMaxInvocations);
  }
  if (g.rnr_timer > 31) return "the RNR timer's code is 0 to 31";
  if (g.timeout > 31) return "the timeout's code is 0 to 31";
  if (g.retries > 7) return "retries are 0 to 7";
  for (const EndpointConfig& e : g.endpoints) {
    if (e.loss_recovery == nic::LossRecovery::ideal) return "loss recovery is gbn, nic_sr or irn";
  }
  return std::nullopt;
}

}  // namespace weft::inc
