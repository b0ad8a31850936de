// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <span>

#include "switch/wire/headers.h"

namespace weft::wire {

/// What a MAC control frame says: MacControlOpcode::pause or MacControlOpcode::pfc. 0 when it says nothing: it is too
/// short, is for another address (IEEE 802.3 annex 31B), has another opcode, or is a PFC frame without a class.
[[nodiscard]] inline std::uint16_t mac_control_opcode(std::span<const std::uint8_t> frame) noexcept {
  if (frame.size() < sizeof(EthernetHeader) + sizeof(PauseHeader)) return 0;
  if (header_at<EthernetHeader>(frame.data()).destination != kMacControlAddress) return 0;
  const std::uint8_t* const body = frame.data() + sizeof(EthernetHeader);
  const std::uint16_t opcode = header_at<PauseHeader>(body).opcode.value();
  if (opcode == MacControlOpcode::pause) return opcode;
  if (opcode != MacControlOpcode::pfc || frame.size() < sizeof(EthernetHeader) + sizeof(PfcHeader)) return 0;
  return (header_at<PfcHeader>(body).class_enable.value() & 0xff) != 0 ? opcode : std::uint16_t{0};
}

}  // namespace weft::wire
