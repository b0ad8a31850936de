// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a sender learns the round trip to a switch on the way of its packets: a request asks for an echo, and the switch
// answers with a CNP that has the request's PSN. The bit that says so, in both, is the lowest of the six that the BTH
// reserves beside FECN and BECN: senders leave it 0, receivers do not look at it (IBTA 9.2), and the ICRC does not
// cover it. So an RNIC that knows nothing of this is never answered, and its peer takes such a request as any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/wire/emit.h"
#include "switch/wire/headers.h"

namespace weft::wire {

/// In Bth::fecn_becn: a request asks for an echo, a CNP is one.
inline constexpr std::uint8_t kRttEcho = 0x01;

[[nodiscard]] constexpr bool is_rtt_echo(const Bth& bth) noexcept {
  return (bth.fecn_becn & kRttEcho) != 0;
}

/// The echo of a request, written as write_cnp() writes. It has no BECN: it is no news of congestion.
/// @param psn  of the request
std::size_t write_rtt_echo(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp, Psn psn) noexcept;

}  // namespace weft::wire
