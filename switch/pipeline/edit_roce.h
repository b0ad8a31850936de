// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Changes headers of a RoCE packet on the data path: RoceEditor behind the gate of writable.h.
#pragma once

#include <array>
#include <span>

#include "switch/pipeline/packet.h"
#include "switch/pipeline/writable.h"
#include "switch/wire/roce_editor.h"

namespace weft::pipeline {

/// Calls `change(RoceEditor&)` and makes ICRC and UDP checksum follow, in as many segments as the packet has.
/// PacketMeta follows too. Of a packet whose payload a simulation leaves out, only the headers change.
/// @param m  of kind roce, in at most 64 segments, its headers in the first one
/// @return false when the ICRC is shared and no packet buffer is left for one of its own; nothing has changed then
template <typename Change>
[[nodiscard]] bool edit_roce(rte_mbuf* m, wire::IcrcMode mode, Change&& change) noexcept {
  constexpr std::size_t kMaxSegments = 64;
  const bool has_icrc = icrc_offset(m).has_value();
  if (has_icrc && writable_icrc(m) == nullptr) return false;
  if (m->nb_segs > kMaxSegments) return false;
  wire::RoceEditor editor(frame(m), meta(m).parsed);
  change(editor);
  if (!has_icrc) {
    editor.finish_headers();
  } else if (m->nb_segs == 1) {
    editor.finish(mode);
  } else {
    std::array<std::span<std::uint8_t>, kMaxSegments> segments;
    std::size_t count = 0;
    for (rte_mbuf* part = m; part != nullptr; part = part->next) {
      segments[count++] = {rte_pktmbuf_mtod(part, std::uint8_t*), part->data_len};
    }
    editor.finish(mode, std::span(segments).first(count));
  }
  return true;
}

}  // namespace weft::pipeline
