// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A group on one switch: what its control plane sets before the first packet (EPIC 3.1, 3.3.1). A group is a tree; a
// node of it that is a switch has one endpoint per edge, and each endpoint speaks RC with the one at the other end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/engine/arithmetic.h"
#include "nic/rnic/config.h"
#include "switch/wire/types.h"

namespace weft::inc {

/// Number of an endpoint in its group on this switch.
using EndpointIndex = std::uint8_t;
/// 64 children and a parent.
inline constexpr std::size_t kMaxEndpoints = 65;
/// Most collectives of a group that may be under way at a time.
inline constexpr std::uint32_t kMaxInvocations = 1024;
/// Largest number of a rank and one more.
inline constexpr std::uint32_t kMaxRanks = 1u << 16;

/// A set of endpoints.
class EndpointSet {
 public:
  constexpr void add(EndpointIndex e) noexcept { words_[e >> 6] |= std::uint64_t{1} << (e & 63); }
  constexpr void remove(EndpointIndex e) noexcept { words_[e >> 6] &= ~(std::uint64_t{1} << (e & 63)); }
  [[nodiscard]] constexpr bool has(EndpointIndex e) const noexcept { return (words_[e >> 6] >> (e & 63) & 1) != 0; }
  [[nodiscard]] constexpr std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(__builtin_popcountll(words_[0]) + __builtin_popcountll(words_[1]));
  }
  constexpr void clear() noexcept { words_[0] = words_[1] = 0; }
  friend constexpr bool operator==(const EndpointSet&, const EndpointSet&) noexcept = default;
  template <class Hash>
  void hash_state(Hash&& h) const {
    h(words_[0]);
    h(words_[1]);
  }

 private:
  static_assert(kMaxEndpoints <= 128);
  std::uint64_t words_[2] = {0, 0};
};

/// Who repairs what is lost, and how much of RC a switch speaks (EPIC section 4).
enum class Mode : std::uint8_t {
  i = 1,    ///< connections end in the switch, which takes whole messages
  ii = 2,   ///< connections are translated: hosts repair
  iii = 3,  ///< connections are augmented: each hop repairs
};

/// As configurations have it: "i", "ii", "iii".
[[nodiscard]] std::string_view name(Mode mode) noexcept;

/// What a switch does with a packet that it has had before and whose result it has (EPIC appendix D).
enum class Duplicates : std::uint8_t {
  cache,      ///< the result goes to whoever asked
  reforward,  ///< Algorithm 1 as it is printed: the packet is forwarded again, and the result to all
};

/// When Mode III acknowledges what it has taken.
enum class Acks : std::uint8_t {
  room,     ///< when its sender's window behind it has room, too: nobody runs ahead of the pipe while nothing is lost
  arrival,  ///< at once, as in EPIC's algorithm 2: who runs ahead is told to come back
};

/// One end of an edge of the tree, on this switch.
struct EndpointConfig {
  std::optional<std::uint16_t> rank;  ///< the rank at the other end; nullopt: another switch
  wire::Psn first_rx{};               ///< PSN of the first packet that the other end sends
  wire::Psn first_tx{};               ///< PSN of the first packet that we send
  nic::LossRecovery loss_recovery = nic::LossRecovery::gbn;
  /// Where the other end takes RDMA WRITEs (EPIC footnote 5). Offsets from `address` are the same at all ranks.
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;

  friend bool operator==(const EndpointConfig&, const EndpointConfig&) = default;
};

/// To how many times the group's timeout that of a rank grows.
inline constexpr nic::Time kLongestTimeout = 128;

struct GroupConfig {
  std::uint32_t id = 0;
  Mode mode = Mode::ii;
  std::vector<EndpointConfig> endpoints;  ///< 2 to 65
  std::optional<EndpointIndex> parent;    ///< the endpoint towards the root of the tree; nullopt: we are the root
  std::vector<EndpointIndex> way;         ///< by rank: the endpoint behind which it is
  std::uint32_t mtu = 1024;               ///< payload of a full packet, bytes (U in EPIC table 2)
  std::uint32_t message_packets = 1;      ///< packets of a full message (M)
  std::uint32_t window = 1;               ///< messages that a rank has under way (W)
  /// Slots of a payload buffer (N). Mode II needs 2 W M; Mode III takes any number from 2 on.
  std::uint32_t slots = 2;
  std::uint32_t invocations = 64;  ///< collectives that may be under way at a time
  Overflow overflow = Overflow::wrap;
  bool reproducible = false;  ///< contributions are kept apart and added in the order of the endpoints
  Duplicates duplicates = Duplicates::cache;
  /// Packets out of order are dropped (EPIC appendices C and D): what go-back-N endpoints send again in any case.
  bool epsn_filter = false;
  std::uint8_t rnr_timer = 12;  ///< code of the time that our RNR NAKs ask for; 12: 0.64 ms (IBTA 9.7.5.2.8)
  /// An ACK of what came before follows each RNR NAK to a rank. Linux's rdma_rxe (6.1) restarts its ACK timer when it
  /// takes an ACK, not when it takes an RNR NAK: without this it gives up on a rank that is late by more than
  /// retry_cnt ACK timeouts. To other requesters it says what they know.
  bool rnr_acks = true;
  /// Modes I and III: after 4.096 us * 2^timeout without an answer packets are sent again, after twice that the second
  /// time, and so on; 10: 4.2 ms.
  std::uint8_t timeout = 10;
  /// Modes I and III: ranks are given what their round trips take, if that is longer (nic::RtoMode::adaptive), up to
  /// kLongestTimeout times `timeout`; retries count from there on.
  bool adaptive_timeouts = true;
  std::uint8_t retries = 7;  ///< Modes I and III: times in a row before the group fails
  Acks acks = Acks::room;    ///< Mode III
  bool early_cnp = true;     ///< Mode III: ranks that run ahead of the others get CNPs (EPIC section 4.4)

  friend bool operator==(const GroupConfig&, const GroupConfig&) = default;
};

/// What keeps a group from being made in any mode, in words; nullopt: nothing.
[[nodiscard]] std::optional<std::string> check(const GroupConfig& group);

}  // namespace weft::inc
