// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A CNP that says how congested the queue is (QCN, IEEE 802.1Qau; Annulus has it routed). The 16 bytes that a CNP
// reserves behind the BTH hold the beginning of the standard's congestion notification message, with its EtherType for
// a sign:
//
//   bytes   what
//   0-1     0x22e9, the EtherType of that message
//   2-3     version and reserved bits, 0 (10 bits), Quantized Feedback (6 bits): 1 to 63
//   4-11    CPID: written as 0
//   12-13   cnmQOffset: written as 0
//   14-15   cnmQDelta: written as 0
//
// Senders of other CNPs leave these bytes 0, and receivers do not look at them (annex A17.9.3): an RNIC that knows
// nothing of this takes such a CNP as any other. The ICRC covers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/wire/emit.h"
#include "switch/wire/headers.h"

namespace weft::wire {

/// The largest Quantized Feedback.
inline constexpr unsigned kMostQcnFeedback = 63;

/// write_cnp() with this feedback, from 1 to kMostQcnFeedback. Returns the bytes written, 0 if `out` is too small.
std::size_t write_qcn_cnp(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp,
                          unsigned feedback) noexcept;

/// What the reserved bytes of a CNP say.
/// @param reserved  the bytes behind the BTH, as many as there are
/// @return the feedback; 0: none, as in any other CNP, and in one whose bytes are not as above
[[nodiscard]] unsigned qcn_feedback(std::span<const std::uint8_t> reserved) noexcept;

}  // namespace weft::wire
