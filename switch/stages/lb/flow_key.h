// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What tables of flows have in common: the key, and where its places are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "switch/tables/ecmp_hash.h"
#include "switch/wire/hash.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// The 5-tuple, for some with the destination QP. Two IPv6 flows whose address hashes agree share an entry.
struct FlowKey {
  std::uint64_t addresses = 0;  ///< wire::Parsed::address_key
  std::uint64_t ports = 0;      ///< tables::EcmpHash::ports_word(), and the QP in bits that it leaves

  friend bool operator==(const FlowKey&, const FlowKey&) = default;

  [[nodiscard]] static FlowKey of(const wire::Parsed& parsed) noexcept {
    return {parsed.address_key,
            tables::EcmpHash::ports_word(parsed.source_port, parsed.destination_port, parsed.protocol)};
  }
  /// The same for a queue pair of its own: of those that share their ports each is a flow. Other packets than RoCE have
  /// QP 0.
  [[nodiscard]] static FlowKey of_qp(const wire::Parsed& parsed) noexcept {
    return of(parsed).with_qp(parsed.kind == wire::FrameKind::roce ? parsed.dest_qp : wire::Qpn(0));
  }
  [[nodiscard]] FlowKey with_qp(wire::Qpn qp) const noexcept {
    const std::uint64_t bits = qp.value();
    return {addresses, (ports & ~kQpBits) | bits >> 8 << 48 | (bits & 0xff) << 8};
  }
  [[nodiscard]] wire::Qpn qp() const noexcept {
    return wire::Qpn(static_cast<std::uint32_t>(ports >> 48 << 8 | (ports >> 8 & 0xff)));
  }
  /// "addresses 0a0001020a000202 protocol 17 ports 50000 4791", with " qp 34" behind it where there is one; of IPv6
  /// addresses there is only a hash of both.
  [[nodiscard]] std::string to_string() const;

 private:
  // Ports take bits 16 to 47, the protocol 0 to 7.
  static constexpr std::uint64_t kQpBits = 0xffff'0000'0000'ff00;
};

/// Places that a flow has in a table of flows.
inline constexpr std::uint32_t kFlowWays = 4;
/// An entry is no larger: a cache line.
inline constexpr std::size_t kMostFlowBytes = 64;

/// The place at which a flow is looked for first, and put if nobody has it: most flows are there. The others are
/// those whose numbers differ from this one in the bits of kFlowWays - 1.
/// @param entries  their number is a multiple of kFlowWays, at least that, and less than 2^32
template <typename Entry>
[[nodiscard]] std::uint32_t flow_place(const std::vector<Entry>& entries, const FlowKey& key) noexcept {
  const std::uint64_t hash = wire::mix64(key.addresses ^ wire::detail::kMix0, key.ports ^ wire::detail::kMix1);
  return static_cast<std::uint32_t>((hash >> 32) * entries.size() >> 32);
}

/// The same, of a flow that is looked for soon.
template <typename Entry>
[[nodiscard]] std::uint32_t prefetch_flow(const std::vector<Entry>& entries, const FlowKey& key) noexcept {
  static_assert(kMostFlowBytes % sizeof(Entry) == 0, "an entry lies in one cache line");
  const std::uint32_t place = flow_place(entries, key);
  __builtin_prefetch(&entries[place]);
  return place;
}

/// Where a flow is in a table, or what place it may take.
template <typename Entry>
struct FlowPlace {
  Entry* entry = nullptr;  ///< nullptr: all its places are kept by others
  bool known = false;      ///< it is the flow's own; otherwise one that is free, or was silent longest
};

/// The flow's own entry; nullptr when it has none.
/// @param place  flow_place() of the flow
/// @param free   of an entry: no flow has it
template <typename Entry, typename Free>
[[nodiscard]] Entry* known_flow(std::vector<Entry>& entries, std::uint32_t place, const FlowKey& key,
                                const Free& free) noexcept {
  Entry& first = entries[place];
  if (first.key == key && !free(first)) [[likely]]
    return &first;
  for (std::uint32_t way = 1; way < kFlowWays; ++way) {
    Entry& entry = entries[place ^ way];
    if (entry.key == key && !free(entry)) return &entry;
  }
  return nullptr;
}

/// @param place  flow_place() of the flow
/// @param free   of an entry: no flow has it. The others have a `key` and the time `last` of their last packet.
/// @param kept   of an entry: its flow does not give it away
template <typename Entry, typename Free, typename Kept>
[[nodiscard]] FlowPlace<Entry> find_flow(std::vector<Entry>& entries, std::uint32_t place, const FlowKey& key,
                                         const Free& free, const Kept& kept) noexcept {
  Entry* victim = nullptr;
  for (std::uint32_t way = 0; way < kFlowWays; ++way) {
    Entry& entry = entries[place ^ way];
    if (!free(entry) && entry.key == key) return {&entry, true};
    if (kept(entry)) continue;
    const bool better = victim == nullptr || (!free(*victim) && (free(entry) || entry.last < victim->last));
    if (better) victim = &entry;
  }
  return {victim, false};
}
/// The same where any entry may be given away: there always is a place.
template <typename Entry, typename Free>
[[nodiscard]] FlowPlace<Entry> find_flow(std::vector<Entry>& entries, std::uint32_t place, const FlowKey& key,
                                         const Free& free) noexcept {
  return find_flow(entries, place, key, free, [](const Entry&) { return false; });
}

}  // namespace weft::stages
