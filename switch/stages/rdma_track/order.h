// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How rdma_track judges the order of packets. Definitions, all as seen at the switch:
//
// - Requests of RC and UC (IBTA 9.7.2, 9.8.2) are judged per direction against the expected PSN, the highest request
//   PSN seen plus what that request spans. READ requests span as many PSNs as their response has packets
//   (IBTA 9.7.3.1), every other request one. READ and ATOMIC responses carry the requester's PSNs, so they are judged
//   in a stream of their own; ACKs and CNPs are in no stream.
// - out_of_order: a packet that arrives for the first time but not at its turn: it skips PSNs (`gap`), or it is one of
//   the skipped ones (`late`). Two packets swapped by the network count two.
// - retransmitted: a packet whose PSN has been seen before, or is more than the window (64 requests, 32 responses)
//   behind the expected PSN. Copies made by the network count too:
//   PSNs do not tell them apart.
// - A PSN further than kRestartDistance from the expected one belongs to a new connection that uses the same QPN: it
//   starts the stream anew and counts as a restart.
// - A READ response may begin ahead of the expected PSN, because the PSNs of SEND and WRITE requests between two READs
//   have no responses; only a middle or last packet that skips PSNs is a gap.
// - While the path MTU is not known, the span of a READ longer than 256 bytes is not known either: the next request
//   behind it may be ahead without being a gap, so that nothing is counted that did not happen.
// - duplicates: requests that an in-order RC responder would count as duplicates (IBTA 9.7.4.1.2), if exactly those
//   packets reach it that pass here: PSN before the one it waits for. It skips what comes too early and waits for the
//   retransmission. NAKs and RNR NAKs say what it really waits for, ACKs and responses what it has got, so a loss
//   behind the switch is followed when a NAK tells of it. One that is repaired by a timeout, or by the next copy of the
//   packet, is not visible here: its repair counts as a duplicate.
//   A NAK is no such news when skipped packets made the responder send it (`gap_naks.h`): the late one may have passed
//   meanwhile, and its retransmission is a duplicate then. That a late packet is lost behind the switch as well goes
//   unnoticed: the responder has asked for it already, and asks once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "switch/tables/qp_entry.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// Verdict about one packet of a stream.
enum class Arrival : std::uint8_t { in_order, gap, late, repeated, restarted };

/// A PSN this far from the expected one is not part of the same connection: 2^18 packets, 1 GiB at a PMTU of 4096.
inline constexpr std::int32_t kRestartDistance = 1 << 18;

/// PSNs that one READ may span at most: half of the PSN space (IBTA 9.7.1).
inline constexpr std::uint32_t kMaxSpan = wire::Psn::kHalf;

/// Bytes of a path MTU by its IBTA code, 1 to 5.
[[nodiscard]] constexpr std::uint32_t pmtu_bytes(std::uint8_t code) noexcept {
  return 128u << code;
}

/// Code of a path MTU; 0 when it is none of the five.
[[nodiscard]] constexpr std::uint8_t pmtu_code(std::uint32_t bytes) noexcept {
  for (std::uint8_t code = 1; code <= 5; ++code) {
    if (pmtu_bytes(code) == bytes) return code;
  }
  return 0;
}

/// PSNs that a READ of `length` bytes spans at a path MTU. At least one.
[[nodiscard]] constexpr std::uint32_t read_span(std::uint32_t length, std::uint32_t pmtu) noexcept {
  return std::clamp<std::uint32_t>(length / pmtu + (length % pmtu != 0 ? 1 : 0), 1, kMaxSpan);
}

/// A stream of PSNs: the expected one, and which of those before it were seen.
template <typename Bits>
struct PsnStream {
  static constexpr std::uint32_t kWindow = sizeof(Bits) * 8;
  wire::Psn expected{};
  Bits seen = 0;  ///< bit i: (expected - 1 - i) was seen

  /// The stream begins with a packet that spans `span` PSNs.
  void start(wire::Psn psn, std::uint32_t span) noexcept {
    expected = psn + span;
    seen = ones(span);
  }

  /// Takes a packet that covers [psn, psn + span), and says what it was.
  Arrival take(wire::Psn psn, std::uint32_t span) noexcept {
    const std::int32_t ahead = psn.distance_from(expected);
    if (ahead >= kRestartDistance || ahead < -kRestartDistance) {
      start(psn, span);
      return Arrival::restarted;
    }
    if (ahead >= 0) {
      seen = shifted(static_cast<std::uint32_t>(ahead) + span) | ones(span);
      expected = psn + span;
      return ahead == 0 ? Arrival::in_order : Arrival::gap;
    }
    return take_behind(static_cast<std::uint32_t>(-ahead), span);
  }

  /// PSNs up to `psn` need not be seen any more: they belong to what came before.
  void assume_seen_until(wire::Psn psn) noexcept {
    const std::int32_t ahead = psn.distance_from(expected);
    if (ahead <= 0) return;
    seen = shifted(static_cast<std::uint32_t>(ahead)) | ones(static_cast<std::uint32_t>(ahead));
    expected = psn;
  }

 private:
  static constexpr Bits ones(std::uint32_t n) noexcept {
    return n >= kWindow ? static_cast<Bits>(~Bits{0}) : static_cast<Bits>((Bits{1} << n) - 1);
  }
  [[nodiscard]] Bits shifted(std::uint32_t n) const noexcept { return n >= kWindow ? Bits{0} : seen << n; }

  Arrival take_behind(std::uint32_t behind, std::uint32_t span) noexcept {
    const bool known = behind > kWindow || (seen >> (behind - 1) & 1) != 0;
    // Bits [behind - span, behind) lie in the window as far as it reaches.
    const std::uint32_t lowest = span < behind ? behind - span : 0;
    seen |= ones(behind) & static_cast<Bits>(~ones(lowest));
    if (span > behind) {
      seen = shifted(span - behind) | ones(span - behind);
      expected = expected + (span - behind);
    }
    return known ? Arrival::repeated : Arrival::late;
  }
};

/// The PSN that an in-order responder waits for, see `duplicates` above.
struct Responder {
  wire::Psn expected{};

  /// @return true when it takes the packet for a duplicate.
  bool take(wire::Psn psn, std::uint32_t span) noexcept {
    const std::int32_t ahead = psn.distance_from(expected);
    if (ahead == 0) expected = expected + span;
    return ahead < 0;
  }
};

}  // namespace weft::stages
