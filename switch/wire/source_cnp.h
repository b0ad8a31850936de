// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The CNP by which a switch tells the source of a packet of congestion: what a switch between data centres writes most
// of, so that it is a template with few fields filled in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/wire/emit.h"
#include "switch/wire/parsed.h"
#include "switch/wire/types.h"

namespace weft::wire {

/// Bytes that write_source_cnp() writes.
inline constexpr std::size_t kSourceCnpBytes = 74;

/// A CNP (annex A17.9.3: BECN set, PSN 0) from the receiver of a packet to its source, as ConnectX sends it: migration
/// bit clear, UDP source port 0, no tag, TTL 64.
/// @param frame    the packet's first byte; `parsed` is what parse_frame() found: kind roce over IPv4
/// @param tos      of the CNP: DSCP << 2 | ECN
/// @param dest_qp  the queue pair at the source
/// @param made     out: what parse_frame() would find in the CNP. To parse bytes that were just written takes longer.
/// @return kSourceCnpBytes; 0 when `out` is shorter, and nothing was written
std::size_t write_source_cnp(std::span<std::uint8_t> out, const std::uint8_t* frame, const Parsed& parsed,
                             std::uint8_t tos, Qpn dest_qp, Parsed& made) noexcept;

/// How such a CNP is addressed, over IPv4 or IPv6, for whoever writes it otherwise.
/// @param tos  of the CNP: DSCP << 2 | ECN
[[nodiscard]] RoceAddressing source_cnp_addressing(const std::uint8_t* frame, const Parsed& parsed,
                                                   std::uint8_t tos) noexcept;

}  // namespace weft::wire
