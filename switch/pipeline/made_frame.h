// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/pipeline/context.h"
#include "switch/pipeline/packet.h"
#include "switch/wire/parse.h"

namespace weft::pipeline {

/// Writes a frame into an empty packet, and parses it.
/// @param room   bytes that `write` may need
/// @param write  from a span of so many bytes to how many of them are the frame; 0: there is none
/// @return false when there is no frame, or no room for it
template <typename Write>
[[nodiscard]] bool write_frame(rte_mbuf* m, std::size_t room, Write&& write) noexcept {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, static_cast<std::uint16_t>(room)));
  const std::size_t used = bytes == nullptr ? 0 : write(std::span<std::uint8_t>(bytes, room));
  if (used == 0) return false;
  static_cast<void>(rte_pktmbuf_trim(m, static_cast<std::uint16_t>(room - used)));
  wire::parse_frame(bytes, m->data_len, m->pkt_len, meta(m).parsed);
  return true;
}

/// A frame of the switch's own, to be sent or resumed: write_frame() into a packet of Context::generate().
/// @return nullptr when there is no frame, or no buffer for it
template <typename Write>
[[nodiscard]] rte_mbuf* make_frame(Context& context, std::size_t room, Write&& write) noexcept {
  rte_mbuf* const m = context.generate();
  if (m == nullptr) return nullptr;
  if (write_frame(m, room, write)) return m;
  context.consume(m);
  return nullptr;
}

}  // namespace weft::pipeline
