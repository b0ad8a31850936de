// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// owner(packet): which worker handles a packet. Both directions of a connection meet on one worker, so that all state
// of a connection is that worker's own.
#pragma once

#include <cstdint>

namespace weft::pipeline {

/// How packets are spread over workers.
enum class SteerMode : std::uint8_t {
  ip_pair,  ///< the symmetric hash of the IP pair: one pair of hosts, one worker
  qp,       ///< both directions of a QP pair that CM or configuration names on one; everything else as ip_pair
};

/// A uniform choice of one of `workers` by a 32-bit hash.
[[nodiscard]] constexpr std::uint16_t worker_by_hash(std::uint32_t hash, std::uint16_t workers) noexcept {
  return static_cast<std::uint16_t>(std::uint64_t{hash} * workers >> 32);
}

}  // namespace weft::pipeline
