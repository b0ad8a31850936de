// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which frames are the RNICs', where no filter of the kernel says it.
#pragma once

#include <cstdint>
#include <span>

#include "switch/wire/headers.h"
#include "switch/wire/parse.h"

namespace weft::nic {

/// Whole datagrams to port 4791, whatever is in them, and MAC control frames, as the filter of NetdevPort has it.
[[nodiscard]] inline bool is_for_rnics(std::span<const std::uint8_t> frame) noexcept {
  wire::Parsed p;
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  wire::parse_frame(frame.data(), bytes, bytes, p);
  return p.kind == wire::FrameKind::roce || p.kind == wire::FrameKind::mac_control ||
         (p.kind == wire::FrameKind::udp && p.destination_port == wire::kRoceUdpPort);
}

}  // namespace weft::nic
