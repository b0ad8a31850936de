// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A CNP that brings its receiver what ports on the way of its packets have said.
#pragma once

#include <cstring>
#include <span>

#include "switch/wire/checksum.h"
#include "switch/wire/emit.h"
#include "switch/wire/icrc.h"
#include "switch/wire/telemetry.h"

namespace weft::wire {

/// Such a packet has these bytes.
inline constexpr std::size_t kMirrorBytes = sizeof(EthernetHeader) + sizeof(Ipv4Header) + kIntOptionBytes +
                                            sizeof(UdpHeader) + sizeof(Bth) + kCnpReservedBytes + kIcrcBytes;

/// write_cnp() with an option of kind mirror. Returns the bytes written; 0 if `out` is too small, the packet is tagged
/// or goes over IPv6.
inline std::size_t write_mirror(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp,
                                const IntPath& path) noexcept {
  constexpr std::size_t kOption = sizeof(EthernetHeader) + sizeof(Ipv4Header);
  if (to.tagged || to.source.is_v6() || out.size() < kMirrorBytes) return 0;
  const std::size_t plain = write_cnp(out, to, dest_qp), bytes = plain + kIntOptionBytes;
  std::memmove(out.data() + kOption + kIntOptionBytes, out.data() + kOption, plain - kOption);
  write_int(out.data() + kOption, IntKind::mirror, path);
  auto& ip = header_at<Ipv4Header>(out.data() + sizeof(EthernetHeader));
  ip.set_ihl(static_cast<std::uint8_t>((sizeof ip + kIntOptionBytes) / 4));
  ip.total_length.set(static_cast<std::uint16_t>(ip.total_length.value() + kIntOptionBytes));
  ip.checksum.set(ipv4_checksum(ip));
  const RoceLayout layout{sizeof(EthernetHeader), kOption + kIntOptionBytes,
                          static_cast<std::uint32_t>(bytes - kIcrcBytes), false};
  store_icrc(out.data() + layout.icrc, icrc_full(out.data(), layout));
  return bytes;
}

}  // namespace weft::wire
