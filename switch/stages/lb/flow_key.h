// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What tables of flows have in common: the key, and where its places are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/tables/ecmp_hash.h"
#include "switch/wire/hash.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// The 5-tuple. Two IPv6 flows whose address hashes agree share an entry.
struct FlowKey {
  std::uint64_t addresses = 0;  ///< wire::Parsed::address_key
  std::uint64_t ports = 0;      ///< tables::EcmpHash::ports_word()

  friend bool operator==(const FlowKey&, const FlowKey&) = default;

  [[nodiscard]] static FlowKey of(const wire::Parsed& parsed) noexcept {
    return {parsed.address_key,
            tables::EcmpHash::ports_word(parsed.source_port, parsed.destination_port, parsed.protocol)};
  }
  /// "addresses 0a0001020a000202 protocol 17 ports 50000 4791"; of IPv6 addresses there is only a hash of both.
  [[nodiscard]] std::string to_string() const;
};

/// Places that a flow has in a table of flows.
inline constexpr std::size_t kFlowWays = 4;

/// The places of a flow.
/// @param entries  their number is a multiple of kFlowWays, at least that
template <typename Entry>
[[nodiscard]] std::span<Entry, kFlowWays> flow_set(std::vector<Entry>& entries, const FlowKey& key) noexcept {
  const std::uint64_t hash = wire::mix64(key.addresses ^ wire::detail::kMix0, key.ports ^ wire::detail::kMix1);
  const std::uint64_t sets = entries.size() / kFlowWays;
  return std::span<Entry, kFlowWays>(&entries[static_cast<std::size_t>((hash >> 32) * sets >> 32) * kFlowWays],
                                     kFlowWays);
}

}  // namespace weft::stages
