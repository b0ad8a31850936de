// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The ICRC by the letter of annex A17.3.3: a masked copy of the packet behind eight bytes of ones, one bit at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/wire/icrc.h"

namespace weft::wire {

inline std::uint32_t reference_crc32(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t b : bytes) {
    crc ^= b;
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

inline std::uint32_t reference_icrc(const std::vector<std::uint8_t>& frame, const RoceLayout& f) {
  std::vector<std::uint8_t> packet(8, 0xff);
  packet.insert(packet.end(), frame.begin() + f.l3, frame.begin() + f.icrc);
  std::uint8_t* ip = packet.data() + 8;
  if (f.ipv6) {
    ip[0] |= 0x0f;
    ip[1] = ip[2] = ip[3] = 0xff;
    ip[7] = 0xff;
  } else {
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
  }
  std::uint8_t* udp = ip + (f.l4 - f.l3);
  udp[6] = udp[7] = 0xff;
  udp[8 + 4] = 0xff;
  return reference_crc32(packet);
}

}  // namespace weft::wire
