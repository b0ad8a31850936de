// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Messages of IPv6 neighbour discovery (RFC 4861) that a switch reads and writes. ARP: emit.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"

namespace weft::wire {

/// Both ends of a frame to be made.
struct LinkAddresses {
  MacAddress source{};
  MacAddress destination{};
};

/// Bytes of a frame with a message.
inline constexpr std::size_t kNeighbourBytes =
    sizeof(EthernetHeader) + sizeof(Ipv6Header) + sizeof(NeighbourMessage) + sizeof(NdLinkLayerOption);

/// Neighbour solicitation with the source link-layer address (RFC 4861 4.3). Returns the bytes written.
/// @param out  at least kNeighbourBytes
std::size_t write_neighbour_solicitation(std::span<std::uint8_t> out, const LinkAddresses& link,
                                         const IpAddress& source, const IpAddress& destination,
                                         const IpAddress& target) noexcept;

/// Neighbour advertisement of `source` with the target link-layer address (RFC 4861 4.4). Returns the bytes written.
/// @param out    at least kNeighbourBytes
/// @param flags  of NeighbourMessage
std::size_t write_neighbour_advertisement(std::span<std::uint8_t> out, const LinkAddresses& link,
                                          const IpAddress& source, const IpAddress& destination,
                                          std::uint32_t flags) noexcept;

/// Whether the packet is a neighbour solicitation or advertisement.
[[nodiscard]] bool is_neighbour_message(const std::uint8_t* frame, const Parsed& parsed) noexcept;

/// A neighbour solicitation or advertisement that was received.
struct ReceivedNeighbour {
  std::uint8_t type = 0;    ///< of Icmpv6Type
  std::uint32_t flags = 0;  ///< advertisement: of NeighbourMessage
  IpAddress source{};
  IpAddress destination{};
  IpAddress target{};
  std::optional<MacAddress> mac{};  ///< link-layer option of the kind that belongs to the message
};

/// Reads a message whose is_neighbour_message() holds; nullopt when it breaks one of the rules that both kinds share
/// (RFC 4861 7.1.1, 7.1.2), or is not among the `contiguous` bytes at `frame`.
[[nodiscard]] std::optional<ReceivedNeighbour> read_neighbour(const std::uint8_t* frame, std::uint32_t contiguous,
                                                              const Parsed& parsed) noexcept;

}  // namespace weft::wire
