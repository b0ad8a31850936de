// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who may write where in a packet. replicate() lets packets share payload bytes, so whoever changes a packet asks here
// first.
//
// Two parts of a packet are never shared while it is inside the pipeline, because replicate() gives every copy its own:
// the header bytes, which are the first kHeaderBytes as far as the first segment goes, and the ICRC of a RoCE packet.
// Header bytes may be written without asking. For all other bytes, the ICRC included, writable() answers: it looks at
// the reference counts, so it stays right when something else than replicate() holds a reference to a buffer.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <optional>

#include "switch/pipeline/packet.h"

namespace weft::pipeline {

/// Another packet may read the bytes of this segment. False for a buffer of a driver (external) that one packet has.
[[nodiscard]] inline bool shares_bytes(const rte_mbuf* segment) noexcept {
  if (RTE_MBUF_CLONED(segment)) return true;
  if (RTE_MBUF_HAS_EXTBUF(segment) && rte_mbuf_ext_refcnt_read(segment->shinfo) != 1) return true;
  return rte_mbuf_refcnt_read(segment) != 1;
}

/// The packet has these bytes in its segments. False beyond the end, and for payload that a simulation leaves out.
[[nodiscard]] bool has_bytes(const rte_mbuf* m, std::uint32_t at, std::uint32_t bytes) noexcept;

/// Where the bytes [at, at + bytes) of the frame can be written: contiguous, and read by no other packet. Where they
/// are shared, or lie across segments, they are replaced by a segment of the packet's own; `m` and the bytes in front
/// of them stay where they are, pointers to later bytes are void.
/// @param bytes  at least 1, at most 256
/// @return nullptr, and nothing has changed, when no packet buffer is left, when the packet does not have the bytes
///         (has_bytes()), or when the first segment is shared from its first byte on, which no packet of replicate() is
[[nodiscard]] std::uint8_t* writable(rte_mbuf* m, std::uint32_t at, std::uint32_t bytes) noexcept;

/// Offset of the ICRC; nullopt when the packet is not RoCE, or does not have its last bytes (a simulation).
[[nodiscard]] std::optional<std::uint32_t> icrc_offset(const rte_mbuf* m) noexcept;

/// writable() of the ICRC: the four bytes that follow any change of what it covers.
/// @return nullptr as writable() says, or when there is no ICRC (icrc_offset())
[[nodiscard]] std::uint8_t* writable_icrc(rte_mbuf* m) noexcept;

}  // namespace weft::pipeline
