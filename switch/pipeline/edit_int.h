// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Changes the option of telemetry (switch/wire/telemetry.h) of a packet on the data path, behind the gate of
// writable.h.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "switch/pipeline/packet.h"
#include "switch/pipeline/writable.h"
#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/telemetry.h"

namespace weft::pipeline {

/// Calls `change(option)`, which writes into it and leaves its length; header checksum and ICRC follow. A wrong ICRC
/// stays wrong. Of a packet whose payload a simulation leaves out, only the header changes.
/// @param m       of kind roce, over IPv4
/// @param option  of its IP header, found by wire::find_int_option()
/// @return false when the ICRC is shared and no packet buffer is left for one of its own; nothing has changed then
template <typename Change>
[[nodiscard]] bool edit_int(rte_mbuf* m, std::uint8_t* option, Change&& change) noexcept {
  constexpr std::uint32_t kWord = 4, kOption = sizeof(wire::Ipv4Header);
  const bool has_icrc = icrc_offset(m).has_value();
  std::uint8_t* const icrc = has_icrc ? writable_icrc(m) : nullptr;
  if (has_icrc && icrc == nullptr) return false;
  std::array<std::uint8_t, wire::kIntOptionBytes> before;
  std::copy_n(option, before.size(), before.begin());
  change(option);

  const wire::Parsed& parsed = meta(m).parsed;
  auto& ip = wire::header_at<wire::Ipv4Header>(frame(m) + parsed.l3_offset);
  // Covered bytes from the option on: up to the ICRC.
  const std::uint32_t covered = wire::roce_layout(frame(m), parsed).icrc - parsed.l3_offset - kOption;
  const auto word = [](const std::uint8_t* at) { return wire::header_at<wire::be32>(at).value(); };
  std::array<wire::FieldEdit, wire::kIntOptionBytes / kWord> edits;
  std::size_t count = 0;
  for (std::uint32_t at = 0; at < wire::kIntOptionBytes; at += kWord) {
    const std::uint32_t old_word = word(before.data() + at), new_word = word(option + at);
    if (old_word == new_word) continue;
    ip.checksum.set(wire::checksum_update32(ip.checksum.value(), old_word, new_word));
    edits[count++] = wire::make_edit(before.data() + at, option + at, kWord, covered - at - kWord);
  }
  if (icrc != nullptr) {
    wire::store_icrc(icrc, wire::icrc_update(wire::load_icrc(icrc), std::span(edits).first(count)));
  }
  return true;
}

}  // namespace weft::pipeline
